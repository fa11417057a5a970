//! No statement of the product walks a table or sorts: each one that ran is explained.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents_tests;
mod allowed_tests;
mod deletion_tests;
mod letter_tests;
mod op_tests;
mod samples_tests;
mod seen_tests;
mod task_tests;
mod turn_writes_tests;
mod work_tests;

use samples_tests::{approval, meta};
use seen_tests as seen;
use serde_json::json;
use skep_core::approval::{ApprovalState, Scope};
use skep_core::bucket::Bucket;
use skep_core::cause::{CallRef, Cause};
use skep_core::channel::Delivery;
use skep_core::compaction::{self, Reason, Seam};
use skep_core::decision::Decision;
use skep_core::engine::{Capabilities, FailureCode, RetryCode};
use skep_core::event::{CallState, CancelReason, ItemState, Resolution};
use skep_core::file::File;
use skep_core::ids::*;
use skep_core::message::{Block, Body, Message, Usage, View};
use skep_core::role::{Grant, Sight};
use skep_core::settings::{QueueMode, Think};
use skep_core::spend::Span;
use skep_db::audit_chain;

use crate::agents::{self, EgressBucket, KeepBuckets, NewAgent, RegisterAgents};
use crate::approvals::{self, Approval, ExpireReopened, NoteRefused, Reopen};
use crate::audit;
use crate::begin::BeginSession;
use crate::close::{Close, Outcome};
use crate::grants::{self, AddGrant, GrantRow, RevokeGrant};
use crate::history::{self, NewHistoryRow, Rows};
use crate::import::Import;
use crate::inbox::{Accept, Accepted, Action, LaneChoice, Letter, NewTurn, Order, StopLane};
use crate::item_views::{self, CancelItem, Cancelled, Retry};
use crate::journal::{Audit, Entry, Journal, NewCall};
use crate::lanes::{self, ClockSetBack, Unhold, WakeLanes};
use crate::leases::{self, Lease, LostTurns, Recover, Release, RenewLeases, Take};
use crate::outbox::{self, FrameRecord, OpenChannel, RecordFrames};
use crate::outcomes::{self, Resolve};
use crate::retention::Expire;
use crate::search::{self, IndexSpoken, Search};
use crate::sessions::{self, ForkSession};
use crate::spend::{self, ChargeLost, Unsettled, Unusable};
use crate::tokens::{self, AddToken, RevokeToken};
use crate::waits::{AnswerApproval, Decide, Park, RetryNow};
use crate::{OpenOptions, Store, compactions, files, requests::Request, watch};

#[tokio::test]
async fn every_statement_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let store = Store::open(OpenOptions::in_run_folder(folder.path()), |_| {}).await.unwrap();
    Story { store: store.clone(), agent: AgentId(1), made: 0 }.tell().await;
    seen::explain_all(folder.path(), &store, 60).await;
}

/// Runs every command and every read at least once, on all of their ways.
struct Story {
    store: Store,
    agent: AgentId,
    made: i64,
}

impl Story {
    async fn tell(mut self) {
        for _ in 0..2 {
            let agents = vec![NewAgent::root(AgentName::new("main"))];
            let ids = self.store.write(RegisterAgents { agents, now: 1 }).await.unwrap();
            self.agent = ids[0].1;
        }
        self.place_agents().await;
        let (channel, principal) = (ChannelId::new("ws:1"), Principal::new("operator"));
        let open = OpenChannel { channel: channel.clone(), principal, now: 1 };
        self.store.write(open).await.unwrap();
        let first = self.accept(Some("1"), true, QueueMode::Queue).await.unwrap();
        self.accept(Some("1"), true, QueueMode::Queue).await;
        self.accept(None, false, QueueMode::Queue).await;
        self.journal(&first).await;
        self.accept(None, false, QueueMode::Interrupt).await;
        self.park_and_decide(&first).await;
        self.answer_questions(self.agent).await;
        let node = NodeName::new("n");
        self.store.write(RenewLeases { node: node.clone(), now: 5 }).await.unwrap();
        self.store.read(async |conn| leases::next_over(conn, &node).await).await.unwrap();
        for lost in [LostTurns::OfOthers, LostTurns::AtStart] {
            self.store.write(Recover { node: node.clone(), lost, now: 5 }).await.unwrap();
        }
        self.hold().await;
        let second = self.take(None).await.unwrap();
        self.close(&second, Outcome::Answered { text: "yes".into() }).await;
        for action in [Action::Stop, Action::NewSession, Action::Say("hi".into())] {
            self.order(action).await;
        }
        let stop = StopLane { agent: self.agent, session_key: key(), now: 6 };
        self.store.write(stop).await.unwrap();
        let third = self.take(None).await.unwrap();
        let (state, code) = (ItemState::Failed, FailureCode::Dead);
        self.close(&third, Outcome::Ended { state, code, text: "no".into() }).await;
        self.cancel_and_retry().await;
        self.accept(None, true, QueueMode::Queue).await;
        self.rest(&channel).await;
        self.sessions(&first).await;
        self.reads(&channel, &first).await;
        self.reckon(&first).await;
        self.delete(&first).await;
    }

