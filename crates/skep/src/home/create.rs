//! What a first start puts into a home. A later start changes nothing.

use std::borrow::Cow;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use skep_cli::hive::Home;
use skep_core::settings::AgentState;
use skep_guard::disk::{replace_file, sync_directory};

use super::load::LoadedHome;
use super::schema;

/// Replaces the commented line of the limits.
const LIMITED: &str = "limits:\n  # Dollars that model calls may cost in a day (UTC). Calls of \
                       unknown price may use\n  # 2000000 tokens beside, or tokens_per_day where \
                       that is written.\n  cost_per_day: 10\n";

/// A home that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot prepare the home {}: {}: {source}", home.display(), path.display())]
pub struct HomeError {
    pub home: PathBuf,
    pub path: PathBuf,
    pub source: io::Error,
}

/// The folders that the instance lock and the log need.
pub fn folders(home: &Home) -> Result<(), HomeError> {
    let make = |path: PathBuf| make_folder(&path).map_err(|source| error(home, path, source));
    make(home.root().to_path_buf())?;
    make(home.run())?;
    make(home.logs())
}

/// Fills what is missing, and returns the files it made: none after the first start. The caller
/// holds the instance lock. Where a model costs money, a new home gets a limit for it.
pub fn files(home: &Home, costs: bool) -> Result<Vec<PathBuf>, HomeError> {
    let fail = |path: &Path, source| error(home, path.to_path_buf(), source);
    make_folder(&home.schema()).map_err(|source| fail(&home.schema(), source))?;
    publish_schemas(home).map_err(|source| fail(&home.schema(), source))?;
    // The database is created last: without it the first start was not completed.
    if home.database().exists() {
        return Ok(Vec::new());
    }
    let mut created = Vec::new();
    let main = home.agent("main");
    for folder in
        [home.rules(), home.teams(), main.clone(), main.join("org-rules"), main.join("team-rules")]
    {
        make_folder(&folder).map_err(|source| fail(&folder, source))?;
    }
    for (path, text) in generated(home, costs) {
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        if let Some(folder) = path.parent() {
            make_folder(folder).map_err(|source| fail(folder, source))?;
        }
        replace_file(&path, &text).map_err(|source| fail(&path, source))?;
        created.push(path);
    }
    Ok(created)
}

/// Writes the schemas that are missing or belong to another version.
fn publish_schemas(home: &Home) -> io::Result<()> {
    for (name, schema) in schema::all() {
        let mut text = serde_json::to_string_pretty(&schema).map_err(io::Error::other)?;
        text.push('\n');
        let path = home.schema().join(name);
        let same = std::fs::read(&path).is_ok_and(|found| found == text.as_bytes());
        if !same {
            replace_file(&path, &text)?;
        }
    }
    Ok(())
}

/// The workspaces that belong to the home; others are the operator's.
pub fn workspaces(home: &Home, loaded: &LoadedHome) -> Result<(), HomeError> {
    loaded.settings.agents.values().try_for_each(|state| workspace(home, state))
}

/// The workspace of one agent, where it belongs to the home.
pub fn workspace(home: &Home, state: &AgentState) -> Result<(), HomeError> {
    match state {
        AgentState::Active(agent) if agent.workspace.starts_with(&agent.folder) => {
            let path = agent.workspace.clone();
            make_folder(&path).map_err(|source| error(home, path, source))
        }
        AgentState::Active(_) | AgentState::Failed { .. } => Ok(()),
    }
}

/// As a new home has it whose model costs money, where nobody has changed the file since.
pub(super) fn with_limit(hive: &str) -> String {
    match hive == include_str!("generated/skep.yaml") {
        true => hive.replacen("# limits:\n", LIMITED, 1),
        false => hive.to_owned(),
    }
}

fn generated(home: &Home, costs: bool) -> [(PathBuf, Cow<'static, str>); 5] {
    let main = home.agent("main");
    let hive = include_str!("generated/skep.yaml");
    let hive = match costs {
        true => Cow::Owned(with_limit(hive)),
        false => Cow::Borrowed(hive),
    };
    [
        (home.skep_yaml(), hive),
        (home.providers_yaml(), include_str!("generated/providers.yaml").into()),
        (home.channels_yaml(), include_str!("generated/channels.yaml").into()),
        (main.join("work").join("welcome.md"), include_str!("generated/welcome.md").into()),
        (main.join("config.yaml"), include_str!("generated/agent.yaml").into()),
    ]
}

/// Creates a private folder and its missing parents; syncs every new entry.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    if let Some(above) = path.parent().filter(|above| !above.exists()) {
        fs::create_dir_all(above)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for folder in missing {
        sync_directory(folder)?;
        if let Some(above) = folder.parent() {
            sync_directory(above)?;
        }
    }
    Ok(())
}

fn error(home: &Home, path: PathBuf, source: io::Error) -> HomeError {
    HomeError { home: home.root().to_path_buf(), path, source }
}
