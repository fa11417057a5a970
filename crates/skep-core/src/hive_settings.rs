//! The settings of a whole hive.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::settings::tree::AgentTree;
use crate::settings::{
    AgentMap, AgentSettings, AgentState, Limits, Profile, RuleFile, ServerSettings, VendorAddress,
};
use crate::traits::provider::Providers;
use crate::vocab::budget::Caps;
use crate::vocab::ids::AgentName;

/// Everything the files of a home say, read at one moment. It is replaced as a whole, never
/// changed: a turn keeps the one it began with.
#[derive(Clone, Debug, PartialEq)]
pub struct HiveSettings {
    pub server: ServerSettings,
    pub limits: Limits,
    pub hive_rules: Vec<RuleFile>,
    pub profiles: BTreeMap<String, Arc<Profile>>,
    /// How each profile's vendor is reached, as far as people may know.
    pub reached: BTreeMap<String, VendorAddress>,
    pub providers: Providers,
    pub agents: AgentMap<AgentState>,
    /// One line for people about which model answers and why.
    pub model_note: String,
}

impl HiveSettings {
    /// The agents with what follows from their places in the tree.
    pub fn tree(&self) -> AgentTree {
        AgentTree::new(&self.hive_rules, self.agents.clone())
    }

    /// These agents as they are now; `None` for one that is gone.
    pub fn set_agents(&mut self, agents: BTreeMap<AgentName, Option<AgentState>>) {
        for (name, state) in agents {
            match state {
                Some(state) => self.agents.insert(name, state),
                None => self.agents.remove(&name),
            }
        }
    }

    /// The agent's settings, or why it cannot run.
    pub fn agent(&self, name: &AgentName) -> Result<Arc<AgentSettings>, String> {
        match self.agents.get(name) {
            Some(AgentState::Active(agent)) => Ok(Arc::clone(agent)),
            Some(AgentState::Failed { reason }) => Err(reason.clone()),
            None => Err("it is no longer configured".to_owned()),
        }
    }

    /// The limits of the teams that an agent belongs to, its own first; those that have one.
    pub fn teams_of(&self, agent: &AgentSettings) -> Vec<(AgentName, Caps)> {
        let mut teams = vec![(agent.name.clone(), agent.budgets.team)];
        let mut above = agent.parent.clone();
        while let Some(AgentState::Active(agent)) = above.and_then(|name| self.agents.get(&name)) {
            teams.push((agent.name.clone(), agent.budgets.team));
            above = agent.parent.clone();
        }
        teams.retain(|(_, caps)| !caps.is_none());
        teams
    }
}
