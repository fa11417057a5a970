//! Wrong credentials are answered later and later. Only failing answers wait: a right credential
//! passes at once, whatever others at the same address tried.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use skep_runtime::door::Quota;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::request::Problem;

/// A typing mistake or two costs nothing.
pub(crate) const FREE_FAILURES: u32 = 3;
pub(crate) const FIRST_DELAY: Duration = Duration::from_millis(250);
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// Silence after which an address starts afresh.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
const ADDRESSES: usize = 4096;
/// Answers held back at a time; further ones go out at once as `rate_limited`, so that waiting
/// ones cannot be used to fill the connections.
pub(crate) const WAITING_ANSWERS: usize = 256;
/// Of them for one address.
pub(crate) const WAITING_OF_ADDRESS: u32 = 8;

pub(crate) struct Lockout {
    // A lock and not a task: an update is a few instructions and never waits.
    failures: Mutex<Failures>,
    waiting: Semaphore,
}

impl Lockout {
    pub(crate) fn new() -> Self {
        Self { failures: Mutex::default(), waiting: Semaphore::new(WAITING_ANSWERS) }
    }

    /// Counts a failure and returns when its answer may go out, with the limit it counts for. Where
    /// too many wait already, another answer goes out at once.
    pub(crate) async fn hold_back(
        &self,
        address: IpAddr,
        closing: &CancellationToken,
    ) -> Result<Quota, Problem> {
        let count = self.lock().count(address, Instant::now());
        let left = u64::from(FREE_FAILURES.saturating_sub(count));
        let quota = Quota::new("wrong-credentials", FREE_FAILURES.into(), left);
        let quota = Quota { seconds: Some(FORGET_AFTER.as_secs()), ..quota };
        let delay = delay_of(count);
        if delay.is_zero() {
            return Ok(quota);
        }
        let place = self.waiting.try_acquire();
        let (Ok(_place), true) = (place, self.lock().begin_wait(address)) else {
            let detail = "too many wrong credentials came from your address; wait, then try again";
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
            let seconds = u32::try_from(delay.as_secs()).unwrap_or(u32::MAX).max(1);
            return Err(problem.retry_after(seconds).limited(quota));
        };
        let _wait = Wait { lockout: self, address };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = closing.cancelled() => {}
        }
        Ok(quota)
    }

    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One answer that waits; its connection may go first.
struct Wait<'a> {
    lockout: &'a Lockout,
    address: IpAddr,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.lockout.lock().end_wait(self.address);
    }
}

#[derive(Default)]
struct Failures {
    by_address: HashMap<IpAddr, Record>,
}

struct Record {
    count: u32,
    last: Instant,
    waiting: u32,
}

impl Failures {
    /// How many failures there are with this one.
    fn count(&mut self, address: IpAddr, now: Instant) -> u32 {
        let address = whole_network(address);
        if !self.by_address.contains_key(&address) && self.by_address.len() >= ADDRESSES {
            self.make_room(now);
        }
        let record =
            self.by_address.entry(address).or_insert(Record { count: 0, last: now, waiting: 0 });
        if now.duration_since(record.last) >= FORGET_AFTER {
            record.count = 0;
        }
        record.count = record.count.saturating_add(1);
        record.last = now;
        record.count
    }

    /// Whether one more answer may wait.
    fn begin_wait(&mut self, address: IpAddr) -> bool {
        let record = self.by_address.get_mut(&whole_network(address));
        record.is_some_and(|record| {
            let fits = record.waiting < WAITING_OF_ADDRESS;
            record.waiting += u32::from(fits);
            fits
        })
    }

    fn end_wait(&mut self, address: IpAddr) {
        if let Some(record) = self.by_address.get_mut(&whole_network(address)) {
            record.waiting = record.waiting.saturating_sub(1);
        }
    }

    fn make_room(&mut self, now: Instant) {
        self.by_address.retain(|_, record| now.duration_since(record.last) < FORGET_AFTER);
        if self.by_address.len() < ADDRESSES {
            return;
        }
        let oldest = self.by_address.iter().min_by_key(|(_, record)| record.last);
        if let Some(oldest) = oldest.map(|(address, _)| *address) {
            self.by_address.remove(&oldest);
        }
    }
}

fn delay_of(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(1 << doublings.min(16)).min(LONGEST_DELAY),
    }
}

/// One host of IPv6 has a whole /64 to choose addresses from.
pub(crate) fn whole_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn delays_grow_and_are_bounded() {
        let millis: Vec<_> = (1..=12).map(|count| delay_of(count).as_millis()).collect();
        let expected = [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000];
        assert_eq!(millis, expected);
        assert_eq!(delay_of(u32::MAX), LONGEST_DELAY);
    }

    #[test]
    fn addresses_are_counted_apart_and_forgotten() {
        let mut failures = Failures::default();
        let now = Instant::now();
        let (one, two) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..3 {
            assert_eq!(delay_of(failures.count(one, now)), Duration::ZERO);
        }
        assert_eq!(delay_of(failures.count(one, now)), FIRST_DELAY);
        assert_eq!(delay_of(failures.count(two, now)), Duration::ZERO);
        assert_eq!(delay_of(failures.count(one, now + FORGET_AFTER)), Duration::ZERO);
    }

    #[test]
    fn neighbours_in_one_network_count_together() {
        let mut failures = Failures::default();
        let now = Instant::now();
        for last in 1..=3 {
            failures.count(format!("2001:db8::{last}").parse().unwrap(), now);
        }
        assert_eq!(delay_of(failures.count("2001:db8::99".parse().unwrap(), now)), FIRST_DELAY);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut failures = Failures::default();
        let now = Instant::now();
        for number in 0..(ADDRESSES as u32 + 100) {
            failures.count(IpAddr::V4(number.into()), now);
        }
        assert_eq!(failures.by_address.len(), ADDRESSES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_answer_waits_and_a_stop_releases_it() {
        let lockout = Lockout::new();
        let closing = CancellationToken::new();
        let address = "192.0.2.1".parse().unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            lockout.hold_back(address, &closing).await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::from_millis(750));
        let many = (0..20).map(|_| lockout.hold_back(address, &closing));
        let many = tokio::time::timeout(FIRST_DELAY, futures_util::future::join_all(many)).await;
        assert!(many.is_err(), "some wait");
        let one = lockout.hold_back("192.0.2.2".parse().unwrap(), &closing).await;
        assert_eq!(one.unwrap().left, 2);
        closing.cancel();
        lockout.hold_back(address, &closing).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(1000));
    }
}
