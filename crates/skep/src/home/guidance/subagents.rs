//! The subagents of an agent: `subagents/NAME.md`, with the sections Role, Skills, Boundaries and
//! Communication Style, or with front matter as files of agents that people share have it. Each
//! becomes a tool, so none may have the name of one. What is wrong with a file leaves out that file
//! alone: an agent may write them itself.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use skep_core::settings::{Skill, Subagent};
use skep_core::skill_text::one_line;
use skep_core::visible::{is_blank, visible};

use super::skill_file::{at, check_visible, read_front, split};
use super::skills::{entries, is_markdown};
use crate::home::known_names::KnownNames;
use crate::home::mistake::Mistake;
use crate::home::source::SourceText;

/// It stands in every model call of its session.
const SUBAGENT_BYTES: u64 = 64 << 10;
/// Each is a tool, and stands in every model call of its agent.
const MOST_SUBAGENTS: usize = 64;
const MOST_SKILLS: usize = 16;

const KEYS: &[&str] = &["name", "description", "skills"];

/// What is read of the front matter; other keys have a meaning elsewhere.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct RawFront {
    #[schemars(extend("x-holds" = "text"))]
    name: Option<String>,
    #[schemars(extend("x-holds" = "text"))]
    description: Option<String>,
    /// A list, or names in one text.
    skills: Value,
}

/// Those of an agent's folder that can be used, and what is wrong with the others. `skills`: what
/// they may name.
pub fn read(agent: &Path, known: &KnownNames, skills: &[Skill]) -> (Vec<Subagent>, Vec<Mistake>) {
    let folder = agent.join("subagents");
    let (mut found, mut mistakes) = (Vec::new(), Vec::new());
    let names = entries(&folder, |name, _| is_markdown(name)).unwrap_or_else(|mistake| {
        mistakes.push(mistake);
        Vec::new()
    });
    for name in &names {
        match subagent(agent, &folder, name, known) {
            Ok(Some(_)) if found.len() == MOST_SUBAGENTS => {
                let what = "is one subagent too many; it and those after it are left out";
                let mistake = Mistake::of_file(&folder.join(name), what);
                mistakes.push(mistake.expecting(format!("at most {MOST_SUBAGENTS} subagents")));
                break;
            }
            Ok(Some((subagent, lines))) => {
                mistakes.extend(unknown_skills(&folder.join(name), &subagent, &lines, skills));
                found.push(subagent);
            }
            Ok(None) => {}
            Err(mistake) => mistakes.push(mistake),
        }
    }
    (found, mistakes)
}

/// What the settings of the agent in this folder may name: its subagents besides, also those whose
/// files cannot be used. A broken one must not disable its agent.
pub fn named_with<'a>(agent: &Path, known: &'a KnownNames) -> Cow<'a, KnownNames> {
    let files = entries(&agent.join("subagents"), |name, _| is_markdown(name));
    let files = files.unwrap_or_default();
    let names = files.iter().filter_map(|file| file.to_str()?.strip_suffix(".md"));
    let names: Vec<String> =
        names.filter(|name| is_subagent_name(name)).map(str::to_owned).collect();
    if names.is_empty() {
        return Cow::Borrowed(known);
    }
    let mut known = known.clone();
    known.tools.extend(names);
    Cow::Owned(known)
}

/// With the lines of the skills that it names.
type ParsedSubagent = (Subagent, Vec<u32>);

fn subagent(
    agent: &Path,
    folder: &Path,
    file: &OsString,
    known: &KnownNames,
) -> Result<Option<ParsedSubagent>, Mistake> {
    let shown = file.to_string_lossy();
    let name = shown.strip_suffix(".md").unwrap_or(&shown);
    if !is_subagent_name(name) {
        let what = "the file's name cannot be that of a subagent";
        let mistake = Mistake::of_file(&folder.join(visible(&shown).replace('\n', " ")), what);
        return Err(mistake.expecting(
            "lower-case letters and digits with single `-` or `_` between them, at most 64",
        ));
    }
    // Gone since the folder was read.
    let Some(source) = SourceText::read(&folder.join(file), SUBAGENT_BYTES)? else {
        return Ok(None);
    };
    let inside = source.file.strip_prefix(agent).unwrap_or(&source.file).display().to_string();
    parse(&source, name, inside, known).map(Some)
}

/// As tools are called: nothing that a plugin's or a server's tool could be.
fn is_subagent_name(name: &str) -> bool {
    let part = |part: &str| {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        !part.is_empty() && part.chars().all(letter)
    };
    name.len() <= 64 && name.split(['-', '_']).all(part)
}

