//! Creates the folders of new agents, complete and valid, or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_cli::commands::agent::NewAgentArgs;
use skep_cli::hive::Home;
use skep_core::ids::{AgentName, RESERVED_NAMES, is_new_agent_name};
use skep_core::policy::allow;
use skep_core::settings::AgentState;
use skep_core::settings::tree::AgentTree;
use skep_guard::disk::{replace_file, sync_directory};

use super::create::make_folder;
use super::environment::Variables;
use super::known_names::KnownNames;
use super::load::load;

#[derive(Debug, thiserror::Error)]
pub enum NewAgentError {
    #[error(
        "`{0}` cannot be an agent's name: 1 to 64 lower-case letters, digits and single dashes, \
         and none of {words}",
        words = RESERVED_NAMES.join(", ")
    )]
    Name(String),
    #[error("{}", taken_text(.0))]
    Taken(Vec<PathBuf>),
    #[error("there is no home in {}", .0.display())]
    NoHome(PathBuf),
    #[error("{0}")]
    Wrong(String),
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The folder of an agent that is to be made.
pub struct NewFolder {
    pub name: String,
    /// Its files, by their paths in it.
    pub files: Vec<(String, String)>,
}

impl NewFolder {
    pub fn of_agent(name: &str, new: &NewAgentArgs) -> Self {
        let files = vec![("config.yaml".to_owned(), settings(new))];
        Self { name: name.to_owned(), files }
    }
}

/// Creates the folders under temporary names, renames them in this order, and loads them as the
/// hive does; if one cannot be made or is invalid, none of them stays.
pub fn create(
    home: &Home,
    new: &[NewFolder],
    known: &KnownNames,
    variables: Variables,
) -> Result<Vec<PathBuf>, NewAgentError> {
    if let Some(bad) = new.iter().find(|it| !is_new_agent_name(&it.name)) {
        return Err(NewAgentError::Name(bad.name.clone()));
    }
    if !home.teams().is_dir() {
        return Err(NewAgentError::NoHome(home.root().to_path_buf()));
    }
    // One at a time, also of other processes: their unfinished folders have the same names.
    let teams = home.teams();
    let lock = fs::File::open(&teams).and_then(|teams| teams.lock().map(|()| teams));
    let _lock = lock.map_err(|source| NewAgentError::Write { path: teams, source })?;
    let folders = new.iter().map(|it| home.agent(&it.name));
    let taken: Vec<_> = folders.filter(|it| fs::symlink_metadata(it).is_ok()).collect();
    if !taken.is_empty() {
        return Err(NewAgentError::Taken(taken));
    }
    let unfinished = |it: &NewFolder| home.agent(&format!(".{}.new", it.name));
    let mut created = Vec::new();
    let made = new.iter().try_for_each(|it| write(&unfinished(it), it)).and_then(|()| {
        new.iter().try_for_each(|it| {
            move_in(home, it, &unfinished(it)).map(|folder| created.push(folder))
        })
    });
    let made = made.and_then(|()| {
        let teams = home.teams();
        sync_directory(&teams).map_err(|source| NewAgentError::Write { path: teams, source })
    });
    let made = made.and_then(|()| match refusal(home, new, known, variables) {
        None => Ok(()),
        Some(why) => Err(NewAgentError::Wrong(why)),
    });
    let Err(error) = made else { return Ok(created) };
    for it in new {
        // Nothing reads a temporary folder; the next attempt overwrites it.
        let _ = fs::remove_dir_all(unfinished(it));
    }
    remove(created.iter())?;
    Err(error)
}

/// Removes folders that were just created, the last first: no agent is left without the one above
/// it.
pub fn remove<'a>(
    created: impl DoubleEndedIterator<Item = &'a PathBuf>,
) -> Result<(), NewAgentError> {
    created.rev().try_for_each(|folder| {
        fs::remove_dir_all(folder)
            .map_err(|source| NewAgentError::Write { path: folder.clone(), source })
    })
}

