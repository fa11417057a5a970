//! Who waits for the end of a message.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use skep_core::ids::ItemId;

/// Who waits for which item. Locked for single map operations by doors and the writer's notify.
#[derive(Default)]
pub struct Waiters {
    waiting: Mutex<HashMap<ItemId, Vec<oneshot::Sender<()>>>>,
}

impl Waiters {
    /// Called with the commit that ended the item.
    pub fn ended(&self, item: &ItemId) {
        let Some(waiting) = self.lock().remove(item) else { return };
        for waiter in waiting {
            let _ = waiter.send(());
        }
    }

    pub fn wait(&self, item: &ItemId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let waiters = waiting.entry(item.clone()).or_default();
        waiters.retain(|waiter| !waiter.is_closed());
        waiters.push(sender);
        receiver
    }

    /// Forgets those that went away.
    pub fn tidy(&self, item: &ItemId) {
        let mut waiting = self.lock();
        if let Some(waiters) = waiting.get_mut(item) {
            waiters.retain(|waiter| !waiter.is_closed());
            if waiters.is_empty() {
                waiting.remove(item);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ItemId, Vec<oneshot::Sender<()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
