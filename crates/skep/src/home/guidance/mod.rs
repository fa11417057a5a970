//! The Markdown files that guide agents: rules, and the skills of one agent.

pub mod rules;
mod skill_file;
mod skills;
#[cfg(test)]
mod skills_tests;
mod subagents;
#[cfg(test)]
mod subagents_tests;

use std::path::Path;

use skep_core::settings::{ConfigProblem, Skill, Subagent};

use super::known_names::KnownNames;
use super::mistake::Mistake;
pub use subagents::named_with;

/// Mistakes that are told of one agent; more of them say nothing new.
const TOLD: usize = 50;

/// The skills of an agent's folder, and what is left out of it. `place` is where the folder is
/// shown to be: its path in the home.
pub fn skills(folder: &Path, place: &str) -> (Vec<Skill>, Vec<ConfigProblem>) {
    let (skills, mistakes) = skills::read(folder);
    let left_out = mistakes.into_iter().take(TOLD);
    (skills, left_out.map(|mistake| left_out_of(folder, place, mistake)).collect())
}

/// The subagents of an agent's folder, which may name these skills, and what is left out of it.
pub fn subagents(
    folder: &Path,
    place: &str,
    known: &KnownNames,
    skills: &[Skill],
) -> (Vec<Subagent>, Vec<ConfigProblem>) {
    let (subagents, mistakes) = subagents::read(folder, known, skills);
    let left_out = mistakes.into_iter().take(TOLD);
    (subagents, left_out.map(|mistake| left_out_of(folder, place, mistake)).collect())
}

/// A mistake that leaves out its file and nothing else.
fn left_out_of(folder: &Path, place: &str, mistake: Mistake) -> ConfigProblem {
    let inside = mistake.file.strip_prefix(folder).unwrap_or(&mistake.file);
    let file = Path::new(place).join(inside);
    let mistake = Mistake { file: file.into(), ..mistake };
    ConfigProblem {
        file: mistake.file.display().to_string(),
        line: mistake.at.map(|(line, _)| line),
        text: mistake.to_string(),
    }
}
