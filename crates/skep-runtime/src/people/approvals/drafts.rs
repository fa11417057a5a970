//! Rules that a lasting yes may stand for: of a pattern, of exactly this call, and those to choose
//! from.

use skep_core::policy::pattern::{CommandPattern, PathPattern};
use skep_core::policy::rule::{PathFact, Piece};
use skep_core::tool::{Subject, Tool};
use skep_core::visible::{bounded_text, visible};
use skep_shell::line::{Cover, Part, Simple, Word};
use skep_shell::plain::{self, quoted};

use crate::door::{CallPart, DoorError, ErrorKind, RuleDraft};

/// Why no rule can stand for calls like this one: others of the tool name what they are about,
/// and of this one nothing is understood, so that a rule would be about all of them.
pub(super) fn once_only(tool: &dyn Tool, subject: &Subject) -> Option<DoorError> {
    let spec = tool.spec();
    let named = |key: &&str| !spec.input_schema["properties"][key].is_null();
    let nothing = match subject {
        Subject { command: Some(command), .. } => plain::line(command).0.is_empty(),
        Subject { paths, host: None, .. } if paths.is_empty() => {
            ["command", "file_path", "path", "url", "host"].iter().any(named)
        }
        _ => false,
    };
    nothing.then(|| {
        let text = format!(
            "This call of `{}` names no command, path or host that a rule could be about. Approve \
             it once.",
            spec.name
        );
        DoorError::new(ErrorKind::Conflict, "no_pattern", text)
    })
}

/// One rule for each pattern.
pub(super) fn patterned(
    tool: &str,
    subject: &Subject,
    patterns: &[String],
) -> Result<Vec<RuleDraft>, DoorError> {
    let mut drafts: Vec<RuleDraft> = Vec::new();
    for pattern in patterns {
        let draft = one(tool, subject, pattern)?;
        if !drafts.contains(&draft) {
            drafts.push(draft);
        }
    }
    Ok(drafts)
}

fn one(tool: &str, subject: &Subject, pattern: &str) -> Result<RuleDraft, DoorError> {
    let mut draft = RuleDraft { tool: tool.to_owned(), ..RuleDraft::default() };
    let field = match subject {
        Subject { command: Some(_), .. } => &mut draft.command,
        Subject { host: Some(_), .. } => &mut draft.host,
        Subject { paths, .. } if !paths.is_empty() => &mut draft.path,
        _ => {
            let text = format!(
                "Calls of `{tool}` name no command, path or host that a pattern could be about; \
                 leave the pattern out."
            );
            return Err(DoorError::new(ErrorKind::Invalid, "bad_pattern", text));
        }
    };
    *field = Some(pattern.to_owned());
    Ok(draft)
}

/// One rule for each part of the call.
pub(super) fn exactly(tool: &str, pieces: &[Piece]) -> Result<Vec<RuleDraft>, DoorError> {
    let mut drafts: Vec<RuleDraft> = Vec::new();
    for piece in pieces {
        let mut draft = RuleDraft { tool: tool.to_owned(), ..RuleDraft::default() };
        match piece {
            Piece::Whole => {}
            // The rule for the command that runs the text covers what stands in it.
            Piece::Command(
                Part::Command(Simple { cover: Cover::By(_), .. })
                | Part::Unknown { cover: Cover::By(_), .. },
            )
            | Piece::Redirect { .. } => continue,
            Piece::Command(Part::Command(simple)) => {
                draft.command =
                    Some(CommandPattern::exactly(simple).ok_or_else(|| no_pattern(piece))?);
            }
            Piece::Path(PathFact::File(path)) => {
                draft.path = Some(PathPattern::exactly(path).ok_or_else(|| no_pattern(piece))?);
            }
            Piece::Path(PathFact::Tree(folder)) => {
                draft.path = Some(PathPattern::beneath(folder).ok_or_else(|| no_pattern(piece))?);
            }
            Piece::Host(Some(host)) => draft.host = Some(host.clone()),
            Piece::Command(Part::Unknown { .. })
            | Piece::Path(PathFact::Unknown)
            | Piece::Host(None) => return Err(no_pattern(piece)),
        }
        if !drafts.contains(&draft) {
            drafts.push(draft);
        }
    }
    Ok(drafts)
}

fn no_pattern(piece: &Piece) -> DoorError {
    let text = format!(
        "No rule can stand for exactly this call, because a part of it is not known before it \
         runs, or has a name that as a pattern means others too ({}). Approve it once.",
        visible(&piece.text())
    );
    DoorError::new(ErrorKind::Conflict, "no_pattern", text)
}

/// Commands of one line that are listed; of a longer one none.
const MOST_COMMANDS: usize = 20;
/// Characters of a command as it is listed.
const LISTED: usize = 400;

