//! Failures that are nobody's fault in the batch: everybody hears of them, the writer recovers.

use skep_store::{Refusal, StoreError};

use crate::probe::*;

#[tokio::test]
async fn a_full_disk_refuses_the_batch_and_recovers_alone() {
    let bench = Bench::new();
    let store = bench.open().await;
    put(&store, "before").await.unwrap();
    store.write(Setting("PRAGMA max_page_count = 1")).await.unwrap();
    let (release, held) = hold(&store).await;
    let small = store.submit(Put("small".into()));
    let big = store.submit(Put("x".repeat(100_000)));
    release.notify_one();
    held.await.unwrap();
    assert_eq!(small.await, Err(StoreError::DiskFull));
    assert_eq!(big.await, Err(StoreError::DiskFull));
    assert_eq!(notes(&store).await, [(1, "before".into())], "reads work");
    store.write(Setting("PRAGMA max_page_count = 1000000")).await.unwrap();
    assert_eq!(put(&store, "after").await, Ok(2), "no number was lost");
    assert_eq!(seqs(&bench.take_told()), [[1], [2]]);
}

#[tokio::test]
async fn a_failed_commit_leaves_the_outcome_open_for_the_whole_batch() {
    let bench = Bench::new();
    let store = bench.open().await;
    put(&store, "before").await.unwrap();
    let (release, held) = hold(&store).await;
    let neighbour = store.submit(Put("neighbour".into()));
    let refused = store.submit(PutThenRefuse("refused".into()));
    let orphan = store.submit(Orphan);
    release.notify_one();
    held.await.unwrap();
    assert_eq!(neighbour.await, Err(StoreError::Unsynced));
    assert_eq!(refused.await, Err(StoreError::Unsynced));
    assert_eq!(orphan.await, Err(StoreError::Unsynced));
    assert_eq!(put(&store, "after").await, Ok(2));
    assert_eq!(seqs(&bench.take_told()), [[1], [2]], "the failed batch was never told");
    assert_eq!(notes(&store).await, [(1, "before".into()), (2, "after".into())]);
}

#[tokio::test]
async fn a_connection_that_can_no_longer_write_is_replaced() {
    let bench = Bench::new();
    let store = bench.open().await;
    put(&store, "before").await.unwrap();
    store.write(Setting("PRAGMA query_only = ON")).await.unwrap();
    assert!(matches!(put(&store, "refused").await, Err(StoreError::Broken { .. })));
    assert_eq!(put(&store, "after").await, Ok(2));
    assert_eq!(seqs(&bench.take_told()), [[1], [2]]);
}

#[tokio::test]
async fn a_wrong_statement_is_its_own_commands_fault() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (release, held) = hold(&store).await;
    let wrong = store.submit(Setting("SELECT nothing FROM nowhere"));
    let right = store.submit(Put("right".into()));
    release.notify_one();
    held.await.unwrap();
    assert!(matches!(wrong.await, Err(StoreError::Refused(Refusal::Sql(_)))));
    assert_eq!(right.await, Ok(1));
}

#[tokio::test]
async fn a_listener_that_panics_does_not_stop_the_writer() {
    let bench = Bench::new();
    let store = ProbeStore::open(bench.options(), |_| panic!("on purpose")).await.unwrap();
    assert_eq!(put(&store, "one").await, Ok(1));
    assert_eq!(put(&store, "two").await, Ok(2));
}

#[tokio::test]
async fn the_log_stays_bounded_under_load() {
    let bench = Bench::new();
    let store = bench.open().await;
    let text = "x".repeat(20_000);
    for round in 0..40 {
        let pending: Vec<_> =
            (0..50).map(|n| store.submit(Put(format!("{round}/{n} {text}")))).collect();
        for pending in pending {
            pending.await.unwrap();
        }
    }
    let log = bench.database().with_extension("db-wal");
    let bytes = std::fs::metadata(log).unwrap().len();
    assert!(bytes < 72 << 20, "{bytes} bytes of log after 40 MB of notes");
    store.close().await;
}
