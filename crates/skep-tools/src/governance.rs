//! What an agent may change about itself: its rules, skills and subagents. Each change is a commit
//! by that agent before it is made, so that it can be seen and taken back.

use std::path::{Component, Path};
use std::sync::Arc;

use serde_json::Value;
use skep_core::policy::Class;
use skep_core::tool::ToolContext;
use skep_core::visible::is_plain_name;
use skep_guard::repository::{Commit, Repository};
use skep_guard::workspace::{EntryKind, Folder, Opened, Target, Workspace};
use skep_guard::{clock, disk};

/// The parts of an agent's folder that `write` and `edit` may change.
pub(crate) const GOVERNED: &[&str] = &["org-rules", "skills", "subagents", "team-rules"];
/// Whose hand it was when a file differs from the last commit.
const BY_HAND: &str = "operator";
/// A rule is part of every prompt, a skill of conversations: one that is longer is not read, and a
/// rule disables its agent.
const RULE_BYTES: usize = 64 << 10;
/// Of all rules of a folder, and of all skills or subagents.
const RULES_BYTES: usize = 256 << 10;
const FOLDER_BYTES: usize = 4 << 20;
const FILE_BYTES: usize = 256 << 10;
/// Files of a settings folder that are kept; more is no settings folder.
const MOST_FILES: usize = 2000;
const DEEPEST: usize = 8;

/// The history of all agents' settings.
#[derive(Debug)]
pub struct Governance {
    repository: Repository,
}

type Files = Vec<(String, Vec<u8>)>;

impl Governance {
    /// `folder` is where the history is kept.
    pub fn at(folder: &Path) -> Arc<Self> {
        Arc::new(Self { repository: Repository::at(folder) })
    }

