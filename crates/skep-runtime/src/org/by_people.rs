//! Agents that people make and remove: the same changes as those of agents.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use skep_core::ids::{AgentName, NEW_AGENT_NAME, Principal, is_new_agent_name};
use skep_guard::random;
use skep_store::spawn::Spawner;

use super::making::{self, SpawnFailure, SpawnOrder};
use super::removing::{self, ShutdownFailure, ShutdownOrder};
use super::update_team::keywords;
use crate::door::{
    AgentDraft, DoorError, ErrorKind, MadeTeam, TeamDraft, TemplateInfo, check_no_secret,
};
use crate::hive::Hive;

impl Hive {
    /// Makes an agent. The same request again is the same agent.
    pub async fn make_agent(
        &self,
        draft: AgentDraft,
        scope: Vec<String>,
        by: &Principal,
        request: Option<&str>,
    ) -> Result<(), DoorError> {
        if !is_new_agent_name(draft.name.as_str()) {
            let text = format!("A name has {NEW_AGENT_NAME}.");
            return Err(DoorError::new(ErrorKind::Invalid, "bad_name", text));
        }
        check_no_secret("The name", draft.name.as_str())?;
        check_no_secret("The description", &draft.description)?;
        let words = keywords(scope)
            .map_err(|why| DoorError::new(ErrorKind::Invalid, "bad_keyword", why))?;
        let order = SpawnOrder {
            op: op_of(request, by),
            spawner: Spawner::Person { parent: draft.parent.clone() },
            draft,
            words,
            credentials: Vec::new(),
            by: by.to_string(),
            cancel: CancellationToken::new(),
        };
        match making::spawn(&self.shared, order).await {
            Ok(_) => Ok(()),
            Err(SpawnFailure { code, step, why }) => {
                let kind = match (code, step) {
                    ("unknown_team", _) => ErrorKind::NotFound,
                    ("store", _) => ErrorKind::Busy,
                    (_, Some("files" | "apply")) => ErrorKind::Invalid,
                    _ => ErrorKind::Conflict,
                };
                Err(DoorError::new(kind, code, format!("The agent was not made: {why}")))
            }
        }
    }

    /// Teams that are ready to use.
    pub fn templates(&self) -> Result<&[TemplateInfo], DoorError> {
        Ok(&self.writers()?.templates.all)
    }

    /// Makes a team of a template: every agent of it, or none. Goes on to its end though the caller
    /// goes away.
    pub async fn make_team(&self, draft: TeamDraft, by: &Principal) -> Result<MadeTeam, DoorError> {
        if let Some(name) = &draft.name {
            check_no_secret("The name", name)?;
        }
        let (hive, by) = (self.clone(), by.clone());
        let task = self.shared.tasks.spawn(async move {
            let made = {
                // One change of the tree at a time.
                let _changing = hive.shared.changing.lock().await;
                making::undo_spawns(&hive.shared).await;
                (hive.writers()?.templates.make)(draft).await?
            };
            let names: Vec<&str> = made.agents.iter().map(|agent| agent.name.as_str()).collect();
            let what = json!({ "template": made.template, "agents": names });
            hive.note_change("team_made", &what, &by).await?;
            Ok(made)
        });
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))
    }

    /// Removes an agent, and with `cascade` everybody below it. Gives their names.
    pub async fn remove_agent(
        &self,
        name: &AgentName,
        cascade: bool,
        by: &Principal,
        request: Option<&str>,
    ) -> Result<Vec<String>, DoorError> {
        let (op, name, by) = (op_of(request, by), name.clone(), by.to_string());
        let order = ShutdownOrder { op, name, cascade, call: None, by };
        let removed = removing::shut_down(&self.shared, order).await;
        let removed = removed.map_err(|ShutdownFailure { code, why }| {
            let kind = match code {
                "unknown_team" => ErrorKind::NotFound,
                "store" | "unfinished" => ErrorKind::Busy,
                _ => ErrorKind::Conflict,
            };
            DoorError::new(kind, code, format!("The agent was not removed: {why}"))
        })?;
        let names = removed["removed"].as_array().cloned().unwrap_or_default();
        Ok(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

/// The id of a change that a person wants.
fn op_of(request: Option<&str>, by: &Principal) -> String {
    match request {
        Some(key) => format!("{by}/{key}"),
        None => format!("{by}/{}", random::uuid()),
    }
}
