//! What the hive's model calls used today. Kept in memory beside the rows, so that the check
//! before each call asks nobody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skep_core::Millis;
use skep_core::engine::Allowance;
use skep_core::message::{Meta, Usage};
use skep_core::spend::{self, Spend};
use skep_guard::clock;
use skep_store::{Store, StoreError};

use crate::turn::{Heard, Turn};

/// Locked for single sums only.
pub(crate) struct Ledger(Mutex<(i64, Spend)>);

impl Ledger {
    pub async fn load(store: &Store, now: Millis) -> Result<Self, StoreError> {
        let day = spend::day_of(now);
        let read = store.read(async |conn| skep_store::spend::of_day(conn, day).await);
        Ok(Self(Mutex::new((day, read.await?))))
    }

    pub fn add(&self, usage: &Usage, now: Millis) {
        self.day(now).1.add(usage);
    }

    pub fn today(&self, now: Millis) -> Spend {
        self.day(now).1
    }

    /// The sums of the present day; a new one begins with nothing.
    fn day(&self, now: Millis) -> MutexGuard<'_, (i64, Spend)> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let day = spend::day_of(now);
        if held.0 != day {
            *held = (day, Spend::default());
        }
        held
    }
}

impl Turn {
    /// Takes what a model call used into the sums.
    pub(crate) fn count(&self, meta: &Meta, heard: &mut Heard) {
        heard.usage.add(meta.usage);
        self.shared.ledger.add(&meta.usage, clock::now_ms());
    }

    /// The limits are those that hold when a call is made, not when the turn began.
    pub(crate) fn allowance(&self) -> Allowance {
        let shared = Arc::clone(&self.shared);
        Allowance::new(move |profile| {
            let now = clock::now_ms();
            let limits = &shared.settings().limits;
            spend::check(limits, &shared.ledger.today(now), profile.price.as_ref(), now)
        })
    }
}