    /// Commits a change that a person makes to a file of an agent's settings. The files of
    /// `folder` are read as they are found; the file itself is written by the caller, afterwards.
    pub async fn commit_by_person(
        &self,
        agent: &str,
        author: &str,
        folder: &Path,
        (path, content): (&str, &[u8]),
        message: &str,
    ) -> Result<(), String> {
        let found = read_all(
            &Workspace::open(folder).map_err(|error| error.to_string())?,
            &folder.to_string_lossy(),
        )?;
        let mut files = found.clone();
        files.retain(|(name, _)| name != path);
        files.push((path.to_owned(), content.to_vec()));
        let at_ms = clock::now_ms();
        for (author, message, files) in
            [(BY_HAND, "settings as they were found", &found), (author, message, &files)]
        {
            let commit = Commit { branch: agent, author, message, at_ms, files };
            self.repository.commit(&commit).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Puts `content` in place, committed first; gives back the commit. Blocks.
    pub(crate) fn change(
        &self,
        doing: &str,
        workspace: &Workspace,
        context: &ToolContext,
        (target, path): (&Target, &str),
        content: &[u8],
    ) -> Result<Option<String>, String> {
        let Some(folder) = &context.folder else {
            return Err(format!("settings_read_only: {path} cannot be written"));
        };
        check(path, content)?;
        let found = read_all(workspace, &folder.to_string_lossy())?;
        let mut files = found.clone();
        files.retain(|(name, _)| name != path);
        files.push((path.to_owned(), content.to_vec()));
        check_room(path, &files)?;
        let (agent, now) = (context.agent.as_str(), clock::now_ms());
        let commit = |author: &str, message: &str, files: &Files| {
            let commit = Commit { branch: agent, author, message, at_ms: now, files };
            tokio::runtime::Handle::current().block_on(self.repository.commit(&commit)).map_err(
                |error| {
                    format!(
                        "settings_not_kept: {path} was not written, because a change of settings \
                         has to be committed first: {error}"
                    )
                },
            )
        };
        commit(BY_HAND, "settings as they were found", &found)?;
        let made = commit(agent, &format!("{doing} {path}"), &files)?;
        target.replace(content).map_err(|refusal| refusal.to_string())?;
        Ok(made)
    }
}

/// The class of a call that writes `file_path`: a file of the settings shapes the hive.
pub(crate) fn class(arguments: &Value, folder: &Path) -> Class {
    match arguments.get("file_path").and_then(Value::as_str) {
        Some(path) if is_settings(path, folder) => Class::Shape,
        _ => Class::Write,
    }
}

/// As the workspace reads a path: settings are named by their absolute one, without a way back.
fn is_settings(path: &str, folder: &Path) -> bool {
    let path = Path::new(path);
    let governed = |root: &Path| {
        let Ok(inside) = path.strip_prefix(root) else { return false };
        let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        plain
            && inside.iter().next().is_some_and(|first| GOVERNED.iter().any(|name| first == *name))
    };
    if path.is_relative() || path.starts_with(folder) {
        return governed(folder);
    }
    folder.canonicalize().is_ok_and(|root| governed(&root))
}

/// Writes the target: a file of the workspace at once, one of the settings after its commit.
pub(crate) fn put(
    doing: &str,
    governance: Option<&Governance>,
    workspace: &Workspace,
    context: &ToolContext,
    (target, requested): (&Target, &str),
    content: &[u8],
) -> Result<Option<String>, String> {
    let floor = context.sandbox.limits.disk_floor_bytes.unwrap_or(disk::FLOOR_BYTES);
    disk::check_floor(workspace.path(), floor).map_err(|refusal| refusal.to_string())?;
    match (target.settings(), governance) {
        (None, _) => target.replace(content).map(|()| None).map_err(|refusal| refusal.to_string()),
        (Some(path), None) => Err(format!("settings_read_only: {path} can only be read here")),
        // It was judged as a file of the workspace.
        (Some(path), _)
            if !context.folder.as_ref().is_some_and(|it| is_settings(requested, it)) =>
        {
            Err(format!("bad_path: {path} belongs to the settings; name it by its plain path"))
        }
        (Some(path), Some(governance)) => {
            governance.change(doing, workspace, context, (target, path), content)
        }
    }
}

/// What the answer says about the commit.
pub(crate) fn note(commit: &Option<String>) -> String {
    commit.as_ref().map_or_else(String::new, |commit| format!(" (commit {commit})"))
}

/// Whether the file can stand there at all.
fn check(path: &str, content: &[u8]) -> Result<(), String> {
    let is_rule = path.starts_with("org-rules/") || path.starts_with("team-rules/");
    if is_rule && (path.matches('/').count() != 1 || !path.ends_with(".md")) {
        return Err(format!(
            "bad_path: {path} is no rule: rules are files that end in .md, directly in org-rules/ \
             or team-rules/"
        ));
    }
    if !path.split('/').all(is_plain_name) {
        return Err(format!(
            "bad_path: {path:?} is no name for settings: a name begins with a letter or digit and \
             has one line of visible characters, 100 bytes at most"
        ));
    }
    let is_skill = path.starts_with("skills/")
        && (path.ends_with("/SKILL.md")
            || (path.ends_with(".md") && path.matches('/').count() == 1));
    let most = if is_rule || is_skill { RULE_BYTES } else { FILE_BYTES };
    if content.len() > most {
        return Err(format!("too_large: {path} has {} bytes; the most is {most}", content.len()));
    }
    if std::str::from_utf8(content).is_err() || content.contains(&0) {
        return Err(format!("not_text: {path} would not be text; settings are text"));
    }
    Ok(())
}

fn check_room(path: &str, files: &Files) -> Result<(), String> {
    let folder = path.split('/').next().unwrap_or_default();
    let most = if folder.ends_with("rules") { RULES_BYTES } else { FOLDER_BYTES };
    let inside = files.iter().filter(|(name, _)| name.split('/').next() == Some(folder));
    let bytes: usize = inside.map(|(_, content)| content.len()).sum();
    if bytes > most || files.len() > MOST_FILES {
        return Err(format!(
            "too_large: {folder}/ would have {bytes} bytes, and the settings {} files; the most is \
             {most} bytes and {MOST_FILES} files. Make other files shorter first",
            files.len()
        ));
    }
    Ok(())
}

/// Every file of the settings, without the workspace and what is hidden.
fn read_all(workspace: &Workspace, folder: &str) -> Result<Files, String> {
    let failed = |why: &dyn std::fmt::Display| format!("io_error: {folder}: {why}");
    let Opened::Folder(settings) = workspace.open_any(folder).map_err(|error| failed(&error))?
    else {
        return Err(failed(&"is no folder"));
    };
    let mut files = Files::new();
    collect(&settings, String::new(), DEEPEST, &mut files).map_err(|error| failed(&error))?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Folder, above: String, deep: usize, files: &mut Files) -> std::io::Result<()> {
    use std::io::Read;
    for entry in folder.entries(MOST_FILES)? {
        let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let path = format!("{above}{name}");
        match entry.kind {
            EntryKind::Folder if path == "work" || name == "node_modules" || deep == 0 => {}
            EntryKind::Folder => {
                collect(&folder.open_folder(&entry.name)?, path + "/", deep - 1, files)?;
            }
            EntryKind::File if files.len() < MOST_FILES => {
                let mut content = Vec::new();
                let most = FILE_BYTES as u64;
                folder.open_file(&entry.name)?.take(most).read_to_end(&mut content)?;
                files.push((path, content));
            }
            EntryKind::File | EntryKind::Link | EntryKind::Special => {}
        }
    }
    Ok(())
}
