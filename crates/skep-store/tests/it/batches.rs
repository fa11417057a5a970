//! Group commit: what shares a commit, what is refused alone, what waits.

use std::time::Duration;

use skep_store::{Refusal, SqlKind, StoreError};

use crate::probe::*;

#[tokio::test]
async fn what_queues_during_a_commit_shares_the_next_one() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (release, held) = hold(&store).await;
    let pending: Vec<_> = (0..200).map(|n| store.submit(Put(format!("note {n}")))).collect();
    release.notify_one();
    held.await.unwrap();
    for (n, pending) in (1..).zip(pending) {
        assert_eq!(pending.await, Ok(n));
    }
    let told = bench.take_told();
    assert_eq!(seqs(&told), vec![(1..=200).collect::<Vec<i64>>()], "one commit for all");
    let stored = store
        .read(async |conn| {
            let rows = conn.rows("SELECT seq, agent, body FROM events ORDER BY seq", &[]).await?;
            rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?, row.text(2)?))).collect()
        })
        .await;
    let told: Vec<(i64, i64, String)> = told[0]
        .events
        .iter()
        .map(|e| (e.seq.unwrap(), e.agent_id.unwrap().0, serde_json::to_string(e).unwrap()))
        .collect();
    assert_eq!(stored, Ok(told));
}

#[tokio::test]
async fn batches_end_at_256_commands_and_at_4_mebibytes() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (release, held) = hold(&store).await;
    let mut pending: Vec<_> = (0..300).map(|n| store.submit(Put(format!("{n}")))).collect();
    let big = "x".repeat(1_500_000);
    pending.extend((0..3).map(|n| store.submit(Put(format!("{n}{big}")))));
    release.notify_one();
    held.await.unwrap();
    for pending in pending {
        pending.await.unwrap();
    }
    let sizes: Vec<usize> = seqs(&bench.take_told()).iter().map(Vec::len).collect();
    assert_eq!(sizes, [256, 46, 1]);
}

#[tokio::test]
async fn a_refused_command_goes_alone_and_takes_its_numbers_back() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (release, held) = hold(&store).await;
    let first = store.submit(Put("first".into()));
    let refused = store.submit(PutThenRefuse("refused".into()));
    let twice = store.submit(Put("first".into()));
    let panicked = store.submit(PutThenPanic("panicked".into()));
    let last = store.submit(Put("last".into()));
    release.notify_one();
    held.await.unwrap();
    assert_eq!(first.await, Ok(1));
    assert_eq!(refused.await, Err(StoreError::Refused(Refusal::Stale)));
    match twice.await {
        Err(StoreError::Refused(Refusal::Sql(error))) => assert_eq!(error.kind, SqlKind::Unique),
        other => panic!("{other:?}"),
    }
    let inside = Refusal::Panicked("on purpose".into());
    assert_eq!(panicked.await, Err(StoreError::Refused(inside)));
    assert_eq!(last.await, Ok(2));
    let told = bench.take_told();
    assert_eq!(seqs(&told), [[1, 2]]);
    assert_eq!(frames(&told), [["first", "last"]]);
    assert_eq!(notes(&store).await, [(1, "first".into()), (2, "last".into())]);
}

#[tokio::test]
async fn a_command_on_its_own_is_rolled_back_whole() {
    let bench = Bench::new();
    let store = bench.open().await;
    for _ in 0..2 {
        let refused = store.write(PutThenRefuse("refused".into())).await;
        assert_eq!(refused, Err(StoreError::Refused(Refusal::Stale)));
        let panicked = store.write(PutThenPanic("panicked".into())).await;
        assert!(matches!(panicked, Err(StoreError::Refused(Refusal::Panicked(_)))));
    }
    assert_eq!(put(&store, "kept").await, Ok(1));
    assert_eq!(seqs(&bench.take_told()), [[1]]);
    assert_eq!(notes(&store).await, [(1, "kept".into())]);
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_cancel_its_command() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (release, held) = hold(&store).await;
    drop(store.submit(Put("orphaned".into())));
    let write = put(&store, "abandoned");
    assert!(tokio::time::timeout(Duration::ZERO, write).await.is_err());
    release.notify_one();
    held.await.unwrap();
    assert_eq!(put(&store, "after").await, Ok(3));
    let expected = [(1, "orphaned".into()), (2, "abandoned".into()), (3, "after".into())];
    assert_eq!(notes(&store).await, expected);
}

#[tokio::test]
async fn a_hung_writer_leaves_readers_alone_and_its_queue_is_bounded() {
    let bench = Bench::new();
    let store = bench.open().await;
    put(&store, "before").await.unwrap();
    let (release, held) = hold(&store).await;
    let waiting: Vec<_> = (0..4096).map(|n| store.submit(Put(format!("{n}")))).collect();
    assert_eq!(put(&store, "one too many").await, Err(StoreError::Busy));
    assert_eq!(notes(&store).await, [(1, "before".into())]);
    release.notify_one();
    held.await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(notes(&store).await.len(), 4097);
    assert!(bench.take_told().len() <= 1 + 4096 / 256 + 1);
}

#[tokio::test]
async fn closing_gives_up_on_a_hung_writer_and_is_then_unclean() {
    let bench = Bench::new();
    let store = bench.open().await;
    let (_release, held) = hold(&store).await;
    let waiting = store.submit(Put("never".into()));
    let closed = tokio::time::timeout(Duration::from_secs(5), store.close()).await;
    assert!(closed.is_ok(), "closing is bounded");
    assert!(!bench.options().clean_marker.exists());
    held.abort();
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_and_writers_from_many_tasks() {
    let bench = Bench::new();
    let store = bench.open().await;
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    let ord = put(&store, &format!("{task}/{n}")).await.unwrap();
                    let seen = notes(&store).await;
                    assert!(seen.iter().any(|note| note.0 == ord), "reads its own write");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let told = bench.take_told();
    let seqs: Vec<i64> = seqs(&told).concat();
    assert_eq!(seqs, (1..=640).collect::<Vec<i64>>(), "told in commit order");
    assert!(told.len() < 640, "{} commits for 640 commands", told.len());
}

#[tokio::test]
async fn an_abandoned_read_costs_nothing() {
    let bench = Bench::new();
    let store = bench.open().await;
    for _ in 0..20 {
        let endless = store.read(async |conn| {
            conn.rows("SELECT 1", &[]).await?;
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), endless).await.is_err());
    }
    put(&store, "later").await.unwrap();
    assert_eq!(notes(&store).await, [(1, "later".into())], "no old snapshot is left behind");
}

#[tokio::test]
async fn a_read_sees_one_moment() {
    let bench = Bench::new();
    let store = bench.open().await;
    let writer = store.clone();
    let counts = store
        .read(async |conn| {
            let before = conn.row("SELECT count(*) FROM notes", &[]).await?;
            put(&writer, "meanwhile").await.unwrap();
            let after = conn.row("SELECT count(*) FROM notes", &[]).await?;
            Ok((before.unwrap().int(0)?, after.unwrap().int(0)?))
        })
        .await;
    assert_eq!(counts, Ok((0, 0)));
    let written = store.read(async |conn| conn.run("DELETE FROM notes", &[]).await).await;
    assert!(matches!(written, Err(StoreError::Broken { .. })), "{written:?}");
    assert_eq!(notes(&store).await.len(), 1);
}
