//! Settings in force, and how others take their place while turns run.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use skep_core::audit::AuditRow;
use skep_core::event::{ConfigOutcome, EventKind};
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::{AgentState, ConfigStanding, HiveSettings};
use skep_guard::{clock, scrub};
use skep_store::StoreError;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::watch::NoteEvent;

use crate::door::DoorError;
use crate::hive::{Hive, Shared, door_error};

/// What the files say, and the rows of the agents in them: both change together. Locked to copy
/// or to replace it, never across anything that waits.
#[derive(Clone)]
pub(crate) struct Standing {
    pub settings: Arc<HiveSettings>,
    pub ids: Arc<BTreeMap<AgentName, AgentId>>,
    pub config: Arc<ConfigStanding>,
}

impl Hive {
    /// The settings in force now. Whoever needs them twice keeps the first answer.
    pub fn settings(&self) -> Arc<HiveSettings> {
        self.shared.settings()
    }

    /// How the files of the home stand to what is in force.
    pub fn config(&self) -> Arc<ConfigStanding> {
        self.shared.standing().config
    }

    /// Puts other settings in force for every turn that begins from now on; turns under way keep
    /// theirs. Called by one task only.
    pub async fn reconfigure(
        &self,
        settings: HiveSettings,
        config: ConfigStanding,
        outcome: ConfigOutcome,
    ) -> Result<(), DoorError> {
        let shared = &self.shared;
        let ids = register(&shared.store, &settings).await.map_err(door_error)?;
        let standing =
            Standing { settings: Arc::new(settings), ids: Arc::new(ids), config: Arc::new(config) };
        let config = Arc::clone(&standing.config);
        let agents = Arc::clone(&standing.settings);
        let before = shared.replace(standing);
        let what = difference(&before.settings, &agents);
        // A broken one cannot be asked for its jobs either.
        shared.session_scopes.keep(|agent| agents.agent(agent).is_ok());
        let slots = before.settings.limits.concurrent_turns;
        let resized = Arc::clone(shared);
        shared.tasks.spawn(async move { resized.slots.resize(slots, &agents.limits).await });
        // Work of an agent that is gone ends now, and a new limit may have made room.
        shared.wake.notify_one();
        tell(shared, outcome, what, &config).await;
        Ok(())
    }

    /// Everything in force stays, and how the files stand to it is told: they cannot be used, or
    /// say again what is in force.
    pub async fn keep_settings(&self, config: ConfigStanding) {
        let shared = &self.shared;
        let mut standing = shared.standing();
        standing.config = Arc::new(config);
        let outcome = match standing.config.problems.as_slice() {
            [] => ConfigOutcome::Applied,
            _ => ConfigOutcome::Kept,
        };
        let config = Arc::clone(&standing.config);
        shared.replace(standing);
        tell(shared, outcome, json!({}), &config).await;
    }

    /// Notes how the files stand without telling watchers: at the start nothing has changed.
    pub fn note_config(&self, config: ConfigStanding) {
        let mut standing = self.shared.standing();
        standing.config = Arc::new(config);
        self.shared.replace(standing);
    }
}

impl Shared {
    pub fn standing(&self) -> Standing {
        self.standing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in force now. A turn takes them once and keeps them.
    pub fn settings(&self) -> Arc<HiveSettings> {
        self.standing().settings
    }

    fn replace(&self, standing: Standing) -> Standing {
        let mut held = self.standing.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, standing)
    }
}

/// Gives every agent of the settings its row.
pub(crate) async fn register(
    store: &skep_store::Store,
    settings: &HiveSettings,
) -> Result<BTreeMap<AgentName, AgentId>, StoreError> {
    let agents = settings.agents.iter().map(|(name, state)| NewAgent {
        name: name.clone(),
        failed: match state {
            AgentState::Active(_) => None,
            AgentState::Failed { reason } => Some(reason.clone()),
        },
    });
    let register = RegisterAgents { agents: agents.collect(), now: clock::now_ms() };
    Ok(store.write(register).await?.into_iter().collect())
}

fn told(state: ConfigOutcome, config: &ConfigStanding) -> EventKind {
    EventKind::Config {
        state,
        problems: config.problems.clone(),
        needs_restart: config.needs_restart.clone(),
    }
}

/// What changed, for the audit trail.
fn difference(before: &HiveSettings, after: &HiveSettings) -> Value {
    let (old, new) = (&before.agents, &after.agents);
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let changed = new.iter().filter(|(name, state)| old.get(*name).is_some_and(|it| it != *state));
    let mut hive = before.clone();
    hive.agents = new.clone();
    json!({
        "agents_added": added.collect::<Vec<_>>(),
        "agents_removed": removed.collect::<Vec<_>>(),
        "agents_changed": changed.map(|(name, _)| name).collect::<Vec<_>>(),
        "hive_changed": hive != *after,
    })
}

/// What is in force is in force, also where the store has no room to say so. Who wrote the files,
/// nobody knows here.
async fn tell(shared: &Shared, state: ConfigOutcome, mut what: Value, config: &ConfigStanding) {
    let problems = config.problems.iter().map(|problem| problem.text.as_str());
    what["problems"] = problems.collect();
    what["needs_restart"] = json!(config.needs_restart);
    scrub::known().clean_json(&mut what);
    let (now, kind) = (clock::now_ms(), told(state, config));
    let audit = AuditRow::change(&format!("config_{}", state.as_str()), None, &what, now);
    if let Err(error) = shared.store.write(NoteEvent { kind, audit, now }).await {
        tracing::warn!(%error, "the change of the configuration could not be told");
    }
}
