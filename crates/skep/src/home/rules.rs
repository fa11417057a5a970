//! Rules: Markdown files that stand in the prompt as they are, sorted by name.

use std::io::ErrorKind;
use std::path::Path;

use skep_core::settings::Rule;

use super::problem::Problem;
use super::source::Source;

/// A rule is read by a model on every call; this is already more than one should pay for.
const RULE_BYTES: u64 = 64 << 10;

/// Every `*.md` of a folder; a missing folder has none.
pub fn read(folder: &Path) -> Result<Vec<Rule>, Problem> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Problem::of_file(folder, format!("cannot be read: {error}"))),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry =
            entry.map_err(|error| Problem::of_file(folder, format!("cannot be read: {error}")))?;
        let name = entry.file_name().into_string().map_err(|name| {
            let what = "the file's name is not UTF-8";
            Problem::of_file(&folder.join(name), what)
        })?;
        // A leading dot: an editor's leftovers, not a rule.
        if name.ends_with(".md") && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let mut rules = Vec::new();
    for name in names {
        if let Some(source) = Source::read(&folder.join(&name), RULE_BYTES)? {
            rules.push(Rule { file: name, text: source.text });
        }
    }
    Ok(rules)
}
