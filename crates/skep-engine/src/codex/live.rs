//! A process of Codex that runs, with the thread it has open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skep_core::BoxFuture;
use skep_core::engine::{FailureCode, Resume, TurnEnd, TurnRequest};
use skep_core::relay::{RelayLaunch, RelayLease, RelayWire};
use skep_guard::duplex::{DuplexChild, LineSender};

use super::launch::{self, LaunchKey};
use super::wire::{self, Heard, Initialized, Notice, ThreadOpened};
use super::{Shared, TESTED_VERSION, program};
use crate::process::{EngineHome, EngineLaunch, EngineProgram, KeptProcess};

/// What answers at its start, and at any time when it is asked whether it still does.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// A process that does not take a line for so long does not listen any more.
const LISTEN: Duration = Duration::from_secs(3);

pub(super) struct Live {
    /// Where its program is.
    path: PathBuf,
    child: DuplexChild,
    lines: LineSender,
    /// Its bearer is worth something for as long.
    pub lease: RelayLease,
    pub thread: String,
    pub key: LaunchKey,
    next: u64,
}

/// Why it cannot go on.
pub(super) enum Trouble {
    /// Its output has ended.
    Gone,
    End(TurnEnd),
}

impl Live {
    /// Starts a process, and in it a new thread or the one to go on with.
    pub async fn start(
        shared: &Shared,
        request: &TurnRequest,
        key: LaunchKey,
    ) -> Result<Self, TurnEnd> {
        let program = program(&shared.program);
        let home = EngineHome::of(&shared.homes, "codex", request.agent_id);
        let home = home.map_err(|error| unfurnished(&error))?;
        let lease = shared.relay.open(RelayLaunch {
            agent: request.agent.clone(),
            wire: RelayWire::Responses,
            allowed_tools: key.relay_tools(),
            level: request.sandbox.level,
        });
        key.furnish(&home, &lease.base_url).map_err(|error| unfurnished(&error))?;
        let launch = EngineLaunch {
            program,
            arguments: launch::arguments(),
            environment: launch::environment(&home, &lease.bearer),
            home: &home,
            workspace: &key.workspace,
            sandbox: &request.sandbox,
            service: &lease.service,
        };
        let child = shared.starter.start(&request.session, launch).await?;
        let lines = child.sender();
        let path = shared.program.clone();
        let mut live = Self { path, child, lines, lease, thread: String::new(), key, next: 0 };
        match live.open(request.resume.as_ref()).await {
            Ok(()) => Ok(live),
            Err(trouble) => Err(live.end_for(trouble).await),
        }
    }

