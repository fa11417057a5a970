//! What is told again from rows: in pages, beside everybody else's reads.

use std::sync::mpsc;
use std::time::Duration;

use skep_core::ids::ChannelId;
use skep_store::{StoreError, outbox};

use crate::lab::{CHANNELS, LabStore, Raw, furnished};

const PATIENCE: Duration = Duration::from_secs(30);

/// Frames of the first channel with payloads of this many bytes each.
async fn frames(store: &LabStore, bytes: &[usize]) {
    let insert = |(at, bytes): (usize, &usize)| {
        let text = "x".repeat(*bytes);
        format!(
            "INSERT INTO outbox (channel, seq, id, kind, item, at, payload) \
             VALUES ('{}', {}, 'f{at}', 'ack', 'i', 0, '{{\"content\":\"{text}\"}}')",
            CHANNELS[0],
            at + 1
        )
    };
    store.write(Raw(bytes.iter().enumerate().map(insert).collect())).await.unwrap();
}

async fn page(store: &LabStore, since: i64) -> Vec<i64> {
    let channel = ChannelId::new(CHANNELS[0]);
    let read = async move |conn: &mut _| outbox::frames_since(conn, &channel, since).await;
    let page = store.read_page("one", read).await.unwrap();
    page.iter().map(|frame| frame.seq).collect()
}

#[tokio::test]
async fn a_page_has_64_rows_or_64_kibibytes_and_never_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let mut sizes = vec![10; 70];
    sizes.extend([30_000, 30_000, 30_000, 200_000, 10]);
    frames(&store, &sizes).await;
    assert_eq!(page(&store, 0).await, (1..=64).collect::<Vec<_>>());
    assert_eq!(page(&store, 64).await, [65, 66, 67, 68, 69, 70, 71, 72]);
    assert_eq!(page(&store, 72).await, [73]);
    assert_eq!(page(&store, 73).await, [74]);
    assert_eq!(page(&store, 74).await, [75]);
    assert_eq!(page(&store, 75).await, Vec::<i64>::new());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_wait_hold_up_nobody_and_each_credential_has_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    // Two pages that do not end take both readers of pages.
    let (begun, begins) = mpsc::channel();
    let mut ends = Vec::new();
    let mut held = Vec::new();
    for _ in 0..2 {
        let (end, ended) = mpsc::channel::<()>();
        ends.push(end);
        let (begun, store) = (begun.clone(), store.clone());
        held.push(tokio::spawn(async move {
            let read = async move |_: &mut _| {
                begun.send(()).unwrap();
                let _ = ended.recv();
                Ok(())
            };
            store.read_page("many", read).await
        }));
    }
    for _ in 0..2 {
        begins.recv_timeout(PATIENCE).unwrap();
    }
    let (done, order) = mpsc::channel();
    let mut waiting = Vec::new();
    for number in 0..5000 {
        let who = if number == 3999 { "one" } else { "many" };
        let (done, store) = (done.clone(), store.clone());
        let mut page = Box::pin(async move {
            let read = async move |_: &mut _| {
                done.send(who).unwrap();
                Ok(())
            };
            store.read_page(who, read).await
        });
        // Queued now, in this order.
        assert!(futures_util::poll!(&mut page).is_pending());
        waiting.push(page);
    }
    // More wait than the pool would let wait; it answers all the same.
    store.read(async |conn| conn.row("SELECT 1", &[]).await.map(drop)).await.unwrap();
    // Some of them go away.
    waiting.truncate(4000);
    let panics = store.read_page("other", async |_| -> Result<(), _> { panic!("on purpose") });
    drop(ends);
    assert!(matches!(panics.await, Err(StoreError::Closed)));
    for page in waiting {
        page.await.unwrap();
    }
    for held in held {
        held.await.unwrap().unwrap();
    }
    let order: Vec<&str> = order.try_iter().collect();
    assert_eq!(order.len(), 4000);
    let place = order.iter().position(|who| *who == "one").unwrap();
    assert!(place < 10, "the only page of one came after {place} of another");
    let last = store.clone();
    store.close().await;
    let closed = last.read_page("one", async |_| Ok(())).await;
    assert!(matches!(closed, Err(StoreError::Closed)), "{closed:?}");
}
