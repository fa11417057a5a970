//! A turn over fakes: the engine follows a script, tools note that they ran, the clock is set by
//! the test. No hive is opened; the store is a real one in a temporary folder.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Barrier, Notify, mpsc};

use skep_core::engine::{
    Capabilities, Engine, EngineEvent, SessionKeeper, ToolCall, TurnEnd, TurnHandle, TurnRequest,
};
use skep_core::event::{CancelReason, EventKind, ItemState};
use skep_core::ids::*;
use skep_core::message::{Message, Meta, Role, StopReason, Usage};
use skep_core::policy::{AgentReach, Class, ClassPolicy, Effect, Policy};
use skep_core::provider::{Providers, ToolSpec};
use skep_core::settings::*;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer};
use skep_core::{BoxFuture, Millis, approval::Scope, cause::Cause, hook::Hook, retry::RetryPolicy};
use skep_guard::clock;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::approvals;
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::leases::{Lease, LostTurns, Recover};
use skep_store::waits::AnswerApproval;
use skep_store::watch::{self, ItemRow};
use skep_store::{Committed, OpenOptions, Store, history};

use super::{EngineProcesses, SessionCache, SessionScopes, TurnEnv, lead, run};
use crate::gate::{Admission, GateParts};
use crate::handles::{Bus, HolderOf, Meters, StopTokens};
use crate::lane::{Lanes, Registry};
use crate::ledger::Ledger;
use crate::snapshot::{Offer, Snapshot, SnapshotCell};

thread_local! {
    /// A test and its turn share one thread.
    pub(super) static AHEAD: Cell<Millis> = const { Cell::new(0) };
}

pub(super) fn fake_clock() -> Millis {
    clock::now_ms() + AHEAD.get()
}

const CAPABILITIES: Capabilities = Capabilities {
    queue_while_streaming: true,
    interrupt: true,
    tool_events: false,
    full_history: true,
    approvals: false,
    own_tools: false,
};

/// An engine that can what it says it can: its handles have the parts for it.
struct CheckedEngine(Arc<dyn Engine>);

impl Engine for CheckedEngine {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn display_name(&self) -> &str {
        self.0.display_name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        self.0.resolve_display_model(agent)
    }

    fn session_keeper(&self) -> SessionKeeper {
        self.0.session_keeper()
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let handle = self.0.start(request);
        let Capabilities { queue_while_streaming, interrupt, own_tools, .. } = self.capabilities();
        match self.session_keeper() {
            SessionKeeper::Engine { .. } => {
                assert_eq!(queue_while_streaming, handle.steer.is_some());
                assert_eq!(interrupt, handle.interrupt.is_some());
            }
            // Messages join with the answers of the gate, and `cancel` is all it needs.
            SessionKeeper::Hive => {
                assert!(handle.steer.is_none() && handle.interrupt.is_none() && !own_tools);
            }
        }
        handle
    }
}

/// Says what the script has for the step it is asked for: calls, or the last word.
pub(super) struct ScriptedEngine {
    steps: Vec<Vec<(&'static str, &'static str)>>,
    /// Told after each step whose calls are answered.
    answered: Arc<Notify>,
    /// After so many steps it hangs for good.
    hangs_after: usize,
}

impl Engine for ScriptedEngine {
    fn id(&self) -> &str {
        "scripted"
    }

