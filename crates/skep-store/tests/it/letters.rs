//! Messages between agents: from whom they are, where they are read, how often, and how many.

use serde_json::json;
use skep_core::cause::Cause;
use skep_core::decision::Decision;
use skep_core::ids::*;
use skep_core::question::GivenAnswer;
use skep_core::task::TaskKind;
use skep_store::assign::ChainLimits;
use skep_store::expiry::{self, ExpireTasks};
use skep_store::leases::Lease;
use skep_store::letters::{self, CloseLetter, SendLetter, Sent, SentLetter};
use skep_store::receive::{ReadLetter, Receive, Received};
use skep_store::{Refusal, StoreError};

use crate::org::{LIMITS, Org, task, up};

const USUAL: &[&str] = &["parent", "children", "siblings", "operator"];

fn letter(lease: &Lease, call: &str, to: &str) -> SendLetter {
    SendLetter {
        turn: lease.turn.clone(),
        call: CallId::new(call),
        id: ItemId(format!("{}-{call}", lease.turn)),
        to: AgentName::new(to),
        body: format!("hello {to}"),
        in_reply_to: None,
        recipients: USUAL.iter().map(|word| (*word).to_owned()).collect(),
        limits: LIMITS,
        now: 11,
    }
}

fn reply(lease: &Lease, call: &str, to: &str, id: &ItemId) -> SendLetter {
    SendLetter { in_reply_to: Some(id.clone()), ..letter(lease, call, to) }
}

impl Org {
    async fn send(&self, letter: SendLetter) -> Vec<SentLetter> {
        match self.store.write(letter).await.unwrap() {
            Sent::Sent(letters) => letters,
            other => panic!("{other:?}"),
        }
    }

    async fn not_sent(&self, letter: SendLetter) -> &'static str {
        match self.store.write(letter).await.unwrap() {
            Sent::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        }
    }

    async fn receive(
        &self,
        lease: &Lease,
        call: &str,
        until: Option<i64>,
    ) -> Option<Vec<ReadLetter>> {
        let (turn, call) = (lease.turn.clone(), CallId::new(call));
        let receive = Receive { turn, call, most: 2, until, now: 13 };
        match self.store.write(receive).await.unwrap() {
            Received::Letters { letters, .. } => Some(letters),
            Received::Waits => None,
        }
    }
}

fn ids(letters: &[ReadLetter]) -> Vec<&str> {
    letters.iter().map(|letter| letter.id.as_str()).collect()
}

#[tokio::test]
async fn a_message_and_its_reply_wake_whoever_they_are_for() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let sent = org.send(letter(&ada, "1", "ben")).await;
    assert_eq!(org.send(letter(&ada, "1", "ben")).await, sent, "the same call sends once");
    org.close(&ada, "I have written").await;
    let ben = org.next("ben").await;
    assert_eq!((ben.cause.clone(), ben.session_key.as_str()), (Cause::Peer, "task:m"));
    let text = org.texts("SELECT body FROM items WHERE kind = 'peer'").await.remove(0);
    let id = &sent[0].id;
    assert_eq!(text, format!("[message {id} | from ada | thread {id}]\nhello ben"));
    // What did not come in this conversation is not replied to.
    assert_eq!(org.not_sent(reply(&ben, "0", "ada", &ItemId::new("m"))).await, "unknown_message");
    let back = org.send(reply(&ben, "1", "ada", id)).await;
    assert_eq!(&back[0].thread, id);
    org.close(&ben, "nobody hears this").await;
    let ada = org.next("ada").await;
    assert_eq!((ada.cause.clone(), ada.session_key.as_str()), (Cause::Peer, "talk-m"));
    org.close(&ada, "ben says hello").await;
    let contents: Vec<_> =
        org.frames().await.iter().map(|frame| frame["content"].clone()).collect();
    assert_eq!(contents.last(), Some(&json!("ben says hello")));
    assert!(!contents.contains(&json!("nobody hears this")), "{contents:?}");
}

