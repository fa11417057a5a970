//! One turn over a process of Claude Code: the prompt, what the program says and asks, the end.

mod ask;
mod start;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use skep_core::BoxFuture;
use skep_core::engine::{EngineEvent, FailureCode, ToolCall, TurnEnd, TurnRequest, Waiting};
use skep_core::ids::CallId;
use skep_core::message::{Message, Meta, StopReason, Usage};
use skep_core::relay::{ModelRelay, RelayLease, RelayTurnGuard, RelayUsage};
use skep_guard::duplex::{DuplexChild, LineError, LineSender};
use skep_guard::{clock, random};

use super::launch::{self, ClaudeOptions, ClaudePlan};
use super::map::{self, CallReport, Course, Streamed};
use super::permissions::{self, ClaudeTools};
use super::prompt;
use super::transcript::Transcript;
use super::wire::{self, ClaudeLine, HookInput, ResultLine, SystemNote};
use crate::process::{EngineProgram, EngineStarter, KeptProcess, KeptProcesses};

/// Until the program is ready for the first message.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// For what a message used, once it is complete: the relay has counted it before.
const USAGE_WAIT: Duration = Duration::from_secs(2);
/// Until a message stands in the session on the disk, once the turn is over.
const WRITTEN_WAIT: Duration = Duration::from_secs(1);
const WRITTEN_POLL: Duration = Duration::from_millis(20);
/// Questions and calls that are open at the same time.
const MOST_OPEN: usize = 256;
/// Calls of one turn.
const MOST_CALLS: usize = 10_000;
/// Usage of requests that no message was made of.
const USAGES: usize = 64;
/// Of a line, for the log.
const RAW_BYTES: usize = 64 << 10;

const INITIALIZE: &str = "initialize";
const INTERRUPT: &str = "interrupt";
const HOOK: &str = "before";

/// What all runs share.
pub(super) struct ClaudeShared {
    pub program: PathBuf,
    pub homes: PathBuf,
    pub relay: Arc<dyn ModelRelay>,
    pub starter: EngineStarter,
    pub kept: KeptProcesses<ClaudeProcess>,
}

/// A process with all that holds for it.
pub(super) struct ClaudeProcess {
    child: DuplexChild,
    lines: LineSender,
    lease: RelayLease,
    session: String,
    plan: ClaudePlan,
}

impl KeptProcess for ClaudeProcess {
    fn child(&mut self) -> &mut DuplexChild {
        &mut self.child
    }

    fn is_idle_talk(&self, line: &[u8]) -> bool {
        matches!(
            wire::read(line),
            Ok(ClaudeLine::System(SystemNote::Other)
                | ClaudeLine::CommandLifecycle { .. }
                | ClaudeLine::RateLimitEvent { .. }
                | ClaudeLine::KeepAlive)
        )
    }

    fn end(self) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self.child.end().await) })
    }
}

/// What is seen to once the message that streams is complete.
enum Held {
    /// A call that the program asks for before it makes it.
    Hook { request: String, input: HookInput },
    /// A call that it refused itself.
    Report(CallReport),
}

/// What is to be seen to next.
enum Next {
    Line(Result<Option<Vec<u8>>, LineError>),
    Steered(Arc<Message>),
    Interrupt,
}

/// The end of a turn that is not to go on.
type Ended<T> = Result<T, TurnEnd>;

pub(super) struct ClaudeRun {
    shared: Arc<ClaudeShared>,
    request: TurnRequest,
    events: mpsc::Sender<EngineEvent>,
    steered: mpsc::Receiver<Arc<Message>>,
    interrupt: CancellationToken,
    options: ClaudeOptions,
    tools: Arc<ClaudeTools>,
    process: Option<ClaudeProcess>,
    answers: Option<RelayTurnGuard>,
    used: Option<mpsc::Receiver<RelayUsage>>,
    /// Of requests beside the message that is waited for.
    beside: Vec<RelayUsage>,
    course: Course,
    /// Came while their message streams: it is put on record as a whole first.
    held: Vec<Held>,
    /// Calls that a person is asked about, until the program asks for the answer.
    waiting: HashMap<CallId, Waiting>,
    /// Calls that the gate was asked for.
    asked: HashSet<CallId>,
    open: JoinSet<()>,
    /// By the program's id of the question.
    by_request: HashMap<String, AbortHandle>,
    /// Messages that joined the run and are not taken yet.
    joining: HashSet<String>,
    transcript: Option<Transcript>,
    /// The newest message of ours, until it is known to stand in the session.
    unwritten: Option<String>,
    interrupted: bool,
    limited: bool,
}

