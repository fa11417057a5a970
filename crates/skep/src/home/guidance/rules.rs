//! Rules: Markdown files that are copied into the prompt, sorted by name.

use std::io::ErrorKind;
use std::path::Path;

use skep_core::settings::{RuleFile, RuleTier};
use skep_core::visible::{is_plain_name, visible};
use skep_guard::disk::{self, PathEntry};

use crate::home::mistake::Mistake;
use crate::home::source::SourceText;

/// A rule is read by a model on every call; this is already more than one should pay for.
const RULE_BYTES: u64 = 64 << 10;
/// All of a folder together, for the same reason: an agent may write rules of its own.
const FOLDER_BYTES: usize = 256 << 10;
/// Also of empty files.
const FOLDER_FILES: usize = 1000;

/// Every `*.md` of a folder; a missing folder has none.
pub fn read(folder: &Path, tier: &RuleTier) -> Result<Vec<RuleFile>, Mistake> {
    // Those of the hive are the operator's alone, who may keep them elsewhere.
    if *tier != RuleTier::Hive && matches!(disk::find(folder), Ok(PathEntry::Link)) {
        return Err(Mistake::of_file(folder, "is a link, and links are not followed"));
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Mistake::of_file(folder, format!("cannot be read: {error}"))),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry =
            entry.map_err(|error| Mistake::of_file(folder, format!("cannot be read: {error}")))?;
        let name = entry.file_name().into_string().map_err(|name| {
            let what = "the file's name is not UTF-8";
            Mistake::of_file(&folder.join(name), what)
        })?;
        // A leading dot: an editor's leftovers, not a rule.
        if !name.ends_with(".md") || name.starts_with('.') {
            continue;
        }
        // The name is shown in prompts, problems and terminals.
        if !is_plain_name(&name) {
            let what = "the file's name cannot be that of a rule";
            let expected = "a letter or digit first, then one line of visible characters, 100 \
                            bytes at most";
            return Err(Mistake::of_file(&folder.join(visible(&name)), what).expecting(expected));
        }
        names.push(name);
        if names.len() > FOLDER_FILES {
            let mistake = Mistake::of_file(folder, "has too many rules");
            return Err(mistake.expecting(format!("at most {FOLDER_FILES} files")));
        }
    }
    names.sort();
    let (mut rules, mut bytes) = (Vec::new(), 0);
    for name in names {
        if let Some(source) = SourceText::read(&folder.join(&name), RULE_BYTES)? {
            bytes += source.text.len();
            if bytes > FOLDER_BYTES {
                let what = format!("the rules are too large together, from {name} on");
                let expected = format!("at most {} KiB", FOLDER_BYTES / 1024);
                return Err(Mistake::of_file(folder, what).expecting(expected));
            }
            rules.push(RuleFile { tier: tier.clone(), file: name, text: source.text.into() });
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rule_has_a_name_that_shows_what_it_is() {
        for name in ["a\nb.md", "-x.md", "a\u{202e}b.md", "a\u{1b}[2J.md"] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(name), "x").unwrap();
            let mistake = read(folder.path(), &RuleTier::Hive).unwrap_err().to_string();
            let why = "the file's name cannot be that of a rule; expected a letter or digit first";
            assert!(mistake.contains(why), "{mistake}");
            assert!(!mistake.contains('\u{1b}') && !mistake.contains('\u{202e}'), "{mistake:?}");
        }
    }

    #[test]
    fn rules_are_bounded_one_by_one_and_together() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| {
            std::fs::write(folder.path().join(name), "x".repeat(bytes)).unwrap();
        };
        for number in 0..4 {
            write(&format!("{number}.md"), 64 << 10);
        }
        assert_eq!(read(folder.path(), &RuleTier::Hive).unwrap().len(), 4);
        write("4.md", 1);
        let mistake = read(folder.path(), &RuleTier::Hive).unwrap_err().to_string();
        let expected = "the rules are too large together, from 4.md on; expected at most 256 KiB";
        assert!(mistake.ends_with(expected), "{mistake}");
        write("4.md", (64 << 10) + 1);
        let mistake = read(folder.path(), &RuleTier::Hive).unwrap_err().to_string();
        assert!(mistake.ends_with("4.md: is too large; expected at most 64 KiB"), "{mistake}");
    }
}
