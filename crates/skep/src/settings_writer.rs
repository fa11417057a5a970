//! Replaces an agent's `config.yaml` for people and for the agent above it: committed first, and
//! only where the file still says what whoever changes it has read.

use std::path::PathBuf;
use std::sync::Arc;

use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_guard::disk::replace_file;
use skep_tools::Governance;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::home::{FILE_BYTES, SourceText};

pub struct SettingsWriter {
    home: Home,
    governance: Arc<Governance>,
    /// One change at a time: the second one finds the text of the first.
    changing: Mutex<()>,
}

/// Another text, and who wants it why.
pub struct SettingsText<'a> {
    /// What the file says as far as the author knows.
    pub before: &'a str,
    pub after: &'a str,
    pub author: &'a str,
    pub message: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("config.yaml was changed at the same time; try again")]
    Changed,
    #[error("{0}")]
    Failed(String),
}

impl SettingsWriter {
    pub fn new(home: &Home, governance: Arc<Governance>) -> Arc<Self> {
        Arc::new(Self { home: home.clone(), governance, changing: Mutex::default() })
    }

    /// What the file says now: a regular file of bounded size, as the hive reads it.
    pub fn read(&self, agent: &AgentName) -> Result<String, String> {
        let file = self.file(agent);
        let failed = |why: &str| format!("teams/{agent}/config.yaml: {why}");
        let read = block_in_place(|| SourceText::read(&file, FILE_BYTES));
        let found = read.map_err(|mistake| failed(&mistake.what))?;
        found.map(|source| source.text).ok_or_else(|| failed("is missing"))
    }

    pub async fn write(
        &self,
        agent: &AgentName,
        text: &SettingsText<'_>,
    ) -> Result<(), NotWritten> {
        let _changing = self.changing.lock().await;
        self.check_unchanged(agent, text.before)?;
        let folder = self.home.agent(agent.as_str());
        let changed = ("config.yaml", text.after.as_bytes());
        let SettingsText { author, message, .. } = text;
        let commit =
            self.governance.commit_by_person(agent.as_str(), author, &folder, changed, message);
        commit.await.map_err(NotWritten::Failed)?;
        // Somebody may have saved the file by hand meanwhile.
        self.check_unchanged(agent, text.before)?;
        let file = self.file(agent);
        block_in_place(|| replace_file(&file, text.after))
            .map_err(|error| NotWritten::Failed(format!("teams/{agent}/config.yaml: {error}")))
    }

    fn check_unchanged(&self, agent: &AgentName, before: &str) -> Result<(), NotWritten> {
        match self.read(agent).map_err(NotWritten::Failed)? == before {
            true => Ok(()),
            false => Err(NotWritten::Changed),
        }
    }

    fn file(&self, agent: &AgentName) -> PathBuf {
        self.home.agent(agent.as_str()).join("config.yaml")
    }
}
