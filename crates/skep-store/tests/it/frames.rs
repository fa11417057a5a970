//! What a channel is told again, and what time takes away.

use skep_core::cause::Cause;
use skep_core::channel::Delivery;
use skep_core::frame::Frame;
use skep_core::ids::*;
use skep_core::message::Usage;
use skep_core::settings::QueueMode;
use skep_store::close::{Close, Outcome};
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::journal::Journal;
use skep_store::leases::Lease;
use skep_store::outbox::{self, FrameRecord, RecordFrames};
use skep_store::requests::Request;
use skep_store::retention::Expire;

use crate::lab::{CHANNELS, ENGINE, LabStore, Raw, furnished};

/// A message on the first channel, under its own name as the sender's id.
async fn accept(store: &LabStore, name: &str, key: &str, now: i64) -> Accepted {
    let channel = ChannelId::new(CHANNELS[0]);
    let request = Request { scope: channel.0.clone(), id: name.to_owned(), body_hash: [0; 32] };
    let letter = Letter {
        item: ItemId(format!("{name}-{now}")),
        message_id: MessageId::new(name),
        agent: AgentId(1),
        agent_name: AgentName::new("ada"),
        session_key: SessionKey::new(key),
        cause: Cause::Message,
        principal: Principal::new("operator"),
        origin: None,
        channel: Some(channel),
        text: "hello".to_owned(),
        note: None,
        files: Vec::new(),
        skill: None,
        think: None,
        request: Some(request),
        room: None,
        now,
    };
    let engine = ENGINE;
    let (turn, session) = (TurnId(format!("t-{now}")), SessionId(format!("s-{now}")));
    let take = Some(NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") });
    let accept = Accept { letter, mode: QueueMode::Queue, engine, take, fresh: false };
    store.write(accept).await.unwrap()
}

async fn started(store: &LabStore, name: &str, key: &str, now: i64) -> Lease {
    match accept(store, name, key, now).await {
        Accepted::Started { lease } => *lease,
        _ => panic!("{name} did not start"),
    }
}

async fn close(store: &LabStore, lease: &Lease, now: i64) {
    let close = Close {
        turn: lease.turn.clone(),
        token: lease.token,
        entries: Vec::new(),
        outcome: Outcome::Answered { text: "well".to_owned() },
        kept: Vec::new(),
        resumed: false,
        usage: Usage::default(),
        active_ms: 1,
        now,
    };
    store.write(close).await.unwrap();
}

fn seqs(frames: Vec<Frame>) -> Vec<(i64, &'static str)> {
    frames.iter().map(|frame| (frame.seq, frame.kind.as_str())).collect()
}

async fn of_item(store: &LabStore, item: &str) -> Vec<(i64, &'static str)> {
    let (channel, item) = (ChannelId::new(CHANNELS[0]), ItemId::new(item));
    let read = store.read(async |conn| outbox::frames_of_item(conn, &channel, &item).await);
    seqs(read.await.unwrap())
}

#[tokio::test]
async fn an_item_has_its_own_ack_and_the_answer_it_shares() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let lease = started(&store, "one", "main", 1).await;
    accept(&store, "two", "main", 2).await;
    started(&store, "other", "side", 3).await;
    let (turn, token) = (lease.turn.clone(), lease.token);
    let entries = Vec::new();
    let journal = Journal { turn, token, entries, steer: true, active_ms: 1, now: 4 };
    assert_eq!(store.write(journal).await.unwrap().steered.len(), 1);
    assert_eq!(of_item(&store, "two-2").await, [(2, "ack")]);
    close(&store, &lease, 5).await;
    assert_eq!(of_item(&store, "one-1").await, [(1, "ack"), (4, "response")]);
    assert_eq!(of_item(&store, "two-2").await, [(2, "ack"), (4, "response")]);
    assert_eq!(of_item(&store, "other-3").await, [(3, "ack")]);
}