impl ClaudeRun {
    pub fn new(
        shared: Arc<ClaudeShared>,
        request: TurnRequest,
        events: mpsc::Sender<EngineEvent>,
        steered: mpsc::Receiver<Arc<Message>>,
        interrupt: CancellationToken,
    ) -> Self {
        let options = ClaudeOptions::default();
        let tools = Arc::new(ClaudeTools::new(options.tools, Arc::clone(request.gate.specs())));
        Self {
            shared,
            request,
            events,
            steered,
            interrupt,
            options,
            tools,
            process: None,
            answers: None,
            used: None,
            beside: Vec::new(),
            course: Course::default(),
            held: Vec::new(),
            waiting: HashMap::new(),
            asked: HashSet::new(),
            open: JoinSet::new(),
            by_request: HashMap::new(),
            joining: HashSet::new(),
            transcript: None,
            unwritten: None,
            interrupted: false,
            limited: false,
        }
    }

    pub async fn until_end(mut self) {
        let (cancel, events) = (self.request.cancel.clone(), self.events.clone());
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => Some(TurnEnd::Cancelled),
            () = events.closed() => None,
            end = self.play() => Some(end),
        };
        self.close(end.as_ref()).await;
        if let Some(end) = end {
            // Nobody listens any more: then nobody waits for it either.
            let _ = events.send(EngineEvent::End(end)).await;
        }
    }

    /// A process is kept after a turn that ended well; every other is over before the turn is.
    async fn close(&mut self, end: Option<&TurnEnd>) {
        self.open.abort_all();
        self.answers = None;
        let Some(process) = self.process.take() else { return };
        match (end, self.options.idle()) {
            (Some(TurnEnd::Finished), Some(idle)) => {
                self.shared.kept.keep(self.request.session.clone(), process, idle);
            }
            _ => process.end().await,
        }
    }

    async fn play(&mut self) -> TurnEnd {
        match self.to_end().await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn to_end(&mut self) -> Ended<TurnEnd> {
        self.enter().await?;
        self.open_relay();
        self.say(&prompt::first(&self.request)).await?;
        loop {
            while self.open.try_join_next().is_some() {}
            match self.next().await {
                Next::Line(line) => {
                    let line = self.read(line).await?;
                    if let Some(end) = self.hear(line).await? {
                        return Ok(end);
                    }
                }
                Next::Steered(message) => {
                    let content = prompt::message(&message, self.request.profile.sees_images);
                    let id = self.say(&content).await?;
                    self.joining.insert(id);
                }
                Next::Interrupt => self.stop().await?,
            }
        }
    }

    /// May be dropped while it waits.
    async fn next(&mut self) -> Next {
        let Some(process) = &mut self.process else { return Next::Line(Ok(None)) };
        tokio::select! {
            biased;
            () = self.interrupt.cancelled(), if !self.interrupted => Next::Interrupt,
            Some(message) = self.steered.recv(), if !self.interrupted => Next::Steered(message),
            line = process.child.line() => Next::Line(line),
        }
    }

    fn program(&self) -> EngineProgram<'_> {
        launch::program(&self.shared.program)
    }

    async fn read(&mut self, line: Result<Option<Vec<u8>>, LineError>) -> Ended<ClaudeLine> {
        let line = match line {
            Ok(Some(line)) => line,
            Err(error @ (LineError::TooLong { .. } | LineError::Broken)) => {
                return Err(self.program().surprise(error));
            }
            Ok(None) | Err(LineError::Half(_) | LineError::Gone) => return Err(self.crash().await),
        };
        let shown = line.get(..RAW_BYTES).unwrap_or(&line);
        self.tell(EngineEvent::Raw(String::from_utf8_lossy(shown).into_owned())).await;
        wire::read(&line).map_err(|what| self.program().surprise(what))
    }

    async fn crash(&mut self) -> TurnEnd {
        let program = launch::program(&self.shared.program);
        match self.process.take() {
            Some(process) => program.crashed(process.child).await,
            None => program.surprise("its process is gone"),
        }
    }

    async fn tell(&self, event: EngineEvent) {
        // Whoever stopped to listen ends the run.
        let _ = self.events.send(event).await;
    }

    async fn send(&mut self, line: String) -> Ended<()> {
        let Some(process) = &self.process else { return Err(self.crash().await) };
        match process.lines.send(line).await {
            Ok(()) => Ok(()),
            // It says how it ended by the end of its output.
            Err(LineError::Gone) => Err(self.crash().await),
            Err(error) => Err(TurnEnd::Failed {
                code: FailureCode::ProviderRejected,
                text: format!("Claude Code cannot be told this: {error}"),
            }),
        }
    }

    /// Sends a message; its id is how its way is followed.
    async fn say(&mut self, content: &[Value]) -> Ended<String> {
        let id = random::uuid().to_string();
        self.send(wire::user(&id, content)).await?;
        self.unwritten = Some(id.clone());
        Ok(id)
    }
}

