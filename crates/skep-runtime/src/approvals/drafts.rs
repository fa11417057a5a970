//! Rules that a lasting yes may stand for: of a pattern, of exactly this call, and those to choose
//! from.

use skep_core::policy::pattern::{CommandPattern, PathPattern};
use skep_core::policy::rule::{PathFact, Piece};
use skep_core::policy::shell::{Part, Word, quoted};
use skep_core::tool::Subject;
use skep_core::visible::visible;

use super::RuleDraft;
use crate::door::{DoorError, ErrorKind};
use crate::gate;

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
            Piece::Command(Part::Command(simple)) => {
                let words: Option<Vec<&str>> = simple.words.iter().map(Word::plain).collect();
                let fit = words.filter(|_| simple.never.is_none() && !simple.anywhere);
                let words = fit.ok_or_else(|| no_pattern(piece))?;
                draft.command = Some(CommandPattern::exactly(&words));
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
    let pieces = gate::pieces(subject, std::path::Path::new("."), false);
    match (pieces.as_slice(), subject.paths.as_slice()) {
        ([Piece::Command(Part::Command(simple))], _) if simple.never.is_none() => {
            let words: Option<Vec<&str>> = simple.words.iter().map(Word::plain).collect();
            let Some(words) = words else { return Vec::new() };
            let quoted = |count: usize| {
                let words = words[..count].iter().map(|w| quoted(w));
                words.collect::<Vec<_>>().join(" ")
            };
            let mut patterns = vec![CommandPattern::exactly(&words)];
            patterns.extend([2, 1].into_iter().filter(|n| *n < words.len()).map(quoted));
            patterns
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