/// What a lasting yes has to cover, with patterns to choose from.
pub(super) fn parts(subject: &Subject) -> Vec<CallPart> {
    let Some(command) = &subject.command else { return named(subject).into_iter().collect() };
    let mut parts: Vec<CallPart> = Vec::new();
    for part in plain::line(command).0 {
        let listed = match part {
            // The pattern for the command that runs the text covers what stands in it.
            Part::Command(Simple { cover: Cover::By(_), .. })
            | Part::Unknown { cover: Cover::By(_), .. } => continue,
            Part::Command(simple) => {
                let text = bounded_text(&skep_scrub::known().clean(&simple.text()), LISTED);
                CallPart { text, patterns: patterns_of(&simple) }
            }
            Part::Unknown { why, .. } => CallPart { text: why.to_owned(), patterns: Vec::new() },
        };
        if !parts.contains(&listed) {
            parts.push(listed);
        }
    }
    if parts.len() > MOST_COMMANDS { Vec::new() } else { parts }
}

/// Exactly this command, then by its first words.
fn patterns_of(simple: &Simple) -> Vec<String> {
    let words: Vec<String> = simple.words.iter().filter_map(Word::plain).map(quoted).collect();
    let assigns: Vec<String> = simple.assigns.iter().map(|word| quoted(word)).collect();
    let exactly = CommandPattern::exactly(simple);
    // Of a command with a redirection no pattern says where its words end.
    let most = words.len().saturating_sub(usize::from(exactly.is_some()));
    let begin = |count: usize| [&assigns[..], &words[..count]].concat().join(" ");
    let counts = exactly.is_none().then_some(most).into_iter().chain([2, 1]);
    let counts = counts.filter(|count| (1..=most).contains(count));
    let mut patterns: Vec<String> = exactly.into_iter().chain(counts.map(begin)).collect();
    patterns.dedup();
    let covers = |text: &String| {
        CommandPattern::parse(text).is_ok_and(|pattern| pattern.covers(simple).is_ok())
    };
    patterns.retain(covers);
    patterns
}

/// Of a call without a command: its path or its host.
fn named(subject: &Subject) -> Option<CallPart> {
    let (text, patterns) = match (subject.paths.as_slice(), &subject.host) {
        ([named], None) => {
            let path = named.path.as_ref()?.trim_start_matches("./").trim_end_matches('/');
            if named.tree {
                let folder = if path.is_empty() { "." } else { path };
                (folder, PathPattern::beneath(folder).into_iter().collect())
            } else {
                let folder = path.rsplit_once('/').map(|(folder, _)| folder);
                let around = folder.and_then(PathPattern::beneath);
                (path, PathPattern::exactly(path).into_iter().chain(around).collect())
            }
        }
        ([], Some(Some(host))) => (host.as_str(), vec![host.clone()]),
        _ => return None,
    };
    Some(CallPart { text: bounded_text(&skep_scrub::known().clean(text), LISTED), patterns })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn listed(command: &str) -> Vec<(String, Vec<String>)> {
        let parts = parts(&Subject::usual(&json!({"command": command})));
        parts.into_iter().map(|part| (part.text, part.patterns)).collect()
    }

    #[test]
    fn gate_every_command_of_a_line_has_patterns_of_its_own() {
        let part = |text: &str, patterns: &[&str]| {
            (text.to_owned(), patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>())
        };
        let build = part("cargo build", &["cargo build $", "cargo"]);
        let cases = [
            ("cargo build", vec![build.clone()]),
            (
                "cargo build && rsync -a out host:/w | tee",
                vec![
                    build.clone(),
                    part("rsync -a out host:/w", &["rsync -a out host:/w $", "rsync -a", "rsync"]),
                    part("tee", &["tee $"]),
                ],
            ),
            ("cargo build; cargo build", vec![build.clone()]),
            ("cd sub && ls", vec![part("cd sub", &["cd sub $", "cd"]), part("ls", &["ls $"])]),
            // Where words end is not said of a line that writes a file.
            ("echo a b > f", vec![part("echo a b", &["echo a b", "echo a", "echo"])]),
            // A text that a program runs is covered whole or not at all.
            ("sh -c 'rm x'", vec![part("sh -c 'rm x'", &["sh -c 'rm x' $"])]),
            // What is not plain is covered by no pattern.
            ("psql \"$URL\" && ls", vec![part("psql …", &[]), part("ls", &[])]),
        ];
        for (command, expected) in cases {
            assert_eq!(listed(command), expected, "{command}");
        }
        assert_eq!(listed(&vec!["a"; 30].join(" && ")).len(), 1);
        let many: Vec<String> = (0..21).map(|number| format!("a{number}")).collect();
        assert_eq!(listed(&many.join(" && ")), []);
        let long = listed(&format!("echo {}", "x".repeat(9000)));
        assert!(long[0].0.chars().count() <= LISTED + 2, "{}", long[0].0);
        let hidden = listed("echo 'a\u{202e}\u{1b}[2J'");
        assert_eq!(hidden[0].0, "echo 'a‹U+202E›‹U+001B›[2J'");
    }
}
