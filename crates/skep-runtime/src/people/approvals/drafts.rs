//! Rules that a lasting yes may stand for: of a pattern, of exactly this call, and those to choose
//! from.

use skep_core::policy::pattern::{CommandPattern, PathPattern};
use skep_core::policy::plain::{self, quoted};
use skep_core::policy::rule::{PathFact, Piece};
use skep_core::policy::shell::{Cover, Part, Simple, Word};
use skep_core::tool::Subject;
use skep_core::visible::visible;

use skep_turn::gate;

use crate::door::{DoorError, ErrorKind, RuleDraft};

pub(super) fn patterned(
    tool: &str,
    subject: &Subject,
    pattern: &str,
) -> Result<RuleDraft, DoorError> {
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

/// Patterns a person may choose from, the narrowest first; none for a call of several parts.
pub(super) fn suggestions(subject: &Subject) -> Vec<String> {
    let pieces = match &subject.command {
        Some(command) => plain::line(command).0.into_iter().map(Piece::Command).collect(),
        None => gate::about(subject, None).pieces,
    };
    match (pieces.as_slice(), subject.paths.as_slice()) {
        ([Piece::Command(Part::Command(simple))], _) => {
            let Some(exactly) = CommandPattern::exactly(simple) else { return Vec::new() };
            let words: Vec<String> =
                simple.words.iter().filter_map(Word::plain).map(quoted).collect();
            let assigns: Vec<String> = simple.assigns.iter().map(|word| quoted(word)).collect();
            let shorter = [2, 1].into_iter().filter(|count| *count < words.len());
            let begin = |count: usize| [&assigns[..], &words[..count]].concat().join(" ");
            std::iter::once(exactly).chain(shorter.map(begin)).collect()
        }
        ([_], [named]) => {
            let Some(path) = &named.path else { return Vec::new() };
            let path = path.trim_start_matches("./").trim_end_matches('/');
            if named.tree {
                let folder = if path.is_empty() { "." } else { path };
                return PathPattern::beneath(folder).into_iter().collect();
            }
            let around = path.rsplit_once('/').and_then(|(folder, _)| PathPattern::beneath(folder));
            PathPattern::exactly(path).into_iter().chain(around).collect()
        }
        ([Piece::Host(Some(host))], _) => vec![host.clone()],
        _ => Vec::new(),
    }
}