    fn display_name(&self) -> &str {
        "Scripted"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn resolve_display_model(&self, _: &AgentSettings) -> String {
        "scripted".to_owned()
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(16);
        let (steps, answered) = (self.steps.clone(), Arc::clone(&self.answered));
        let hangs_after = self.hangs_after;
        tokio::spawn(async move {
            let said = |row: &&Arc<Message>| row.body.role == Role::Assistant;
            let begun = request.messages.iter().filter(said).count();
            for (number, step) in steps.iter().enumerate().skip(begun) {
                let calls: Vec<ToolCall> = step
                    .iter()
                    .map(|(id, name)| ToolCall {
                        id: CallId::new(*id),
                        name: (*name).to_owned(),
                        arguments: json!({}),
                    })
                    .collect();
                let _ = sender.send(EngineEvent::CallStart).await;
                for ToolCall { id, name, arguments } in calls.clone() {
                    let _ = sender.send(EngineEvent::ToolCall { id, name, arguments }).await;
                }
                let _ = sender.send(EngineEvent::Meta(meta(StopReason::ToolUse))).await;
                if request.gate.run(calls).await.is_none() {
                    return;
                }
                answered.notify_one();
                if number + 1 == hangs_after {
                    std::future::pending::<()>().await;
                }
            }
            for event in [
                EngineEvent::CallStart,
                EngineEvent::Text("all done".to_owned()),
                EngineEvent::Meta(meta(StopReason::EndTurn)),
                EngineEvent::End(TurnEnd::Finished),
            ] {
                let _ = sender.send(event).await;
            }
        });
        TurnHandle::new(events)
    }
}

fn node() -> NodeName {
    NodeName::new("n")
}

pub(super) fn meta(stop_reason: StopReason) -> Meta {
    Meta {
        profile: None,
        provider: "scripted".to_owned(),
        model: "scripted".to_owned(),
        api: "scripted".to_owned(),
        usage: Usage::new(5, 2, 0, 0),
        stop_reason,
    }
}

pub(super) type ToolBody =
    Arc<dyn Fn(skep_core::tool::ToolContext) -> BoxFuture<'static, ToolAnswer> + Send + Sync>;

struct FakeTool {
    spec: ToolSpec,
    class: Class,
    ran: Arc<Mutex<Vec<String>>>,
    body: ToolBody,
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.class {
            Class::Read => Manner::READ,
            class => Manner::effect(class),
        }
    }

    fn prepare(&self, _: Value) -> Result<Prepared, String> {
        let (ran, body) = (Arc::clone(&self.ran), Arc::clone(&self.body));
        Ok(Box::new(move |context| {
            ran.lock().unwrap().push(context.call.to_string());
            body(context)
        }))
    }
}

/// What a test has in hand: the parts of a `TurnEnv` that outlive a crash, and what the fakes saw.
pub(super) struct Bench {
    pub folder: TempDir,
    pub store: Store,
    pub hooks: Vec<Hook>,
    pub providers: Providers,
    pub listed: Vec<String>,
    registry: Arc<Registry>,
    agent: AgentId,
    ran: Arc<Mutex<Vec<String>>>,
    /// A slow tool began.
    pub began: Arc<Notify>,
    /// A tool that pauses goes on.
    pub go: Arc<Notify>,
    answered: Arc<Notify>,
}

