//! The adapter of the testkit's fake engine: a process that keeps its own sessions, has tools of
//! its own and speaks JSON lines. Written as an adapter of a genuine engine would be.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use skep_core::engine::{
    CallPermit, Capabilities, Engine, EngineEvent, Gate, Interrupt, OwnTool, ResumedTools, Rewrite,
    SessionKeeper, Steer, SteerMode, ToolCall, TurnEnd, TurnHandle, TurnRequest,
};
use skep_core::ids::CallId;
use skep_core::message::{Message, Meta, StopReason, Usage};
use skep_core::policy::Class;
use skep_core::settings::AgentSettings;
use skep_guard::duplex::{DuplexProgram, DuplexRecords, LineSender};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};
use skep_testkit::locate;

/// What this fake can; each test takes away what it is not about.
#[derive(Clone)]
pub(super) struct StdioEngine {
    /// Its sessions, its script, its effects.
    pub folder: PathBuf,
    pub steer: Option<SteerMode>,
    pub interrupts: bool,
    pub rewrite: Option<Rewrite>,
    pub on_resume: ResumedTools,
}

impl Engine for StdioEngine {
    fn id(&self) -> &str {
        "stdio"
    }

    fn display_name(&self) -> &str {
        "Stdio"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: self.steer.is_some(),
            interrupt: self.interrupts,
            tool_events: true,
            full_history: false,
            approvals: true,
            own_tools: true,
        }
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        agent.profile.model.clone()
    }

    fn session_keeper(&self) -> SessionKeeper {
        SessionKeeper::Engine { on_resume: self.on_resume }
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(64);
        let (messages, steered) = mpsc::channel(8);
        let interrupt = CancellationToken::new();
        let run = Run {
            folder: self.folder.clone(),
            request,
            events: sender,
            steered,
            interrupt: interrupt.clone(),
        };
        tokio::spawn(run.until_end());
        TurnHandle {
            steer: self.steer.map(|mode| Steer { mode, messages }),
            interrupt: self.interrupts.then_some(Interrupt(interrupt)),
            rewrite: self.rewrite,
            ..TurnHandle::new(events)
        }
    }
}

struct Run {
    folder: PathBuf,
    request: TurnRequest,
    events: mpsc::Sender<EngineEvent>,
    steered: mpsc::Receiver<Arc<Message>>,
    interrupt: CancellationToken,
}

impl Run {
    /// Closing the events without an end is a crash of the engine.
    async fn until_end(mut self) {
        let engine = locate::fake_engine().unwrap();
        let program = DuplexProgram::new(engine, vec![self.folder.clone().into()]);
        let sandbox = Sandbox::new(Settings::new(Level::Host, Vec::new()));
        let room = SandboxRoom {
            workspace: self.folder.clone(),
            read_only: Vec::new(),
            network: RoomNetwork::None,
        };
        let records = DuplexRecords::new(self.folder.join("children"));
        let name = self.request.session.as_str();
        let mut child = records.start(name, &sandbox, program, &room).await.unwrap();
        // A process that is gone says so by the end of its output.
        let lines = child.sender();
        let _ = lines.send(self.start_line().to_string()).await;
        let mut told = false;
        let end = loop {
            tokio::select! {
                biased;
                () = self.request.cancel.cancelled() => break Some(TurnEnd::Cancelled),
                () = self.events.closed() => break None,
                () = self.interrupt.cancelled(), if !told => {
                    told = true;
                    let _ = lines.send(json!({"type": "interrupt"}).to_string()).await;
                }
                Some(message) = self.steered.recv() => {
                    let text = message.body.plain_text();
                    let line = json!({"type": "message", "text": text}).to_string();
                    let _ = lines.send(line).await;
                }
                line = child.line() => {
                    let Ok(Some(line)) = line else { break None };
                    let Ok(said) = serde_json::from_slice::<Value>(&line) else { break None };
                    let line = String::from_utf8(line).unwrap();
                    let _ = self.events.send(EngineEvent::Raw(line)).await;
                    match heard(&said) {
                        Some(EngineEvent::End(end)) => break Some(end),
                        Some(event) => drop(self.events.send(event).await),
                        None => drop(tokio::spawn(ask(
                            self.request.gate.clone(),
                            said,
                            lines.clone(),
                        ))),
                    }
                }
            }
        };
        child.end().await.unwrap();
        if let Some(end) = end {
            let _ = self.events.send(EngineEvent::End(end)).await;
        }
    }

