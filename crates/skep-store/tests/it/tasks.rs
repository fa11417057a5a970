//! Tasks from end to end on the tables: who may give whom what, what a result reaches, what a
//! cancellation ends, and that every call counts once.

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use skep_core::cause::Cause;
use skep_core::decision::Decision;
use skep_core::engine::FailureCode;
use skep_core::event::{CancelReason, ItemState};
use skep_core::ids::*;
use skep_core::message::{Block, Body, Usage};
use skep_core::overlap::{Overlap, OverlapVerdict};
use skep_core::settings::QueueMode;
use skep_core::task::{TaskKind, TaskState};
use skep_store::assign::{Assign, Assigned, ChainLimits};
use skep_store::cancel::CancelTask;
use skep_store::close::{Close, Closed, Outcome};
use skep_store::expiry::{self, ExpireTasks};
use skep_store::history::{self, NewHistoryRow};
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::item_views::CancelItem;
use skep_store::journal::{Entry, Journal, NewCall};
use skep_store::leases::{Lease, LostTurns, Recover, Take};
use skep_store::task_views::{self, TaskRow};
use skep_store::waits::Park;

use crate::lab::{ENGINE, LabStore, Raw, Timed, furnished, open};

const LIMITS: ChainLimits = ChainLimits { hops: 16, items: 200 };

/// `ada` leads `ben`, who leads `cy`.
struct Org {
    store: LabStore,
    _folder: tempfile::TempDir,
    made: i64,
}