    async fn reckon(&mut self, lease: &Lease) {
        let (turn, token, agent) = (lease.turn.clone(), lease.token, self.agent);
        let (profile, usage, now) = (String::from("p"), Usage::default(), 9);
        let unsettled = Unsettled { agent, profile: profile.clone(), usage, now };
        self.store.write(unsettled).await.unwrap();
        self.store.write(Unusable { agent, meta: meta(), now }).await.unwrap();
        let lost = ChargeLost { turn: turn.clone(), token, agent, profile, usage, now };
        assert!(!self.store.write(lost).await.unwrap());
        for again in [false, true] {
            let resolve = Resolve {
                turn: turn.clone(),
                call: CallId::new("a"),
                outcome: Resolution::Happened,
                note: None,
                principal: Principal::new("operator"),
                again: None,
                now,
            };
            assert_eq!(self.store.write(resolve).await.is_err(), again);
        }
        let call = CallRef { turn, call: CallId::new("a") };
        let read = self.store.read(async |conn| outcomes::made(conn, &call).await);
        assert_eq!(read.await.unwrap(), Some(("x".to_owned(), json!({}))));
    }

    fn slot(&mut self) -> NewTurn {
        self.made += 1;
        let turn = TurnId(format!("t{}", self.made));
        let session = SessionId(format!("s{}", self.made));
        NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") }
    }

    fn letter(&mut self, id: Option<&str>) -> Letter {
        self.made += 1;
        let item = format!("i{}", self.made);
        Letter {
            item: ItemId(item.clone()),
            message_id: MessageId(item),
            agent: self.agent,
            agent_name: AgentName::new("main"),
            session_key: key(),
            cause: Cause::Message,
            principal: Principal::new("operator"),
            origin: None,
            channel: Some(ChannelId::new("ws:1")),
            text: "hello".into(),
            note: None,
            files: vec![File::new("a.txt", "text/plain", &b"a"[..])],
            skill: None,
            think: None,
            request: id.map(|id| Request {
                scope: "ws:1".into(),
                id: id.to_owned(),
                body_hash: [0; 32],
            }),
            room: Some(1 << 20),
            now: 2,
        }
    }

    async fn accept(&mut self, id: Option<&str>, take: bool, mode: QueueMode) -> Option<Lease> {
        let engine = engine();
        let (letter, slot) = (self.letter(id), self.slot());
        let take = take.then_some(slot);
        let accept = Accept { letter, mode, engine, take, fresh: false };
        match self.store.write(accept).await.unwrap() {
            Accepted::Started { lease } => Some(*lease),
            _ => None,
        }
    }

    async fn cancel_and_retry(&mut self) {
        let item = ItemId(format!("i{}", self.made + 1));
        self.accept(None, false, QueueMode::Queue).await;
        let cancel = CancelItem { item: item.clone(), reason: CancelReason::Stop, now: 7 };
        assert_eq!(self.store.write(cancel).await.unwrap(), Cancelled::Ended);
        let letter = self.letter(None);
        let (mode, engine) = (QueueMode::Queue, engine());
        let accept = Accept { letter, mode, engine, take: None, fresh: false };
        let again = accept.letter.item.clone();
        self.store.write(Retry { of: item.clone(), accept, fork: None }).await.unwrap();
        let trace = self.store.read(async |conn| item_views::trace(conn, &item).await);
        assert_eq!(trace.await.unwrap().retried_as, Some(again));
        let calls = self.store.read(async |conn| watch::calls(conn, "v1:", 0).await);
        assert_eq!(calls.await.unwrap(), []);
    }

