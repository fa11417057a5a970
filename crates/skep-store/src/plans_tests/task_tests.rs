//! Tasks: given, waited for, ended, cancelled, over, looked at.

use std::path::Path;

use skep_core::approval::{ApprovalKind, Scope};
use skep_core::cause::{CallRef, ItemOptions};
use skep_core::engine::FailureCode;
use skep_core::event::ItemState;
use skep_core::ids::*;
use skep_core::message::{Block, Body};
use skep_core::overlap::Overlap;
use skep_core::question::{AnswerForm, GivenAnswer};
use skep_core::settings::QueueMode;
use skep_core::task::TaskKind;

use super::{Story, approval, seen};
use crate::agents::{NewAgent, RegisterAgents};
use crate::approvals::{self, NewApproval};
use crate::assign::{Assign, Assigned, ChainLimits, NewQuestion};
use crate::cancel::CancelTask;
use crate::close::Outcome;
use crate::expiry::{self, ExpireTasks};
use crate::history::NewHistoryRow;
use crate::journal::{Entry, Journal, NewCall};
use crate::leases::Lease;
use crate::outbox::OpenChannel;
use crate::questions::{self, AnswerTask, Answerer};
use crate::task_views;
use crate::teams::{self, ChangeScope, ScopeChange};
use crate::waits::{AnswerApproval, Park};
use crate::{Command, CommandSet, OpenOptions, Refusal, Run, Store, StoreOf, Tx};

crate::commands! {
    enum Setup -> SetupOutcome, <Command as CommandSet>::SCHEMA;
    RegisterAgents, Below,
}

/// The second agent is below the first, and runs one turn at a time.
struct Below;

impl Run for Below {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        let below = "UPDATE agents SET parent_id = 1, parallel_one = 1 WHERE id = 2";
        tx.conn.run(below, &[]).await?;
        Ok(())
    }
}

pub fn assign(lease: &Lease, call: &str, kind: TaskKind) -> Assign {
    let item = ItemId(format!("{}-{call}", lease.turn));
    Assign {
        turn: lease.turn.clone(),
        call: CallId::new(call),
        kind,
        teams: vec![(item, AgentName::new("team"))],
        body: call.to_owned(),
        skill: None,
        priority: 2,
        overlap: Overlap::Replace,
        correlation: None,
        limits: ChainLimits { hops: 16, items: 4 },
        deadline: 50,
        until: (kind == TaskKind::Query).then_some(40),
        question: None,
        options: ItemOptions::default(),
        now: 9,
    }
}

/// The second below the first.
pub async fn two_agents(folder: &Path) -> (Store, AgentId, AgentId) {
    let options = || OpenOptions::in_run_folder(folder);
    let store = StoreOf::<Setup>::open(options(), |_| {}).await.unwrap();
    let agent = |name: &str| NewAgent::root(AgentName::new(name));
    let agents = vec![agent("main"), agent("team")];
    let ids = store.write(RegisterAgents { agents, now: 1 }).await.unwrap();
    store.write(Below).await.unwrap();
    store.close().await;
    let store = Store::open(options(), |_| {}).await.unwrap();
    let (channel, principal) = (ChannelId::new("ws:1"), Principal::new("operator"));
    store.write(OpenChannel { channel, principal, now: 1 }).await.unwrap();
    (store, ids[0].1, ids[1].1)
}