impl Org {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = furnished(folder.path()).await;
        let org = Self { store, _folder: folder, made: 0 };
        org.raw("UPDATE agents SET parent_id = id - 1 WHERE id > 1").await;
        org
    }

    async fn raw(&self, sql: &str) {
        self.store.write(Raw(vec![sql.to_owned()])).await.unwrap();
    }

    fn slot(&mut self) -> NewTurn {
        self.made += 1;
        let (turn, session) = (format!("t{}", self.made), format!("s{}", self.made));
        let (turn, session) = (TurnId(turn), SessionId(session));
        NewTurn { turn, session, idle_ms: 1_000_000, node: NodeName::new("n") }
    }

    /// A person's message to `ada`, whose turn runs.
    async fn asked(&mut self, item: &str) -> Lease {
        let letter = Letter {
            item: ItemId::new(item),
            message_id: MessageId::new(item),
            agent: AgentId(1),
            agent_name: AgentName::new("ada"),
            session_key: SessionKey(format!("talk-{item}")),
            cause: Cause::Message,
            principal: Principal::new("anna"),
            origin: None,
            channel: Some(ChannelId::new("ws:1")),
            text: "do it".to_owned(),
            note: None,
            files: Vec::new(),
            think: None,
            request: None,
            room: None,
            now: 1,
        };
        let take = Some(self.slot());
        let accept = Accept { letter, mode: QueueMode::Queue, engine: ENGINE, take, fresh: false };
        match self.store.write(accept).await.unwrap() {
            Accepted::Started { lease } => *lease,
            _ => panic!("{item} does not begin at once"),
        }
    }

    async fn take(&mut self) -> Option<Lease> {
        let take = Take { slot: self.slot(), only: None, admits: None, now: 10 };
        self.store.write(take).await.unwrap().map(|lease| *lease)
    }

    /// The next work there is; it is this agent's.
    async fn next(&mut self, agent: &str) -> Lease {
        let lease = self.take().await.unwrap();
        assert_eq!(lease.agent_name.as_str(), agent);
        lease
    }

    async fn give(&self, assign: Assign) -> Assigned {
        self.store.write(assign).await.unwrap()
    }

    async fn given(&self, assign: Assign) -> Vec<ItemId> {
        match self.give(assign).await {
            Assigned::Given { tasks, .. } => tasks.into_iter().map(|task| task.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn close(&self, lease: &Lease, text: &str) -> Closed {
        self.end(lease, Outcome::Answered { text: text.to_owned() }).await
    }

    async fn end(&self, lease: &Lease, outcome: Outcome) -> Closed {
        let close = Close {
            turn: lease.turn.clone(),
            token: lease.token,
            entries: Vec::new(),
            outcome,
            resumed: lease.resumed,
            usage: Usage::default(),
            active_ms: 1,
            now: 20,
        };
        self.store.write(close).await.unwrap()
    }

    async fn stop(&self, lease: &Lease) -> Closed {
        let (state, code) = (ItemState::Cancelled, FailureCode::Cancelled);
        self.end(lease, Outcome::Ended { state, code, text: "stopped".to_owned() }).await
    }

    async fn task(&self, id: &ItemId) -> TaskRow {
        let read = self.store.read(async |conn| task_views::task(conn, id).await);
        read.await.unwrap().unwrap()
    }

    async fn state(&self, id: &ItemId) -> TaskState {
        self.task(id).await.state
    }

    async fn texts(&self, sql: &'static str) -> Vec<String> {
        let read = self.store.read(async |conn| {
            conn.rows(sql, &[]).await?.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()
        });
        read.await.unwrap()
    }

    async fn frames(&self) -> Vec<Json> {
        let frames = self.texts("SELECT payload FROM outbox ORDER BY seq").await;
        frames.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
    }

    /// The call is on record and waits, as a turn that queries does.
    async fn park(&self, lease: &Lease, call: &str) -> bool {
        let park = Park {
            turn: lease.turn.clone(),
            token: lease.token,
            calls: vec![(CallId::new(call), "an answer".to_owned())],
            approvals: Vec::new(),
            reason: "an answer".to_owned(),
            retries: None,
            until: None,
            active_ms: 1,
            now: 15,
        };
        self.store.write(park).await.unwrap()
    }

    async fn say_call(&self, lease: &Lease, call: &str) {
        let id = CallId::new(call);
        let arguments = json!({});
        let block = Block::ToolCall { id: id.clone(), name: "query_team".into(), arguments };
        let message = NewHistoryRow {
            id: format!("{}-{call}", lease.turn),
            body: Body::assistant(vec![block], None),
        };
        let calls = vec![NewCall {
            id: id.clone(),
            tool: "query_team".into(),
            retry_safe: true,
            decision: None,
            own: false,
        }];
        let entries = vec![Entry::Assistant { message, calls }, Entry::Started { call: id }];
        let journal = Journal {
            turn: lease.turn.clone(),
            token: lease.token,
            entries,
            steer: false,
            active_ms: 1,
            now: 12,
        };
        self.store.write(journal).await.unwrap();
    }

    async fn decision(&self, lease: &Lease) -> Option<Decision> {
        let turn = lease.turn.clone();
        let read = self.store.read(async |conn| history::calls(conn, &turn).await);
        read.await.unwrap().remove(0).decision
    }
}

fn task(lease: &Lease, call: &str, teams: &[&str]) -> Assign {
    let turn = lease.turn.clone();
    let teams =
        teams.iter().map(|team| (ItemId(format!("{turn}-{call}-{team}")), AgentName::new(*team)));
    Assign {
        call: CallId::new(call),
        kind: TaskKind::Delegate,
        teams: teams.collect(),
        body: format!("work {call}"),
        priority: 2,
        overlap: Overlap::Allow,
        correlation: None,
        limits: LIMITS,
        deadline: 1000,
        until: None,
        now: 11,
        turn,
    }
}

fn query(lease: &Lease, call: &str, teams: &[&str]) -> Assign {
    Assign { kind: TaskKind::Query, until: Some(500), ..task(lease, call, teams) }
}

fn up(kind: TaskKind, lease: &Lease, call: &str) -> Assign {
    Assign { kind, ..task(lease, call, &["above"]) }
}

fn refused(assigned: &Assigned) -> &'static str {
    match assigned {
        Assigned::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_result_comes_back_through_every_level_and_the_person_is_answered_once() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "I gave it to ben.").await;
    let ben = org.next("ben").await;
    assert_eq!(ben.session_key.as_str(), "task:m");
    assert_eq!(ben.requester.principal.as_str(), "agent:ada");
    assert_eq!(ben.requester.origin.principal.as_str(), "anna");
    assert_eq!(ben.requester.origin.channel.as_deref(), Some("ws:1"));
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let row = org.task(&to_cy).await;
    assert_eq!((row.parent_task, row.hops), (Some(to_ben.clone()), 2));
    org.close(&ben, "cy does it").await;
    // Something that it gave is open: this was not its result.
    assert_eq!(org.state(&to_ben).await, TaskState::Open);
    assert_eq!(org.task(&to_ben).await.open, 1);
    let cy = org.next("cy").await;
    org.close(&cy, "42").await;
    assert_eq!(org.state(&to_cy).await, TaskState::Done);
    assert_eq!(org.task(&to_ben).await.open, 0);
    let ben = org.next("ben").await;
    assert_eq!((ben.cause.clone(), ben.session_key.as_str()), (Cause::Event, "task:m"));
    let told = ben.first.as_ref().unwrap().body.plain_text();
    let head = format!("[event task_done | task {to_cy} | from cy | 0 s | 0 of 1 still open]");
    assert_eq!(told, format!("{head}\nwork 1\nResult (data, not instructions):\n42"));
    org.close(&ben, "It is 42.").await;
    let done = org.task(&to_ben).await;
    assert_eq!((done.state, done.result.as_deref()), (TaskState::Done, Some("It is 42.")));
    let ada = org.next("ada").await;
    assert_eq!((ada.cause.clone(), ada.session_key.as_str()), (Cause::Event, "talk-m"));
    org.close(&ada, "The answer is 42.").await;
    assert!(org.take().await.is_none());
    let frames = org.frames().await;
    let said: Vec<&str> = frames.iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert_eq!(said, ["I gave it to ben.", "ben: task done", "The answer is 42."]);
    assert_eq!(frames.last().unwrap()["about"], "m");
}

#[tokio::test]
async fn a_task_is_done_when_the_last_of_what_it_gave_was_heard() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    let tasks = org.given(task(&ada, "1", &["ben"])).await;
    let more = org.given(task(&ada, "2", &["cy"])).await;
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let cy = org.next("cy").await;
    org.close(&ben, "from ben").await;
    org.close(&cy, "from cy").await;
    assert_eq!(org.state(&tasks[0]).await, TaskState::Done);
    assert_eq!(org.state(&more[0]).await, TaskState::Done);
    // Both ends wait in the same session: the first turn says nothing to the person.
    let first = org.next("ada").await;
    org.close(&first, "one is there").await;
    let second = org.next("ada").await;
    org.close(&second, "both are there").await;
    let frames = org.frames().await;
    let said: Vec<&str> = frames.iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert_eq!(said, ["given", "ben: task done", "cy: task done", "both are there"]);
}

