//! Settings in force, and how others take their place while turns run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::audit::AuditRow;
use skep_core::event::{ConfigOutcome, EventKind};
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::guidance;
use skep_core::settings::tree::AgentTree;
use skep_core::settings::{AgentMap, AgentState, ConfigStanding, HiveSettings, Parallel};
use skep_guard::clock;
use skep_store::StoreError;
use skep_store::agents::{InstallAgents, NewAgent, RegisterAgents};
use skep_store::watch::NoteEvent;
use skep_turn::snapshot::Snapshot;

use super::{Hive, Shared, door_error};
use crate::door::DoorError;

/// Changed files that the audit trail names.
const MOST_FILES: usize = 50;

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

    /// What the files say, before the tree of agents narrows it.
    pub fn written(&self) -> HiveSettings {
        self.shared.snapshot().written()
    }

    /// The tree of agents in force.
    pub fn tree(&self) -> Arc<AgentTree> {
        Arc::clone(&self.shared.snapshot().tree)
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
        let now = shared.snapshot();
        let mut tree = (*now.tree).clone();
        let (mut settings, of) = match change {
            SettingsChange::All(all) => {
                tree = all.tree();
                (*all, None)
            }
            SettingsChange::Agents(agents) => {
                let changed = tree.set(agents);
                ((*now.settings).clone(), Some(changed.into_iter().collect::<Vec<_>>()))
            }
        };
        settings.agents = tree.in_force().clone();
        let ids = shared.register(&settings, of.as_deref()).await.map_err(door_error)?;
        let (config, settings, tree) = (Arc::new(config), Arc::new(settings), Arc::new(tree));
        let Ok(before) = env.snapshot.replace(|now| {
            let config = config.clone();
            let next = Snapshot { settings, tree, ids, config, ..now.clone() };
            Ok::<_, Infallible>(next.with_subagents(&now.settings))
        });
        let (after, settings) = (shared.snapshot(), shared.settings());
        shared.meters.know(after.toolbox.names());
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

impl Shared {
    /// Gives agents their rows: these, where not all are meant.
    async fn register(
        &self,
        settings: &HiveSettings,
        of: Option<&[AgentName]>,
    ) -> Result<AgentMap<AgentId>, StoreError> {
        let Some(names) = of else { return register_all(&self.store, settings).await };
        let mut install =
            InstallAgents { agents: Vec::new(), gone: Vec::new(), now: clock::now_ms() };
        for name in names {
            match settings.agents.get(name) {
                Some(state) => install.agents.push(new_agent(name, state)),
                None => install.gone.push(name.clone()),
            }
        }
        let mut ids = self.snapshot().ids.clone();
        install.gone.iter().for_each(|name| ids.remove(name));
        // Also where its row says the same: a removed agent's name may be a new one's.
        ids.extend(self.store.write(install).await?);
        Ok(ids)
    }
}

/// Gives every agent of the settings its row.
pub(super) async fn register_all(
    store: &skep_store::Store,
    settings: &HiveSettings,
) -> Result<AgentMap<AgentId>, StoreError> {
    let agents = settings.agents.iter().map(|(name, state)| new_agent(name, state));
    let register = RegisterAgents { agents: agents.collect(), now: clock::now_ms() };
    Ok(store.write(register).await?.into_iter().collect())
}

fn new_agent(name: &AgentName, state: &AgentState) -> NewAgent {
    let root = NewAgent::root(name.clone());
    match state {
        AgentState::Active(agent) => NewAgent {
            parent: agent.parent.clone(),
            parallel_one: agent.parallel == Parallel::One,
            ..root
        },
        AgentState::Failed { reason } => NewAgent { failed: Some(reason.clone()), ..root },
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
    let mut files = BTreeSet::new();
    if hive_changed {
        let [before, after] =
            [before, after].map(|settings| guidance::texts_of_rules(&settings.hive_rules));
        guidance::note_changed(&mut files, &before, &after);
    }
    for name in names {
        match (old.get(&name), new.get(&name)) {
            (None, Some(_)) => added.push(name),
            (Some(_), None) => removed.push(name),
            (Some(before), Some(after)) if before != after => {
                if let (AgentState::Active(before), AgentState::Active(after)) = (before, after) {
                    let (before, after) = (guidance::texts(before), guidance::texts(after));
                    guidance::note_changed(&mut files, &before, &after);
                }
                changed.push(name);
            }
            _ => {}
        }
    }
    json!({
        "agents_added": added,
        "agents_removed": removed,
        "agents_changed": changed,
        "hive_changed": hive_changed,
        "files_changed": files.into_iter().take(MOST_FILES).collect::<Vec<_>>(),
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
