//! An agent's `config.yaml` for people at the dashboard: shown, checked with another text, and
//! replaced. A replaced file is a change of settings like any other: read as the hive reads it,
//! committed first, in force at once.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_core::settings::ConfigProblem;
use skep_runtime::{FileRefusal, FileReport, FileWish, ReachFile};
use skep_tools::unified_diff;
use tokio::task::block_in_place;

use crate::apply::Applier;
use crate::home::agent_written_keys;
use crate::settings_writer::{NotWritten, SettingsText, SettingsWriter};

/// The most of it that the history of settings keeps.
const LARGEST: usize = 256 << 10;

struct FileKeeper {
    home: Home,
    settings: Arc<SettingsWriter>,
    applier: Arc<Applier>,
}

/// The function that the hive calls.
pub fn keeper(home: &Home, settings: Arc<SettingsWriter>, applier: Arc<Applier>) -> ReachFile {
    let keeper = Arc::new(FileKeeper { home: home.clone(), settings, applier });
    Arc::new(move |agent, wish| {
        let keeper = Arc::clone(&keeper);
        Box::pin(async move {
            match wish {
                FileWish::Show => keeper.show(&agent).await,
                FileWish::Check(text) => keeper.check(&agent, &text).await,
                FileWish::Save { text, before, author } => {
                    keeper.save(&agent, &text, &before, &author).await
                }
            }
        })
    })
}

impl FileKeeper {
    async fn show(&self, agent: &AgentName) -> Result<FileReport, FileRefusal> {
        let text = self.read(agent)?;
        let problems = self.problems(agent, &text).await;
        Ok(self.found(agent, text, problems, String::new()))
    }

    async fn check(&self, agent: &AgentName, text: &str) -> Result<FileReport, FileRefusal> {
        let before = self.read(agent)?;
        let problems = self.problems(agent, text).await;
        let path = self.path(agent);
        let compare = || unified_diff(&path, before.as_bytes(), text.as_bytes());
        let diff = match before == text {
            true => String::new(),
            false => block_in_place(compare).unwrap_or_default(),
        };
        Ok(self.found(agent, before, problems, diff))
    }

    async fn save(
        &self,
        agent: &AgentName,
        text: &str,
        before: &str,
        author: &str,
    ) -> Result<FileReport, FileRefusal> {
        let found = self.read(agent)?;
        if hash(&found) != before {
            return Err(FileRefusal::Changed);
        }
        if let Some(problem) = self.problems(agent, text).await.into_iter().next() {
            return Err(FileRefusal::Invalid(problem));
        }
        if found != text {
            let message = "settings changed on the dashboard";
            let text = SettingsText { before: &found, after: text, author, message };
            self.settings.write(agent, &text).await.map_err(|error| match error {
                NotWritten::Changed => FileRefusal::Changed,
                NotWritten::Failed(why) => FileRefusal::Failed(why),
            })?;
        }
        // Also where the file says this already and was not in force.
        self.applier
            .apply_agent(agent)
            .await
            .map_err(|error| FileRefusal::Failed(format!("saved, but not in force: {error}")))?;
        self.show(agent).await
    }

    /// What is wrong with the text as the agent's file.
    async fn problems(&self, agent: &AgentName, text: &str) -> Vec<ConfigProblem> {
        if text.len() > LARGEST {
            let why = format!("is too large; expected at most {} KiB", LARGEST / 1024);
            let file = self.path(agent);
            return vec![ConfigProblem { text: format!("{file}: {why}"), file, line: None }];
        }
        let found = self.applier.check_text(agent, text).await.err();
        found.map(|problem| self.below_home(problem)).into_iter().collect()
    }

    /// As it is named on the dashboard: people there need not know where the home is.
    fn below_home(&self, problem: ConfigProblem) -> ConfigProblem {
        let home = format!("{}/", self.home.root().display());
        let ConfigProblem { file, line, text } = problem;
        ConfigProblem { file: file.replacen(&home, "", 1), line, text: text.replace(&home, "") }
    }

    fn found(
        &self,
        agent: &AgentName,
        text: String,
        problems: Vec<ConfigProblem>,
        diff: String,
    ) -> FileReport {
        let (path, hash) = (self.path(agent), hash(&text));
        let written = agent_written_keys(&text);
        FileReport { path, text, hash, written, problems, diff }
    }

    fn read(&self, agent: &AgentName) -> Result<String, FileRefusal> {
        self.settings.read(agent).map_err(FileRefusal::Unreadable)
    }

    fn path(&self, agent: &AgentName) -> String {
        format!("teams/{agent}/config.yaml")
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