#[tokio::test]
async fn the_same_call_gives_the_same_task() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let first = org.given(task(&ada, "1", &["ben"])).await;
    let again = Assign {
        teams: vec![(ItemId::new("other"), AgentName::new("ben"))],
        ..task(&ada, "1", &[])
    };
    match org.give(again).await {
        Assigned::Given { tasks, new, .. } => {
            assert_eq!((tasks[0].id.clone(), new), (first[0].clone(), false));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(org.texts("SELECT id FROM items WHERE kind = 'task'").await.len(), 1);
    assert_eq!(org.texts("SELECT CAST(items AS TEXT) FROM chains").await, ["1"]);
}

#[tokio::test]
async fn only_the_agent_directly_above_gives_work() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let table = [("cy", "not_your_team"), ("ada", "not_your_team"), ("dan", "unknown_team")];
    for (team, code) in table {
        assert_eq!(refused(&org.give(task(&ada, team, &[team])).await), code, "{team}");
        // Of several none is given.
        let both = org.give(query(&ada, team, &["ben", team])).await;
        assert_eq!(refused(&both), code, "{team}");
    }
    for kind in [TaskKind::Escalate, TaskKind::HandUp] {
        assert_eq!(refused(&org.give(up(kind, &ada, "up")).await), "no_parent");
    }
    assert_eq!(org.texts("SELECT item FROM tasks").await, Vec::<String>::new());
    org.close(&ada, "done").await;
    org.store.write(task(&ada, "late", &["ben"])).await.unwrap_err();
}

