//! What a first start puts into a home. A later start changes nothing.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use skep_cli::hive::Home;
use skep_core::settings::AgentState;
use skep_guard::disk;

use super::load::Loaded;
use super::schema;

/// Stands for the line that opens the limits.
const LIMITED: &str = "limits:\n  # Dollars that model calls may cost in a day (UTC). Calls of \
                       unknown price may use\n  # 2000000 tokens beside, or tokens_per_day where \
                       that is written.\n  cost_per_day: 10\n";

/// What a start found and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The home had no database: this is its first start.
    pub fresh: bool,
    pub files: Vec<PathBuf>,
}

/// A home that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot prepare the home {}: {}: {source}", home.display(), path.display())]
pub struct HomeError {
    pub home: PathBuf,
    pub path: PathBuf,
    pub source: io::Error,
}

/// The folders that have to be there before the instance lock can be taken and a log written.
pub fn folders(home: &Home) -> Result<(), HomeError> {
    let make = |path: PathBuf| make_folder(&path).map_err(|source| error(home, path, source));
    make(home.root().to_path_buf())?;
    make(home.run())?;
    make(home.logs())
}

/// Fills what is missing. The caller holds the instance lock. Where a model costs money, a new
/// home gets a limit for it.
pub fn files(home: &Home, costs: bool) -> Result<Created, HomeError> {
    let fail = |path: &Path, source| error(home, path.to_path_buf(), source);
    make_folder(&home.schema()).map_err(|source| fail(&home.schema(), source))?;
    schema::publish(home).map_err(|source| fail(&home.schema(), source))?;
    // The database comes last in a first start: without it whatever is missing is filled again.
    let fresh = !home.database().exists();
    let mut created = Created { fresh, files: Vec::new() };
    if !fresh {
        return Ok(created);
    }
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
        write_file(&path, &text).map_err(|source| fail(&path, source))?;
        created.files.push(path);
    }
    Ok(created)
}

/// The workspaces that belong to the home; others are the operator's.
pub fn workspaces(home: &Home, loaded: &Loaded) -> Result<(), HomeError> {
    for (name, state) in &loaded.settings.agents {
        let AgentState::Active(agent) = state else {
            continue;
        };
        if agent.workspace.starts_with(home.agent(name.as_str())) {
            let path = agent.workspace.clone();
            make_folder(&path).map_err(|source| error(home, path, source))?;
        }
    }
    Ok(())
}

fn generated(home: &Home, costs: bool) -> [(PathBuf, Cow<'static, str>); 5] {
    let main = home.agent("main");
    let hive = include_str!("generated/skep.yaml");
    let hive = match costs {
        true => Cow::Owned(hive.replacen("# limits:\n", LIMITED, 1)),
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

/// Makes a folder for the owner alone, and what is missing above it; syncs every new name.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    if let Some(above) = path.parent().filter(|above| !above.exists()) {
        fs::create_dir_all(above)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for folder in missing {
        disk::sync_directory(folder)?;
        if let Some(above) = folder.parent() {
            disk::sync_directory(above)?;
        }
    }
    Ok(())
}

/// Writes a file whole or not at all, also when the power fails in between.
pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.new"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), disk::sync_directory)
}

fn error(home: &Home, path: PathBuf, source: io::Error) -> HomeError {
    HomeError { home: home.root().to_path_buf(), path, source }
}
