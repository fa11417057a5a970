//! Settings in force, and how others take their place while turns run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::audit::AuditRow;
use skep_core::event::{ConfigOutcome, EventKind};
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::{AgentMap, AgentState, ConfigStanding, HiveSettings};
use skep_guard::clock;
use skep_store::StoreError;
use skep_store::agents::{NewAgent, RegisterAgent, RegisterAgents};
use skep_store::watch::NoteEvent;
use skep_turn::snapshot::Snapshot;

use super::{Hive, Shared, door_error};
use crate::door::DoorError;

/// Other settings than those in force.
pub enum SettingsChange {
    /// Everything the files say.
    All(Box<HiveSettings>),
    /// These agents alone; `None` for one that is gone.
    Agents(BTreeMap<AgentName, Option<AgentState>>),
}

impl Hive {
    /// The settings in force now. Whoever needs them twice keeps the first answer.
    pub fn settings(&self) -> Arc<HiveSettings> {
        self.shared.settings()
    }

    /// How the files of the home stand to what is in force.
    pub fn config(&self) -> Arc<ConfigStanding> {
        Arc::clone(&self.shared.snapshot().config)
    }

    /// Puts other settings in force for every turn that begins from now on; turns under way keep
    /// theirs. When it returns, they are in force. Called by one caller at a time.
    pub async fn apply(
        &self,
        change: SettingsChange,
        config: ConfigStanding,
        outcome: ConfigOutcome,
    ) -> Result<(), DoorError> {
        let (shared, env) = (&self.shared, self.shared.env());
        let ids = shared.register(&change).await.map_err(door_error)?;
        let (config, of) = (Arc::new(config), change.agents());
        let Ok(before) = env.snapshot.replace(|now| {
            let mut settings = Arc::clone(&now.settings);
            match change {
                SettingsChange::All(all) => settings = Arc::from(all),
                SettingsChange::Agents(agents) => Arc::make_mut(&mut settings).set_agents(agents),
            }
            Ok::<_, Infallible>(Snapshot { settings, ids, config: config.clone(), ..now.clone() })
        });
        let (after, settings) = (shared.snapshot(), shared.settings());
        let what = difference(&before.settings, &settings, of.clone());
        // A broken one cannot be asked for its jobs either.
        let names = of.unwrap_or_else(|| before.ids.keys().cloned().collect());
        let had = names.iter().filter_map(|name| Some((name, *before.ids.get(name)?)));
        let gone = had.filter(|(name, id)| after.agent(*id, name).is_err());
        let gone: HashSet<AgentId> = gone.map(|(_, id)| id).collect();
        env.session_scopes.keep(|agent| !gone.contains(&agent));
        shared.buckets.set_rate(settings.limits.requests_per_minute);
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
        let config = Arc::new(config);
        let Ok(_) =
            self.shared.env().snapshot.replace(|now| {
                Ok::<_, Infallible>(Snapshot { config: config.clone(), ..now.clone() })
            });
        config
    }
}

impl SettingsChange {
    /// The agents it is about; nothing where that is all of them.
    fn agents(&self) -> Option<Vec<AgentName>> {
        match self {
            Self::All(_) => None,
            Self::Agents(agents) => Some(agents.keys().cloned().collect()),
        }
    }
}

impl Shared {
    /// Gives the agents of a change their rows.
    async fn register(&self, change: &SettingsChange) -> Result<AgentMap<AgentId>, StoreError> {
        let changed = match change {
            SettingsChange::All(settings) => {
                return register_all(&self.store, settings).await;
            }
            SettingsChange::Agents(agents) => agents,
        };
        let mut ids = self.snapshot().ids.clone();
        for (name, state) in changed {
            // Also where its row says the same: a removed agent's name may be a new one's.
            let failed = state.as_ref().and_then(failed);
            let agent = NewAgent { name: name.clone(), failed };
            let (installed, now) = (state.is_some(), clock::now_ms());
            let id = self.store.write(RegisterAgent { agent, installed, now }).await?;
            match installed {
                true => ids.insert(name.clone(), id),
                false => ids.remove(name),
            }
        }
        Ok(ids)
    }
}

/// Gives every agent of the settings its row.
pub(super) async fn register_all(
    store: &skep_store::Store,
    settings: &HiveSettings,
) -> Result<AgentMap<AgentId>, StoreError> {
    let agents = settings.agents.iter();
    let agents = agents.map(|(name, state)| NewAgent { name: name.clone(), failed: failed(state) });
    let register = RegisterAgents { agents: agents.collect(), now: clock::now_ms() };
    Ok(store.write(register).await?.into_iter().collect())
}

fn failed(state: &AgentState) -> Option<String> {
    match state {
        AgentState::Active(_) => None,
        AgentState::Failed { reason } => Some(reason.clone()),
    }
}

fn told(state: ConfigOutcome, config: &ConfigStanding) -> EventKind {
    EventKind::Config {
        state,
        problems: config.problems.clone(),
        needs_restart: config.needs_restart.clone(),
    }
}

/// What changed, for the audit trail. `of`: the agents that can have changed, where not all can.
fn difference(before: &HiveSettings, after: &HiveSettings, of: Option<Vec<AgentName>>) -> Value {
    let (old, new) = (&before.agents, &after.agents);
    let hive_changed = of.is_none() && {
        let before = HiveSettings { agents: new.clone(), ..before.clone() };
        before != *after
    };
    let names: BTreeSet<AgentName> = match of {
        Some(names) => names.into_iter().collect(),
        None => old.keys().chain(new.keys()).cloned().collect(),
    };
    let (mut added, mut removed, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match (old.get(&name), new.get(&name)) {
            (None, Some(_)) => added.push(name),
            (Some(_), None) => removed.push(name),
            (before, after) if before != after => changed.push(name),
            _ => {}
        }
    }
    json!({
        "agents_added": added,
        "agents_removed": removed,
        "agents_changed": changed,
        "hive_changed": hive_changed,
    })
}

/// What is in force is in force, also where the store has no room to say so. Who wrote the files,
/// nobody knows here.
async fn tell(shared: &Shared, state: ConfigOutcome, mut what: Value, config: &ConfigStanding) {
    let problems = config.problems.iter().map(|problem| problem.text.as_str());
    what["problems"] = problems.collect();
    what["needs_restart"] = json!(config.needs_restart);
    skep_scrub::known().clean_json(&mut what);
    let (now, kind) = (clock::now_ms(), told(state, config));
    let audit = AuditRow::change(&format!("config_{}", state.as_str()), None, &what, now);
    if let Err(error) = shared.store.write(NoteEvent { kind, audit, now }).await {
        tracing::warn!(%error, "the change of the configuration could not be told");
    }
}
