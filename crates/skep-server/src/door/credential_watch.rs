//! What a credential keeps open (sockets, event streams, waits) ends when the credential does: a
//! token that is revoked, a browser that signs out or whose time is over.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skep_core::Millis;
use skep_guard::clock;
use skep_runtime::Hive;
use skep_runtime::door::Credential;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Standing {
    // A lock and not a task: an update is a few instructions and never waits. The map holds one
    // entry for each credential that kept something open, and those are rows of two tables.
    ends: Mutex<HashMap<Credential, CancellationToken>>,
}

/// Held by whatever stays open.
pub(crate) struct Stay {
    revoked: CancellationToken,
    until: Option<Instant>,
}

impl Standing {
    /// For something that stays open with this credential.
    pub(crate) fn stay(&self, hive: &Hive, credential: &Credential) -> Stay {
        let now = clock::now_ms();
        let revoked = self.end_of(credential, now);
        // Asked after it is noted down: who revokes does it the other way round, so one of the
        // two sees the other.
        if !hive.is_good(credential) {
            revoked.cancel();
        }
        let left = |at: Millis| Duration::from_millis(u64::try_from(at - now).unwrap_or(0));
        let until = credential.expires_at().map(|at| Instant::now() + left(at));
        Stay { revoked, until }
    }

    /// Called when the credential opens nothing any more.
    pub(crate) fn revoke(&self, credential: &Credential) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(revoked) = ends.remove(credential) {
            revoked.cancel();
        }
    }

    fn end_of(&self, credential: &Credential, now: Millis) -> CancellationToken {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ends.get(credential) {
            return known.clone();
        }
        ends.retain(|credential, _| credential.expires_at().is_none_or(|at| at > now));
        ends.entry(credential.clone()).or_default().clone()
    }
}

impl Stay {
    /// Ready when the credential is worth nothing any more.
    pub(crate) async fn over(&self) {
        match self.until {
            None => self.revoked.cancelled().await,
            Some(until) => tokio::select! {
                () = self.revoked.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn stay(standing: &Standing, credential: &Credential) -> Stay {
        let until = credential
            .expires_at()
            .map(|at| Instant::now() + Duration::from_millis(u64::try_from(at).unwrap_or(0)));
        Stay { revoked: standing.end_of(credential, 0), until }
    }

    fn browser(id: &str, expires_at: Millis) -> Credential {
        Credential::Browser { id: id.to_owned(), expires_at }
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_ends_with_its_time_or_when_it_signs_out_and_no_other_does() {
        let standing = Standing::default();
        let (one, other) = (browser("one", 2000), browser("other", 5000));
        let (first, second) = (stay(&standing, &one), stay(&standing, &other));
        let third = stay(&standing, &other);
        assert!(first.over().now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(2001)).await;
        assert!(first.over().now_or_never().is_some());
        assert!(second.over().now_or_never().is_none());
        standing.revoke(&other);
        assert!(second.over().now_or_never().is_some());
        assert!(third.over().now_or_never().is_some());
        assert!(stay(&standing, &Credential::Owner).over().now_or_never().is_none());
    }

    #[test]
    fn those_whose_time_is_over_are_forgotten() {
        let standing = Standing::default();
        for at in 1..1000 {
            standing.end_of(&browser(&at.to_string(), at), at);
        }
        let ends = standing.ends.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(ends.len(), 1);
    }
}