    async fn order(&mut self, action: Action) {
        let letter = self.letter(None);
        self.store.write(Order { letter, action }).await.unwrap();
    }

    async fn take(&mut self, only: Option<TurnId>) -> Option<Lease> {
        let slot = self.slot();
        let lease = self.store.write(Take { slot, only, admits: None, now: 9 }).await.unwrap();
        lease.map(|lease| *lease)
    }

    /// A lane whose sender may not begin a turn now is passed over until there is room.
    async fn hold(&mut self) {
        let take = Take {
            slot: self.slot(),
            only: None,
            admits: Some(std::sync::Arc::new(|by| by != "operator")),
            now: 9,
        };
        assert!(self.store.write(take).await.unwrap().is_none());
        assert!(self.take(None).await.is_none(), "what is held is not ready");
        assert_eq!(self.store.read(lanes::held).await.unwrap(), ["operator"]);
        let unhold = |most| Unhold { by: "operator".into(), most, now: 9 };
        assert_eq!(self.store.write(unhold(0)).await.unwrap(), (0, true));
        assert_eq!(self.store.write(unhold(5)).await.unwrap(), (1, false));
        assert_eq!(self.store.read(lanes::held).await.unwrap(), Vec::<String>::new());
    }

    async fn journal(&mut self, lease: &Lease) {
        let new = |id: &str| {
            let (id, tool) = (CallId::new(id), "x".into());
            NewCall { id, tool, retry_safe: false, decision: None, own: false }
        };
        let message = |id: &str, body| NewHistoryRow::new(id.to_owned(), body);
        let audit = Audit {
            call: CallId::new("a"),
            tool: "x".into(),
            arguments: json!({}),
            decision: "allowed".into(),
            outcome: "done",
            took_ms: 1,
            bytes: 1,
        };
        let (id, name) = (CallId::new("a"), "x".to_owned());
        let asks = Block::ToolCall { id, name, arguments: json!({}) };
        let meta = meta();
        let entries = vec![
            Entry::Assistant {
                message: message("m1", Body::assistant(vec![asks], Some(meta))),
                calls: vec![new("a"), new("b")],
            },
            Entry::Queued,
            Entry::Started { call: CallId::new("a") },
            Entry::Unstarted { call: CallId::new("a"), approval: Some("none".into()) },
            Entry::Started { call: CallId::new("a") },
            Entry::Note { text: "n".into() },
            Entry::Seam {
                message: message(
                    "m3",
                    compaction::seam(&Seam { upto: 1, messages: 1, reason: Reason::Full }, "notes"),
                ),
            },
            Entry::Result {
                message: message(
                    "m2",
                    Body::tool_result(CallId::new("a"), "x", String::new(), false),
                ),
                call: CallId::new("a"),
                state: CallState::Unknown,
                audit: Some(Box::new(audit)),
            },
        ];
        let (turn, token) = (lease.turn.clone(), lease.token);
        let journal = Journal { turn, token, entries, steer: true, active_ms: 1, now: 3 };
        assert_eq!(self.store.write(journal).await.unwrap().steered.len(), 1);
    }

