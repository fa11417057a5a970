//! What every turn of a hive works with: handles, made once and shared.

use std::sync::Arc;

use skep_core::Millis;
use skep_core::retry::RetryPolicy;
use skep_store::Store;

use super::parked::EngineProcesses;
use super::session_cache::SessionCache;
use super::session_scope::SessionScopes;
use crate::gate::GateParts;
use crate::handles::{Bus, StopTokens};
use crate::lane::Lanes;
use crate::ledger::Ledger;
use crate::snapshot::SnapshotCell;

pub struct TurnEnv {
    pub store: Store,
    pub snapshot: Arc<SnapshotCell>,
    pub gate: GateParts,
    pub ledger: Arc<Ledger>,
    pub lanes: Lanes,
    pub processes: EngineProcesses,
    pub session_cache: SessionCache,
    pub session_scopes: SessionScopes,
    pub bus: Arc<Bus>,
    pub retry: RetryPolicy,
    pub stop: StopTokens,
    /// The wall clock.
    pub clock: fn() -> Millis,
}

impl TurnEnv {
    pub(crate) fn now(&self) -> Millis {
        (self.clock)()
    }
}