    fn start_line(&self) -> Value {
        let request = &self.request;
        let tools: Vec<&str> = request.gate.specs().iter().map(|spec| spec.name.as_str()).collect();
        let (session, prompt) = match &request.resume {
            Some(resume) => (Some(&resume.session.id), resume.text.clone()),
            None => {
                let texts = request.messages.iter().map(|row| row.body.plain_text());
                (None, texts.collect::<Vec<_>>().join(" | "))
            }
        };
        json!({"type": "start", "session": session, "prompt": prompt, "tools": tools,
               "options": request.options})
    }
}

/// What the engine said; nothing where it asks.
fn heard(said: &Value) -> Option<EngineEvent> {
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let ToolCall { id, name, arguments } = call_of(said);
    Some(match said["type"].as_str().unwrap_or_default() {
        "call" => EngineEvent::CallStart,
        "text" => EngineEvent::Text(text("text")),
        "tool_call" => EngineEvent::ToolCall { id, name, arguments },
        "started" => EngineEvent::OwnCall { id, name, arguments },
        "result" => {
            let is_error = said["is_error"] == true;
            EngineEvent::ToolResult { id, text: text("text"), is_error }
        }
        "session" => EngineEvent::EngineSession { id: text("id") },
        "usage" => EngineEvent::Meta(Meta {
            profile: None,
            provider: "stdio".to_owned(),
            model: "stdio".to_owned(),
            api: "stdio".to_owned(),
            usage: Usage::new(said["input"].as_u64().unwrap_or(0), 1, 0, 0),
            stop_reason: StopReason::EndTurn,
        }),
        "end" => EngineEvent::End(match text("how").as_str() {
            "stale" => TurnEnd::StaleSession,
            "cancelled" => TurnEnd::Cancelled,
            _ => TurnEnd::Finished,
        }),
        _ => return None,
    })
}

fn call_of(said: &Value) -> ToolCall {
    ToolCall {
        id: CallId::new(said["id"].as_str().unwrap_or_default()),
        name: said["name"].as_str().unwrap_or_default().to_owned(),
        arguments: said["arguments"].clone(),
    }
}

/// In a task of its own: a call that waits must not keep the others.
async fn ask(gate: Gate, said: Value, lines: LineSender) {
    let (call, request) = (call_of(&said), &said["request"]);
    let answer = match said["type"].as_str() {
        Some("run") => {
            let Some(rows) = gate.run(vec![call]).await else { return };
            let body = &rows.last().unwrap().body;
            let is_error = body.is_error.unwrap_or(false);
            json!({"type": "answer", "request": request, "text": body.plain_text(),
                   "is_error": is_error})
        }
        _ => {
            let own = said["key"].as_str().map(|key| OwnTool {
                key: key.to_owned(),
                class: if said["class"] == "read" { Class::Read } else { Class::Write },
            });
            let mut permit = gate.permit(call, own).await;
            if let Some(CallPermit::Waits(waiting)) = permit {
                permit = waiting.decided().await;
            }
            match permit {
                Some(CallPermit::Allow { arguments }) => {
                    json!({"type": "answer", "request": request, "allow": true,
                           "arguments": arguments})
                }
                Some(CallPermit::Deny { reason }) => {
                    json!({"type": "answer", "request": request, "allow": false,
                           "reason": reason})
                }
                Some(CallPermit::Waits(_)) | None => return,
            }
        }
    };
    let _ = lines.send(answer.to_string()).await;
}