    async fn park_and_decide(&mut self, first: &Lease) {
        let park = |lease: &Lease, until| Park {
            turn: lease.turn.clone(),
            token: lease.token,
            calls: vec![(CallId::new("b"), "a person".into())],
            approvals: vec![approval(lease)],
            reason: "a person".into(),
            retries: None,
            until,
            active_ms: 1,
            now: 4,
        };
        self.store.write(park(first, None)).await.unwrap();
        let lease = self.take(Some(first.turn.clone())).await.unwrap();
        let (turn, token, until) = (lease.turn.clone(), lease.token, Some(4));
        let (retries, counts) = (Some((RetryCode::Overloaded, "busy".to_owned())), true);
        let release = Release { turn, token, until, retries, counts, active_ms: 1, now: 4 };
        self.store.write(release).await.unwrap();
        assert!(self.store.write(RetryNow { turn: lease.turn, now: 4 }).await.is_err());
        let lease = self.take(None).await.unwrap();
        // The interrupt stands: it does not wait.
        assert!(!self.store.write(park(&lease, Some(5))).await.unwrap());
        let (turn, decision) = (lease.turn, Decision::Tool(json!(true)));
        let decide = Decide { turn, call: CallId::new("b"), decision, now: 4 };
        self.store.write(decide).await.unwrap();
        self.store.write(WakeLanes { now: 6 }).await.unwrap();
        self.store.write(ClockSetBack { now: 3 }).await.unwrap();
        let bucket = Bucket { tokens: 1, at: 5 };
        let row = EgressBucket { agent: self.agent, host: "h".to_owned(), bucket };
        self.store.write(KeepBuckets { buckets: vec![row], now: 6 }).await.unwrap();
        self.take(None).await.unwrap();
    }

    /// Questions: asked with a wait, answered, expired, asked again, withdrawn.
    async fn answer_questions(&mut self, agent: AgentId) {
        let page = async |state| {
            let read =
                self.store.read(async |conn| approvals::page(conn, state, None, 99, 9).await);
            read.await.unwrap()
        };
        let open = page(ApprovalState::Open).await;
        assert!(!open.is_empty());
        let answer = |row: &Approval, now| AnswerApproval {
            id: row.id.clone(),
            approve: true,
            scope: Scope::Once,
            patterns: Vec::new(),
            note: None,
            hash: "h".into(),
            by: "operator".into(),
            from: "rest".into(),
            grants: Vec::new(),
            event: None,
            now,
        };
        // Decided through the turn already: what is refused is refused whole.
        for row in &open {
            let _ = self.store.write(answer(row, 1)).await;
            let read = self.store.read(async |conn| approvals::open_of_turn(conn, &row.turn).await);
            read.await.unwrap();
            let read = self.store.read(async |conn| approvals::asked_by(conn, &row.turn).await);
            read.await.unwrap();
            let reopen = Reopen { id: row.id.clone(), by: "p".into(), expires_at: 5, now: 5 };
            let _ = self.store.write(reopen).await;
            let (id, why) = (row.id.clone(), "no".to_owned());
            self.store.write(NoteRefused { id, by: "p".into(), why, now: 5 }).await.unwrap();
        }
        self.store.write(ExpireReopened { now: 9 }).await.unwrap();
        self.store.read(approvals::next_over).await.unwrap();
        let read = self.store.read(async |conn| {
            approvals::unused(conn, Some(agent), 99, 9).await?;
            approvals::page(conn, ApprovalState::Open, Some(agent), 99, 9).await
        });
        read.await.unwrap();
        let grant = GrantRow {
            id: "g".into(),
            agent,
            agent_name: AgentName::new("main"),
            session: None,
            tool: "bash".into(),
            path: None,
            command: Some("git".into()),
            host: None,
            grants: vec!["any".into()],
            made_by: "operator".into(),
            made_at: 1,
            until: Some(50),
        };
        self.store.write(AddGrant(grant.clone())).await.unwrap();
        let read = self.store.read(async |conn| grants::of_agent(conn, agent, 2).await);
        assert_eq!(read.await.unwrap(), [grant]);
        self.store.write(RevokeGrant { id: "g".into(), by: "p".into(), now: 3 }).await.unwrap();
        let read = self.store.read(async |conn| grants::of_agent(conn, agent, 4).await);
        assert_eq!(read.await.unwrap(), []);
    }

    async fn close(&mut self, lease: &Lease, outcome: Outcome) {
        let close = Close {
            turn: lease.turn.clone(),
            token: lease.token,
            entries: Vec::new(),
            outcome,
            kept: Vec::new(),
            resumed: true,
            usage: Usage::default(),
            active_ms: 1,
            now: 7,
        };
        self.store.write(close).await.unwrap();
    }

