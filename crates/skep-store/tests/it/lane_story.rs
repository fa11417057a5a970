//! The scheduler's state machine: random stories told to the store and to the model.

use std::future::Future;
use std::pin::Pin;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::json;
use skep_core::cause::Cause;
use skep_core::decision::Decision;
use skep_core::engine::{Capabilities, FailureCode};
use skep_core::event::{CallState, CancelReason, ItemState};
use skep_core::ids::*;
use skep_core::message::{Body, Usage};
use skep_core::settings::QueueMode;
use skep_store::close::{Close, Outcome};
use skep_store::history::NewHistoryRow;
use skep_store::inbox::{
    Accept, Accepted, Action, EndedTurn, Letter, NewTurn, Order, Ordered, StopLane,
};
use skep_store::item_views::{CancelItem, Cancelled};
use skep_store::journal::{Entry, Journal, NewCall};
use skep_store::lanes::WakeLanes;
use skep_store::leases::{Lease, LostTurns, Recover, Release, Take};
use skep_store::requests::Request;
use skep_store::waits::{Decide, Park};
use skep_store::{Member, Refusal, StoreError};

use crate::lab::{AGENTS, CHANNELS, Lab, LabStore, Prioritise, Tables, furnished, open};
use crate::lane_laws;
use crate::lane_model::{self as model, Doing, Held, IDLE_MS, Mail, Model, Told};
use crate::lane_ops::{Address, Op, Pick, Step, op};

fn cases() -> u32 {
    let all = std::env::var_os("SKEP_TEST_ALL").is_some_and(|value| value == "1");
    if all { 640 } else { 64 }
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    /// Some commands go to the writer together with the next one, in one batch.
    #[test]
    fn the_store_does_what_the_model_says(
        ops in vec((op(), prop::bool::weighted(0.25)), 1..=60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tell(ops));
    }
}

pub async fn tell(ops: Vec<(Op, bool)>) {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let mut story = Story::new(store);
    for (op, together) in ops {
        if let Op::Crash { clean } = op {
            story.check(&op).await;
            story.crash(folder.path(), clean).await;
        } else {
            story.submit(&op);
        }
        if !together {
            story.check(&op).await;
        }
    }
    story.end().await;
}

type Answer = Pin<Box<dyn Future<Output = Told>>>;

struct Story {
    store: LabStore,
    model: Model,
    /// Every lease that was ever given.
    leases: Vec<(usize, i64)>,
    names: usize,
    /// What the model said, and the store is about to say.
    answers: Vec<(String, Told, Answer)>,
}

impl Story {
    fn new(store: LabStore) -> Self {
        let model = Model::default();
        Self { store, model, leases: Vec::new(), names: 0, answers: Vec::new() }
    }

    /// Awaits what was submitted and compares: every answer, then every table.
    async fn check(&mut self, last: &Op) {
        for (what, expected, answer) in std::mem::take(&mut self.answers) {
            assert_eq!(answer.await, expected, "the answer to {what}");
        }
        let tables = Tables::read(&self.store).await;
        assert_eq!(tables, self.model.tables(), "the tables after {last:?}");
        lane_laws::hold(&tables);
    }

    async fn crash(&mut self, folder: &std::path::Path, clean: bool) {
        let again = self.store.clone();
        let store = std::mem::replace(&mut self.store, again);
        match clean {
            true => store.close().await,
            false => drop(store),
        }
        self.store = open(folder).await;
        let expected = self.model.recover();
        let now = self.model.now;
        let node = NodeName::new("n");
        self.send(
            "recover",
            expected,
            Recover { node, lost: LostTurns::AtStart, now },
            Told::Count,
        );
    }

    /// Ends whatever is open: every lane can still be emptied, and then all are answered.
    async fn end(mut self) {
        let op = Op::Take;
        for agent in 0..AGENTS.len() {
            for key in 0..2 {
                self.submit(&Op::StopLane { agent, key });
            }
        }
        self.submit(&Op::Wake { after: 1000 });
        self.check(&op).await;
        for _ in 0..=self.model.items.len() {
            for n in 0..self.leases.len() {
                let (turn, token) = self.leases[n];
                if self.model.holds(turn, token) {
                    self.close_turn(turn, token, 0, true);
                }
            }
            self.submit(&op);
        }
        self.check(&op).await;
        lane_laws::all_ended(&Tables::read(&self.store).await);
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{:03}", self.names)
    }

