//! One skill as a text: YAML front matter with name and description, as the folders of skills that
//! people share have it, or the sections Required Tools, Purpose, Steps, Inputs, Outputs and Error
//! Handling.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skep_core::skill_text::one_line;
use skep_core::visible::{is_blank, misleads};

use crate::home::mistake::Mistake;
use crate::home::source::SourceText;
use crate::home::yaml;

const FRONT_BYTES: usize = 16 << 10;
const MOST_TOOLS: usize = 50;
/// The longest name of a tool.
const TOOL_BYTES: usize = 64;

#[derive(Debug)]
pub struct SkillFile {
    pub description: String,
    pub tools: Vec<String>,
    pub text: String,
}

/// What is read of the front matter; other keys have a meaning elsewhere.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
struct RawFront {
    #[schemars(extend("x-holds" = "text"))]
    name: Option<String>,
    #[schemars(extend("x-holds" = "text"))]
    description: Option<String>,
    /// A list, or names in one text.
    allowed_tools: Value,
}

/// `name`: as its file or folder is called.
pub fn parse(source: &SourceText, name: &str) -> Result<SkillFile, Mistake> {
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let text = text.replace("\r\n", "\n");
    check_visible(source, &text)?;
    let (front, body) = match split(&text) {
        Ok(parts) => parts,
        Err(what) => return Err(at(source, 1, what).expecting("a line `---` after it")),
    };
    if is_blank(&body.replace(['\n', '\t'], " ")) {
        let mistake = Mistake::of_file(&source.file, "says nothing that could be followed");
        return Err(mistake.expecting("the steps of the skill, in Markdown"));
    }
    let sections = Sections::of(body);
    let (description, mut tools) = match front {
        Some(front) => of_front(source, front, name)?,
        None if sections.is_skill => (sections.purpose.clone(), Vec::new()),
        None => {
            let mistake = Mistake::of_file(&source.file, "is no skill");
            return Err(mistake.expecting(
                "front matter with name and description between lines `---`, or the sections \
                 Purpose or Steps",
            ));
        }
    };
    tools.extend(sections.tools);
    let mut seen = HashSet::new();
    tools.retain(|tool| is_tool_name(tool) && seen.insert(tool.clone()));
    tools.truncate(MOST_TOOLS);
    let description = one_line(if is_blank(&description) { name } else { &description });
    Ok(SkillFile { description, tools, text: body.trim().to_owned() })
}

/// Nothing in it may show something else than what is there.
pub(super) fn check_visible(source: &SourceText, text: &str) -> Result<(), Mistake> {
    let Some((before, c)) = text.char_indices().find(|(_, c)| misleads(*c)) else { return Ok(()) };
    let line = text[..before].matches('\n').count() + 1;
    let what = format!("holds a character that hides or moves text (U+{:04X})", u32::from(c));
    Err(at(source, u32::try_from(line).unwrap_or(u32::MAX), what))
}

pub(super) fn at(source: &SourceText, line: u32, what: impl Into<String>) -> Mistake {
    Mistake { at: Some((line, 1)), ..Mistake::of_file(&source.file, what) }
}

/// The front matter, where there is one, and the rest.
pub(super) fn split(text: &str) -> Result<(Option<&str>, &str), &'static str> {
    let begun = text.split_once('\n').filter(|(first, _)| first.trim_end() == "---");
    let Some((_, front)) = begun else { return Ok((None, text)) };
    let mut end = 0;
    for line in front.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((Some(&front[..end]), &front[end + line.len()..]));
        }
        end += line.len();
        if end > FRONT_BYTES {
            return Err("its front matter is too long");
        }
    }
    Err("its front matter does not end")
}

/// Description and tools.
fn of_front(
    source: &SourceText,
    front: &str,
    name: &str,
) -> Result<(String, Vec<String>), Mistake> {
    let front: RawFront = read_front(source, front, &["name", "description", "allowed-tools"])?;
    // With blanks it is a title, and the name is that of the folder.
    if let Some(written) = &front.name
        && !written.trim().contains(char::is_whitespace)
        && plain(written) != plain(name)
    {
        let written = one_line(written);
        let what = format!("`name`: `{written}` is not the name of its file or folder");
        return Err(at(source, 2, what).expecting(format!("`{name}`")));
    }
    match front.description {
        Some(description) if !is_blank(&description.replace(['\n', '\t'], " ")) => {
            Ok((description, tools(&front.allowed_tools)))
        }
        _ => {
            let mistake = at(source, 1, "the key `description` is missing or empty");
            Err(mistake.expecting("what the skill is for, and when it is used"))
        }
    }
}