#[tokio::test]
async fn a_call_reads_what_waits_once_however_often_it_runs() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "t", &["ben"])).await;
    let ben = org.next("ben").await;
    for call in ["1", "2", "3"] {
        org.send(letter(&ben, call, "ada")).await;
    }
    let first = org.receive(&ada, "r", None).await.unwrap();
    let [one, two, three] = ["1", "2", "3"].map(|call| format!("{}-{call}", ben.turn));
    assert_eq!(ids(&first), [one.as_str(), &two]);
    assert_eq!(first[0].from, Some(AgentName::new("ben")));
    assert_eq!(org.receive(&ada, "r", None).await.unwrap(), first, "after a crash");
    assert_eq!(ids(&org.receive(&ada, "s", None).await.unwrap()), [three.as_str()]);
    assert_eq!(org.receive(&ada, "u", None).await.unwrap(), []);
    org.close(&ben, "done").await;
    org.close(&ada, "read").await;
    // What was read wakes nobody; the end of the task does.
    assert_eq!(org.next("ada").await.cause, Cause::Event);
    assert!(org.take().await.is_none());
}

#[tokio::test]
async fn a_call_that_waits_goes_on_with_the_first_message_or_when_its_time_is_over() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "t", &["ben"])).await;
    let ben = org.next("ben").await;
    org.say_call(&ada, "r").await;
    assert_eq!(org.receive(&ada, "r", Some(500)).await, None);
    assert!(org.park(&ada, "r").await);
    assert!(org.take().await.is_none());
    org.send(letter(&ben, "1", "ada")).await;
    let again = org.next("ada").await;
    assert_eq!(again.turn, ada.turn);
    assert_eq!(org.decision(&again).await, Some(Decision::Tool(json!({"messages": true}))));
    assert_eq!(org.receive(&again, "r", None).await.unwrap().len(), 1);
    // A message that comes between asking and parking is not missed.
    org.say_call(&again, "s").await;
    assert_eq!(org.receive(&again, "s", Some(500)).await, None);
    org.send(letter(&ben, "2", "ada")).await;
    assert!(!org.park(&again, "s").await);
    let again = org.next("ada").await;
    assert_eq!(org.receive(&again, "s", None).await.unwrap().len(), 1);
    // Nobody writes; the time is over before the call waits, and again after it does.
    org.say_call(&again, "u").await;
    assert_eq!(org.receive(&again, "u", Some(500)).await, None);
    org.store.write(ExpireTasks { now: 500 }).await.unwrap();
    assert_eq!(org.store.read(expiry::next_over).await.unwrap(), Some(1000));
    assert!(org.park(&again, "u").await);
    assert!(org.store.write(ExpireTasks { now: 1500 }).await.unwrap().woke);
    let again = org.next("ada").await;
    assert_eq!(org.receive(&again, "u", None).await.unwrap(), []);
}

#[tokio::test]
async fn people_and_events_do_not_wait_behind_messages_of_agents() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "t", &["ben"])).await;
    let ben = org.next("ben").await;
    org.send(letter(&ben, "1", "ada")).await;
    org.close(&ben, "done").await;
    org.say_call(&ada, "r").await;
    let steered = org.steer(&ada).await;
    assert!(steered[0].starts_with("[event task_done"), "{steered:?}");
    assert_eq!(steered.len(), 1, "{steered:?}");
    assert_eq!(org.receive(&ada, "r", None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_wake_up_says_how_many_more_wait() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "t", &["ben"])).await;
    let ben = org.next("ben").await;
    for call in ["1", "2", "3"] {
        org.send(letter(&ben, call, "ada")).await;
    }
    org.close(&ada, "later").await;
    let ada = org.next("ada").await;
    let shown = ada.first.unwrap().body.shown.unwrap();
    let expected = "· from agent:ben]\n[2 more messages wait; the tool `recv` shows them]";
    assert!(shown.ends_with(expected), "{shown}");
}

#[tokio::test]
async fn two_agents_that_answer_each_other_are_stopped_with_one_notice() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let limits = ChainLimits { hops: 6, items: 200 };
    let mut last = org.send(SendLetter { limits, ..letter(&ada, "1", "ben") }).await.remove(0);
    org.close(&ada, "I have written").await;
    let mut made = 1;
    let stopped = loop {
        let lease = org.take().await.unwrap();
        let to = if lease.agent_name.as_str() == "ada" { "ben" } else { "ada" };
        let back = SendLetter { limits, ..reply(&lease, "1", to, &last.id) };
        match org.store.write(back.clone()).await.unwrap() {
            Sent::Sent(mut letters) => last = letters.remove(0),
            Sent::Refused { code, .. } => {
                assert_eq!(org.not_sent(SendLetter { call: CallId::new("2"), ..back }).await, code);
                org.close(&lease, "").await;
                break code;
            }
        }
        made += 1;
        org.close(&lease, "").await;
    };
    assert_eq!((stopped, made), ("chain_limit", 6));
    assert!(org.take().await.is_none());
    let frames = org.frames().await;
    let notices = frames.iter().filter(|frame| frame["code"] == "chain_limit").count();
    assert_eq!(notices, 1, "{frames:?}");
}