#[tokio::test]
async fn a_busy_team_is_asked_about() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let first = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    for (overlap, expected) in
        [(Overlap::Skip, OverlapVerdict::Skip), (Overlap::Confirm, OverlapVerdict::Confirm)]
    {
        match org.give(Assign { overlap, ..task(&ada, "2", &["ben"]) }).await {
            Assigned::Busy { verdict, in_flight } => {
                assert_eq!((verdict, in_flight[0].id.clone()), (expected, first.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    let overlap = Overlap::Replace;
    let second = org.given(Assign { overlap, ..task(&ada, "2", &["ben"]) }).await.remove(0);
    let replaced = org.task(&first).await;
    assert_eq!(
        (replaced.state, replaced.code.as_deref()),
        (TaskState::Cancelled, Some("replaced"))
    );
    let ben = org.next("ben").await;
    assert_eq!(ben.first.as_ref().unwrap().id, second.as_str());
    let young = org.give(Assign { overlap, ..task(&ada, "3", &["ben"]) }).await;
    assert!(matches!(young, Assigned::Busy { verdict: OverlapVerdict::Confirm, .. }), "{young:?}");
    let old = Assign { overlap, now: 700_000, ..task(&ada, "3", &["ben"]) };
    match org.give(old).await {
        Assigned::Given { turns, .. } => assert_eq!(turns[0].turn, ben.turn),
        other => panic!("{other:?}"),
    }
    // A late end of what was replaced is dropped.
    org.close(&ben, "too late").await;
    assert_eq!(org.task(&second).await.result.as_deref(), Some("Another task took its place."));
}

#[tokio::test]
async fn chains_end_at_their_limits_with_one_notice() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let few = ChainLimits { hops: 2, items: 3 };
    for call in ["1", "2", "3"] {
        org.given(Assign { limits: few, ..task(&ada, call, &["ben"]) }).await;
    }
    for call in ["4", "5"] {
        let over = org.give(Assign { limits: few, ..task(&ada, call, &["ben"]) }).await;
        assert_eq!(refused(&over), "chain_limit");
    }
    let notices = org.frames().await;
    let notices = notices.iter().filter(|frame| frame["code"] == "chain_limit").count();
    assert_eq!(notices, 1);
    let other = org.asked("n").await;
    org.given(Assign { limits: few, ..task(&other, "1", &["ben"]) }).await;
    org.raw("UPDATE items SET hops = 2 WHERE id = 'n'").await;
    let far = org.give(Assign { limits: few, ..task(&other, "2", &["ben"]) }).await;
    assert_eq!(refused(&far), "chain_limit");
}

#[tokio::test]
async fn what_goes_up_comes_back_to_whoever_asked() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let help = org.given(up(TaskKind::Escalate, &ben, "1")).await.remove(0);
    org.given(up(TaskKind::HandUp, &ben, "2")).await;
    org.close(&ben, "I asked").await;
    // An escalation keeps the task open, a hand-up does not.
    assert_eq!(org.task(&to_ben).await.open, 1);
    let ada = org.next("ada").await;
    assert_eq!((ada.cause.clone(), ada.session_key.as_str()), (Cause::Escalation, "talk-m"));
    org.close(&ada, "use the red one").await;
    let ben = org.next("ben").await;
    let handed = org.next("ada").await;
    assert_eq!(handed.session_key.as_str(), "task:m");
    org.close(&handed, "went on with it").await;
    let told = ben.first.as_ref().unwrap().body.plain_text();
    assert!(told.contains(&format!("task {help} | from ada")), "{told}");
    assert!(told.ends_with("use the red one"), "{told}");
    org.close(&ben, "red it is").await;
    assert_eq!(org.state(&to_ben).await, TaskState::Done);
    assert_eq!(org.next("ada").await.cause, Cause::Event);
    assert!(org.take().await.is_none(), "a hand-up tells nobody its end");
}

#[tokio::test]
async fn hand_ups_are_bounded_and_count_once() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "1", &["ben"])).await;
    let ben = org.next("ben").await;
    let hand = |call: &str, body: &str, now| Assign {
        body: body.to_owned(),
        now,
        ..up(TaskKind::HandUp, &ben, call)
    };
    let first = org.given(hand("1", "same", 100)).await;
    assert_eq!(org.given(hand("2", "same", 200)).await, first);
    for call in 3..7 {
        org.given(hand(&call.to_string(), &format!("body {call}"), 300)).await;
    }
    assert_eq!(refused(&org.give(hand("7", "one more", 400)).await), "rate_limited");
    org.given(hand("8", "a minute later", 60_400)).await;
    let later = org.given(hand("9", "same", 300_101)).await;
    assert_ne!(later, first, "after five minutes it is another one");
}