impl Bench {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = Arc::new(Registry::default());
        let noted = Arc::clone(&registry);
        let notify = move |committed: Committed| {
            committed.events.iter().for_each(|event| noted.note(event));
        };
        let options = OpenOptions::in_run_folder(folder.path());
        let store = Store::open(options, notify).await.unwrap();
        let main = NewAgent::root(AgentName::new("main"));
        let register = RegisterAgents { agents: vec![main], now: 1 };
        let agent = store.write(register).await.unwrap()[0].1;
        let (ran, began, answered) = (Arc::default(), Arc::default(), Arc::default());
        let (hooks, providers) = (Vec::new(), Providers::default());
        let listed = ["meet", "change", "slow", "pause", "shell"].map(str::to_owned).to_vec();
        let go = Arc::default();
        Self { folder, store, hooks, providers, listed, registry, agent, ran, began, go, answered }
    }

    pub fn tool(&self, name: &str, class: Class, body: ToolBody) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        Arc::new(FakeTool { spec, class, ran: Arc::clone(&self.ran), body })
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let both = Arc::new(Barrier::new(2));
        let meet: ToolBody = Arc::new(move |_| {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                ToolAnswer::ok("met")
            })
        });
        let change: ToolBody = Arc::new(|_| Box::pin(async { ToolAnswer::ok("changed") }));
        let began = Arc::clone(&self.began);
        let slow: ToolBody = Arc::new(move |context| {
            let began = Arc::clone(&began);
            Box::pin(async move {
                began.notify_one();
                context.cancel.cancelled().await;
                ToolAnswer::ok("told to end")
            })
        });
        let (began, go) = (Arc::clone(&self.began), Arc::clone(&self.go));
        let pause: ToolBody = Arc::new(move |_| {
            let (began, go) = (Arc::clone(&began), Arc::clone(&go));
            Box::pin(async move {
                began.notify_one();
                go.notified().await;
                ToolAnswer::ok("paused")
            })
        });
        vec![
            self.tool("pause", Class::Read, pause),
            self.tool("meet", Class::Read, meet),
            self.tool("change", Class::Write, change),
            self.tool("slow", Class::Read, slow),
        ]
    }

    /// The handles of a process that begins.
    pub async fn env(&self, engine: impl Engine + 'static, write: Effect) -> Arc<TurnEnv> {
        self.env_of(Arc::new(engine), write).await
    }

    pub async fn env_of(&self, engine: Arc<dyn Engine>, write: Effect) -> Arc<TurnEnv> {
        let engine: Arc<dyn Engine> = Arc::new(CheckedEngine(engine));
        let ids = [(AgentName::new("main"), self.agent)].into_iter().collect();
        let mut snapshot = Snapshot::new(self.settings(write), ids, Vec::new());
        snapshot.engines = Arc::new(BTreeMap::from([("scripted".to_owned(), engine)]));
        let offer = Offer { tools: self.tools(), hooks: self.hooks.clone(), subagents: None };
        let snapshot = snapshot.with_offer("test", offer).unwrap();
        let snapshot = Arc::new(SnapshotCell::new(snapshot));
        let holder_of: HolderOf = Arc::new(|_| (None, None));
        let (registry, cell) = (Arc::clone(&self.registry), Arc::clone(&snapshot));
        let holder = Arc::clone(&holder_of);
        let lanes = Lanes::open(self.store.clone(), node(), registry, cell, holder);
        let meters = Arc::new(Meters::default());
        let ledger = Ledger::load(self.store.clone(), Arc::clone(&snapshot), meters, 1);
        Arc::new(TurnEnv {
            store: self.store.clone(),
            snapshot,
            gate: GateParts {
                admission: Admission::default(),
                holder_of,
                outputs: self.folder.path().join("output"),
                secrets: Default::default(),
            },
            ledger: Arc::new(ledger.await.unwrap()),
            lanes: lanes.await.unwrap(),
            processes: EngineProcesses::default(),
            session_cache: SessionCache::default(),
            session_scopes: SessionScopes::default(),
            bus: Arc::new(Bus::default()),
            retry: RetryPolicy { requeue: Duration::ZERO, ..RetryPolicy::default() },
            stop: StopTokens::default(),
            clock: fake_clock,
        })
    }

    pub fn script(&self, steps: &[&[(&'static str, &'static str)]]) -> ScriptedEngine {
        let steps = steps.iter().map(|step| step.to_vec()).collect();
        ScriptedEngine { steps, answered: Arc::clone(&self.answered), hangs_after: usize::MAX }
    }

    /// A message whose turn begins with it.
    pub async fn accept(&self) -> Lease {
        match self.store.write(self.message("item", "do it")).await.unwrap() {
            Accepted::Started { lease } => *lease,
            _ => panic!("the turn did not begin with its message"),
        }
    }

    pub fn message(&self, item: &str, text: &str) -> Accept {
        let letter = Letter {
            item: ItemId::new(item),
            message_id: MessageId::new(item),
            agent: self.agent,
            agent_name: AgentName::new("main"),
            session_key: SessionKey::new("key"),
            cause: Cause::Message,
            principal: Principal::new("operator"),
            origin: None,
            channel: None,
            text: text.to_owned(),
            note: None,
            files: Vec::new(),
            skill: None,
            think: None,
            request: None,
            room: None,
            now: clock::now_ms(),
        };
        let turn = TurnId::new(if item == "item" { "turn" } else { item });
        let session = SessionId::new("session");
        let take = Some(NewTurn { turn, session, idle_ms: 1_000_000, node: node() });
        Accept { letter, mode: QueueMode::Queue, engine: CAPABILITIES, take, fresh: false }
    }

    pub async fn item(&self) -> ItemRow {
        let id = ItemId::new("item");
        let read = self.store.read(async |conn| watch::item_by_id(conn, &id).await);
        read.await.unwrap().unwrap()
    }

    /// Role and text of every row, calls by their names.
    pub async fn rows(&self) -> Vec<String> {
        let (agent, session) = (AgentName::new("main"), SessionId::new("session"));
        let read = self.store.read(async |conn| history::whole(conn, &agent, &session, 0).await);
        let line = |row: Message| {
            let calls: Vec<&str> = row.body.tool_calls().map(|(_, name, _)| name).collect();
            let text = row.body.plain_text();
            match (row.body.role, calls.is_empty()) {
                (Role::Assistant, false) => format!("calls {}", calls.join(" ")),
                (Role::Assistant, true) => format!("says {text}"),
                (Role::ToolResult, _) => format!("result {text}"),
                (_, _) => format!("asks {text}"),
            }
        };
        read.await.unwrap().into_iter().map(line).collect()
    }

    pub fn ran(&self) -> Vec<String> {
        let mut ran = self.ran.lock().unwrap().clone();
        ran.sort();
        ran
    }

    pub async fn decide(&self, row: approvals::Approval, approve: bool) {
        let answer = AnswerApproval {
            id: row.id,
            approve,
            scope: Scope::Once,
            patterns: Vec::new(),
            note: None,
            hash: row.hash,
            by: "operator".to_owned(),
            from: "test".to_owned(),
            grants: Vec::new(),
            event: None,
            now: clock::now_ms(),
        };
        self.store.write(answer).await.unwrap();
    }

    pub async fn question(&self) -> approvals::Approval {
        let turn = TurnId::new("turn");
        let read = self.store.read(async |conn| approvals::open_of_turn(conn, &turn).await);
        let mut open = read.await.unwrap();
        assert_eq!(open.len(), 1);
        open.remove(0)
    }
}