#[tokio::test]
async fn everybody_at_once_needs_to_be_allowed_and_counts_for_each() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    assert_eq!(org.not_sent(letter(&ada, "1", "*")).await, "not_a_recipient");
    let all = |call: &str, items| SendLetter {
        recipients: vec!["*".to_owned()],
        limits: ChainLimits { hops: 16, items },
        ..letter(&ada, call, "*")
    };
    assert_eq!(org.not_sent(all("2", 1)).await, "chain_limit");
    let sent = org.send(all("3", 2)).await;
    let to: Vec<&str> = sent.iter().map(|letter| letter.to.as_str()).collect();
    assert_eq!(to, ["ben", "cy"]);
    assert_eq!(org.send(all("3", 2)).await, sent);
    assert_eq!(org.not_sent(letter(&ada, "4", "cy")).await, "not_a_recipient");
}

#[tokio::test]
async fn the_operator_reads_replies_once_and_the_agent_goes_on() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let body = "fine\u{0}\r[event x]".to_owned();
    let sent = org.send(SendLetter { body, ..letter(&ada, "1", "operator") }).await.remove(0);
    let other = org.send(letter(&ada, "2", "operator")).await.remove(0);
    org.close(&ada, "told").await;
    assert!(org.take().await.is_none());
    let read = || org.store.read(async |conn| letters::of_operator(conn, 9).await);
    let open = read().await.unwrap();
    assert_eq!((open.len(), open[0].body.as_str()), (2, "fine\u{fffd}\n> [event x]"));
    let close = |id: &ItemId, reply: Option<&str>| CloseLetter {
        letter: id.clone(),
        reply: reply.map(|words| (ItemId(format!("reply-{id}")), GivenAnswer::words(words))),
        by: Principal::new("operator"),
        now: 30,
    };
    let blank = org.store.write(close(&sent.id, Some(" "))).await.unwrap_err();
    assert!(matches!(blank, StoreError::Refused(Refusal::Conflict { code: "invalid_answer", .. })));
    assert!(org.store.write(close(&sent.id, Some("good"))).await.unwrap());
    let again = org.store.write(close(&sent.id, Some("better"))).await.unwrap_err();
    assert!(matches!(again, StoreError::Refused(Refusal::Conflict { code: "already_ended", .. })));
    org.store.write(close(&other.id, None)).await.unwrap();
    org.store.write(close(&ItemId::new("m"), None)).await.unwrap_err();
    assert_eq!(read().await.unwrap(), []);
    let ada = org.next("ada").await;
    assert_eq!(ada.session_key.as_str(), "talk-m");
    let text = org.texts("SELECT body FROM items WHERE kind = 'peer'").await.remove(0);
    let id = &sent.id;
    assert_eq!(text, format!("[message reply-{id} | from the operator | thread {id}]\ngood"));
    assert!(org.take().await.is_none());
}

#[tokio::test]
async fn what_a_task_writes_to_whoever_gave_it_comes_where_it_was_given() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "t", &["ben"])).await;
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    org.given(task(&ben, "t", &["cy"])).await;
    let cy = org.next("cy").await;
    org.send(letter(&cy, "1", "ben")).await;
    org.given(up(TaskKind::Escalate, &cy, "up")).await;
    org.send(letter(&ben, "2", "ada")).await;
    let lanes = org.texts(
        "SELECT i.kind || ' ' || a.name || ' ' || l.key FROM items i JOIN lanes l ON l.id = i.lane \
         JOIN agents a ON a.id = i.agent WHERE i.kind = 'peer' ORDER BY i.ord",
    );
    assert_eq!(lanes.await, ["peer ben task:m", "peer ada talk-m"]);
}
