//! An agent's own file as people read it, try another text of it, and change it.

use std::borrow::Cow;

use serde_json::json;

use skep_core::ids::{AgentName, Principal};
use skep_core::settings::AgentState;
use skep_turn::snapshot::Snapshot;

use super::policies::network_info;
use crate::door::{
    AgentFile, AgentLimits, DoorError, EffectiveSettings, ErrorKind, FileCheck, FileRefusal,
    FileReport, FileWish, FileWriters, SandboxInfo, check_no_secret,
};
use crate::hive::Hive;

impl Hive {
    /// The text of an agent's file, and its settings in force.
    pub async fn agent_file(&self, name: &AgentName) -> Result<AgentFile, DoorError> {
        let FileReport { path, text, hash, written, problems, .. } =
            self.reach_file(name, FileWish::Show).await?;
        let is_secret = holds_secret(&text);
        Ok(AgentFile {
            agent: name.clone(),
            path,
            text: skep_scrub::known().clean_owned(text),
            // A hash tells whether a guess of the secret is right.
            hash: (!is_secret).then_some(hash),
            written,
            problems,
            effective: self.effective(name),
        })
    }

    /// What another text of the file would come to. Nothing is changed.
    pub async fn check_agent_file(
        &self,
        name: &AgentName,
        text: String,
    ) -> Result<FileCheck, DoorError> {
        self.may_change(name, &text).await?;
        let found = self.reach_file(name, FileWish::Check(text)).await?;
        let FileReport { hash, problems, diff, .. } = found;
        Ok(FileCheck { problems, diff, hash })
    }

    /// Puts another text in place of the one with this hash: checked as every file is, committed,
    /// and in force when this returns.
    pub async fn save_agent_file(
        &self,
        name: &AgentName,
        text: String,
        before: String,
        by: &Principal,
    ) -> Result<AgentFile, DoorError> {
        self.may_change(name, &text).await?;
        let author = by.to_string();
        self.reach_file(name, FileWish::Save { text, before, author }).await?;
        self.note_change("agent_settings_written", &json!({ "agent": name }), by).await?;
        self.agent_file(name).await
    }

    /// A text with a secret is not kept; nor is a file with one replaced, because whoever changes
    /// it was shown the file without it.
    async fn may_change(&self, name: &AgentName, text: &str) -> Result<(), DoorError> {
        check_no_secret("The text", text)?;
        if skep_scrub::known().is_marked(text) {
            let why = "The text holds the mark of a secret that was taken out: change the file on \
                       the disk.";
            return Err(DoorError::new(ErrorKind::Invalid, "secret", why));
        }
        let found = self.reach_file(name, FileWish::Show).await?;
        if holds_secret(&found.text) {
            let why = format!(
                "{} holds a secret, or what looks like one: change it on the disk.",
                found.path
            );
            return Err(DoorError::new(ErrorKind::Conflict, "file_holds_secret", why));
        }
        Ok(())
    }

    async fn reach_file(&self, name: &AgentName, wish: FileWish) -> Result<FileReport, DoorError> {
        self.agent_id(name)?;
        let FileWriters { agent_file, .. } = self.writers()?;
        agent_file(name.clone(), wish).await.map_err(|refusal| match refusal {
            FileRefusal::Changed => {
                let why = "The file was changed meanwhile: read it again.".to_owned();
                DoorError::new(ErrorKind::Conflict, "settings_changed", why)
            }
            FileRefusal::Invalid(problem) => {
                DoorError::new(ErrorKind::Invalid, "invalid_settings", problem.text)
            }
            FileRefusal::Unreadable(why) => {
                DoorError::new(ErrorKind::Conflict, "settings_unreadable", why)
            }
            FileRefusal::Failed(why) => {
                DoorError::new(ErrorKind::Conflict, "settings_not_saved", why)
            }
        })
    }

    fn effective(&self, name: &AgentName) -> Option<EffectiveSettings> {
        let snapshot: &Snapshot = &self.shared.snapshot();
        let Some(AgentState::Active(agent)) = snapshot.settings.agents.get(name) else {
            return None;
        };
        let tools = snapshot.toolbox.specs(agent);
        let budgets = &agent.budgets;
        Some(EffectiveSettings {
            description: agent.description.clone(),
            parent: agent.parent.clone(),
            engine: agent.engine.clone(),
            profile: agent.profile.name.clone(),
            model: agent.profile.model.to_string(),
            think: agent.think,
            allowed_tools: agent.allowed_tools.clone(),
            tools: tools.iter().map(|tool| tool.name.clone()).collect(),
            tools_known: snapshot.toolbox.known(agent),
            max_steps: agent.max_steps,
            manager: agent.manager,
            parallel: agent.parallel,
            allowed_recipients: agent.allowed_recipients.clone(),
            queue_mode: agent.queue_mode,
            workspace: agent.workspace.display().to_string(),
            sandbox: SandboxInfo {
                level: agent.sandbox.level.as_str(),
                network: agent.sandbox.reached().as_str(),
            },
            network: network_info(
                &agent.policy.network,
                snapshot.settings.limits.requests_per_minute,
            ),
            budgets: AgentLimits {
                tokens_per_day: budgets.day.tokens,
                cost_per_day: budgets.day.cost,
                team_tokens_per_day: budgets.team.tokens,
                team_cost_per_day: budgets.team.cost,
                tokens_per_turn: budgets.turn.tokens,
                cost_per_turn: budgets.turn.cost,
                turn_seconds: budgets.turn_time.map(|time| time.as_secs()),
            },
            policy_rules: agent.policy.all_rules().count(),
        })
    }
}

fn holds_secret(text: &str) -> bool {
    matches!(skep_scrub::known().clean(text), Cow::Owned(_))
}