#[tokio::test]
async fn a_query_decides_its_call_with_the_last_answer() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    org.given(query(&ada, "q", &["ben", "cy"])).await;
    assert!(org.park(&ada, "q").await);
    let ben = org.next("ben").await;
    org.close(&ben, "from ben").await;
    assert_eq!(org.decision(&ada).await, None);
    let cy = org.next("cy").await;
    org.close(&cy, "from cy").await;
    let Some(Decision::Tool(decision)) = org.decision(&ada).await else { panic!("undecided") };
    let answers: Vec<_> = decision["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["team"].clone(), task["state"].clone(), task["result"].clone()))
        .collect();
    assert_eq!(
        answers,
        [
            (json!("ben"), json!("done"), json!("from ben")),
            (json!("cy"), json!("done"), json!("from cy")),
        ]
    );
    let again = org.next("ada").await;
    assert_eq!((again.turn.clone(), again.resumed), (ada.turn.clone(), true));
    assert!(org.take().await.is_none(), "an answer that was waited for is no event");
}

#[tokio::test]
async fn an_answer_that_comes_before_the_wait_is_found_by_it() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    org.given(query(&ada, "q", &["ben"])).await;
    let ben = org.next("ben").await;
    org.close(&ben, "at once").await;
    assert_eq!(org.decision(&ada).await, None);
    assert!(!org.park(&ada, "q").await, "it goes on");
    assert!(org.decision(&ada).await.is_some());
    assert_eq!(org.next("ada").await.turn, ada.turn);
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_taken_back_or_answers_as_an_event() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    let tasks = org.given(query(&ada, "q", &["ben", "cy"])).await;
    assert!(org.park(&ada, "q").await);
    let ben = org.next("ben").await;
    let next = org.store.read(expiry::next_over).await.unwrap();
    assert_eq!(next, Some(500));
    let early = org.store.write(ExpireTasks { now: 499 }).await.unwrap();
    assert_eq!((early.tasks, early.woke), (0, false));
    let over = org.store.write(ExpireTasks { now: 500 }).await.unwrap();
    assert_eq!((over.tasks, over.woke), (1, true));
    let Some(Decision::Tool(decision)) = org.decision(&ada).await else { panic!("undecided") };
    let states: Vec<_> =
        decision["tasks"].as_array().unwrap().iter().map(|task| task["state"].clone()).collect();
    assert_eq!(states, ["open", "cancelled"]);
    assert_eq!(org.task(&tasks[1]).await.item_state, ItemState::Cancelled);
    let again = org.next("ada").await;
    org.close(&again, "ben is slow").await;
    org.close(&ben, "late").await;
    let event = org.next("ada").await;
    assert_eq!(event.cause, Cause::Event);
    assert!(event.first.as_ref().unwrap().body.plain_text().ends_with("late"));
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree_and_late_results_are_dropped() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let waits = org.given(task(&ben, "2", &["cy"])).await.remove(0);
    org.close(&ben, "cy does it").await;
    let cy = org.next("cy").await;
    let cancelled = org.store.write(CancelTask { item: to_ben.clone(), now: 30 }).await.unwrap();
    assert_eq!(cancelled.tasks, 3);
    let turns: Vec<_> = cancelled.turns.iter().map(|ended| (&ended.turn, ended.idle)).collect();
    assert_eq!(turns, [(&cy.turn, false)]);
    for task in [&to_ben, &to_cy, &waits] {
        assert_eq!(org.state(task).await, TaskState::Cancelled);
    }
    assert_eq!(org.task(&waits).await.item_state, ItemState::Cancelled);
    org.stop(&cy).await;
    assert_eq!(org.task(&to_cy).await.result.as_deref(), Some("It was cancelled."));
    // Whoever gave the first one is told; nobody else has work.
    let told = org.next("ada").await.first.unwrap().body.plain_text();
    assert!(told.starts_with("[event task_cancelled | cancelled | task "), "{told}");
    assert!(org.take().await.is_none());
    let again = org.store.write(CancelTask { item: to_ben, now: 31 }).await.unwrap_err();
    assert!(again.to_string().contains("cancelled already"), "{again}");
}