fn taken_text(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders.iter().filter_map(|it| it.file_name()?.to_str()).collect();
    match folders {
        [folder] => format!("the agent {} is there already: {}", names.join(""), folder.display()),
        _ => format!("the agents {} are there already", names.join(", ")),
    }
}

fn move_in(home: &Home, new: &NewFolder, unfinished: &Path) -> Result<PathBuf, NewAgentError> {
    let folder = home.agent(&new.name);
    match fs::rename(unfinished, &folder) {
        // Somebody else created it first; theirs stays.
        Err(_) if folder.exists() => Err(NewAgentError::Taken(vec![folder])),
        Err(source) => Err(NewAgentError::Write { path: folder, source }),
        Ok(()) => Ok(folder),
    }
}

/// Why the hive would refuse one of the agents.
fn refusal(
    home: &Home,
    new: &[NewFolder],
    known: &KnownNames,
    variables: Variables,
) -> Option<String> {
    let settings = match load(home, known, variables) {
        Err(error) => return Some(format!("the configuration of the hive is broken:\n{error}")),
        Ok(loaded) => loaded.settings,
    };
    let tree = AgentTree::new(&settings.hive_rules, settings.agents);
    let is_team = new.len() > 1;
    new.iter().map(|it| AgentName::new(&it.name)).find_map(|name| {
        match (tree.written().get(&name)?, tree.in_force().get(&name)?) {
            (AgentState::Failed { reason }, _) => Some(reason.clone()),
            (_, AgentState::Failed { reason }) if is_team => Some(reason.clone()),
            (AgentState::Active(own), AgentState::Active(allowed)) if is_team => {
                let lacks = |tool: &&String| !allow::allows(&allowed.allowed_tools, tool);
                let lacking: Vec<&str> =
                    own.allowed_tools.iter().filter(lacks).map(String::as_str).collect();
                let above = own.parent.as_ref().map_or("", AgentName::as_str);
                (!lacking.is_empty()).then(|| {
                    format!(
                        "an agent has at most the tools of the one above it, and {above} lacks \
                         {}: add them to its allowed_tools, or make the team below nobody",
                        lacking.join(", ")
                    )
                })
            }
            _ => None,
        }
    })
}

fn write(folder: &Path, new: &NewFolder) -> Result<(), NewAgentError> {
    let failed = |path: &Path, source| NewAgentError::Write { path: path.to_path_buf(), source };
    // What an attempt left that was killed.
    if fs::symlink_metadata(folder).is_ok() {
        fs::remove_dir_all(folder).map_err(|source| failed(folder, source))?;
    }
    for path in ["work", "org-rules", "team-rules"].map(|name| folder.join(name)) {
        make_folder(&path).map_err(|source| failed(&path, source))?;
    }
    for (name, text) in &new.files {
        let file = folder.join(name);
        if let Some(above) = file.parent() {
            make_folder(above).map_err(|source| failed(above, source))?;
        }
        replace_file(&file, text).map_err(|source| failed(&file, source))?;
    }
    Ok(())
}

/// JSON texts and lists are valid YAML.
fn settings(new: &NewAgentArgs) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let description = new.description.as_deref().unwrap_or("An agent of this hive.");
    let mut text = format!(
        "# yaml-language-server: $schema=../../run/schema/agent.json\n\n\
         description: {}\n",
        quoted(description)
    );
    if let Some(parent) = &new.parent {
        text.push_str(&format!("parent: {}\n", quoted(parent)));
    }
    if let Some(profile) = &new.profile {
        text.push_str(&format!("profile: {}\n", quoted(profile)));
    }
    match &new.tools {
        Some(tools) => {
            let tools: Vec<String> = tools.iter().map(|tool| quoted(tool)).collect();
            text.push_str(&format!("allowed_tools: [{}]\n", tools.join(", ")));
        }
        None => text.push_str(
            "# allowed_tools: [read, write, edit, glob, grep, bash, web_fetch, use_skill]\n",
        ),
    }
    text
}
