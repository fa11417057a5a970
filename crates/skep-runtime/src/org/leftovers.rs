//! Changes of the tree that have not ended: a process before this one left them, or the disk or the
//! store refused to go on.

use std::sync::Arc;
use std::time::Duration;

use skep_store::{StoreError, ops};

use super::{making, removing};
use crate::hive::Shared;

/// Before the next try.
const PAUSE: Duration = Duration::from_secs(1);

/// Some are left.
pub(super) struct StillLeft;

/// Takes back what was half made, and goes on with what was half removed.
pub(super) async fn end(shared: &Arc<Shared>) -> Result<(), StillLeft> {
    let _changing = shared.changing.lock().await;
    making::undo_spawns(shared).await;
    removing::finish_shutdowns(shared).await;
    match count(shared).await {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(StillLeft),
    }
}

/// Nobody makes or removes an agent right now: what is open is left over.
async fn count(shared: &Shared) -> Result<usize, StoreError> {
    let spawns = shared.store.read(ops::spawns).await?;
    Ok(spawns.len() + shared.store.read(ops::shutdowns).await?.len())
}

/// Tries again until nothing is left.
pub(super) fn try_later(shared: &Arc<Shared>) {
    let hive = Arc::clone(shared);
    shared.tasks.spawn(async move {
        loop {
            tokio::select! {
                () = hive.env().stop.draining.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            if end(&hive).await.is_ok() {
                return;
            }
        }
    });
}