/// What the program says.
impl ClaudeRun {
    /// `Some`: the turn is over.
    async fn hear(&mut self, line: ClaudeLine) -> Ended<Option<TurnEnd>> {
        match line {
            ClaudeLine::System(SystemNote::ApiRetry(retry)) => {
                self.tell(map::retried(&retry, clock::now_ms())).await;
            }
            ClaudeLine::StreamEvent { event, parent_tool_use_id } => {
                self.own(parent_tool_use_id.as_deref())?;
                match self.course.stream(event) {
                    Streamed::Nothing => {}
                    Streamed::Event(event) => self.streamed(event).await?,
                    Streamed::Complete(message) => self.complete(message).await?,
                }
            }
            ClaudeLine::Assistant(line) => {
                self.own(line.parent_tool_use_id.as_deref())?;
                let calls = self.course.blocks(line, &self.tools);
                for call in calls.map_err(|what| self.program().surprise(what))? {
                    self.streamed(call).await?;
                }
            }
            ClaudeLine::User(line) => {
                self.own(line.parent_tool_use_id.as_deref())?;
                for report in map::reports(line) {
                    self.hold(Held::Report(report)).await?;
                }
            }
            ClaudeLine::Result(result) => return Ok(self.over(result).await),
            ClaudeLine::ControlRequest { request_id, request } => {
                self.answer(request_id, request).await?;
            }
            ClaudeLine::ControlCancelRequest { request_id } => {
                if let Some(open) = self.by_request.remove(&request_id) {
                    open.abort();
                }
                let withdrawn = |held: &Held| match held {
                    Held::Hook { request, .. } => *request == request_id,
                    Held::Report(_) => false,
                };
                self.held.retain(|held| !withdrawn(held));
            }
            ClaudeLine::CommandLifecycle { command_uuid, state } => {
                if state != "queued" {
                    self.joining.remove(&command_uuid);
                }
            }
            ClaudeLine::RateLimitEvent { rate_limit_info } => self.course.limit(&rate_limit_info),
            ClaudeLine::System(_)
            | ClaudeLine::ControlResponse { .. }
            | ClaudeLine::KeepAlive
            | ClaudeLine::ToolProgress
            | ClaudeLine::ToolUseSummary
            | ClaudeLine::AuthStatus => {}
        }
        Ok(None)
    }

    /// It was started without agents of its own.
    fn own(&self, parent: Option<&str>) -> Ended<()> {
        match parent {
            None => Ok(()),
            Some(_) => Err(self.program().surprise("an agent of its own")),
        }
    }