    async fn rest(&mut self, channel: &ChannelId) {
        let (channel, delivery) = (channel.clone(), Delivery::Retry { at: 1 });
        let records = vec![FrameRecord { channel, from: 1, to: 1, delivery }];
        self.store.write(RecordFrames { records }).await.unwrap();
        let (id, name, grant, by) = ("k".into(), "k".into(), Grant::operator(), Some("p".into()));
        let token = AddToken { id, name, grant, hash: [1; 32], by, now: 1 };
        self.store.write(token).await.unwrap();
        self.store.write(RevokeToken { id: "k".into(), by: "p".into(), now: 1 }).await.unwrap();
        self.change_vault().await;
        for _ in 0..2 {
            let body = Body::assistant(vec![Block::text("earlier")], None);
            let begin = BeginSession {
                agent: self.agent,
                agent_name: AgentName::new("main"),
                session_key: SessionKey::new("given"),
                session: SessionId::new("given"),
                turn: TurnId::new("given"),
                messages: vec![NewHistoryRow::new("given".into(), body)],
                principal: Principal::new("token:p"),
                room: Some(1 << 20),
                now: 1,
            };
            self.store.write(begin).await.unwrap();
        }
        let expire = Expire {
            events_before: 100,
            frames_before: 100,
            frames_after: String::new(),
            ids_before: 100,
            files_before: 100,
            audit_before: 100,
            now: 100,
        };
        assert!(self.store.write(expire).await.unwrap().is_some());
    }

    async fn sessions(&mut self, lease: &Lease) {
        let (agent, agent_name) = (self.agent, AgentName::new("main"));
        for choice in
            [LaneChoice::Profile(Some("fast".into())), LaneChoice::Think(Some(Think::Low))]
        {
            self.order(Action::Choose { choice, say: "yes".into() }).await;
        }
        let fork = |at, session: &str| ForkSession {
            agent,
            agent_name: agent_name.clone(),
            from: lease.session.clone(),
            at,
            session: SessionId::new(session),
            key: SessionKey::new("fork"),
            spoken: Vec::new(),
            now: 8,
        };
        assert!(self.store.write(fork(Some(2), "no")).await.is_err());
        assert!(self.store.write(fork(None, "copy")).await.unwrap() > 3);
        let (name, copy) = (agent_name.clone(), SessionId::new("copy"));
        let rows = self.store.read(async |conn| history::whole(conn, &name, &copy, 0).await);
        let messages = rows.await.unwrap();
        for session in ["copy", "new"] {
            let messages = messages.iter().cloned().map(|message| skep_core::message::Message {
                session_id: SessionId::new(session),
                ..message
            });
            let import = Import {
                agent,
                agent_name: agent_name.clone(),
                session: SessionId::new(session),
                key: SessionKey::new("import"),
                messages: messages.collect(),
                bytes: 1,
                now: 9,
            };
            self.store.write(import).await.unwrap();
        }
        assert_eq!(self.store.write(IndexSpoken { rows: 1000 }).await.unwrap(), 0);
    }

