//! What an item is there for decides what its turn may be: which items join a turn that runs, and
//! that nothing is guessed for a word this program does not know.

use skep_core::cause::{CallRef, Cause, Slash};
use skep_core::ids::*;
use skep_core::message::Usage;
use skep_core::settings::QueueMode;
use skep_store::close::{Close, Outcome};
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::journal::Journal;
use skep_store::leases::{Lease, Take};
use skep_store::watch;

use crate::lab::{ENGINE, LabStore, Raw, furnished};

pub fn slot(number: i64) -> NewTurn {
    let (turn, session) = (TurnId(format!("t{number}")), SessionId::new("s"));
    NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") }
}

pub async fn accept(store: &LabStore, number: i64, cause: Cause) -> Option<Lease> {
    let letter = Letter {
        item: ItemId(format!("i{number}")),
        message_id: MessageId(format!("i{number}")),
        agent: AgentId(1),
        agent_name: AgentName::new("ada"),
        session_key: SessionKey::new("main"),
        cause,
        principal: Principal::new("operator"),
        origin: None,
        channel: None,
        text: "hello".to_owned(),
        note: None,
        files: Vec::new(),
        skill: None,
        think: None,
        request: None,
        room: None,
        now: number,
    };
    let engine = ENGINE;
    let take = Some(slot(number));
    let accept = Accept { letter, mode: QueueMode::Queue, engine, take, fresh: false };
    match store.write(accept).await.unwrap() {
        Accepted::Started { lease } => Some(*lease),
        Accepted::Queued { .. } => None,
        Accepted::Repeated(_) => panic!("i{number} is no repetition"),
    }
}

/// Items that join the turn with its next step.
async fn joined(store: &LabStore, lease: &Lease) -> Vec<String> {
    let (turn, token) = (lease.turn.clone(), lease.token);
    let entries = Vec::new();
    let journal = Journal { turn, token, entries, steer: true, active_ms: 1, now: 50 };
    let steered = store.write(journal).await.unwrap().steered;
    steered.into_iter().map(|row| row.id).collect()
}

async fn close(store: &LabStore, lease: &Lease) {
    let close = Close {
        turn: lease.turn.clone(),
        token: lease.token,
        entries: Vec::new(),
        outcome: Outcome::Answered { text: "well".to_owned() },
        kept: Vec::new(),
        resumed: false,
        usage: Usage::default(),
        active_ms: 1,
        now: 60,
    };
    store.write(close).await.unwrap();
}

#[tokio::test]
async fn an_item_that_is_there_for_a_call_gets_a_turn_of_its_own() {
    let call = || CallRef { turn: TurnId::new("t"), call: CallId::new("c") };
    let own = [
        Cause::Approved(ApprovalId::new("a")),
        Cause::Again(call()),
        Cause::Command(Slash::Compact { keep: None }),
        Cause::Task { call: call() },
        Cause::Peer,
    ];
    for cause in own {
        let folder = tempfile::tempdir().unwrap();
        let store = furnished(folder.path()).await;
        let first = accept(&store, 1, Cause::Message).await.unwrap();
        assert_eq!(first.cause, Cause::Message);
        for (number, cause) in [(2, Cause::Message), (3, Cause::Event), (4, cause.clone())] {
            assert!(accept(&store, number, cause).await.is_none());
        }
        assert!(accept(&store, 5, Cause::Message).await.is_none());
        // What another agent wrote may wait for a call that reads it: nothing waits behind it.
        let expected: &[&str] =
            if cause == Cause::Peer { &["i2", "i3", "i5"] } else { &["i2", "i3"] };
        assert_eq!(joined(&store, &first).await, expected, "{cause:?}");
        close(&store, &first).await;
        let take = Take { slot: slot(9), only: None, admits: None, now: 70 };
        let next = store.write(take).await.unwrap().unwrap();
        assert_eq!(next.cause, cause);
        store.close().await;
    }
}

#[tokio::test]
async fn a_cause_of_a_newer_version_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    accept(&store, 1, Cause::Message).await.unwrap();
    store.write(Raw(vec!["UPDATE items SET kind = 'dream'".to_owned()])).await.unwrap();
    let item = ItemId::new("i1");
    let read = store.read(async |conn| watch::item_by_id(conn, &item).await).await;
    let text = read.unwrap_err().to_string();
    assert!(text.contains("the cause `dream` of an item cannot be read"), "{text}");
    store.close().await;
}
