//! A turn of Claude Code without a hive: a gate that answers as the test says, a relay that is not
//! there, and what the turn would have heard, in short.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use skep_core::BoxFuture;
use skep_core::engine::{
    Allowance, CallPermit, Engine, EngineEvent, EngineSession, Gate, GateRequest, Interrupt,
    OwnTool, Resume, ToolCall, TurnEnd, TurnHandle, TurnRequest, Waiting,
};
use skep_core::ids::{AgentId, AgentName, SessionId, TurnId};
use skep_core::message::{Block, Body, Message, Role, history_tag};
use skep_core::provider::{Providers, SystemPrompt, ToolSpec};
use skep_core::relay::{
    ModelRelay, RelayConnection, RelayConnections, RelayLaunch, RelayLease, RelayService,
    RelayTurn, RelayTurnGuard, RelayTurns,
};
use skep_core::settings::{KnownModels, Profile, SandboxLevel, SandboxSettings, Think};
use skep_guard::duplex::DuplexRecords;
use skep_guard::sandbox::{Level, Sandbox, Settings};

use super::{ClaudeEngine, ClaudeSettings};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What the gate says of a call.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Allow,
    With(Value),
    Deny,
    /// A person is asked and says so, after a while.
    Ask(bool),
    /// A person is asked and says nothing.
    Silence,
}

pub(super) type Policy = Arc<dyn Fn(&ToolCall, Option<&OwnTool>) -> Verdict + Send + Sync>;

pub(super) fn always(verdict: Verdict) -> Policy {
    Arc::new(move |_, _| verdict.clone())
}

/// In the place of the relay: on the host the process asks the model itself, behind walls each of
/// its connections is led there.
struct Direct(String);

impl ModelRelay for Direct {
    fn open(&self, launch: RelayLaunch) -> RelayLease {
        let base_url = match launch.level {
            SandboxLevel::Host => self.0.clone(),
            SandboxLevel::Confined => "http://model.skep".to_owned(),
        };
        let connections = Arc::new(Direct(self.0.clone()));
        RelayLease {
            base_url,
            bearer: "bearer".to_owned(),
            turns: Arc::new(Nobody),
            service: RelayService { host: "model.skep".to_owned(), port: 80, connections },
        }
    }
}

impl RelayConnections for Direct {
    fn serve(&self, mut connection: Box<dyn RelayConnection>) -> BoxFuture<'static, ()> {
        let address = self.0.trim_start_matches("http://").to_owned();
        Box::pin(async move {
            let mut model = tokio::net::TcpStream::connect(address).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut connection, &mut model).await;
        })
    }
}

struct Nobody;

impl RelayTurns for Nobody {
    fn open(&self, _: RelayTurn) -> RelayTurnGuard {
        RelayTurnGuard::new(())
    }
}

pub(super) struct Bench {
    pub folder: tempfile::TempDir,
    pub engine: ClaudeEngine,
    pub policy: Policy,
    pub options: Map<String, Value>,
    pub think: Option<Think>,
    pub steps: u32,
    pub level: SandboxLevel,
    /// What the gate was asked, in order.
    pub asked: Arc<Mutex<Vec<String>>>,
    /// Told whenever the gate was asked.
    pub heard: Arc<tokio::sync::Notify>,
}

impl Bench {
    pub fn new(program: PathBuf, model: &str) -> Self {
        Self::at(SandboxLevel::Host, program, model)
    }

    pub fn at(level: SandboxLevel, program: PathBuf, model: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let engine = ClaudeEngine::new(ClaudeSettings {
            program,
            homes: folder.path().join("engines"),
            relay: Arc::new(Direct(model.to_owned())),
            sandbox: Arc::new(Sandbox::new(Settings::new(Level::Host, Vec::new()))),
            records: DuplexRecords::new(folder.path().join("children")),
        });
        Self {
            folder,
            engine,
            policy: always(Verdict::Allow),
            options: Map::new(),
            think: None,
            steps: 20,
            level,
            asked: Arc::default(),
            heard: Arc::default(),
        }
    }

    pub fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    pub fn start(&self, messages: &[&str], resume: Option<(&str, i64)>) -> Turn {
        let (sender, requests) = mpsc::channel(1);
        let specs = ["hive_ping", "hive_list"].map(|name| ToolSpec {
            name: name.to_owned(),
            description: "Says what it was told.".to_owned(),
            input_schema: json!({"type": "object", "properties": {"msg": {"type": "string"}}}),
        });
        let cancel = CancellationToken::new();
        let resume = resume.map(|(id, seen_seq)| Resume {
            session: EngineSession { id: id.to_owned(), seen_seq },
            text: "You were interrupted.".to_owned(),
        });
        let request = TurnRequest {
            agent: AgentName::new("main"),
            agent_id: AgentId(1),
            turn: TurnId::new("turn"),
            session: SessionId::new("session"),
            profile: Arc::new(profile()),
            providers: Providers::new(BTreeMap::new()),
            think: self.think,
            workspace: self.folder.path().join("work"),
            sandbox: SandboxSettings { level: self.level, ..SandboxSettings::default() },
            options: self.options.clone(),
            system: SystemPrompt { shared: "You are".into(), agent: "a test.".into() },
            resume,
            messages: messages.iter().zip(1..).map(|(text, seq)| row(seq, text)).collect(),
            gate: Gate::new(specs.into(), sender),
            steps_left: self.steps,
            allowance: Allowance::unbounded(),
            cancel: cancel.clone(),
            retry_now: Arc::default(),
        };
        let (policy, asked) = (Arc::clone(&self.policy), Arc::clone(&self.asked));
        tokio::spawn(answer(requests, policy, asked, Arc::clone(&self.heard)));
        Turn { handle: self.engine.start(request), cancel, told: Vec::new(), session: None }
    }