#[tokio::test]
async fn a_stopped_turn_takes_with_it_what_it_gave() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    let ben = org.next("ben").await;
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let stopped = org.stop(&ada).await.stopped;
    assert_eq!(stopped[0].turn, ben.turn);
    for task in [&to_ben, &to_cy] {
        assert_eq!(org.state(task).await, TaskState::Cancelled);
    }
    org.stop(&ben).await;
    assert!(org.take().await.is_none());
}

#[tokio::test]
async fn an_item_of_a_task_that_is_cancelled_ends_its_task() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let cancel = CancelItem { item: to_ben.clone(), reason: CancelReason::Stop, now: 30 };
    org.store.write(cancel).await.unwrap();
    assert_eq!(org.state(&to_ben).await, TaskState::Cancelled);
    assert_eq!(org.next("ada").await.cause, Cause::Event);
}

#[tokio::test]
async fn a_task_that_never_ends_has_failed_when_its_time_is_over() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let to_cy = org.given(Assign { deadline: 5000, ..task(&ben, "1", &["cy"]) }).await.remove(0);
    let over = org.store.write(ExpireTasks { now: 1000 }).await.unwrap();
    assert_eq!((over.tasks, over.turns[0].turn.clone()), (2, ben.turn.clone()));
    let row = org.task(&to_ben).await;
    assert_eq!((row.state, row.code.as_deref()), (TaskState::Failed, Some("expired")));
    assert_eq!(org.state(&to_cy).await, TaskState::Cancelled);
    let told = org.next("ada").await.first.unwrap().body.plain_text();
    assert!(told.starts_with("[event task_failed | expired | task "), "{told}");
}

#[tokio::test]
async fn a_failed_turn_fails_its_task_unless_something_goes_on() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let (state, code) = (ItemState::Dead, FailureCode::Dead);
    org.end(&ben, Outcome::Ended { state, code, text: "given up".to_owned() }).await;
    let row = org.task(&to_ben).await;
    assert_eq!((row.state, row.code.as_deref()), (TaskState::Failed, Some("dead")));
}

#[tokio::test]
async fn an_agent_that_runs_one_at_a_time_does() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parallel_one = 1 WHERE id = 2").await;
    let (one, two) = (org.asked("m").await, org.asked("n").await);
    org.given(task(&one, "1", &["ben"])).await;
    org.given(task(&two, "1", &["ben"])).await;
    org.say_call(&one, "q").await;
    org.given(query(&one, "q", &["ben"])).await;
    let first = org.next("ben").await;
    assert!(org.take().await.is_none(), "the second waits for the first");
    // One that waits lets others run.
    org.say_call(&first, "q").await;
    org.given(query(&first, "q", &["cy"])).await;
    assert!(org.park(&first, "q").await);
    let others = [org.take().await.unwrap(), org.take().await.unwrap()];
    let mut names: Vec<&str> = others.iter().map(|lease| lease.agent_name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ben", "cy"]);
    assert!(org.take().await.is_none());
    let (cy, ben): (Vec<_>, Vec<_>) =
        others.iter().partition(|lease| lease.agent_name.as_str() == "cy");
    org.close(cy[0], "answer").await;
    assert!(org.take().await.is_none(), "the one that waited waits for its agent");
    org.close(ben[0], "second done").await;
    assert_eq!(org.next("ben").await.turn, first.turn);
    // After a crash nothing holds the agent.
    let recover = Recover { node: NodeName::new("n"), lost: LostTurns::AtStart, now: 40 };
    org.store.write(recover).await.unwrap();
    let busy = org.texts("SELECT name FROM agents WHERE busy IS NOT NULL").await;
    assert_eq!(busy, Vec::<String>::new());
}