    fn slot(&mut self) -> NewTurn {
        let (turn, session) = (TurnId(self.name("t")), SessionId(self.name("s")));
        NewTurn { turn, session, idle_ms: IDLE_MS, node: NodeName::new("n") }
    }

    fn send<C: Member<Lab> + 'static>(
        &mut self,
        what: &str,
        expected: Told,
        command: C,
        told: impl FnOnce(C::Out) -> Told + 'static,
    ) {
        let pending = self.store.submit(command);
        let answer = async move {
            match pending.await {
                Ok(out) => told(out),
                Err(StoreError::Refused(Refusal::Stale)) => Told::Stale,
                Err(StoreError::Refused(Refusal::NotFound { .. })) => Told::Missing,
                Err(StoreError::Refused(Refusal::Conflict { code: "id_reused", .. })) => {
                    Told::Reused
                }
                Err(StoreError::Refused(Refusal::Conflict { code: "already_ended", .. })) => {
                    Told::Over
                }
                Err(error) => panic!("{error:?}"),
            }
        };
        self.answers.push((what.to_owned(), expected, Box::pin(answer)));
    }
}

/// One command each.
impl Story {
    fn submit(&mut self, op: &Op) {
        self.model.now += 1;
        match op.clone() {
            Op::Accept { to, slot, interrupt, engine, new } => {
                self.accept(&to, slot, interrupt, engine, new);
            }
            Op::Order { to, what } => self.order(&to, what),
            Op::StopLane { agent, key } => {
                let key = key_of(key);
                let expected = self.model.stop(agent, &key);
                let (agent, session_key) = (agent_id(agent), SessionKey(key));
                let stop = StopLane { agent, session_key, now: self.model.now };
                self.send("stop", expected, stop, |turn| Told::Ended(turn.map(ended)));
            }
            Op::Cancel { item } => self.cancel(item),
            Op::Take => self.take(None),
            Op::TakeOnly { turn } => {
                if let Some(turn) = nth(self.model.turns.len(), turn) {
                    self.take(Some(turn));
                }
            }
            Op::Journal { lease, steps, steer } => {
                if let Some((turn, token)) = self.lease(&lease) {
                    self.journal(turn, token, &steps, steer);
                }
            }
            Op::Park { lease, calls, wait } => {
                if let Some((turn, token)) = self.lease(&lease) {
                    self.park(turn, token, calls, wait);
                }
            }
            Op::Release { lease, wait, counts } => {
                if let Some((turn, token)) = self.lease(&lease) {
                    self.release(turn, token, wait, counts);
                }
            }
            Op::Close { lease, how, word } => {
                if let Some((turn, token)) = self.lease(&lease) {
                    self.close_turn(turn, token, how, word);
                }
            }
            Op::Decide { turn, call } => self.decide(turn, call),
            Op::Prioritise { item, priority } => self.prioritise(item, priority),
            Op::Wake { after } => {
                self.model.now += after;
                let (now, expected) = (self.model.now, self.model.wake());
                self.send("wake", expected, WakeLanes { now }, Told::Count);
            }
            Op::Crash { .. } => {}
        }
    }

    fn lease(&self, pick: &Pick) -> Option<(usize, i64)> {
        let holds = |lease: &&(usize, i64)| !pick.live || self.model.holds(lease.0, lease.1);
        let found: Vec<_> = self.leases.iter().filter(holds).collect();
        nth(found.len(), pick.n).map(|n| *found[n])
    }

    fn letter(&mut self, to: &Address) -> (Letter, Mail) {
        let item = self.name("i");
        let scope = to.channel.map_or("api", |channel| CHANNELS[channel]).to_owned();
        let message_id = match (to.channel, to.id) {
            (Some(_), Some((id, _))) => format!("m{id}"),
            _ => item.clone(),
        };
        let request = to.id.map(|(id, body)| (scope, format!("m{id}"), body));
        let letter = Letter {
            item: ItemId(item.clone()),
            message_id: MessageId(message_id.clone()),
            agent: agent_id(to.agent),
            agent_name: AgentName::new(AGENTS[to.agent]),
            session_key: SessionKey(key_of(to.key)),
            cause: Cause::Message,
            principal: Principal::new("operator"),
            origin: None,
            channel: to.channel.map(|channel| ChannelId::new(CHANNELS[channel])),
            text: "hello".to_owned(),
            note: None,
            files: Vec::new(),
            skill: None,
            think: None,
            request: request.clone().map(|(scope, id, body)| Request {
                scope,
                id,
                body_hash: [body; 32],
            }),
            room: None,
            now: self.model.now,
        };
        let (agent, key, channel) = (to.agent, key_of(to.key), to.channel);
        (letter, Mail { item, message_id, agent, key, channel, request })
    }

