//! Messages, reminders and what is open: sent, read, waited for, taken back.

use skep_core::ids::*;
use skep_core::question::GivenAnswer;
use skep_core::settings::QueueMode;
use skep_core::task::TaskKind;

use super::task_tests::{assign, give, two_agents, wait_for};
use super::{Story, seen};
use crate::agents::SayDoing;
use crate::assign::{Assign, ChainLimits};
use crate::close::Outcome;
use crate::expiry::ExpireTasks;
use crate::leases::Lease;
use crate::letters::{self, CloseLetter, SendLetter, Sent};
use crate::receive::{Receive, Received};
use crate::reminders::{Remind, Reminded};
use crate::threads::{self, CancelThread};

const WIDE: ChainLimits = ChainLimits { hops: 16, items: 50 };

fn letter(lease: &Lease, call: &str, to: &str) -> SendLetter {
    SendLetter {
        turn: lease.turn.clone(),
        call: CallId::new(call),
        id: ItemId(format!("{}-{call}", lease.turn)),
        to: AgentName::new(to),
        body: call.to_owned(),
        in_reply_to: None,
        recipients: vec!["*".to_owned()],
        limits: WIDE,
        now: 9,
    }
}

fn remind(lease: &Lease, call: &str, at: Option<i64>) -> Remind {
    let (turn, call) = (lease.turn.clone(), CallId::new(call));
    let id = ItemId(format!("{turn}-{call}"));
    Remind { turn, call, id, body: "look".to_owned(), at, limits: WIDE, now: 9 }
}

#[tokio::test]
async fn every_statement_about_messages_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let (store, main, team) = two_agents(folder.path()).await;
    let mut story = Story { store: store.clone(), agent: main, made: 0 };
    let first = story.accept(None, true, QueueMode::Queue).await.unwrap();
    let send = async |letter: SendLetter| match store.write(letter).await.unwrap() {
        Sent::Sent(letters) => letters[0].id.clone(),
        other => panic!("{other:?}"),
    };
    let sent = send(letter(&first, "a", "team")).await;
    send(letter(&first, "b", "*")).await;
    let told = send(letter(&first, "c", "operator")).await;
    assert_eq!(store.read(async |c| letters::of_operator(c, 9).await).await.unwrap().len(), 1);
    let peer = story.take(None).await.unwrap();
    assert_eq!(peer.agent, team);
    let reply = SendLetter { in_reply_to: Some(sent), ..letter(&peer, "d", "main") };
    let turn = first.turn.clone();
    let receive = |call: &str, until| {
        let (turn, call) = (turn.clone(), CallId::new(call));
        Receive { turn, call, most: 9, until, now: 9 }
    };
    wait_for(&store, &first, "r", async || {
        assert_eq!(store.write(receive("r", Some(40))).await.unwrap(), Received::Waits);
    })
    .await;
    send(reply).await;
    let first = story.take(Some(turn.clone())).await.unwrap();
    assert!(matches!(store.write(receive("r", None)).await.unwrap(), Received::Letters { .. }));
    assert_eq!(store.write(receive("s", Some(40))).await.unwrap(), Received::Waits);
    store.write(ExpireTasks { now: 40 }).await.unwrap();
    let by = Principal::new("operator");
    let reply = Some((ItemId::new("reply"), GivenAnswer::words("good")));
    store.write(CloseLetter { letter: told, reply, by, now: 41 }).await.unwrap();
    for (call, at) in [("e", Some(45)), ("f", Some(50)), ("g", None)] {
        let set = store.write(remind(&first, call, at)).await.unwrap();
        assert!(matches!(set, Reminded::Set { .. }), "{set:?}");
    }
    let task = Assign { limits: WIDE, ..assign(&first, "t", TaskKind::Delegate) };
    let given = give(&store, task).await;
    store.write(ExpireTasks { now: 45 }).await.unwrap();
    let (agent, key) = (main, first.session_key.clone());
    let open = store.read(async |conn| threads::of_session(conn, agent, &key).await);
    assert_eq!(open.await.unwrap().reminders.len(), 1);
    for id in [ItemId(format!("{}-f", first.turn)), given] {
        let key = first.session_key.clone();
        store.write(CancelThread { agent, key, id, now: 46 }).await.unwrap();
    }
    store.write(SayDoing { agent, doing: Some("reads".to_owned()) }).await.unwrap();
    story.close(&first, Outcome::Answered { text: "yes".into() }).await;
    while let Some(lease) = story.take(None).await {
        story.close(&lease, Outcome::Answered { text: "yes".into() }).await;
    }
    seen::explain_all(folder.path(), &store, 60).await;
}