impl Bench {
    fn settings(&self, write: Effect) -> HiveSettings {
        let folder = self.folder.path().to_path_buf();
        let profile = Profile {
            name: "default".to_owned(),
            provider: "scripted".to_owned(),
            model: "scripted".to_owned(),
            max_output_tokens: 100,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: None,
            price: None,
            sees_images: false,
            known: KnownModels::NONE,
        };
        let classes = ClassPolicy { write, ..ClassPolicy::default() };
        let agent = AgentSettings {
            name: AgentName::new("main"),
            parent: None,
            manager: false,
            parallel: Default::default(),
            allowed_recipients: Vec::new(),
            description: String::new(),
            engine: "scripted".to_owned(),
            engine_options: Default::default(),
            profile: Arc::new(profile),
            think: None,
            allowed_tools: self.listed.clone(),
            max_steps: 10,
            budgets: Budgets::default(),
            queue_mode: QueueMode::Queue,
            workspace: folder.clone(),
            folder,
            sandbox: SandboxSettings::default(),
            policy: Policy { classes, ..Policy::default() },
            org_rules: Vec::new(),
            team_rules: Vec::new(),
            skills: Arc::default(),
            subagents: Arc::default(),
            role: None,
            left_out: Arc::default(),
        };
        HiveSettings {
            server: ServerSettings {
                bind: [127, 0, 0, 1].into(),
                port: 0,
                public_url: None,
                allowed_origins: Vec::new(),
                ws_enabled: true,
            },
            limits: Limits::default(),
            hive_rules: Vec::new(),
            profiles: BTreeMap::new(),
            reached: BTreeMap::new(),
            providers: self.providers.clone(),
            agents: [(agent.name.clone(), AgentState::Active(agent.into()))].into_iter().collect(),
            model_note: String::new(),
        }
    }
}

/// Each of the two waits for the other: one after the other they would never end.
#[tokio::test]
async fn engine_calls_without_effects_run_side_by_side() {
    let bench = Bench::new().await;
    let engine = bench.script(&[&[("a", "meet"), ("b", "meet")]]);
    let env = bench.env(engine, Effect::Allow).await;
    let mut live = env.bus.live();
    let lease = bench.accept().await;
    run(Arc::clone(&env), lease, None).await;
    let rows = ["asks do it", "calls meet meet", "result met", "result met", "says all done"];
    assert_eq!(bench.rows().await, rows);
    assert_eq!(bench.ran(), ["a", "b"]);
    let item = bench.item().await;
    assert_eq!((item.state, item.answer.as_deref()), (ItemState::Done, Some("all done")));
    assert!(env.lanes.registry.get(&TurnId::new("turn")).is_none());
    let told = futures_util::StreamExt::next(&mut live).await;
    let Some(crate::Live::Event(event)) = told else { panic!("nothing was told") };
    assert!(matches!(event.kind, EventKind::Delta { .. }), "{:?}", event.kind);
}