    fn accept(
        &mut self,
        to: &Address,
        slot: bool,
        interrupt: bool,
        (steers, interrupts): (bool, bool),
        fresh: bool,
    ) {
        let (letter, mail) = self.letter(to);
        let take = slot.then(|| self.slot());
        let ids = take.as_ref().map(|slot| (slot.turn.as_str(), slot.session.as_str()));
        let expected = self.model.accept(&mail, ids, interrupt && interrupts, fresh);
        if let Told::Started(held) = &expected {
            self.leases.push((self.model.turns.len() - 1, held.token));
        }
        let engine = Capabilities {
            queue_while_streaming: steers,
            interrupt: interrupts,
            tool_events: true,
            full_history: true,
            approvals: false,
            own_tools: false,
        };
        let mode = if interrupt { QueueMode::Interrupt } else { QueueMode::Queue };
        let accept = Accept { letter, mode, engine, take, fresh };
        self.send("accept", expected, accept, |accepted| match accepted {
            Accepted::Started { lease } => Told::Started(held(&lease)),
            Accepted::Queued { ack, ready, interrupt } => Told::Queued {
                ack: ack.state.as_str().to_owned(),
                note: ack.note,
                ready,
                ended: interrupt.map(ended),
            },
            Accepted::Repeated(earlier) => Told::Repeated(earlier.item.0),
        });
    }

    fn order(&mut self, to: &Address, what: model::Order) {
        let (letter, mail) = self.letter(to);
        let expected = self.model.order(&mail, what);
        let action = match what {
            model::Order::Stop => Action::Stop,
            model::Order::New => Action::NewSession,
            model::Order::Say => Action::Say("hello".to_owned()),
            model::Order::Fail => Action::Fail { code: "unknown_command", text: "no".to_owned() },
        };
        let order = Order { letter, action };
        self.send("order", expected, order, |ordered| match ordered {
            Ordered::Done { ended: turn, .. } => Told::Ended(turn.map(ended)),
            Ordered::Repeated(earlier) => Told::Repeated(earlier.item.0),
        });
    }

    /// Mostly items that wait.
    fn cancel(&mut self, n: usize) {
        let waits = |item: &usize| self.model.items[*item].state == "pending";
        let mut items: Vec<usize> = (0..self.model.items.len()).filter(waits).collect();
        if items.is_empty() || n % 4 == 3 {
            items = (0..self.model.items.len()).collect();
        }
        let Some(item) = nth(items.len(), n).map(|n| items[n]) else { return };
        let expected = self.model.cancel_item(item);
        let (item, now) = (ItemId(self.model.items[item].id.clone()), self.model.now);
        let command = CancelItem { item, reason: CancelReason::Stop, now };
        self.send("cancel", expected, command, |cancelled| match cancelled {
            Cancelled::Ended => Told::Ended(None),
            Cancelled::Stopping(turn) => Told::Ended(Some(ended(turn))),
        });
    }

    fn take(&mut self, only: Option<usize>) {
        let slot = self.slot();
        let turn_id = only.map(|turn| TurnId(self.model.turns[turn].id.clone()));
        let expected = self.model.take(only, (slot.turn.as_str(), slot.session.as_str()));
        if let Told::Taken(Some(held)) = &expected {
            let turn = self.model.turns.iter().position(|turn| turn.id == held.turn).unwrap();
            self.leases.push((turn, held.token));
        }
        let take = Take { slot, only: turn_id, admits: None, now: self.model.now };
        self.send("take", expected, take, |lease| Told::Taken(lease.map(|lease| held(&lease))));
    }