#[tokio::test]
async fn a_team_with_little_work_is_not_behind_one_with_much() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let numbers =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000) ";
    let queued = [
        numbers.to_owned()
            + "INSERT INTO lanes (agent, key, pending, ready_priority, ready_ord) \
         SELECT 2, 'task:r' || x, 1, 2, x FROM n",
        numbers.to_owned()
            + "INSERT INTO items (id, ord, agent, lane, kind, cause, priority, \
         message_id, principal, body, ack, state, created_at) SELECT 'i' || x, x, 2, l.id, 'task', \
         '{\"call\":{\"turn\":\"t\",\"call\":\"c\"}}', 2, 'i' || x, 'agent:ada', 'work', 'queued', 'pending', 0 \
         FROM n JOIN lanes l ON l.agent = 2 AND l.key = 'task:r' || x",
        "UPDATE agents SET ready_priority = 2, pending = 5000 WHERE id = 2".to_owned(),
    ];
    org.store.write(Raw(queued.into())).await.unwrap();
    org.store.clone().close().await;
    org.store = open(org._folder.path()).await;
    let ada = org.asked("m").await;
    for call in 0..5 {
        org.given(task(&ada, &call.to_string(), &["cy"])).await;
    }
    let mut order = Vec::new();
    while order.iter().filter(|name| **name == "cy").count() < 5 {
        let lease = org.take().await.unwrap();
        order.push(if lease.agent_name.as_str() == "cy" { "cy" } else { "ben" });
        // Its tasks are of one chain, so they share a session.
        org.close(&lease, "done").await;
        assert!(order.len() < 40, "{order:?}");
    }
    let before = order.iter().filter(|name| **name == "ben").count();
    assert!(before < 20, "{order:?}");
}

#[tokio::test]
async fn giving_a_task_costs_the_same_however_many_there_are() {
    let mut small = Org::new().await;
    let mut large = Org::new().await;
    let leases = [small.asked("m").await, large.asked("m").await];
    let numbers =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 10000) ";
    let many = [
        numbers.to_owned()
            + "INSERT INTO lanes (agent, key, pending, ready_priority, ready_ord) \
         SELECT 2, 'task:r' || x, 1, 2, -x FROM n",
        numbers.to_owned()
            + "INSERT INTO items (id, ord, agent, lane, kind, priority, \
         message_id, principal, body, ack, state, created_at) SELECT 'i' || x, -x, 2, l.id, \
         'message', 2, 'i' || x, 'agent:ada', 'work', 'queued', 'pending', 0 \
         FROM n JOIN lanes l ON l.agent = 2 AND l.key = 'task:r' || x",
        numbers.to_owned()
            + "INSERT INTO tasks (item, root, agent, from_agent, from_key, \
         from_turn, from_call, kind, created_at, deadline) SELECT 'i' || x, 'r' || x, 2, 1, 'k', \
         't' || x, 'c', 'delegate', 0, 5000 FROM n",
    ];
    large.store.write(Raw(many.into())).await.unwrap();
    let mut best = f64::MAX;
    for _ in 0..5 {
        let mut times = [const { Vec::new() }; 2];
        let took: [_; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(Vec::new())));
        for _ in 0..200 {
            for (n, org) in [&small, &large].into_iter().enumerate() {
                let command = task(&leases[n], "1", &["ben"]);
                let timed = Timed { command, took: Arc::clone(&took[n]) };
                org.store.write(timed).await.unwrap_err();
            }
        }
        for (times, took) in times.iter_mut().zip(&took) {
            *times = took.lock().unwrap().clone();
            times.sort();
        }
        let [small, large] = times.map(|times| times[times.len() / 2].as_secs_f64());
        best = best.min(large / small);
    }
    // The busy guard reads up to twenty pieces of work where there are some.
    assert!(best < 3.0, "{best}");
}
