//! What the tests of turns share: a relay that leads where it is told, a person at the gate, and a
//! program, either the genuine one or one that plays what was recorded of it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use skep_core::BoxFuture;
use skep_core::engine::{
    Allowance, CallPermit, Engine, EngineEvent, EngineSession, Gate, GateRequest, Resume, TurnEnd,
    TurnHandle, TurnRequest,
};
use skep_core::ids::{AgentId, AgentName, CallId, SessionId, TurnId};
use skep_core::message::{Block, Body, Message, Role, history_tag};
use skep_core::provider::{Providers, SystemPrompt, ToolSpec};
use skep_core::relay::{
    ModelRelay, RelayConnection, RelayConnections, RelayLaunch, RelayLease, RelayService,
    RelayTurn, RelayTurnGuard, RelayTurns,
};
use skep_core::settings::{KnownModels, Profile, SandboxLevel, SandboxSettings, Think};
use skep_guard::duplex::DuplexRecords;
use skep_guard::sandbox::{Level, Sandbox, Settings};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{CodexEngine, CodexSettings};

/// Leads to an address of this machine and counts nothing.
struct Straight(String);

impl ModelRelay for Straight {
    fn open(&self, _: RelayLaunch) -> RelayLease {
        struct Nothing;
        impl RelayTurns for Nothing {
            fn open(&self, _: RelayTurn) -> RelayTurnGuard {
                RelayTurnGuard::new(())
            }
        }
        impl RelayConnections for Nothing {
            fn serve(&self, _: Box<dyn RelayConnection>) -> BoxFuture<'static, ()> {
                Box::pin(std::future::ready(()))
            }
        }
        let service =
            RelayService { host: String::new(), port: 80, connections: Arc::new(Nothing) };
        let (base_url, bearer) = (self.0.clone(), "right-key".to_owned());
        RelayLease { base_url, bearer, turns: Arc::new(Nothing), service }
    }
}

