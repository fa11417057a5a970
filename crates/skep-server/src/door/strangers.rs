//! Connections that have shown no right credential. There are places for some; one more ends the
//! one that is there longest, at the address that has most. Whoever sends a head at once does not
//! meet this; whoever opens connections and says nothing loses its own.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// At most half of the places are theirs.
pub(crate) const STRANGERS: usize = 1024;

pub(crate) struct Strangers {
    most: usize,
    // A lock and not a task: an update is a few instructions and never waits.
    waiting: Mutex<WaitingStrangers>,
}

#[derive(Default)]
struct WaitingStrangers {
    next: u64,
    count: usize,
    /// In the order in which they came.
    by_address: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// The place of one; free when it is dropped.
pub(crate) struct StrangerPlace {
    strangers: Arc<Strangers>,
    address: IpAddr,
    number: u64,
}

impl Strangers {
    pub(crate) fn within(places: usize) -> Arc<Self> {
        let most = STRANGERS.min(places / 2).max(1);
        Arc::new(Self { most, waiting: Mutex::default() })
    }

    /// A place, and the word that it is needed for another.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> (StrangerPlace, CancellationToken) {
        let mut waiting = self.lock();
        if waiting.count >= self.most {
            waiting.end_one();
        }
        let number = waiting.next;
        let unwanted = CancellationToken::new();
        waiting.next += 1;
        waiting.count += 1;
        waiting.by_address.entry(address).or_default().insert(number, unwanted.clone());
        (StrangerPlace { strangers: Arc::clone(self), address, number }, unwanted)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingStrangers> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingStrangers {
    fn end_one(&mut self) {
        let most = self.by_address.iter().max_by_key(|(_, theirs)| theirs.len());
        let Some((address, oldest)) = most.and_then(|(address, theirs)| {
            let (number, unwanted) = theirs.first_key_value()?;
            unwanted.cancel();
            Some((*address, *number))
        }) else {
            return;
        };
        self.remove(address, oldest);
    }

    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(theirs) = self.by_address.get_mut(&address) else { return };
        self.count -= usize::from(theirs.remove(&number).is_some());
        if theirs.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        self.strangers.lock().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_oldest_where_most_are_goes_first() {
        let strangers = Strangers::within(8);
        let enter = |address: &str| strangers.enter(address.parse().unwrap());
        let quiet = enter("192.0.2.1");
        let mut loud: Vec<_> = (0..3).map(|_| enter("192.0.2.2")).collect();
        loud.extend((0..5).map(|_| enter("192.0.2.2")));
        let ended: Vec<bool> = loud.iter().map(|(_, unwanted)| unwanted.is_cancelled()).collect();
        assert_eq!(ended, [true, true, true, true, true, false, false, false]);
        assert!(!quiet.1.is_cancelled());
        drop((quiet, loud));
        let waiting = strangers.lock();
        assert_eq!((waiting.count, waiting.by_address.len()), (0, 0));
    }
}
