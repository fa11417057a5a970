//! How many requests may come: of each credential, and of each address without one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use skep_core::bucket::Bucket;
use skep_guard::clock;
use skep_runtime::Hive;
use skep_runtime::door::{Identity, Quota, Role};

use crate::door::lockout::whole_network;
use crate::request::{Problem, Sender};

/// Of one address without a right credential: page loads of many people behind one proxy.
pub(crate) const PER_ADDRESS: u32 = 3000;
/// Senders that are counted at the same time; beyond, the one that was quiet longest is forgotten.
const SENDERS: usize = 16_384;

// A lock and not a task: an update is a few instructions and never waits.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<Sender, Bucket>>);

impl Rates {
    pub(crate) fn stranger(&self, address: IpAddr) -> Result<(), Problem> {
        let sender = Sender::Stranger(whole_network(address));
        self.take(sender, PER_ADDRESS).map_err(|wait| too_many("anonymous", PER_ADDRESS, wait))
    }

    /// Whoever runs the hive is not counted.
    pub(crate) fn known(&self, hive: &Hive, identity: &Identity) -> Result<(), Problem> {
        let per_minute = hive.settings().limits.user_requests_per_minute;
        self.pause(hive, identity).map_or(Ok(()), |wait| Err(too_many("user", per_minute, wait)))
    }

    /// Counts one; how long until it may be, where it is one too many.
    pub(crate) fn pause(&self, hive: &Hive, identity: &Identity) -> Option<Duration> {
        if identity.role == Role::Operator {
            return None;
        }
        let per_minute = hive.settings().limits.user_requests_per_minute;
        self.take(Sender::Known(identity.principal.clone()), per_minute).err()
    }

    fn take(&self, sender: Sender, per_minute: u32) -> Result<(), Duration> {
        let now = clock::now_ms();
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= SENDERS && !buckets.contains_key(&sender) {
            buckets.retain(|_, bucket| !bucket.is_full(now));
            let quiet = buckets.iter().min_by_key(|(_, bucket)| bucket.at);
            if let Some(quiet) = quiet.map(|(sender, _)| sender.clone())
                && buckets.len() >= SENDERS
            {
                buckets.remove(&quiet);
            }
        }
        let bucket = buckets.entry(sender).or_insert_with(|| Bucket::full(per_minute, now));
        let wait = |millis: i64| Duration::from_millis(millis.unsigned_abs());
        *bucket = bucket.take(per_minute, now).map_err(wait)?;
        Ok(())
    }
}

fn too_many(name: &'static str, per_minute: u32, wait: Duration) -> Problem {
    let quota = Quota::new(name, per_minute.into(), 0);
    let detail = format!("more than {per_minute} requests in a minute; wait, then send it again");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    problem.retry_after(seconds).limited(Quota { seconds: Some(60), ..quota })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_counted_apart_and_the_table_is_bounded() {
        let rates = Rates::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for last in 0..PER_ADDRESS {
            rates.stranger(address(&format!("2001:db8::{:x}", last % 7))).unwrap();
        }
        assert_eq!(rates.stranger(address("2001:db8::ffff")).unwrap_err().code(), "rate_limited");
        // The same host in the form of the other family.
        for form in ["192.0.2.1", "::ffff:192.0.2.1"] {
            for _ in 0..PER_ADDRESS / 2 {
                rates.stranger(address(form)).unwrap();
            }
        }
        assert!(rates.stranger(address("192.0.2.1")).is_err());
        for number in 0..(SENDERS as u32 + 100) {
            rates.stranger(IpAddr::V4(number.into())).unwrap();
        }
        assert!(rates.0.lock().unwrap().len() <= SENDERS);
    }
}