/// What the gate says to a call.
pub(super) enum Says {
    Allow,
    Deny(&'static str),
    /// A person allows it, after so long.
    Later(Duration),
    /// It was one of ours.
    Result(&'static str),
    /// The interrupt of the turn, while the question is open.
    Interrupt,
}

pub(super) struct Bench {
    pub folder: tempfile::TempDir,
    pub engine: CodexEngine,
    pub options: Map<String, Value>,
    pub think: Option<Think>,
    pub steps: u32,
    cancel: CancellationToken,
}

/// A turn that runs.
pub(super) struct Ride {
    pub handle: TurnHandle,
    pub asked: mpsc::Receiver<GateRequest>,
    pub cancel: CancellationToken,
}

/// A folder that is none for temporary files: the genuine program refuses those.
fn folder() -> tempfile::TempDir {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    match target.is_dir() || std::fs::create_dir_all(&target).is_ok() {
        true => tempfile::tempdir_in(target).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

impl Bench {
    pub fn new(program: impl Fn(&Path) -> PathBuf, model: &str) -> Self {
        let folder = folder();
        let home = folder.path().canonicalize().unwrap();
        for name in ["work", "program"] {
            std::fs::create_dir(home.join(name)).unwrap();
        }
        let settings = CodexSettings {
            program: program(&home.join("program")),
            homes: home.join("homes"),
            relay: Arc::new(Straight(model.to_owned())),
            sandbox: Arc::new(Sandbox::new(Settings::new(Level::Host, Vec::new()))),
            records: DuplexRecords::new(home.join("children")),
        };
        let mut options = Map::new();
        options.insert("idle_minutes".to_owned(), Value::from(0));
        let (engine, cancel) = (CodexEngine::new(settings), CancellationToken::new());
        Self { folder, engine, options, think: None, steps: 20, cancel }
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("homes/codex/7")
    }

    pub fn ride(&self, messages: Vec<Arc<Message>>, resume: Option<&str>) -> Ride {
        let (sender, asked) = mpsc::channel(1);
        let spec = ToolSpec {
            name: "hive_send".to_owned(),
            description: "sends".to_owned(),
            input_schema: serde_json::json!({
                "type": "object",
                "properties": {"to": {"type": "string"}},
            }),
        };
        let bash = ToolSpec { name: "bash".to_owned(), ..spec.clone() };
        let cancel = self.cancel.child_token();
        let resume = resume.map(|id| Resume {
            session: EngineSession { id: id.to_owned(), seen_seq: 1 },
            text: "go on".to_owned(),
        });
        let request = TurnRequest {
            agent: AgentName::new("main"),
            agent_id: AgentId(7),
            turn: TurnId::new("turn"),
            session: SessionId::new("session"),
            profile: Arc::new(profile()),
            providers: Providers::new(BTreeMap::new()),
            think: self.think,
            workspace: self.work(),
            sandbox: SandboxSettings { level: SandboxLevel::Host, ..SandboxSettings::default() },
            options: self.options.clone(),
            resume,
            system: SystemPrompt { shared: "shared".into(), agent: "you are bee 7".into() },
            messages,
            gate: Gate::new(vec![spec, bash].into(), sender),
            steps_left: self.steps,
            allowance: Allowance::unbounded(),
            cancel: cancel.clone(),
            retry_now: Arc::new(Notify::new()),
        };
        Ride { handle: self.engine.start(request), asked, cancel }
    }
}

pub(super) fn profile() -> Profile {
    Profile {
        name: "default".to_owned(),
        provider: "openai-responses".to_owned(),
        model: "gpt-test".to_owned(),
        max_output_tokens: 100,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: Some(200_000),
        price: None,
        sees_images: true,
        known: KnownModels::NONE,
    }
}

pub(super) fn row(seq: i64, body: Body) -> Arc<Message> {
    Arc::new(Message {
        tag: history_tag(),
        id: seq.to_string(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new("turn"),
        seq,
        timestamp: 1,
        body,
    })
}

pub(super) fn user(seq: i64, text: &str) -> Arc<Message> {
    let mut body = Body::assistant(vec![Block::text(text)], None);
    body.role = Role::User;
    row(seq, body)
}

impl Ride {
    /// The course of the turn, one line for each event and question: pieces of text are joined,
    /// lines as they came are left out.
    pub async fn course(mut self, gate: impl FnMut(&str) -> Says) -> Vec<String> {
        self.course_until(gate, |_| false).await
    }

    /// The same; interrupts when `when` likes a line.
    pub async fn course_until(
        &mut self,
        mut gate: impl FnMut(&str) -> Says,
        when: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut course: Vec<String> = Vec::new();
        let interrupt = self.handle.interrupt.as_ref().unwrap().0.clone();
        loop {
            let told = tokio::select! {
                biased;
                event = self.handle.events.recv() => Some(event),
                Some(asked) = self.asked.recv() => {
                    while let Ok(event) = self.handle.events.try_recv() {
                        tell(&mut course, event);
                    }
                    self.decide(&mut course, asked, &mut gate);
                    None
                }
                () = tokio::time::sleep(Duration::from_secs(30)) => {
                    panic!("nothing comes after {course:#?}");
                }
            };
            match told {
                Some(None) => return course,
                Some(Some(event)) => tell(&mut course, event),
                None => {}
            }
            if course.last().is_some_and(|line| when(line)) {
                interrupt.cancel();
            }
        }
    }

    fn decide(
        &self,
        course: &mut Vec<String>,
        asked: GateRequest,
        gate: &mut impl FnMut(&str) -> Says,
    ) {
        let allow = |arguments| CallPermit::Allow { arguments };
        match asked {
            GateRequest::Permit { call, own, reply } => {
                let own = own.unwrap();
                let line = format!("asks {} {} {} {}", call.id, call.name, own.key, call.arguments);
                let said = gate(&line);
                course.push(line);
                match said {
                    Says::Deny(reason) => {
                        let _ = reply.send(CallPermit::Deny { reason: reason.to_owned() });
                    }
                    Says::Later(pause) => {
                        let (decides, decided) = tokio::sync::oneshot::channel();
                        let _ = reply.send(CallPermit::Waits(skep_core::engine::Waiting(decided)));
                        tokio::spawn(async move {
                            tokio::time::sleep(pause).await;
                            let _ = decides.send(allow(call.arguments));
                        });
                    }
                    Says::Interrupt => {
                        self.handle.interrupt.as_ref().unwrap().0.cancel();
                        // Nobody decides.
                        std::mem::forget(reply);
                    }
                    Says::Allow | Says::Result(_) => drop(reply.send(allow(call.arguments))),
                }
            }
            GateRequest::Run { calls, reply } => {
                let mut rows = Vec::new();
                for call in calls {
                    let line = format!("runs {} {} {}", call.id, call.name, call.arguments);
                    let (text, is_error) = match gate(&line) {
                        Says::Result(text) => (text, false),
                        _ => ("refused", true),
                    };
                    course.push(line);
                    let id = CallId::new(call.id.as_str());
                    rows.push(row(9, Body::tool_result(id, call.name, text.to_owned(), is_error)));
                }
                let _ = reply.send(rows);
            }
        }
    }
}

fn tell(course: &mut Vec<String>, event: EngineEvent) {
    let line = match event {
        EngineEvent::Raw(_) => return,
        EngineEvent::Asking(profile) => format!("profile {}", profile.name),
        EngineEvent::CallStart => "call".to_owned(),
        EngineEvent::Text(text) => match course.last_mut() {
            Some(last) if last.starts_with("text ") => return last.push_str(&text),
            _ => format!("text {text}"),
        },
        EngineEvent::Thinking(text) => match course.last_mut() {
            Some(last) if last.starts_with("thinks ") => return last.push_str(&text),
            _ => format!("thinks {text}"),
        },
        EngineEvent::OwnCall { id, name, arguments } => format!("started {id} {name} {arguments}"),
        EngineEvent::ToolResult { id, text, is_error } => {
            format!("result {id}{} {text}", if is_error { " error" } else { "" })
        }
        EngineEvent::Meta(meta) => {
            let usage = meta.usage;
            format!("used {}+{} {}", usage.input, usage.cache_read, usage.output)
        }
        EngineEvent::EngineSession { .. } => "session".to_owned(),
        EngineEvent::Notice(text) => format!("notice {text}"),
        EngineEvent::Retry { retry, text } => format!("again {} {text}", retry.code.as_str()),
        EngineEvent::End(end) => match end {
            TurnEnd::Failed { code, text } => format!("failed {}: {text}", code.as_str()),
            TurnEnd::Retry { code, text } => format!("later {}: {text}", code.as_str()),
            end => format!("{end:?}"),
        },
        other => format!("{other:?}"),
    };
    course.push(line);
}