#[tokio::test]
async fn engine_a_call_that_asks_waits_without_a_lease_and_runs_once_approved() {
    let bench = Bench::new().await;
    let engine = bench.script(&[&[("a", "change")]]);
    let env = bench.env(engine, Effect::Ask).await;
    let lease = bench.accept().await;
    run(Arc::clone(&env), lease, None).await;
    assert_eq!(bench.item().await.state, ItemState::Waiting);
    assert_eq!((bench.ran().len(), bench.rows().await.len()), (0, 2));
    let row = bench.question().await;
    assert_eq!((row.tool.as_str(), row.call.as_str()), ("change", "a"));
    assert!(env.lanes.take(None, None).await.is_none(), "nobody has answered");
    bench.decide(row, true).await;
    let lease = env.lanes.take(None, None).await.unwrap();
    assert!(lease.resumed);
    run(Arc::clone(&env), lease, None).await;
    let rows = ["asks do it", "calls change", "result changed", "says all done"];
    assert_eq!(bench.rows().await, rows);
    assert_eq!((bench.ran(), bench.item().await.state), (vec!["a".to_owned()], ItemState::Done));
}

#[tokio::test]
async fn engine_a_question_nobody_answers_in_time_is_answered_to_the_model() {
    let bench = Bench::new().await;
    let engine = bench.script(&[&[("a", "change")]]);
    let env = bench.env(engine, Effect::Ask).await;
    let lease = bench.accept().await;
    run(Arc::clone(&env), lease, None).await;
    let row = bench.question().await;
    AHEAD.set(row.expires_at - clock::now_ms() + 1);
    // As the scheduler does when the wait is over.
    let wake = skep_store::lanes::WakeLanes { now: fake_clock() };
    bench.store.write(wake).await.unwrap();
    let lease = env.lanes.take(None, None).await.unwrap();
    run(Arc::clone(&env), lease, None).await;
    let rows = bench.rows().await;
    assert!(rows[2].starts_with("result approval_expired: "), "{rows:?}");
    assert_eq!((rows.len(), bench.ran().len()), (4, 0));
    assert_eq!(bench.item().await.state, ItemState::Done);
}

#[tokio::test]
async fn engine_a_cancel_ends_the_tool_and_the_turn() {
    let bench = Bench::new().await;
    let engine = bench.script(&[&[("a", "slow")], &[("b", "change")]]);
    let env = bench.env(engine, Effect::Allow).await;
    let lease = bench.accept().await;
    let turn = tokio::spawn(run(Arc::clone(&env), lease, None));
    bench.began.notified().await;
    assert!(env.lanes.registry.cancel(&TurnId::new("turn"), CancelReason::Stop));
    turn.await.unwrap();
    let rows = ["asks do it", "calls slow", "result told to end"];
    assert_eq!(
        (bench.rows().await, bench.ran()),
        (rows.map(str::to_owned).to_vec(), vec!["a".to_owned()])
    );
    let item = bench.item().await;
    let code = item.error.map(|(code, _)| code);
    assert_eq!((item.state, code.as_deref()), (ItemState::Cancelled, Some("cancelled")));
}

/// The task of the turn is dropped after the result of its step is on the disk, and before its
/// model says anything more.
#[tokio::test]
async fn engine_a_crash_after_a_result_goes_on_behind_it() {
    let bench = Bench::new().await;
    let steps: &[&[_]] = &[&[("a", "change")], &[("b", "change")]];
    let hangs = ScriptedEngine { hangs_after: 1, ..bench.script(steps) };
    let env = bench.env(hangs, Effect::Allow).await;
    let lease = bench.accept().await;
    let first = lease.token;
    let task = tokio::spawn(lead::lead(env, lease));
    bench.answered.notified().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(bench.rows().await, ["asks do it", "calls change", "result changed"]);
    // The next process.
    let recover = Recover { node: node(), lost: LostTurns::AtStart, now: fake_clock() };
    assert_eq!(bench.store.write(recover).await.unwrap(), 1);
    let env = bench.env(bench.script(steps), Effect::Allow).await;
    let lease = env.lanes.take(None, None).await.unwrap();
    assert!(lease.resumed && lease.token != first);
    run(env, lease, None).await;
    let rows =
        ["calls change", "result changed", "calls change", "result changed", "says all done"];
    assert_eq!(bench.rows().await[1..], rows);
    assert_eq!(bench.ran(), ["a", "b"], "what had its result does not run again");
    assert_eq!(bench.item().await.state, ItemState::Done);
}