    /// A whole turn.
    pub async fn turn(&self, messages: &[&str], resume: Option<(&str, i64)>) -> Turn {
        let mut turn = self.start(messages, resume);
        turn.to_end().await;
        turn
    }
}

fn profile() -> Profile {
    Profile {
        name: "default".to_owned(),
        provider: "anthropic".to_owned(),
        model: "claude-test-1".to_owned(),
        max_output_tokens: 8000,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: None,
        price: None,
        sees_images: true,
        known: KnownModels::NONE,
    }
}

/// A text that begins with `< ` is the agent's own.
pub(super) fn row(seq: i64, text: &str) -> Arc<Message> {
    let (role, text) = match text.strip_prefix("< ") {
        Some(text) => (Role::Assistant, text),
        None => (Role::User, text),
    };
    let body = Body { role, ..Body::assistant(vec![Block::text(text)], None) };
    stored(seq, body)
}

fn stored(seq: i64, body: Body) -> Arc<Message> {
    Arc::new(Message {
        tag: history_tag(),
        id: seq.to_string(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new("turn"),
        seq,
        timestamp: 0,
        body,
    })
}

async fn answer(
    mut requests: mpsc::Receiver<GateRequest>,
    policy: Policy,
    asked: Arc<Mutex<Vec<String>>>,
    heard: Arc<tokio::sync::Notify>,
) {
    while let Some(request) = requests.recv().await {
        match request {
            GateRequest::Permit { call, own, reply } => {
                let key = own.as_ref().map_or("ours", |own| own.key.as_str());
                asked.lock().unwrap().push(format!("permit {} as {key}", call.name));
                let refused = key == "claude.refused";
                let verdict = match refused {
                    true => Verdict::Deny,
                    false => policy(&call, own.as_ref()),
                };
                let allow = |arguments| CallPermit::Allow { arguments };
                let deny = || CallPermit::Deny { reason: "policy_deny: no".to_owned() };
                let permit = match verdict {
                    Verdict::Allow => allow(call.arguments),
                    Verdict::With(arguments) => allow(arguments),
                    Verdict::Deny => deny(),
                    Verdict::Ask(yes) => {
                        let (decides, decided) = oneshot::channel();
                        let word = if yes { allow(call.arguments) } else { deny() };
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(300)).await;
                            let _ = decides.send(word);
                        });
                        CallPermit::Waits(Waiting(decided))
                    }
                    Verdict::Silence => {
                        let (decides, decided) = oneshot::channel();
                        tokio::spawn(async move {
                            tokio::time::sleep(PATIENCE).await;
                            drop(decides);
                        });
                        CallPermit::Waits(Waiting(decided))
                    }
                };
                let _ = reply.send(permit);
            }
            GateRequest::Run { calls, reply } => {
                let results = calls.into_iter().map(|call| {
                    let text = format!("ran {} {}", call.name, call.arguments);
                    asked.lock().unwrap().push(text.clone());
                    stored(9, Body::tool_result(call.id, call.name, text, false))
                });
                let _ = reply.send(results.collect());
            }
        }
        heard.notify_one();
    }
}

/// A turn that runs, and what it told so far.
pub(super) struct Turn {
    pub handle: TurnHandle,
    pub cancel: CancellationToken,
    pub told: Vec<String>,
    pub session: Option<String>,
}

impl Turn {
    pub async fn to_end(&mut self) -> &[String] {
        self.until(|_| false).await
    }

    /// Until something was told that fits, or the end.
    pub async fn until(&mut self, fits: impl Fn(&str) -> bool) -> &[String] {
        let told = async {
            while let Some(event) = self.handle.events.recv().await {
                if let EngineEvent::EngineSession { id } = &event {
                    self.session = Some(id.clone());
                }
                let Some(line) = told(event) else { continue };
                match (self.told.last_mut(), line.strip_prefix("says ")) {
                    (Some(last), Some(more)) if last.starts_with("says ") => last.push_str(more),
                    _ => self.told.push(line),
                }
                if self.told.last().is_some_and(|line| fits(line)) {
                    return;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, told).await;
        assert!(in_time.is_ok(), "the turn does not end: {:#?}", self.told);
        &self.told
    }

    pub fn interrupt(&self) {
        let Some(Interrupt(token)) = &self.handle.interrupt else { panic!("no interrupt") };
        token.cancel();
    }
}

fn told(event: EngineEvent) -> Option<String> {
    Some(match event {
        EngineEvent::CallStart => "call".to_owned(),
        EngineEvent::Text(text) => format!("says {text}"),
        EngineEvent::Thinking(text) => format!("thinks {text}"),
        EngineEvent::Signature(_) => "signed".to_owned(),
        EngineEvent::RedactedThinking(_) => "thinks in secret".to_owned(),
        EngineEvent::ToolCall { name, arguments, .. } => {
            let shown = ["command", "file_path", "msg"].map(|key| arguments[key].as_str());
            format!("tool {name} {}", shown.into_iter().flatten().next().unwrap_or_default())
        }
        EngineEvent::ToolResult { text, is_error, .. } => {
            let text: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
            format!("{} {text}", if is_error { "error" } else { "result" })
        }
        EngineEvent::Meta(_) => "used".to_owned(),
        EngineEvent::EngineSession { .. } => "session".to_owned(),
        EngineEvent::Retry { retry, text } => format!("retry {:?}: {text}", retry.code),
        EngineEvent::End(end) => match end {
            TurnEnd::Failed { code, text } => format!("failed {code:?}: {text}"),
            TurnEnd::Retry { code, text } => format!("again {code:?}: {text}"),
            end => format!("{end:?}").to_lowercase(),
        },
        EngineEvent::Raw(_) => return None,
        other => format!("{other:?}"),
    })
}