    async fn reads(&mut self, channel: &ChannelId, lease: &Lease) {
        let (agent, name) = (self.agent, AgentName::new("main"));
        let (session, turn) = (lease.session.clone(), lease.turn.clone());
        let read = self.store.read(async |conn| {
            drop((agents::counts(conn).await?, watch::turn_place(conn, &turn).await?));
            agents::find(conn, &name).await?;
            lanes::next_due(conn).await?;
            lanes::chosen(conn, agent, &key()).await?;
            sessions::one(conn, agent, &session).await?;
            assert_eq!(search::behind(conn).await?, 0);
            let expression = search::expression("\"hello\"", Some(agent));
            let wanted = Search { expression: &expression, prefix: "", before: None, limit: 10 };
            assert!(!search::search(conn, wanted, || true).await?.unwrap().is_empty());
            for view in [View::Simple, View::Full] {
                history::page(conn, &name, &session, view, None, 50).await?;
                history::after(conn, &name, &session, view, 0, 50).await?;
                assert!(!watch::turn_outcomes(conn, &session, view, 1..=99).await?.is_empty());
            }
            history::page_after(conn, &name, &session, 0).await?;
            let messages = history::page(conn, &name, &session, View::Full, None, 50).await?;
            for rows in [Rows::Before(i64::MAX), Rows::After(0)] {
                let lines = history::lines(conn, &name, &session, rows, 50).await?;
                let parsed: Vec<Message> =
                    serde_json::from_str(&format!("[{}]", lines.json)).unwrap();
                assert_eq!(parsed, messages);
                let places: Vec<i64> = messages.iter().map(|message| message.seq).collect();
                assert_eq!(lines.seqs().collect::<Vec<_>>(), places);
            }
            let mut rows = history::whole(conn, &name, &session, 0).await?;
            compactions::newest(conn, &session).await?;
            assert_eq!(agents::buckets(conn, 6).await?.len(), 1);
            assert_eq!(spend::of_day(conn, 0).await?[0].spent.calls, 1);
            for agent in [None, Some(agent)] {
                assert_eq!(spend::usage(conn, 0..24, Span::Day, agent).await?[0].turns, 1);
            }
            files::fill(conn, rows.iter_mut(), |_| true).await?;
            let file = rows[0].body.files().next().unwrap().clone();
            assert!(file.data.is_some());
            let (keys, other) = (key().0, Principal::new("operator"));
            let seen = [
                Sight::All,
                Sight::Agent(agent),
                Sight::Keys { prefix: keys, principal: other.clone() },
            ];
            for sight in seen {
                assert!(files::in_sight(conn, &file.hash, &sight).await?.is_some(), "{sight:?}");
            }
            let unseen = [
                Sight::Agent(AgentId(2)),
                Sight::Keys { prefix: "token:1/".into(), principal: other },
            ];
            for sight in unseen {
                assert!(files::in_sight(conn, &file.hash, &sight).await?.is_none(), "{sight:?}");
            }
            files::of_item(conn, &ItemId::new("i1")).await?;
            history::session_of_key(conn, agent, &key()).await?;
            history::key_of_session(conn, agent, &session).await?;
            history::calls(conn, &turn).await?;
            assert_eq!(outcomes::unknown_calls(conn, 10).await?.len(), 1);
            outbox::frames_since(conn, channel, 0).await?;
            outbox::frames_of_item(conn, channel, &ItemId::new("i1")).await?;
            outbox::channel(conn, channel).await?;
            outbox::next_undelivered(conn, channel, 0).await?;
            outbox::next_channel(conn, "ws", "").await?;
            outbox::undelivered_of_item(conn, &ItemId::new("i1")).await?;
            tokens::all(conn).await?;
            for turn in [None, Some(turn.0.clone())] {
                let agent = Some(agent);
                let wanted = audit::Wanted { turn, agent, ..audit::Wanted::default() };
                audit::page(conn, &wanted, None, 10).await?;
            }
            assert!(audit_chain::verify(conn, None).await?.ok);
            audit_chain::seal_of(conn, 1).await?;
            watch::item(conn, agent, "nothing", &Principal::new("operator")).await?;
            watch::item_by_id(conn, &ItemId::new("i1")).await?;
            watch::answered_with(conn, &turn).await?;
            for agent in [None, Some(agent)] {
                for state in [None, Some(ItemState::Done), Some(ItemState::Running)] {
                    watch::items(conn, agent, state, None, 50).await?;
                }
            }
            let operator = Principal::new("operator");
            watch::items_of(conn, &operator, Some(agent), Some(ItemState::Done), None, 9).await?;
            watch::key_of_session(conn, &session).await?;
            watch::key_of_item(conn, &ItemId::new("i1")).await?;
            watch::open_turns(conn, 10).await?;
            watch::lane_depth(conn, agent, &key()).await?;
            watch::events_since(conn, 0).await?;
            watch::event_range(conn).await
        });
        read.await.unwrap();
    }
}

fn key() -> SessionKey {
    SessionKey::new("main")
}

fn engine() -> Capabilities {
    Capabilities {
        queue_while_streaming: true,
        interrupt: true,
        tool_events: true,
        full_history: true,
        approvals: false,
        own_tools: false,
    }
}