fn parse(
    source: &SourceText,
    name: &str,
    file: String,
    known: &KnownNames,
) -> Result<ParsedSubagent, Mistake> {
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let text = text.replace("\r\n", "\n");
    check_visible(source, &text)?;
    let (front, body) = match split(&text) {
        Ok(parts) => parts,
        Err(what) => return Err(at(source, 1, what).expecting("a line `---` after it")),
    };
    let before = text[..text.len() - body.len()].lines().count();
    let named = front.and_then(|front| line_of(front, "name")).unwrap_or(1);
    let read = front.map(|front| read_front(source, front, KEYS));
    let read: RawFront = read.transpose()?.unwrap_or_default();
    if let Some(written) = read.name.as_deref().filter(|written| written.trim() != name) {
        let what = format!("`name`: `{}` is not the name of its file", one_line(written));
        return Err(at(source, named, what).expecting(format!("`{name}`")));
    }
    if known.tools.iter().chain(&known.aliases).any(|tool| tool == name) {
        return Err(at(source, named, Subagent::taken(name)).expecting("another name"));
    }
    let sections = Sections::of(body, before);
    let described = read.description.filter(|text| !is_blank(&text.replace(['\n', '\t'], " ")));
    if described.is_none() && !sections.has_role {
        let mistake = at(source, 1, "is no subagent");
        return Err(mistake
            .expecting("a section Role, or front matter with a description between lines `---`"));
    }
    if is_blank(&body.replace(['\n', '\t'], " ")) {
        let mistake = Mistake::of_file(&source.file, "says nothing that could be a role");
        return Err(mistake.expecting("what the subagent does, in Markdown"));
    }
    let skills_line = front.and_then(|front| line_of(front, "skills")).unwrap_or(1);
    let listed = listed(&read.skills).into_iter().map(|skill| (skill, skills_line));
    let mut skills: Vec<(String, u32)> = Vec::new();
    for (skill, line) in listed.chain(sections.skills) {
        if skills.iter().all(|(known, _)| *known != skill) {
            skills.push((skill, line));
        }
    }
    skills.truncate(MOST_SKILLS);
    let (skills, lines) = skills.into_iter().unzip();
    let description = one_line(&described.unwrap_or(sections.role));
    let (name, text) = (name.to_owned(), body.trim().to_owned());
    Ok((Subagent { name, file, description, skills, text, line: named }, lines))
}

/// Where a key of the front matter stands in the file.
fn line_of(front: &str, key: &str) -> Option<u32> {
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    let at = front.lines().position(is_key)?;
    u32::try_from(at + 2).ok()
}

/// A list of names, or names in one text.
fn listed(written: &Value) -> Vec<String> {
    let names: Vec<&str> = match written {
        Value::String(text) => text.split(',').collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let names = names.into_iter().map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What the sections of a subagent say.
#[derive(Default)]
struct Sections {
    has_role: bool,
    /// The first paragraph of Role.
    role: String,
    /// Each with its line.
    skills: Vec<(String, u32)>,
}

impl Sections {
    /// `before`: lines of the file before the body.
    fn of(body: &str, before: usize) -> Self {
        let (mut found, mut section, mut fenced) = (Self::default(), String::new(), false);
        for (number, line) in (before + 1..).zip(body.lines()) {
            let start = line.trim();
            if start.starts_with("```") || start.starts_with("~~~") {
                fenced = !fenced;
            }
            if let Some(heading) = start.strip_prefix('#').filter(|_| !fenced) {
                section = heading.trim_matches(['#', ' ', '\t', ':']).to_lowercase();
                found.has_role |= section == "role";
                continue;
            }
            match section.as_str() {
                // What follows the paragraph is not part of it.
                "role" if start.is_empty() && !found.role.is_empty() => section.clear(),
                "role" if !start.is_empty() => found.role.extend([start, " "]),
                "skills" => {
                    let line = u32::try_from(number).unwrap_or(u32::MAX);
                    found.skills.extend(listed_skill(start).map(|name| (name, line)));
                }
                _ => {}
            }
        }
        found
    }
}

/// `- \`review\`: how to read code` names `review`.
fn listed_skill(line: &str) -> Option<String> {
    let item = line.strip_prefix(['-', '*', '+'])?.trim_start();
    let name = match item.strip_prefix(['`', '*']) {
        Some(marked) => marked.trim_start_matches('*').split(['`', '*']).next()?,
        None => item.split([' ', ',', ':', '(']).next()?,
    };
    let name = name.trim();
    (!name.is_empty() && !name.eq_ignore_ascii_case("none")).then(|| name.to_owned())
}

/// It works without them, and whoever wrote it is told.
fn unknown_skills(
    file: &Path,
    subagent: &Subagent,
    lines: &[u32],
    skills: &[Skill],
) -> Vec<Mistake> {
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let named = subagent.skills.iter().zip(lines);
    let unknown = named.filter(|(name, _)| !names.contains(&name.as_str()));
    let mistake = |(name, line): (&String, &u32)| {
        let what = format!("the agent has no skill `{}`", one_line(name));
        let mistake = Mistake { at: Some((*line, 1)), ..Mistake::of_file(file, what) };
        mistake.expecting_one_of(name, names.iter().copied())
    };
    unknown.map(mistake).collect()
}