    fn journal(&mut self, turn: usize, token: i64, steps: &[Step], steer: bool) {
        let doings = self.doings(turn, steps);
        let expected = self.model.journal(turn, token, &doings, steer);
        let journal = Journal {
            turn: self.turn_id(turn),
            token: Token(token),
            entries: doings.iter().map(entry).collect(),
            steer,
            active_ms: 1,
            now: self.model.now,
        };
        self.send("journal", expected, journal, |done| {
            let joined = done.steered.into_iter().map(|row| row.id).collect();
            Told::Journalled(done.rows.len(), joined)
        });
    }

    /// Gives the steps their names. Mostly they make sense; a few are about calls that are over.
    fn doings(&mut self, turn: usize, steps: &[Step]) -> Vec<Doing> {
        let mut calls = self.model.turns[turn].calls.clone();
        let mut doings = Vec::new();
        for step in steps {
            let open: Vec<usize> = (0..calls.len()).filter(|&n| calls[n].is_open()).collect();
            let chosen = |n: usize| match n {
                n if n % 8 == 7 => nth(calls.len(), n / 8),
                _ => nth(open.len(), n).map(|n| open[n]),
            };
            match step {
                Step::Say(asked) if open.is_empty() => {
                    let id = self.name("a");
                    let asked = asked.iter().map(|safe| (self.name("c"), *safe));
                    let asked: Vec<_> = asked.collect();
                    calls.extend(asked.iter().map(|(id, safe)| model::Call::new(id, *safe)));
                    doings.push(Doing::Say { id, calls: asked });
                }
                Step::Say(_) => {}
                Step::Start(n) => {
                    if let Some(n) = chosen(*n) {
                        doings.push(Doing::Start { call: calls[n].id.clone() });
                        calls[n].state = "started";
                    }
                }
                Step::Finish(n) => {
                    if let Some(n) = chosen(*n) {
                        let (id, call) = (format!("r-{}", calls[n].id), calls[n].id.clone());
                        doings.push(Doing::Finish { id, call, unknown: false });
                        calls[n].state = "done";
                    }
                }
            }
        }
        doings
    }

    fn park(&mut self, turn: usize, token: i64, calls: usize, wait: Option<i64>) {
        let open = self.model.turns[turn].calls.iter().filter(|call| call.is_open());
        let calls: Vec<String> = open.take(calls).map(|call| call.id.clone()).collect();
        let wait = if calls.is_empty() { wait.or(Some(50)) } else { wait };
        let until = wait.map(|wait| self.model.now + wait);
        let expected = self.model.park(turn, token, &calls, until);
        let reason = "a person".to_owned();
        let park = Park {
            turn: self.turn_id(turn),
            token: Token(token),
            calls: calls.into_iter().map(|call| (CallId(call), reason.clone())).collect(),
            approvals: Vec::new(),
            reason: reason.clone(),
            retries: None,
            until,
            active_ms: 1,
            now: self.model.now,
        };
        self.send("park", expected, park, Told::Parked);
    }

    fn release(&mut self, turn: usize, token: i64, wait: Option<i64>, counts: bool) {
        let until = wait.map(|wait| self.model.now + wait);
        let expected = self.model.release(turn, token, until, counts);
        let release = Release {
            turn: self.turn_id(turn),
            token: Token(token),
            until,
            retries: None,
            counts,
            active_ms: 1,
            now: self.model.now,
        };
        self.send("release", expected, release, Told::Attempts);
    }

    /// As the runtime does: every open call gets its last word.
    fn close_turn(&mut self, turn: usize, token: i64, how: usize, word: bool) {
        let mut doings = Vec::new();
        for call in self.model.turns[turn].calls.iter().filter(|call| call.is_open()) {
            let (id, unknown) = (format!("r-{}", call.id), call.state == "started" && !call.safe);
            doings.push(Doing::Finish { id, call: call.id.clone(), unknown });
        }
        if word {
            let id = self.name("a");
            doings.push(Doing::Say { id, calls: Vec::new() });
        }
        let text = "that is it".to_owned();
        let end = |state, code| Outcome::Ended { state, code, text: text.clone() };
        let (outcome, ends) = match how {
            0 => (Outcome::Answered { text: text.clone() }, ("done", "done")),
            1 => (end(ItemState::Failed, FailureCode::LimitTime), ("failed", "limit_time")),
            2 => (end(ItemState::Cancelled, FailureCode::Cancelled), ("cancelled", "cancelled")),
            _ => (end(ItemState::Dead, FailureCode::Dead), ("dead", "dead")),
        };
        let expected = self.model.close(turn, token, &doings, ends);
        let close = Close {
            turn: self.turn_id(turn),
            token: Token(token),
            entries: doings.iter().map(entry).collect(),
            outcome,
            kept: Vec::new(),
            resumed: false,
            usage: Usage::default(),
            active_ms: 1,
            now: self.model.now,
        };
        self.send("close", expected, close, |closed| Told::More(closed.more));
    }