#[tokio::test]
async fn time_takes_what_is_over_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    started(&store, "open", "side", 1).await;
    let old = started(&store, "old", "main", 2).await;
    close(&store, &old, 3).await;
    let late = started(&store, "late", "main", 4).await;
    close(&store, &late, 50).await;
    let expire = || Expire {
        events_before: 10,
        frames_before: 10,
        frames_after: String::new(),
        ids_before: 10,
        files_before: 10,
        audit_before: 0,
        now: 10,
    };
    assert!(store.write(expire()).await.unwrap().is_some(), "there was something");
    assert!(store.write(expire()).await.unwrap().is_none(), "once");

    let channel = ChannelId::new(CHANNELS[0]);
    let read = store.read(async |conn| {
        let frames = outbox::frames_since(conn, &channel, 0).await?;
        let floor = outbox::channel(conn, &channel).await?.unwrap();
        Ok((seqs(frames), floor.floor_seq, floor.last_seq))
    });
    // The ack of what is open stays; so does the answer that is young.
    let left = vec![(1, "ack"), (5, "response")];
    assert_eq!(read.await.unwrap(), (left, 4, 5));

    let again = |accepted| matches!(accepted, Accepted::Repeated(_));
    assert!(again(accept(&store, "open", "side", 60).await));
    assert!(again(accept(&store, "late", "main", 61).await), "it ended later than that");
    assert!(!again(accept(&store, "old", "new", 62).await), "its time is over");
}

async fn record(store: &LabStore, from: i64, to: i64, delivery: Delivery) {
    let channel = ChannelId::new(CHANNELS[0]);
    let records = vec![FrameRecord { channel, from, to, delivery }];
    store.write(RecordFrames { records }).await.unwrap();
}

/// The frames that are to be sent, in order.
async fn undelivered(store: &LabStore) -> Vec<i64> {
    let channel = ChannelId::new(CHANNELS[0]);
    let (mut seqs, mut after) = (Vec::new(), 0);
    loop {
        let read = store.read(async |conn| outbox::next_undelivered(conn, &channel, after).await);
        let Some(next) = read.await.unwrap() else { return seqs };
        after = next.frame.seq;
        seqs.push(after);
    }
}

async fn has_channel(store: &LabStore) -> bool {
    let read = store.read(async |conn| outbox::next_channel(conn, "ws", "").await);
    read.await.unwrap().is_some_and(|channel| channel.as_str() == CHANNELS[0])
}

#[tokio::test]
async fn what_was_tried_is_sent_again_only_where_it_was_put_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    for number in 1..=6 {
        accept(&store, &format!("m{number}"), "main", number).await;
    }
    assert_eq!(undelivered(&store).await, [1, 2, 3, 4, 5, 6]);
    record(&store, 1, 2, Delivery::Delivered).await;
    record(&store, 3, 3, Delivery::Retry { at: 9 }).await;
    assert_eq!(undelivered(&store).await, [3, 4, 5, 6]);
    // Before its turn: the one before it was never tried.
    record(&store, 5, 5, Delivery::Delivered).await;
    assert_eq!(undelivered(&store).await, [3, 4, 6]);
    record(&store, 3, 4, Delivery::Delivered).await;
    assert_eq!(undelivered(&store).await, [6]);
    record(&store, 6, 6, Delivery::Refused { why: "no".to_owned() }).await;
    assert_eq!(undelivered(&store).await, [0_i64; 0]);
    assert!(!has_channel(&store).await);
    accept(&store, "m7", "main", 7).await;
    assert!(has_channel(&store).await);
    record(&store, 7, 7, Delivery::Retry { at: 9 }).await;
    assert!(has_channel(&store).await, "it is put off");
    record(&store, 7, 7, Delivery::Delivered).await;
    assert!(!has_channel(&store).await);
}

#[tokio::test]
async fn frames_that_are_gone_hold_up_none_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    for number in 1..=4 {
        accept(&store, &format!("m{number}"), "main", number).await;
    }
    let gone = "DELETE FROM outbox WHERE seq <= 2".to_owned();
    store.write(Raw(vec![gone])).await.unwrap();
    record(&store, 3, 3, Delivery::Delivered).await;
    assert_eq!(undelivered(&store).await, [4]);
    record(&store, 4, 4, Delivery::Delivered).await;
    assert!(!has_channel(&store).await);
}
