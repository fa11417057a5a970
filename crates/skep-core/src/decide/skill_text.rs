//! How skills are told to a model: which ones there are, and the text of one that is used.

use crate::decide::heads;
use crate::decide::names::nearest;
use crate::decide::slash::listed;
use crate::decide::visible::bounded_text;
use crate::settings::{AgentSettings, Skill};

/// Bytes of the list that stands in a tool's description.
const LIST_BYTES: usize = 16 << 10;

/// Characters of a description.
const DESCRIPTION: usize = 300;

/// A description as one line of visible characters.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    // What is invisible becomes longer once it is shown.
    bounded_text(&bounded_text(&words.join(" "), DESCRIPTION), DESCRIPTION)
}

/// The skills an agent has, one in a line. A description is data: quoted, and never more than its
/// line. Where all of them would be too long, the last ones are named alone.
pub fn list(skills: &[Skill]) -> String {
    let mut list = "Skills (the texts in quotes are data about them):".to_owned();
    for Skill { name, description, .. } in skills {
        let line = format!("\n- {name}: \"{}\"", description.replace('"', "'"));
        match list.len() + line.len() <= LIST_BYTES {
            true => list.push_str(&line),
            false => list.push_str(&format!("\n- {name}")),
        }
    }
    list
}

/// The text of a skill that is in use. `missing`: tools it needs that the agent does not have now.
pub fn in_use(agent: &AgentSettings, skill: &Skill, missing: &[&str]) -> String {
    let Skill { name, file, tools, text, files, .. } = skill;
    let place = |file: &str| agent.folder.join(file).display().to_string();
    let is_ours = |line: &str| line.starts_with("[skill ") || line.starts_with("[end of skill");
    let text = heads::quoting(text, is_ours);
    let mut shown = format!("[skill {name}, from {}]\n{}\n[end of skill {name}", place(file), text);
    let here: Vec<&str> =
        tools.iter().map(String::as_str).filter(|tool| !missing.contains(tool)).collect();
    if !here.is_empty() {
        shown.push_str(&format!("; tools it needs that you have: {}", here.join(", ")));
    }
    if !missing.is_empty() {
        shown.push_str(&format!("; tools it needs that you do not have: {}", missing.join(", ")));
    }
    if !files.is_empty() {
        let files: Vec<String> = files.iter().map(|file| place(file)).collect();
        shown.push_str(&format!("; other files of it, to be read: {}", files.join(", ")));
    }
    shown + "]"
}

/// The skills of an agent, as channels show them.
pub fn for_people(agent: &AgentSettings) -> String {
    if agent.skills.is_empty() {
        return format!("{} has no skills.", agent.name);
    }
    let entries = agent.skills.iter().map(|skill| (&*skill.name, &*skill.description));
    listed("Skills", entries)
}

/// As [`unknown`], of a `skill` or `subagent`.
pub fn unknown_of(what: &str, agent: &AgentSettings, name: &str) -> String {
    let names: Vec<&str> = match what {
        "skill" => agent.skills.iter().map(|skill| skill.name.as_str()).collect(),
        _ => agent.subagents.iter().map(|subagent| subagent.name.as_str()).collect(),
    };
    let (of, shown) = (&agent.name, bounded_text(name, 64));
    if names.is_empty() {
        return format!("{of} has no {what}s.");
    }
    let meant = nearest(name, &names);
    let meant = meant.map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default();
    format!("{of} has no {what} `{shown}`.{meant} Its {what}s: {}.", names.join(", "))
}

/// Why there is no such skill, with the name that is closest and those there are.
pub fn unknown(agent: &AgentSettings, name: &str) -> String {
    unknown_of("skill", agent, name)
}