    fn decide(&mut self, turn: usize, call: usize) {
        let undecided = |turn: &usize| self.model.turns[*turn].waits_for_a_decision();
        let asked = |turn: &usize| !self.model.turns[*turn].calls.is_empty();
        let mut turns: Vec<usize> = (0..self.model.turns.len()).filter(undecided).collect();
        if turns.is_empty() || turn % 4 == 3 {
            turns = (0..self.model.turns.len()).filter(asked).collect();
        }
        let Some(turn) = nth(turns.len(), turn).map(|n| turns[n]) else { return };
        let calls = &self.model.turns[turn].calls;
        let waits: Vec<usize> = (0..calls.len()).filter(|&n| calls[n].is_undecided()).collect();
        let call = nth(waits.len(), call).map_or(call % calls.len(), |n| waits[n]);
        let id = CallId(calls[call].id.clone());
        let expected = self.model.decide(turn, call);
        let (turn, now) = (self.turn_id(turn), self.model.now);
        let decide = Decide { turn, call: id, decision: Decision::Tool(json!(true)), now };
        self.send("decide", expected, decide, |()| Told::Done);
    }

    fn prioritise(&mut self, item: usize, priority: i64) {
        let behind = |n: &usize| {
            let item = &self.model.items[*n];
            let waits = item.message && item.state == "pending" && item.turn.is_none();
            waits && self.model.open_turn(item.lane).is_some()
        };
        let behind: Vec<usize> = (0..self.model.items.len()).filter(behind).collect();
        if let Some(n) = nth(behind.len(), item).map(|n| behind[n]) {
            self.model.items[n].priority = priority;
            let item = self.model.items[n].id.clone();
            self.send("prioritise", Told::Done, Prioritise { item, priority }, |()| Told::Done);
        }
    }

    fn turn_id(&self, turn: usize) -> TurnId {
        TurnId(self.model.turns[turn].id.clone())
    }
}

fn nth(len: usize, n: usize) -> Option<usize> {
    (len > 0).then(|| n % len)
}

fn agent_id(agent: usize) -> AgentId {
    AgentId(agent as i64 + 1)
}

fn key_of(key: usize) -> String {
    ["main", "side"][key].to_owned()
}

fn ended(turn: EndedTurn) -> (String, bool) {
    (turn.turn.0, turn.idle)
}

fn held(lease: &Lease) -> Held {
    assert_eq!(lease.first.is_some(), !lease.resumed);
    Held {
        turn: lease.turn.0.clone(),
        token: lease.token.0,
        session: lease.session.0.clone(),
        resumed: lease.resumed,
        cancel: lease.cancel.map(|reason: CancelReason| reason.as_str().to_owned()),
        attempts: lease.attempts,
        steps: lease.steps,
        others: lease.others,
    }
}

fn entry(doing: &Doing) -> Entry {
    match doing {
        Doing::Say { id, calls } => Entry::Assistant {
            message: NewHistoryRow::new(id.clone(), Body::assistant(Vec::new(), None)),
            calls: calls
                .iter()
                .map(|(id, safe)| NewCall {
                    id: CallId::new(id),
                    tool: "tool".to_owned(),
                    retry_safe: *safe,
                    decision: None,
                    own: false,
                })
                .collect(),
        },
        Doing::Start { call } => Entry::Started { call: CallId::new(call) },
        Doing::Finish { id, call, unknown } => Entry::Result {
            message: NewHistoryRow::new(
                id.clone(),
                Body::tool_result(CallId::new(call), "tool", String::new(), *unknown),
            ),
            call: CallId::new(call),
            state: if *unknown { CallState::Unknown } else { CallState::Done },
            audit: None,
        },
    }
}
