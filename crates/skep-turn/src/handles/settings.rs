//! The settings in force. They are replaced as a whole while turns run.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::{AgentSettings, ConfigStanding, HiveSettings};

/// What the files say, and the rows of the agents in them: both change together.
#[derive(Clone)]
pub struct ActiveSettings {
    pub settings: Arc<HiveSettings>,
    pub ids: Arc<BTreeMap<AgentName, AgentId>>,
    /// How the files stand to what is in force.
    pub config: Arc<ConfigStanding>,
}

impl ActiveSettings {
    /// The settings of an agent; none where the name is another agent's by now.
    pub fn agent(&self, id: AgentId, name: &AgentName) -> Result<Arc<AgentSettings>, String> {
        match self.ids.get(name) {
            Some(own) if *own == id => self.settings.agent(name),
            _ => Err("it is no longer configured".to_owned()),
        }
    }

    /// The agents that can run.
    pub fn able(&self) -> impl Iterator<Item = AgentId> {
        let able = |(name, _): &(&AgentName, &AgentId)| self.settings.agent(name).is_ok();
        self.ids.iter().filter(able).map(|(_, id)| *id)
    }
}

/// Locked to copy or to replace it, never across anything that waits.
pub struct SettingsCell(RwLock<ActiveSettings>);

impl SettingsCell {
    pub fn new(active: ActiveSettings) -> Self {
        Self(RwLock::new(active))
    }

    pub fn active(&self) -> ActiveSettings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in force now. A turn takes them once and keeps them.
    pub fn current(&self) -> Arc<HiveSettings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).settings)
    }

    /// Puts others in force; gives those that were.
    pub fn replace(&self, active: ActiveSettings) -> ActiveSettings {
        let mut cell = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *cell, active)
    }
}
