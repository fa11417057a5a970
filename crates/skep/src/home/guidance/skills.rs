//! The skills of an agent: `skills/NAME.md` and `skills/NAME/SKILL.md`. A file that is no skill is
//! left out, and every other one stays: what an agent may write itself must not disable it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use skep_core::settings::Skill;
use skep_core::visible::{is_plain_name, visible};
use skep_guard::disk::{self, PathEntry};

use super::skill_file::{self, SkillFile};
use crate::home::mistake::Mistake;
use crate::home::source::SourceText;

/// A skill goes into a conversation as a whole.
const SKILL_BYTES: u64 = 64 << 10;
/// All of an agent's together: they are kept in memory.
const FOLDER_BYTES: usize = 4 << 20;
const MOST_SKILLS: usize = 200;
/// Entries of a folder that could be one.
const ENTRIES: usize = 1000;
/// Other files of a skill that are named to the model, in how many folders they are looked for,
/// and how deep they may lie.
const MOST_FILES: usize = 50;
const MOST_FOLDERS: usize = 100;
const DEEPEST: usize = 3;

pub fn read(agent: &Path) -> (Vec<Skill>, Vec<Mistake>) {
    let folder = agent.join("skills");
    let mut found = FoundSkills::default();
    match entries(&folder, |name, entry| is_markdown(name) || !is_file(entry)) {
        Ok(names) => {
            for name in names {
                if !found.take(agent, &folder, &name) {
                    break;
                }
            }
        }
        Err(mistake) => found.mistakes.push(mistake),
    }
    (found.skills.into_values().collect(), found.mistakes)
}

#[derive(Default)]
struct FoundSkills {
    skills: BTreeMap<String, Skill>,
    bytes: usize,
    mistakes: Vec<Mistake>,
}

impl FoundSkills {
    /// False: nothing more is taken.
    fn take(&mut self, agent: &Path, folder: &Path, entry: &OsString) -> bool {
        let skill = match skill(agent, folder, entry) {
            Ok(Some(skill)) => skill,
            Ok(None) => return true,
            Err(mistake) => {
                self.mistakes.push(mistake);
                return true;
            }
        };
        let file = agent.join(&skill.file);
        let mut refuse = |what: String, expected: String| {
            self.mistakes.push(Mistake::of_file(&file, what).expecting(expected));
        };
        if self.skills.len() == MOST_SKILLS {
            let what = "is one skill too many; it and those after it are left out".to_owned();
            refuse(what, format!("at most {MOST_SKILLS} skills"));
            return false;
        }
        if let Some(known) = self.skills.get(&skill.name) {
            let what = format!("there is a skill `{}` already, in {}", skill.name, known.file);
            refuse(what, "one of the two".to_owned());
            return true;
        }
        if self.bytes + skill.text.len() > FOLDER_BYTES {
            let expected = format!("at most {} MiB", FOLDER_BYTES >> 20);
            refuse("makes the skills too large together".to_owned(), expected);
            return true;
        }
        self.bytes += skill.text.len();
        self.skills.insert(skill.name.clone(), skill);
        true
    }
}

/// What a folder holds of what is wanted, sorted, without what is hidden; a missing folder holds
/// nothing.
pub(super) fn entries(
    folder: &Path,
    wanted: impl Fn(&OsStr, &DirEntry) -> bool,
) -> Result<Vec<OsString>, Mistake> {
    let unreadable =
        |error: std::io::Error| Mistake::of_file(folder, format!("cannot be read: {error}"));
    match disk::find(folder) {
        Ok(PathEntry::Folder) => {}
        Ok(PathEntry::Link) => {
            return Err(Mistake::of_file(folder, "is a link, and links are not followed"));
        }
        Ok(PathEntry::File(_) | PathEntry::Special) => {
            return Err(Mistake::of_file(folder, "is not a folder"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let is_shown = !name.as_encoded_bytes().starts_with(b".");
        if is_shown && wanted(&name, &entry) {
            names.push(name);
        }
        if names.len() > ENTRIES {
            let mistake =
                Mistake::of_file(folder, "has too many entries, and none of them is read");
            return Err(mistake.expecting(format!("at most {ENTRIES}")));
        }
    }
    names.sort();
    Ok(names)
}

pub(super) fn is_markdown(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".md")
}

fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// The skill of an entry of the folder; nothing where it is none.
fn skill(agent: &Path, folder: &Path, entry: &OsString) -> Result<Option<Skill>, Mistake> {
    let shown = entry.to_string_lossy();
    let path = folder.join(entry);
    let is_folder = matches!(disk::find(&path), Ok(PathEntry::Folder | PathEntry::Link))
        && !shown.ends_with(".md");
    let name = match (shown.strip_suffix(".md"), is_folder) {
        (Some(name), _) => name.to_owned(),
        (None, true) => shown.to_string(),
        (None, false) => return Ok(None),
    };
    if !is_skill_name(&name) {
        let what = "the file's name cannot be that of a skill";
        let mistake = Mistake::of_file(&folder.join(visible(&shown).replace('\n', " ")), what);
        return Err(mistake.expecting("letters, digits, `-`, `_` and `.`, at most 64"));
    }
    let source = match is_folder {
        true => in_folder(&path)?,
        false => SourceText::read(&path, SKILL_BYTES)?,
    };
    // Gone since the folder was read.
    let Some(source) = source else { return Ok(None) };
    let inside = source.file.strip_prefix(agent).unwrap_or(&source.file).display().to_string();
    let SkillFile { description, tools, text } = skill_file::parse(&source, &name)?;
    let mut files = Vec::new();
    if is_folder {
        let mut folders = MOST_FOLDERS;
        others(agent, &path, DEEPEST, &mut folders, &mut files);
        files.retain(|file| *file != inside);
        files.truncate(MOST_FILES);
    }
    Ok(Some(Skill { name, file: inside, description, tools, text, files }))
}

fn in_folder(path: &Path) -> Result<Option<SourceText>, Mistake> {
    if !matches!(disk::find(path), Ok(PathEntry::Folder)) {
        return Err(Mistake::of_file(path, "is a link, and links are not followed"));
    }
    for name in ["SKILL.md", "skill.md"] {
        if let Some(source) = SourceText::read(&path.join(name), SKILL_BYTES)? {
            return Ok(Some(source));
        }
    }
    Err(Mistake::of_file(path, "has no SKILL.md").expecting("the skill's text in a file SKILL.md"))
}

/// Typed after `/skill`, and shown to models: one plain word.
fn is_skill_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(letter)
}

/// Files beneath a skill's folder, by their plain names. Links are not followed. `folders`: how
/// many more are looked at.
fn others(agent: &Path, folder: &Path, deep: usize, folders: &mut usize, files: &mut Vec<String>) {
    if *folders == 0 || files.len() > MOST_FILES {
        return;
    }
    *folders -= 1;
    let Ok(names) = entries(folder, |_, _| true) else { return };
    let (mut below, plain): (Vec<PathBuf>, _) = (Vec::new(), names.iter());
    for name in plain.filter(|name| name.to_str().is_some_and(is_plain_name)) {
        let path = folder.join(name);
        match std::fs::symlink_metadata(&path).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => below.push(path),
            Ok(kind) if kind.is_file() && files.len() <= MOST_FILES => {
                let inside = path.strip_prefix(agent).unwrap_or(&path);
                files.push(inside.display().to_string());
            }
            _ => {}
        }
    }
    if deep > 0 {
        below.iter().for_each(|folder| others(agent, folder, deep - 1, folders, files));
    }
}