    async fn streamed(&mut self, event: EngineEvent) -> Ended<()> {
        if event == EngineEvent::CallStart {
            // The message before it broke off.
            self.see_to_held().await?;
            if self.course.calls > self.request.steps_left && !self.limited {
                self.limited = true;
                return self.send(wire::interrupt(INTERRUPT)).await;
            }
        }
        if !self.limited {
            self.tell(event).await;
        }
        Ok(())
    }

    /// A message is complete: what it used, then the calls in it.
    async fn complete(&mut self, message: String) -> Ended<()> {
        let meta = self.usage(&message).await;
        self.tell(EngineEvent::Meta(meta)).await;
        for beside in std::mem::take(&mut self.beside) {
            self.tell(EngineEvent::Meta(beside.meta)).await;
        }
        self.tell_session().await;
        self.see_to_held().await
    }

    /// As the relay counted it. What it says of other requests is kept.
    async fn usage(&mut self, message: &str) -> Meta {
        let is_of = |usage: &RelayUsage| usage.message.as_ref().is_none_or(|id| id == message);
        if let Some(at) = self.beside.iter().position(is_of) {
            return self.beside.remove(at).meta;
        }
        let beside = &mut self.beside;
        let told = async {
            let used = self.used.as_mut()?;
            loop {
                match used.recv().await? {
                    usage if is_of(&usage) => return Some(usage.meta),
                    usage if beside.len() < USAGES => beside.push(usage),
                    _ => {}
                }
            }
        };
        let told = tokio::time::timeout(USAGE_WAIT, told).await.ok().flatten();
        let profile = &self.request.profile;
        told.unwrap_or_else(|| Meta {
            profile: Some(profile.name.clone()),
            provider: profile.provider.clone(),
            model: profile.model.clone(),
            api: "anthropic-messages".to_owned(),
            usage: Usage::uncounted(),
            stop_reason: StopReason::Other,
        })
    }

    async fn report(&mut self, report: CallReport) -> Ended<()> {
        let CallReport { id, text, is_error } = report;
        if is_error && !self.interrupted && !self.asked.contains(&id) {
            // It refused the call itself, before it asked: the gate refuses it as well. Any other
            // result that nobody permitted ends the turn there.
            let call = ToolCall { id: id.clone(), name: String::new(), arguments: Value::Null };
            self.remember(&id)?;
            drop(self.request.gate.permit(call, Some(permissions::refused_tool())).await);
        }
        self.tell(EngineEvent::ToolResult { id, text, is_error }).await;
        Ok(())
    }

    async fn over(&mut self, result: ResultLine) -> Option<TurnEnd> {
        let until = tokio::time::Instant::now() + WRITTEN_WAIT;
        while !self.tell_session().await && tokio::time::Instant::now() < until {
            tokio::time::sleep(WRITTEN_POLL).await;
        }
        if self.interrupted {
            return Some(TurnEnd::Cancelled);
        }
        if self.limited {
            return Some(TurnEnd::StepLimit);
        }
        if !result.is_error && !self.joining.is_empty() {
            // What joined too late for this one begins another by itself.
            return None;
        }
        Some(self.course.end(result, clock::now_ms()))
    }

    /// Says that the session has what it was told, once that is so.
    async fn tell_session(&mut self) -> bool {
        let Some(id) = &self.unwritten else { return true };
        let (Some(transcript), Some(process)) = (&self.transcript, &self.process) else {
            return true;
        };
        if !transcript.holds(id).await {
            return false;
        }
        let id = process.session.clone();
        self.unwritten = None;
        self.tell(EngineEvent::EngineSession { id }).await;
        true
    }

    /// Somebody ended the turn: the session stays usable.
    async fn stop(&mut self) -> Ended<()> {
        self.interrupted = true;
        self.held.clear();
        self.waiting.clear();
        self.open.abort_all();
        self.send(wire::interrupt(INTERRUPT)).await
    }
}
