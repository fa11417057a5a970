//! Creates a new agent's folder, complete and valid, or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_cli::commands::agent::NewAgentArgs;
use skep_cli::hive::Home;
use skep_core::ids::{AgentName, RESERVED_NAMES, is_new_agent_name};
use skep_core::settings::AgentState;
use skep_guard::disk::replace_file;

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
    #[error("the agent {name} is there already: {}", folder.display())]
    Taken { name: String, folder: PathBuf },
    #[error("there is no home in {}", .0.display())]
    NoHome(PathBuf),
    #[error("{0}")]
    Wrong(String),
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Creates the folder under a temporary name, renames it, and loads it as the hive does; an invalid
/// folder is removed again.
pub fn create(
    home: &Home,
    new: &NewAgentArgs,
    known: &KnownNames,
    variables: Variables,
) -> Result<PathBuf, NewAgentError> {
    if !is_new_agent_name(&new.name) {
        return Err(NewAgentError::Name(new.name.clone()));
    }
    if !home.teams().is_dir() {
        return Err(NewAgentError::NoHome(home.root().to_path_buf()));
    }
    let folder = home.agent(&new.name);
    let taken = || NewAgentError::Taken { name: new.name.clone(), folder: folder.clone() };
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(taken());
    }
    let unfinished = home.agent(&format!(".{}.new", new.name));
    let written = write(&unfinished, new);
    let moved = written.and_then(|()| match fs::rename(&unfinished, &folder) {
        // Somebody else created it first; theirs stays.
        Err(_) if folder.exists() => Err(taken()),
        Err(source) => Err(NewAgentError::Write { path: folder.clone(), source }),
        Ok(()) => Ok(()),
    });
    if let Err(error) = moved {
        // Nothing reads the temporary folder; the next attempt overwrites it.
        let _ = fs::remove_dir_all(&unfinished);
        return Err(error);
    }
    match refusal(home, new, known, variables) {
        None => Ok(folder),
        Some(why) => {
            fs::remove_dir_all(&folder)
                .map_err(|source| NewAgentError::Write { path: folder, source })?;
            Err(NewAgentError::Wrong(why))
        }
    }
}

/// Why the hive would refuse the agent.
fn refusal(
    home: &Home,
    new: &NewAgentArgs,
    known: &KnownNames,
    variables: Variables,
) -> Option<String> {
    match load(home, known, variables) {
        Err(error) => Some(format!("the configuration of the hive is broken:\n{error}")),
        Ok(loaded) => match loaded.settings.agents.get(&AgentName::new(new.name.clone())) {
            Some(AgentState::Failed { reason }) => Some(reason.clone()),
            _ => None,
        },
    }
}

fn write(folder: &Path, new: &NewAgentArgs) -> Result<(), NewAgentError> {
    let failed = |path: &Path, source| NewAgentError::Write { path: path.to_path_buf(), source };
    for path in ["work", "org-rules", "team-rules"].map(|name| folder.join(name)) {
        make_folder(&path).map_err(|source| failed(&path, source))?;
    }
    let file = folder.join("config.yaml");
    replace_file(&file, &settings(new)).map_err(|source| failed(&file, source))
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
        None => {
            text.push_str("# allowed_tools: [read, write, edit, glob, grep, bash, web_fetch]\n")
        }
    }
    text
}
