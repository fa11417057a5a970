//! What a credential keeps open (sockets, event streams, waits) ends when it is revoked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use skep_core::ids::Principal;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Standing {
    // A lock and not a task: an update is a few instructions and never waits. The map holds one
    // entry for each principal that was ever let in, and those are rows of the token table.
    revocations: Mutex<HashMap<Principal, CancellationToken>>,
}

impl Standing {
    /// Cancelled when this principal's credential is revoked.
    pub(crate) fn revocation(&self, principal: &Principal) -> CancellationToken {
        let mut revocations = self.revocations.lock().unwrap_or_else(PoisonError::into_inner);
        revocations.entry(principal.clone()).or_default().clone()
    }

    pub(crate) fn revoke(&self, principal: &Principal) {
        let mut revocations = self.revocations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(revocation) = revocations.remove(principal) {
            revocation.cancel();
        }
    }
}
