//! How often each agent may still ask each host: in memory, written behind by whoever keeps rows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use skep_core::Millis;
use skep_core::bucket::Bucket;
use tokio::sync::Notify;

/// Hosts of all agents that are counted at the same time: those asked within the last minute.
const MOST: usize = 50_000;

/// A bucket as it is kept over a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBucket {
    pub owner: i64,
    pub host: String,
    pub bucket: Bucket,
}

#[derive(Debug, Default)]
pub struct HostBuckets {
    /// Locked for a look or an exchange, never while waiting.
    counted: Mutex<Counted>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Counted {
    /// Absent: nothing is counted.
    per_minute: Option<u32>,
    buckets: HashMap<(i64, String), Kept>,
}

#[derive(Debug)]
struct Kept {
    bucket: Bucket,
    /// Not told to [`HostBuckets::unwritten`] yet.
    fresh: bool,
}

/// A request that is not made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimited {
    pub per_minute: u32,
    /// Milliseconds until it may be made.
    pub wait: Millis,
}

impl HostBuckets {
    /// Requests of one agent to one host in a minute; at least one.
    pub fn set_rate(&self, per_minute: u32) {
        self.locked().per_minute = Some(per_minute.max(1));
    }

    /// Takes what was left at the last end.
    pub fn restore(&self, rows: impl IntoIterator<Item = HostBucket>) {
        let mut counted = self.locked();
        for HostBucket { owner, host, bucket } in rows.into_iter().take(MOST) {
            counted.buckets.insert((owner, host), Kept { bucket, fresh: false });
        }
    }

    /// Counts a request.
    pub fn take(&self, owner: i64, host: &str, now: Millis) -> Result<(), RateLimited> {
        let mut counted = self.locked();
        let Some(per_minute) = counted.per_minute else { return Ok(()) };
        if counted.buckets.len() >= MOST {
            counted.buckets.retain(|_, kept| kept.fresh || !kept.bucket.is_full(now));
        }
        let full = counted.buckets.len() >= MOST;
        let limited = |wait| RateLimited { per_minute, wait };
        match counted.buckets.entry((owner, host.to_owned())) {
            Entry::Occupied(mut found) => {
                let bucket = found.get().bucket.take(per_minute, now).map_err(limited)?;
                *found.get_mut() = Kept { bucket, fresh: true };
            }
            Entry::Vacant(_) if full => return Err(limited(skep_core::bucket::FILLS_IN)),
            Entry::Vacant(place) => {
                let bucket = Bucket::full(per_minute, now).take(per_minute, now);
                place.insert(Kept { bucket: bucket.map_err(limited)?, fresh: true });
            }
        }
        drop(counted);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits until something was counted that was not told yet.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What changed since it was last asked; buckets that are full again are forgotten.
    pub fn unwritten(&self, now: Millis) -> Vec<HostBucket> {
        let mut counted = self.locked();
        let mut fresh = Vec::new();
        counted.buckets.retain(|(owner, host), kept| {
            if std::mem::take(&mut kept.fresh) {
                let (owner, host, bucket) = (*owner, host.clone(), kept.bucket);
                fresh.push(HostBucket { owner, host, bucket });
            }
            !kept.bucket.is_full(now)
        });
        fresh
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn buckets_are_apart_for_each_agent_and_host_and_are_kept() {
        let buckets = HostBuckets::default();
        buckets.set_rate(2);
        for (owner, host) in [(1, "a"), (1, "a"), (1, "b"), (2, "a")] {
            buckets.take(owner, host, 1000).unwrap();
        }
        let limited = RateLimited { per_minute: 2, wait: 30_000 };
        assert_eq!(buckets.take(1, "a", 1000), Err(limited));
        let rows = buckets.unwritten(1000);
        assert_eq!(rows.len(), 3);
        assert_eq!(buckets.unwritten(1000), []);
        let next = HostBuckets::default();
        next.set_rate(2);
        next.restore(rows);
        assert_eq!(next.take(1, "a", 2000), Err(RateLimited { wait: 29_000, ..limited }));
        assert_eq!(next.take(1, "a", 31_000), Ok(()));
        assert_eq!(next.unwritten(31_000).len(), 1);
        assert_eq!(next.unwritten(200_000), []);
        assert_eq!(next.locked().buckets.len(), 0);
    }
}
