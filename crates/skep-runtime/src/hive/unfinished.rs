//! Agents that are being made or removed: until that is done, no door knows them and no file of
//! theirs counts.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skep_core::ids::AgentName;
use skep_store::{Store, StoreError, ops, shutdown};

/// Locked for a look or a change: doors, the watcher of the files and a spawn ask side by side.
pub(crate) struct UnfinishedAgents(Mutex<BTreeSet<AgentName>>);

impl UnfinishedAgents {
    /// Those that a process before this one left.
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let mut names = store.read(shutdown::closing_names).await?;
        names.extend(store.read(ops::spawns).await?.into_iter().map(|op| op.name));
        Ok(Self(Mutex::new(names.into_iter().collect())))
    }

    pub fn names(&self) -> BTreeSet<AgentName> {
        self.lock().clone()
    }

    pub fn contains(&self, name: &AgentName) -> bool {
        self.lock().contains(name)
    }

    pub fn add(&self, name: &AgentName) {
        self.lock().insert(name.clone());
    }

    pub fn remove(&self, name: &AgentName) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<AgentName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
