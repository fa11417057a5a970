//! Three agents, one above the other, and what they do with tasks.

use serde_json::{Value as Json, json};
use skep_core::cause::{Cause, ItemOptions};
use skep_core::decision::Decision;
use skep_core::engine::FailureCode;
use skep_core::event::ItemState;
use skep_core::ids::*;
use skep_core::message::{Block, Body, Usage};
use skep_core::overlap::Overlap;
use skep_core::settings::QueueMode;
use skep_core::task::{TaskKind, TaskState};
use skep_store::assign::{Assign, Assigned, ChainLimits};
use skep_store::close::{Close, Closed, Outcome};
use skep_store::history::{self, NewHistoryRow};
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::journal::{Entry, Journal, NewCall};
use skep_store::leases::{Lease, Take};
use skep_store::task_views::{self, TaskRow};
use skep_store::waits::Park;

use crate::lab::{ENGINE, LabStore, Raw, furnished};

pub const LIMITS: ChainLimits = ChainLimits { hops: 16, items: 200 };

/// `ada` leads `ben`, who leads `cy`.
pub struct Org {
    pub store: LabStore,
    pub folder: tempfile::TempDir,
    made: i64,
}

impl Org {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = furnished(folder.path()).await;
        let org = Self { store, folder, made: 0 };
        org.raw("UPDATE agents SET parent_id = id - 1 WHERE id > 1").await;
        org
    }

    pub async fn raw(&self, sql: &str) {
        self.store.write(Raw(vec![sql.to_owned()])).await.unwrap();
    }

    pub fn slot(&mut self) -> NewTurn {
        self.made += 1;
        let (turn, session) = (format!("t{}", self.made), format!("s{}", self.made));
        let (turn, session) = (TurnId(turn), SessionId(session));
        NewTurn { turn, session, idle_ms: 1_000_000, node: NodeName::new("n") }
    }

    /// A person's message to `ada`, whose turn runs.
    pub async fn asked(&mut self, item: &str) -> Lease {
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
            skill: None,
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

    pub async fn take(&mut self) -> Option<Lease> {
        let take = Take { slot: self.slot(), only: None, admits: None, now: 10 };
        self.store.write(take).await.unwrap().map(|lease| *lease)
    }

    /// The next work there is; it is this agent's.
    pub async fn next(&mut self, agent: &str) -> Lease {
        let lease = self.take().await.unwrap();
        assert_eq!(lease.agent_name.as_str(), agent);
        lease
    }

    pub async fn give(&self, assign: Assign) -> Assigned {
        self.store.write(assign).await.unwrap()
    }

    pub async fn given(&self, assign: Assign) -> Vec<ItemId> {
        match self.give(assign).await {
            Assigned::Given { tasks, .. } => tasks.into_iter().map(|task| task.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn close(&self, lease: &Lease, text: &str) -> Closed {
        self.end(lease, Outcome::Answered { text: text.to_owned() }).await
    }

    pub async fn end(&self, lease: &Lease, outcome: Outcome) -> Closed {
        let close = Close {
            turn: lease.turn.clone(),
            token: lease.token,
            entries: Vec::new(),
            outcome,
            kept: Vec::new(),
            resumed: lease.resumed,
            usage: Usage::default(),
            active_ms: 1,
            now: 20,
        };
        self.store.write(close).await.unwrap()
    }

    pub async fn stop(&self, lease: &Lease) -> Closed {
        let (state, code) = (ItemState::Cancelled, FailureCode::Cancelled);
        self.end(lease, Outcome::Ended { state, code, text: "stopped".to_owned() }).await
    }

    pub async fn task(&self, id: &ItemId) -> TaskRow {
        let read = self.store.read(async |conn| task_views::task(conn, id).await);
        read.await.unwrap().unwrap()
    }

    pub async fn state(&self, id: &ItemId) -> TaskState {
        self.task(id).await.state
    }

    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        let read = self.store.read(async |conn| {
            conn.rows(sql, &[]).await?.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()
        });
        read.await.unwrap()
    }

    pub async fn frames(&self) -> Vec<Json> {
        let frames = self.texts("SELECT payload FROM outbox ORDER BY seq").await;
        frames.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
    }

    /// The call is on record and waits, as a turn that queries does.
    pub async fn park(&self, lease: &Lease, call: &str) -> bool {
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

    pub async fn say_call(&self, lease: &Lease, call: &str) {
        let id = CallId::new(call);
        let arguments = json!({});
        let block = Block::ToolCall { id: id.clone(), name: "query_team".into(), arguments };
        let body = Body::assistant(vec![block], None);
        let message = NewHistoryRow::new(format!("{}-{call}", lease.turn), body);
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

    /// What joins the turn at its next step.
    pub async fn steer(&self, lease: &Lease) -> Vec<String> {
        let journal = Journal {
            turn: lease.turn.clone(),
            token: lease.token,
            entries: Vec::new(),
            steer: true,
            active_ms: 1,
            now: 14,
        };
        let written = self.store.write(journal).await.unwrap();
        written.steered.iter().map(|message| message.body.plain_text()).collect()
    }

    pub async fn decision(&self, lease: &Lease) -> Option<Decision> {
        let turn = lease.turn.clone();
        let read = self.store.read(async |conn| history::calls(conn, &turn).await);
        read.await.unwrap().remove(0).decision
    }
}

pub fn task(lease: &Lease, call: &str, teams: &[&str]) -> Assign {
    let turn = lease.turn.clone();
    let teams =
        teams.iter().map(|team| (ItemId(format!("{turn}-{call}-{team}")), AgentName::new(*team)));
    Assign {
        call: CallId::new(call),
        kind: TaskKind::Delegate,
        teams: teams.collect(),
        body: format!("work {call}"),
        skill: None,
        priority: 2,
        overlap: Overlap::Allow,
        correlation: None,
        limits: LIMITS,
        deadline: 1000,
        until: None,
        question: None,
        options: ItemOptions::default(),
        now: 11,
        turn,
    }
}

pub fn query(lease: &Lease, call: &str, teams: &[&str]) -> Assign {
    Assign { kind: TaskKind::Query, until: Some(500), ..task(lease, call, teams) }
}

pub fn up(kind: TaskKind, lease: &Lease, call: &str) -> Assign {
    Assign { kind, ..task(lease, call, &["above"]) }
}

pub fn refused(assigned: &Assigned) -> &'static str {
    match assigned {
        Assigned::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}
