//! A clock that is set back keeps nothing waiting for as long.

use skep_core::cause::Cause;
use skep_core::ids::TurnId;
use skep_store::lanes::{self, ClockSetBack, WakeLanes};
use skep_store::leases::{Release, Take};

use crate::causes::{accept, slot};
use crate::lab::{LabStore, furnished};

const HOUR: i64 = 3_600_000;

async fn taken(store: &LabStore, now: i64) -> Option<TurnId> {
    store.write(WakeLanes { now }).await.unwrap();
    let take = Take { slot: slot(9), only: None, admits: None, now };
    store.write(take).await.unwrap().map(|lease| lease.turn)
}

#[tokio::test]
async fn a_turn_waits_as_long_as_it_was_to_wait_when_the_clock_is_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let lease = accept(&store, 1, Cause::Message).await.unwrap();
    let (turn, token) = (lease.turn.clone(), lease.token);
    let (now, until) = (2 * HOUR, Some(2 * HOUR + 30_000));
    store
        .write(Release { turn, token, until, retries: None, counts: true, active_ms: 1, now })
        .await
        .unwrap();

    // A look at a clock that goes on changes nothing.
    assert_eq!(store.write(ClockSetBack { now: now + 10 }).await.unwrap(), 0);
    assert_eq!(taken(&store, now + 29_999).await, None);

    let now = HOUR;
    assert_eq!(taken(&store, now + 60_000).await, None, "it would wait for an hour");
    assert_eq!(store.write(ClockSetBack { now }).await.unwrap(), 1);
    assert_eq!(store.read(lanes::next_due).await.unwrap(), Some(now + 30_000));
    assert_eq!(store.write(ClockSetBack { now }).await.unwrap(), 0, "once is enough");
    assert_eq!(taken(&store, now + 29_999).await, None);
    assert_eq!(taken(&store, now + 30_000).await, Some(lease.turn));
    store.close().await;
}
