//! Settings in force, and how others take their place while turns run.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::audit::AuditRow;
use skep_core::event::{ConfigOutcome, EventKind};
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::{AgentState, ConfigStanding, HiveSettings};
use skep_guard::{clock, scrub};
use skep_store::StoreError;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::watch::NoteEvent;
use skep_turn::handles::ActiveSettings;

use super::{Hive, Shared, door_error};
use crate::door::DoorError;

impl Hive {
    /// The settings in force now. Whoever needs them twice keeps the first answer.
    pub fn settings(&self) -> Arc<HiveSettings> {
        self.shared.settings()
    }

    /// How the files of the home stand to what is in force.
    pub fn config(&self) -> Arc<ConfigStanding> {
        self.shared.env().settings.active().config
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
        let (env, settings, config) = (shared.env(), Arc::new(settings), Arc::new(config));
        let active = ActiveSettings {
            settings: Arc::clone(&settings),
            ids: Arc::new(ids),
            config: Arc::clone(&config),
        };
        let before = env.settings.replace(active);
        let what = difference(&before.settings, &settings);
        // A broken one cannot be asked for its jobs either.
        let stays: HashSet<AgentId> = env.settings.active().able().collect();
        env.session_scopes.keep(|agent| stays.contains(&agent));
        let (slots, many) = (Arc::clone(&env.lanes.slots), before.settings.limits.concurrent_turns);
        shared.tasks.spawn(async move { slots.resize(many, &settings.limits).await });
        // Work of an agent that is gone ends now, and a new limit may have made room.
        env.lanes.wake();
        tell(shared, outcome, what, &config).await;
        Ok(())
    }

    /// Everything in force stays, and how the files stand to it is told: they cannot be used, or
    /// say again what is in force.
    pub async fn keep_settings(&self, config: ConfigStanding) {
        let shared = &self.shared;
        let config = self.replace_config(config);
        let outcome = match config.problems.as_slice() {
            [] => ConfigOutcome::Applied,
            _ => ConfigOutcome::Kept,
        };
        tell(shared, outcome, json!({}), &config).await;
    }

    /// Notes how the files stand without telling watchers: at the start nothing has changed.
    pub fn note_config(&self, config: ConfigStanding) {
        self.replace_config(config);
    }

    fn replace_config(&self, config: ConfigStanding) -> Arc<ConfigStanding> {
        let settings = &self.shared.env().settings;
        let config = Arc::new(config);
        settings.replace(ActiveSettings { config: Arc::clone(&config), ..settings.active() });
        config
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
