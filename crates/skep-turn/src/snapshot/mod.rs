//! What is in force: settings, agents, engines, tools and hooks, replaced as a whole while turns
//! run. A turn keeps the snapshot it began with.

mod toolbox;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use skep_core::engine::Engine;
use skep_core::hook::Hook;
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::tree::AgentTree;
use skep_core::settings::{AgentMap, AgentSettings, AgentState, ConfigStanding, HiveSettings};
use skep_core::tool::Tool;

pub(crate) use toolbox::make_calls_usable;
pub use toolbox::{Toolbox, is_listed};

/// Everything that is in force at one moment. To clone it copies no settings.
#[derive(Clone)]
pub struct Snapshot {
    /// What the files of the home say, with the providers they name, and the agents as their
    /// places in the tree narrow them.
    pub settings: Arc<HiveSettings>,
    pub tree: Arc<AgentTree>,
    /// The rows of the agents in them.
    pub ids: AgentMap<AgentId>,
    pub engines: Arc<BTreeMap<String, Arc<dyn Engine>>>,
    /// What each source offers, by its name; toolbox and hooks are made of it.
    pub sources: BTreeMap<String, Offer>,
    pub toolbox: Arc<Toolbox>,
    /// Of all sources, in the order in which they look at a call.
    pub hooks: Arc<[Hook]>,
    /// How the files stand to what is in force.
    pub config: Arc<ConfigStanding>,
}

/// What a source of tools offers now: its whole list, each time.
#[derive(Clone, Default)]
pub struct Offer {
    pub tools: Vec<Arc<dyn Tool>>,
    pub hooks: Vec<Hook>,
    /// How a subagent of this name becomes a tool, where the source knows.
    pub subagents: Option<MakeSubagent>,
}

/// Makes the tool that is a subagent of this name, whichever agent has one.
pub type MakeSubagent = Arc<dyn Fn(&str) -> Arc<dyn Tool> + Send + Sync>;

impl Snapshot {
    /// Without tools and hooks; sources bring them.
    pub fn new(
        mut settings: HiveSettings,
        ids: AgentMap<AgentId>,
        engines: Vec<Arc<dyn Engine>>,
    ) -> Self {
        let engines = engines.into_iter().map(|engine| (engine.id().to_owned(), engine));
        let tree = settings.tree();
        settings.agents = tree.in_force().clone();
        Self {
            settings: Arc::new(settings),
            tree: Arc::new(tree),
            ids,
            engines: Arc::new(engines.collect()),
            sources: BTreeMap::new(),
            toolbox: Arc::default(),
            hooks: Arc::from([]),
            config: Arc::default(),
        }
    }

    /// The settings as the files say them.
    pub fn written(&self) -> HiveSettings {
        HiveSettings { agents: self.tree.written().clone(), ..(*self.settings).clone() }
    }

    /// The same with what a source offers now. `Err`: a name is taken, by which tool.
    pub fn with_offer(&self, source: &str, offer: Offer) -> Result<Self, String> {
        let mut sources = self.sources.clone();
        sources.insert(source.to_owned(), offer);
        let toolbox = toolbox_of(&sources, &self.settings)?;
        let mut hooks: Vec<Hook> =
            sources.values().flat_map(|offer| &offer.hooks).cloned().collect();
        hooks.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        Ok(Self { sources, toolbox: Arc::new(toolbox), hooks: hooks.into(), ..self.clone() })
    }

    /// The same with the tools that its settings bring, which may be others than before.
    #[must_use]
    pub fn with_subagents(self, before: &HiveSettings) -> Self {
        if subagents_of(&self.settings) == subagents_of(before) {
            return self;
        }
        match toolbox_of(&self.sources, &self.settings) {
            Ok(toolbox) => Self { toolbox: Arc::new(toolbox), ..self },
            // What the sources offer is as it was: it fits.
            Err(_) => self,
        }
    }

    /// The settings of an agent; none where the name is another agent's by now.
    pub fn agent(&self, id: AgentId, name: &AgentName) -> Result<Arc<AgentSettings>, String> {
        match self.ids.get(name) {
            Some(own) if *own == id => self.settings.agent(name),
            _ => Err("it is no longer configured".to_owned()),
        }
    }

    /// Everybody above an agent, the next one first.
    pub fn above(&self, agent: &AgentSettings) -> Vec<AgentId> {
        let mut above = Vec::new();
        let mut next = agent.parent.as_ref();
        while let Some(id) =
            next.and_then(|name| self.ids.get(name)).filter(|id| !above.contains(*id))
        {
            above.push(*id);
            next = match next.and_then(|name| self.settings.agents.get(name)) {
                Some(AgentState::Active(agent)) => agent.parent.as_ref(),
                _ => None,
            };
        }
        above
    }

    /// An agent and everybody below it.
    pub fn members(&self, agent: &AgentName) -> Vec<AgentId> {
        let team = self.tree.below(BTreeSet::from([agent.clone()]));
        team.iter().filter_map(|name| self.ids.get(name).copied()).collect()
    }

    pub fn engine(&self, agent: &AgentSettings) -> Option<Arc<dyn Engine>> {
        self.engines.get(&agent.engine).cloned()
    }
}

/// Everything that is offered, and the subagents of all agents. One whose name is taken is left
/// out.
fn toolbox_of(
    sources: &BTreeMap<String, Offer>,
    settings: &HiveSettings,
) -> Result<Toolbox, String> {
    let offered = || sources.values().flat_map(|offer| &offer.tools).cloned();
    let toolbox = Toolbox::new(offered().collect())?;
    let names = subagents_of(settings);
    let make = sources.values().find_map(|offer| offer.subagents.as_ref());
    let Some(make) = make.filter(|_| !names.is_empty()) else { return Ok(toolbox) };
    for agent in active(settings) {
        for subagent in toolbox.left_out(agent) {
            tracing::warn!("{}", subagent.left_out(&agent.name).text);
        }
    }
    let free = names.into_iter().filter(|name| toolbox.find(name).is_none());
    Toolbox::new(offered().chain(free.map(|name| make(name))).collect())
}

fn active(settings: &HiveSettings) -> impl Iterator<Item = &AgentSettings> {
    settings.agents.values().filter_map(|state| match state {
        AgentState::Active(agent) => Some(&**agent),
        AgentState::Failed { .. } => None,
    })
}

fn subagents_of(settings: &HiveSettings) -> BTreeSet<&str> {
    active(settings).flat_map(|agent| agent.subagents.iter().map(|it| it.name.as_str())).collect()
}

/// The snapshot in force. Locked to copy or to replace it, never across anything that waits.
pub struct SnapshotCell(RwLock<Arc<Snapshot>>);

impl SnapshotCell {
    pub fn new(snapshot: Snapshot) -> Self {
        Self(RwLock::new(Arc::new(snapshot)))
    }

    /// Whoever needs it twice keeps the first answer.
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts one in force that is made of the one that was, which it gives back.
    pub fn replace<E>(
        &self,
        make: impl FnOnce(&Snapshot) -> Result<Snapshot, E>,
    ) -> Result<Arc<Snapshot>, E> {
        let mut cell = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(make(&cell)?);
        Ok(std::mem::replace(&mut *cell, next))
    }
}