/// `keys`: those that are read.
pub(super) fn read_front<T: DeserializeOwned + JsonSchema>(
    source: &SourceText,
    front: &str,
    keys: &[&str],
) -> Result<T, Mistake> {
    // An empty line first, for the lines to have the numbers they have in the file.
    let read = |text: &str| {
        yaml::parse(&SourceText { file: source.file.clone(), text: format!("\n{text}") })
    };
    read(front).or_else(|mistake| match mistake.what == yaml::TOO_MUCH {
        true => Err(mistake),
        false => read(&mended(front, keys)).map_err(|_| mistake),
    })
}

/// As people write front matter: `description: Use this: it helps` is no YAML, and clear. What is
/// not read need be none either. Lines keep their numbers.
fn mended(front: &str, keys: &[&str]) -> String {
    let mut kept = false;
    let line = |line: &str| {
        let key = line.split_once(':').map(|(key, _)| key);
        let key = key.filter(|_| !line.starts_with([' ', '\t', '-', '#']));
        if let Some(key) = key {
            kept = keys.contains(&key);
        }
        match line.split_once(": ").filter(|_| kept && key.is_some()) {
            Some((key, value)) if is_text(value.trim()) => {
                format!("{key}: {}\n", Value::from(value.trim()))
            }
            _ if kept => format!("{line}\n"),
            _ => "\n".to_owned(),
        }
    };
    front.lines().map(line).collect()
}

/// Whether a value that YAML takes otherwise is meant as a text.
fn is_text(value: &str) -> bool {
    let marked = ['"', '\'', '|', '>', '[', '{', '&', '*', '!'];
    value.starts_with(['@', '`', '%']) || (value.contains(": ") && !value.starts_with(marked))
}

/// Names are compared as folders are called: `Code Review` is `code-review`.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.trim().chars().map(letter).collect()
}

/// `Read, Bash(git add:*)` or a list of the same: the names alone.
fn tools(written: &Value) -> Vec<String> {
    let texts: Vec<&str> = match written {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut names = Vec::new();
    for text in texts {
        let mut depth = 0_usize;
        let bare = text.chars().filter_map(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ if depth == 0 => return Some(c),
                _ => return None,
            }
            Some(' ')
        });
        let bare: String = bare.collect();
        let parts = bare.split([',', ' ']).filter(|part| !part.is_empty());
        names.extend(parts.map(str::to_owned));
    }
    names
}

fn is_tool_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    (1..=TOOL_BYTES).contains(&name.len()) && name.chars().all(letter)
}

/// What the sections of a skill say.
#[derive(Default)]
struct Sections {
    is_skill: bool,
    /// The first paragraph of Purpose.
    purpose: String,
    tools: Vec<String>,
}

impl Sections {
    fn of(body: &str) -> Self {
        let (mut found, mut section, mut fenced) = (Self::default(), String::new(), false);
        for line in body.lines() {
            let start = line.trim();
            if start.starts_with("```") || start.starts_with("~~~") {
                fenced = !fenced;
            }
            if let Some(heading) = start.strip_prefix('#').filter(|_| !fenced) {
                section = heading.trim_matches(['#', ' ', '\t', ':']).to_lowercase();
                found.is_skill |= matches!(section.as_str(), "purpose" | "steps");
                continue;
            }
            match section.as_str() {
                // What follows the paragraph is not part of it.
                "purpose" if start.is_empty() && !found.purpose.is_empty() => section.clear(),
                "purpose" if !start.is_empty() => found.purpose.extend([start, " "]),
                "required tools" => found.tools.extend(listed_tool(start)),
                _ => {}
            }
        }
        found
    }
}

/// `- \`read\`: looks at files` names `read`.
fn listed_tool(line: &str) -> Option<String> {
    let item = line.strip_prefix(['-', '*', '+'])?.trim_start();
    let name = match item.strip_prefix(['`', '*']) {
        Some(marked) => marked.trim_start_matches('*').split(['`', '*']).next()?,
        None => item.split([' ', ',', ':', '(']).next()?,
    };
    Some(name.trim().to_owned()).filter(|name| !name.eq_ignore_ascii_case("none"))
}