    async fn open(&mut self, resume: Option<&Resume>) -> Result<(), Trouble> {
        let client = json!({"name": "skep", "title": "Skep", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        let answer = self.call("initialize", params).await?;
        let told: Initialized = self.expect("initialize", answer)?;
        // `skep/0.166.0 (…)`: the name is ours, the version is its own.
        let version = told.user_agent.split_once('/').map_or("", |(_, version)| version);
        let version = version.split(' ').next().unwrap_or_default();
        if version != TESTED_VERSION && !self.key.options.any_version {
            return Err(Trouble::End(self.program().wrong_version(version, TESTED_VERSION)));
        }
        self.tell(json!({"method": "initialized"})).await?;
        let mut params = self.key.thread();
        let method = match resume {
            None => {
                params["dynamicTools"] = self.key.dynamic_tools();
                "thread/start"
            }
            Some(resume) => {
                params["threadId"] = json!(resume.session.id);
                params["excludeTurns"] = json!(true);
                "thread/resume"
            }
        };
        let answer = self.call(method, params).await?;
        // Whatever it has against going on, it is asked to begin anew.
        if resume.is_some() && answer.is_err() {
            return Err(Trouble::End(TurnEnd::StaleSession));
        }
        let opened: ThreadOpened = self.expect(method, answer)?;
        let known = resume.is_none_or(|resume| resume.session.id == opened.thread.id);
        let holds = known
            && opened.model_provider == "skep"
            && opened.approval_policy == "untrusted"
            && opened.approvals_reviewer == "user"
            && opened.instruction_sources.is_empty()
            && Path::new(&opened.cwd) == self.key.workspace;
        if !holds || opened.thread.id.is_empty() {
            return Err(self.surprise("a thread with other settings than it was given"));
        }
        self.thread = opened.thread.id;
        Ok(())
    }

    /// Fills the thread with what was said before.
    pub async fn fill(&mut self, batches: Vec<Vec<Value>>) -> Result<(), Trouble> {
        for items in batches {
            let params = json!({"threadId": self.thread, "items": items});
            let answer = self.call("thread/inject_items", params).await?;
            let _: Value = self.expect("thread/inject_items", answer)?;
        }
        Ok(())
    }

    /// Asks, and waits for the answer with nothing else to hear: what it tells meanwhile does not
    /// count, and what it asks for is refused.
    async fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Result<Box<RawValue>, String>, Trouble> {
        let asked = self.ask(method, params).await?;
        let answered = tokio::time::timeout(ANSWER, async {
            loop {
                let line = self.line().await?;
                match wire::hear(&line).map_err(|why| self.surprise(&why))? {
                    Heard::Answer { id, answer } if id == asked => return Ok(answer),
                    Heard::Request { id, .. } => self.tell(wire::refusal(&id)).await?,
                    Heard::Answer { .. } | Heard::Notice(_) | Heard::Talk => {}
                }
            }
        });
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(self.surprise(&format!("nothing: `{method}` has no answer"))),
        }
    }

    fn expect<T: for<'a> Deserialize<'a>>(
        &self,
        method: &str,
        answer: Result<Box<RawValue>, String>,
    ) -> Result<T, Trouble> {
        let read = answer.and_then(|answer| wire::read(method, &answer));
        read.map_err(|why| self.surprise(&format!("`{method}` failed: {why}")))
    }

    /// Asks; the answer comes with the other lines, under this number.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<u64, Trouble> {
        self.next += 1;
        self.tell(wire::request(self.next, method, params)).await?;
        Ok(self.next)
    }

    pub async fn tell(&self, line: Value) -> Result<(), Trouble> {
        match tokio::time::timeout(LISTEN, self.lines.send(line.to_string())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(skep_guard::duplex::LineError::Gone)) => Err(Trouble::Gone),
            Ok(Err(error)) => Err(Trouble::End(self.program().unreadable(&error))),
            Err(_) => Err(self.surprise("nothing, and does not listen either")),
        }
    }

    /// The next line. May be dropped while it waits.
    pub async fn line(&mut self) -> Result<Vec<u8>, Trouble> {
        match self.child.line().await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Trouble::Gone),
            Err(error) => Err(Trouble::End(self.program().unreadable(&error))),
        }
    }

    fn program(&self) -> EngineProgram<'_> {
        program(&self.path)
    }

    pub fn surprise(&self, what: &str) -> Trouble {
        let what: String = what.chars().take(500).collect();
        Trouble::End(self.program().surprise(what))
    }

    /// Ends the process, with everything it started; says how the turn ends.
    pub async fn end_for(self, trouble: Trouble) -> TurnEnd {
        match trouble {
            Trouble::Gone => program(&self.path).crashed(self.child).await,
            Trouble::End(end) => {
                let _ = self.child.end().await;
                end
            }
        }
    }
}

impl KeptProcess for Live {
    fn child(&mut self) -> &mut DuplexChild {
        &mut self.child
    }

    /// Between turns nothing begins.
    fn is_idle_talk(&self, line: &[u8]) -> bool {
        match wire::hear(line) {
            Ok(Heard::Talk | Heard::Answer { .. }) => true,
            Ok(Heard::Notice(notice)) => {
                !matches!(notice, Notice::TurnStarted(_) | Notice::ItemStarted(_) | Notice::Said(_))
            }
            Ok(Heard::Request { .. }) | Err(_) => false,
        }
    }

    fn end(self) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self.child.end().await) })
    }
}

fn unfurnished(error: &std::io::Error) -> TurnEnd {
    TurnEnd::Failed {
        code: FailureCode::AgentUnavailable,
        text: format!("the folder of Codex could not be set up: {error}"),
    }
}
