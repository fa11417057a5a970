//! What every turn of a hive works with: handles, made once and shared.

use std::collections::HashMap;
use std::sync::Arc;

use skep_core::Millis;
use skep_core::engine::Engine;
use skep_core::retry::RetryPolicy;
use skep_core::settings::AgentSettings;
use skep_store::Store;

use super::session_cache::SessionCache;
use super::session_scope::SessionScopes;
use crate::gate::GateParts;
use crate::handles::{Bus, SettingsCell, StopTokens};
use crate::lane::Lanes;
use crate::ledger::Ledger;

pub struct TurnEnv {
    pub store: Store,
    pub settings: Arc<SettingsCell>,
    pub engines: HashMap<String, Arc<dyn Engine>>,
    pub gate: GateParts,
    pub ledger: Arc<Ledger>,
    pub lanes: Lanes,
    pub session_cache: SessionCache,
    pub session_scopes: SessionScopes,
    pub bus: Arc<Bus>,
    pub retry: RetryPolicy,
    pub stop: StopTokens,
    /// The wall clock.
    pub clock: fn() -> Millis,
}

impl TurnEnv {
    pub fn engine(&self, agent: &AgentSettings) -> Option<Arc<dyn Engine>> {
        self.engines.get(&agent.engine).cloned()
    }

    pub(crate) fn now(&self) -> Millis {
        (self.clock)()
    }
}
