//! The layout of a home folder.

use std::path::{Path, PathBuf};

use skep_guard::environment;

use crate::print::time;

/// A home folder. Holding one says nothing about whether it exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// `--home`, else `$SKEP_HOME`, else `~/.skep`. Made absolute, so that messages and a
    /// re-executed process mean the same folder.
    pub fn locate(flag: Option<&Path>) -> Result<Self, LocateError> {
        let root = match (flag, environment::var("SKEP_HOME"), environment::var("HOME")) {
            (Some(flag), _, _) => flag.to_path_buf(),
            (None, Some(named), _) => PathBuf::from(named),
            (None, None, Some(user)) => Path::new(&user).join(".skep"),
            (None, None, None) => return Err(LocateError::Unknown),
        };
        let root = std::path::absolute(&root)
            .map_err(|source| LocateError::NotAbsolute { root, source })?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn skep_yaml(&self) -> PathBuf {
        self.root.join("skep.yaml")
    }

    pub fn providers_yaml(&self) -> PathBuf {
        self.root.join("providers.yaml")
    }

    /// Keys that were given in the browser.
    pub fn keys_env(&self) -> PathBuf {
        self.root.join("keys.env")
    }

    pub fn channels_yaml(&self) -> PathBuf {
        self.root.join("channels.yaml")
    }

    pub fn rules(&self) -> PathBuf {
        self.root.join("rules")
    }

    pub fn teams(&self) -> PathBuf {
        self.root.join("teams")
    }

    /// The folder of one agent.
    pub fn agent(&self, name: &str) -> PathBuf {
        self.teams().join(name)
    }

    /// The hive's own files; never edited by hand.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    pub fn database(&self) -> PathBuf {
        self.run().join("skep.db")
    }

    /// Where the files of a damaged store are copied; the name has the time.
    pub fn damaged(&self, now: i64) -> PathBuf {
        let moment = time::stamp_utc(now).replace(' ', "T").replace(':', "");
        self.run().join(format!("damaged-{moment}"))
    }

    /// A bare git repository with the history of the agents' settings, one branch per agent.
    pub fn settings_history(&self) -> PathBuf {
        self.run().join("config.git")
    }

    pub fn lock(&self) -> PathBuf {
        self.run().join("lock")
    }

    pub fn schema(&self) -> PathBuf {
        self.run().join("schema")
    }

    pub fn logs(&self) -> PathBuf {
        self.run().join("logs")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error("neither --home nor SKEP_HOME nor HOME says where the home folder is")]
    Unknown,
    #[error("cannot tell where {} is: {source}", root.display())]
    NotAbsolute { root: PathBuf, source: std::io::Error },
}