pub async fn give(store: &Store, assign: Assign) -> ItemId {
    match store.write(assign).await.unwrap() {
        Assigned::Given { tasks, .. } => tasks[0].id.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_statement_about_tasks_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let (store, main, team) = two_agents(folder.path()).await;
    let mut story = Story { store: store.clone(), agent: main, made: 0 };
    let first = story.accept(None, true, QueueMode::Queue).await.unwrap();
    let give = async |assign: Assign| give(&store, assign).await;
    let replaced = give(assign(&first, "a", TaskKind::Delegate)).await;
    let task = give(assign(&first, "b", TaskKind::Delegate)).await;
    query(&store, &first).await;
    scope(&store, &first, team).await;
    let worked = story.take(None).await.unwrap();
    assert_eq!(worked.agent, team);
    give(assign(&worked, "u", TaskKind::Escalate)).await;
    let over = store.write(assign(&worked, "h", TaskKind::HandUp)).await.unwrap();
    assert!(matches!(over, Assigned::Refused { code: "chain_limit", .. }), "{over:?}");
    let wide = ChainLimits { hops: 16, items: 9 };
    give(Assign { limits: wide, ..assign(&worked, "h", TaskKind::HandUp) }).await;
    subagent(&mut story, &worked).await;
    let asked = give(Assign { limits: wide, ..assign(&first, "o", TaskKind::Escalate) }).await;
    answer(&store, &asked, Answerer::Operator(Principal::new("operator"))).await;
    let question = NewQuestion { form: AnswerForm::default(), recipients: vec!["*".into()] };
    let peer = Assign {
        question: Some(question),
        limits: wide,
        ..assign(&first, "p", TaskKind::Question)
    };
    let peer = give(peer).await;
    let call = CallRef { turn: worked.turn.clone(), call: CallId::new("p") };
    answer(
        &store,
        &peer,
        Answerer::Agent { agent: team, agent_name: AgentName::new("team"), call },
    )
    .await;
    shapes(&store, &worked).await;
    store.write(ExpireTasks { now: 45 }).await.unwrap();
    store.write(CancelTask { item: task.clone(), now: 46 }).await.unwrap();
    let (state, code) = (ItemState::Cancelled, FailureCode::Cancelled);
    story.close(&worked, Outcome::Ended { state, code, text: "no".into() }).await;
    while let Some(lease) = story.take(None).await {
        story.close(&lease, Outcome::Answered { text: "yes".into() }).await;
    }
    store.write(ExpireTasks { now: 60 }).await.unwrap();
    store.write(CancelTask { item: task.clone(), now: 61 }).await.unwrap_err();
    store.read(expiry::next_over).await.unwrap();
    let read = store.read(async |conn| {
        let root = task_views::root_of(conn, &task).await?.unwrap();
        assert!(task_views::of_root(conn, &root).await?.len() > 3);
        assert_eq!(task_views::children(conn, main).await?.len(), 1);
        assert!(task_views::in_flight(conn, team, 9).await?.is_empty());
        let origin = task_views::task(conn, &replaced).await?.unwrap().origin;
        assert!(!task_views::ended(conn, team, &origin, 0, 9).await?.is_empty());
        let other = Principal::new("another");
        assert!(task_views::ended(conn, team, &other, 0, 9).await?.is_empty());
        assert_eq!(task_views::givers(conn, &worked.turn).await?.len(), 1);
        task_views::task(conn, &replaced).await
    });
    assert!(read.await.unwrap().is_some());
    seen::explain_all(folder.path(), &store, 60).await;
}

/// One of an agent that runs one turn at a time, beside that.
async fn subagent(story: &mut Story, worked: &Lease) {
    let options = ItemOptions { subagent: Some("critic".to_owned()) };
    let limits = ChainLimits { hops: 16, items: 9 };
    let sub = Assign { options, limits, priority: 0, ..assign(worked, "s", TaskKind::Subagent) };
    let sub = give(&story.store, sub).await;
    let lease = story.take(None).await.unwrap();
    assert_eq!((lease.agent, lease.options.subagent.as_deref()), (worked.agent, Some("critic")));
    story.close(&lease, Outcome::Answered { text: "yes".into() }).await;
    let read = story.store.read(async |conn| task_views::task(conn, &sub).await);
    assert_eq!(read.await.unwrap().unwrap().result.as_deref(), Some("yes"));
}

async fn answer(store: &Store, task: &ItemId, by: Answerer) {
    let (task, answer) = (task.clone(), GivenAnswer::words("yes"));
    store.write(AnswerTask { task, answer, by, now: 44 }).await.unwrap();
    assert!(
        store.read(async |conn| questions::of_operator(conn, 9).await).await.unwrap().is_empty()
    );
}

/// Changes of the hive are asked for, approved, denied and forgotten.
async fn shapes(store: &Store, lease: &Lease) {
    for (call, expires_at) in [("y", 90), ("n", 90), ("z", 10)] {
        let id = CallId::new(call);
        let asks = Block::ToolCall { id: id.clone(), name: "x".into(), arguments: ().into() };
        let message = NewHistoryRow::new(call.into(), Body::assistant(vec![asks], None));
        let tool = "x".to_owned();
        let new = NewCall { id: id.clone(), tool, retry_safe: true, decision: None, own: false };
        let (shape, kind) = (format!("shape-{call}"), ApprovalKind::Shape);
        let approval = NewApproval { id: shape, kind, call: id, expires_at, ..approval(lease) };
        let entries = vec![
            Entry::Assistant { message, calls: vec![new] },
            Entry::Asked { approval: Box::new(approval) },
        ];
        let (turn, token) = (lease.turn.clone(), lease.token);
        let journal = Journal { turn, token, entries, steer: false, active_ms: 1, now: 9 };
        store.write(journal).await.unwrap();
    }
    let open = store.read(async |conn| approvals::open_shapes(conn, lease.agent, 9).await);
    assert_eq!(open.await.unwrap(), 3);
    let asked = store.read(async |conn| questions::of_operator(conn, 9).await);
    assert!(asked.await.unwrap().is_empty(), "what is to be approved is no question");
    let (task, answer) = (ItemId::new("shape-y"), GivenAnswer::words("yes"));
    let by = Answerer::Operator(Principal::new("operator"));
    store.write(AnswerTask { task, answer, by, now: 9 }).await.unwrap_err();
    for (call, approve) in [("y", true), ("n", false)] {
        let answer = AnswerApproval {
            id: format!("shape-{call}"),
            approve,
            scope: Scope::Once,
            patterns: Vec::new(),
            note: None,
            hash: "h".into(),
            by: "operator".into(),
            from: "rest".into(),
            grants: Vec::new(),
            event: None,
            now: 9,
        };
        store.write(answer).await.unwrap();
    }
    assert_eq!(store.write(ExpireTasks { now: 11 }).await.unwrap().tasks, 1);
}

/// A team is described and looked at.
async fn scope(store: &Store, lease: &Lease, team: AgentId) {
    let word = || vec!["books".to_owned()];
    let change = |add, remove| ChangeScope {
        turn: lease.turn.clone(),
        team: AgentName::new("team"),
        add,
        remove,
    };
    let changed = store.write(change(word(), vec!["paper".to_owned()])).await.unwrap();
    assert_eq!(changed, ScopeChange::Changed(word()));
    let refused = store.write(change(Vec::new(), word())).await.unwrap();
    assert!(matches!(refused, ScopeChange::Refused { code: "no_keywords", .. }), "{refused:?}");
    let read = store.read(async |conn| {
        assert_eq!(teams::words(conn, team).await?, word());
        assert_eq!(teams::open_turns(conn, lease.agent, 9).await?.len(), 1);
        assert!(teams::current_task(conn, team, None).await?.is_none());
        teams::below(conn, lease.agent).await
    });
    let below = read.await.unwrap();
    assert_eq!((below[0].id, below[0].pending), (team, 2));
}

/// A call that waits for an answer.
async fn query(store: &Store, lease: &Lease) {
    let ask = async || {
        store.write(assign(lease, "q", TaskKind::Query)).await.unwrap();
    };
    wait_for(store, lease, "q", ask).await;
}

/// A call that is on record, does something, and waits.
pub async fn wait_for(store: &Store, lease: &Lease, call: &str, does: impl AsyncFnOnce()) {
    let (id, name) = (CallId::new(call), "query_team".to_owned());
    let asks = Block::ToolCall { id: id.clone(), name: name.clone(), arguments: ().into() };
    let message = NewHistoryRow::new(call.to_owned(), Body::assistant(vec![asks], None));
    let new = NewCall { id: id.clone(), tool: name, retry_safe: true, decision: None, own: false };
    let entries =
        vec![Entry::Assistant { message, calls: vec![new] }, Entry::Started { call: id.clone() }];
    let (turn, token) = (lease.turn.clone(), lease.token);
    let journal =
        Journal { turn: turn.clone(), token, entries, steer: false, active_ms: 1, now: 9 };
    store.write(journal).await.unwrap();
    does().await;
    let park = Park {
        turn,
        token,
        calls: vec![(id, "an answer".to_owned())],
        approvals: Vec::new(),
        reason: "an answer".to_owned(),
        retries: None,
        until: None,
        active_ms: 1,
        now: 9,
    };
    assert!(store.write(park).await.unwrap());
}
