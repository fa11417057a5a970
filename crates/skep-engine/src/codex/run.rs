//! One turn: a process with its thread is found or started, the turn runs in it, and what it asks
//! is answered in the order in which the answers come.
//!
//! A process is kept for the next turn only where this one finished. In every other case it has
//! ended, with all it had started, before the end is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use skep_core::engine::{EngineEvent, FailureCode, RetryInfo, RetryScope, TurnEnd, TurnRequest};
use skep_core::message::{Message, Meta, StopReason, Usage};
use skep_core::relay::{RelayTurn, RelayUsage};
use skep_guard::clock;

use super::Shared;
use super::history::{self, Told};
use super::launch::{LaunchKey, Options};
use super::live::{ANSWER, Live, Trouble};
use super::map::{Map, Step};
use super::questions::{self, Asked, Verdict};
use super::wire::{self, Heard, Tokens, TurnOpened};
use crate::process::KeptProcess as _;

/// A process that says nothing for so long is asked whether it still answers.
const SILENCE: Duration = Duration::from_secs(60);
/// For a turn that was interrupted, or has left commands behind, to come to its end; less than the
/// turn waits for it.
const ENDS: Duration = Duration::from_millis(1000);
/// For the relay to say what a call used that the program says is over.
const COUNT: Duration = Duration::from_secs(2);
/// Questions that wait for the gate at a time.
const ASKED: usize = 256;

pub(super) struct Run {
    shared: Arc<Shared>,
    request: TurnRequest,
    events: mpsc::Sender<EngineEvent>,
    steered: mpsc::Receiver<Arc<Message>>,
    interrupt: CancellationToken,
}

/// What a question of ours was about.
#[derive(PartialEq)]
enum Question {
    Start,
    /// The input that joins; told again where it came too late.
    Steer(Value),
    /// A reason for the model: nothing hangs on it.
    Note,
    Interrupt,
    /// Whether it still answers.
    Alive,
    /// That commands are ended.
    Clean,
}

/// A turn in a process.
struct Turn<'a> {
    run: &'a mut Run,
    live: Live,
    map: Map,
    /// Its questions that the gate has; nothing comes of those that the turn leaves.
    asked: JoinSet<Option<(Value, Verdict)>>,
    questions: BTreeMap<u64, Question>,
    used: mpsc::Receiver<RelayUsage>,
    calls: u32,
    /// What came too late to join: the next input.
    late: Vec<Value>,
    interrupted: bool,
    /// How the turn has ended, while the rest comes to its end.
    over: Option<TurnEnd>,
    cleaned: bool,
    /// What is to end has ended by then.
    until: Option<Instant>,
    heard: Instant,
}

/// Why the loop ends.
enum Stop {
    /// In the process it has ended well.
    Over(TurnEnd),
    Trouble(Trouble),
    /// Nobody listens any more.
    Left,
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Run {
    pub fn new(
        shared: Arc<Shared>,
        request: TurnRequest,
        events: mpsc::Sender<EngineEvent>,
        steered: mpsc::Receiver<Arc<Message>>,
        interrupt: CancellationToken,
    ) -> Self {
        Self { shared, request, events, steered, interrupt }
    }

    pub async fn until_end(mut self) {
        if let Some(end) = self.turn().await {
            let _ = self.events.send(EngineEvent::End(end)).await;
        }
    }

    async fn turn(&mut self) -> Option<TurnEnd> {
        let options = Options::read(&self.request.options);
        let key = match options.and_then(|options| LaunchKey::new(&self.request, options)) {
            Ok(key) => key,
            Err(text) => {
                return Some(TurnEnd::Failed { code: FailureCode::AgentUnavailable, text });
            }
        };
        let idle = key.options.idle;
        let live = tokio::select! {
            biased;
            () = self.request.cancel.cancelled() => return Some(TurnEnd::Cancelled),
            () = self.interrupt.cancelled() => return Some(TurnEnd::Cancelled),
            () = self.events.closed() => return None,
            live = self.process(key) => match live {
                Ok(live) => live,
                Err(end) => return Some(end),
            },
        };
        let (live, stop) = self.attend(live).await;
        match stop {
            Stop::Over(TurnEnd::Finished) if !idle.is_zero() => {
                self.shared.kept.keep(self.request.session.clone(), live, idle);
                Some(TurnEnd::Finished)
            }
            Stop::Over(end) => Some(live.end_for(Trouble::End(end)).await),
            Stop::Trouble(trouble) => Some(live.end_for(trouble).await),
            Stop::Left => {
                live.end().await;
                None
            }
        }
    }

    /// The one that was kept, where it is what this turn needs.
    async fn process(&self, key: LaunchKey) -> Result<Live, TurnEnd> {
        if let Some(live) = self.shared.kept.take(&self.request.session).await {
            let resumed = self.request.resume.as_ref();
            if live.key == key && resumed.is_some_and(|it| it.session.id == live.thread) {
                return Ok(live);
            }
            live.end().await;
        }
        Live::start(&self.shared, &self.request, key).await
    }

    async fn attend(&mut self, live: Live) -> (Live, Stop) {
        let (used, counted) = mpsc::channel(16);
        let request = &self.request;
        // Before anything is asked of the model, and until everything is over.
        let answered = live.lease.turns.open(RelayTurn {
            profile: Arc::clone(&request.profile),
            providers: request.providers.clone(),
            allowance: request.allowance.clone(),
            used,
        });
        let map = Map::new(live.thread.clone(), live.key.workspace.clone());
        let mut turn = Turn {
            run: self,
            live,
            map,
            asked: JoinSet::new(),
            questions: BTreeMap::new(),
            used: counted,
            calls: 0,
            late: Vec::new(),
            interrupted: false,
            over: None,
            cleaned: false,
            until: None,
            heard: Instant::now(),
        };
        let Err(stop) = turn.until_over().await;
        drop(answered);
        // Calls beside the messages of the turn.
        while let Ok(RelayUsage { meta, .. }) = turn.used.try_recv() {
            let _ = turn.say(EngineEvent::Meta(meta)).await;
        }
        (turn.live, stop)
    }
}

impl Turn<'_> {
    async fn until_over(&mut self) -> Result<std::convert::Infallible, Stop> {
        let request = &self.run.request;
        let Told { batches, input } = match &request.resume {
            Some(resume) => history::onward(request, resume),
            None => history::anew(request),
        };
        self.say(EngineEvent::Asking(Arc::clone(&request.profile))).await?;
        self.live.fill(batches).await?;
        self.begin(input).await?;
        loop {
            if self.over.is_some() {
                self.close().await?;
            }
            let cancel = self.run.request.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(end(TurnEnd::Cancelled)),
                () = self.run.events.closed() => return Err(Stop::Left),
                () = self.run.interrupt.cancelled(), if !self.interrupted => {
                    self.interrupt().await?;
                }
                () = reached(self.until) => {
                    // The process ends instead, and with it what it started.
                    return Err(match self.over.take() {
                        Some(TurnEnd::Finished) => {
                            self.live.surprise("a command that does not end").into()
                        }
                        over => end(over.unwrap_or(TurnEnd::Cancelled)),
                    });
                }
                Some(message) = self.run.steered.recv() => self.steer(message).await?,
                Some(decided) = self.asked.join_next() => {
                    if let Ok(Some((id, verdict))) = decided {
                        self.answer(&id, verdict).await?;
                    }
                }
                line = self.live.line() => self.hear(&line?).await?,
                () = tokio::time::sleep_until(self.heard + SILENCE) => self.prod().await?,
            }
        }
    }

    /// The turn is over: what came too late begins another one, and commands that outlived it are
    /// ended. The error is the end, once nothing runs.
    async fn close(&mut self) -> Result<(), Stop> {
        // Whether they have joined is not known yet.
        if self.questions.values().any(|question| matches!(question, Question::Steer(_))) {
            return Ok(());
        }
        if self.over == Some(TurnEnd::Finished) && !self.interrupted {
            while let Ok(message) = self.run.steered.try_recv() {
                self.late.push(history::joining(&self.run.request, message));
            }
            let late = std::mem::take(&mut self.late).into_iter();
            let parts: Vec<Value> =
                late.flat_map(|input| input.as_array().cloned().unwrap_or_default()).collect();
            if !parts.is_empty() {
                (self.over, self.until, self.cleaned) = (None, None, false);
                return self.begin(parts.into()).await;
            }
        }
        if !self.cleaned && !self.questions.values().any(|it| *it == Question::Clean) {
            self.asked.abort_all();
            self.until = Some(Instant::now() + ENDS);
            let params = json!({"threadId": self.live.thread});
            return self.ask("thread/backgroundTerminals/clean", params, Question::Clean).await;
        }
        // Of a turn that went well their results are told. Any other ends the process, too.
        let told = |over: &TurnEnd| *over != TurnEnd::Finished || !self.map.runs();
        match self.over.take_if(|over| self.cleaned && told(over)) {
            Some(over) => Err(Stop::Over(over)),
            None => Ok(()),
        }
    }

    /// Hands an input in, as a turn of the thread.
    async fn begin(&mut self, input: Value) -> Result<(), Stop> {
        let params = json!({"threadId": self.live.thread, "input": input});
        self.ask("turn/start", params, Question::Start).await
    }

    async fn ask(&mut self, method: &str, params: Value, about: Question) -> Result<(), Stop> {
        let id = self.live.ask(method, params).await?;
        self.questions.insert(id, about);
        Ok(())
    }

    async fn steer(&mut self, message: Arc<Message>) -> Result<(), Stop> {
        let input = history::joining(&self.run.request, message);
        match self.map.turn.clone() {
            Some(turn) => self.join(&turn, input.clone(), Question::Steer(input)).await,
            None => {
                self.late.push(input);
                Ok(())
            }
        }
    }

    async fn join(&mut self, turn: &str, input: Value, about: Question) -> Result<(), Stop> {
        let thread = &self.live.thread;
        let params = json!({"threadId": thread, "expectedTurnId": turn, "input": input});
        self.ask("turn/steer", params, about).await
    }

    async fn interrupt(&mut self) -> Result<(), Stop> {
        self.interrupted = true;
        self.until = Some(Instant::now() + ENDS);
        // Without a name the turn cannot be interrupted: the process ends, and the turn with it.
        let Some(turn) = self.map.turn.clone() else { return Err(end(TurnEnd::Cancelled)) };
        let params = json!({"threadId": self.live.thread, "turnId": turn});
        self.ask("turn/interrupt", params, Question::Interrupt).await
    }

    /// Nothing was heard for long.
    async fn prod(&mut self) -> Result<(), Stop> {
        if self.questions.values().any(|question| *question == Question::Alive) {
            return Err(self.live.surprise("nothing, though it was asked").into());
        }
        self.heard = Instant::now() + ANSWER - SILENCE;
        self.ask("thread/loaded/list", json!({}), Question::Alive).await
    }

    async fn hear(&mut self, line: &[u8]) -> Result<(), Stop> {
        self.heard = Instant::now();
        self.say(EngineEvent::Raw(String::from_utf8_lossy(line).into_owned())).await?;
        match wire::hear(line).map_err(|why| self.live.surprise(&why))? {
            Heard::Talk => Ok(()),
            Heard::Answer { id, answer } => self.answered(id, answer),
            Heard::Request { id, method, params } => self.requested(id, &method, &params).await,
            Heard::Notice(notice) => {
                let steps = self.map.hear(notice);
                for step in steps.map_err(|why| self.live.surprise(&why))? {
                    self.step(step).await?;
                }
                Ok(())
            }
        }
    }

    fn answered(&mut self, id: u64, answer: Result<Box<RawValue>, String>) -> Result<(), Stop> {
        match (self.questions.remove(&id), answer) {
            (None, _) => return Err(self.live.surprise("an answer to nobody").into()),
            (Some(Question::Start), answer) => {
                let opened: Result<TurnOpened, _> =
                    answer.and_then(|answer| wire::read("turn/start", &answer));
                let opened = opened.map_err(|why| self.live.surprise(&why))?;
                // The turn may be over already, and its name with it.
                if self.over.is_none() {
                    self.map.turn.get_or_insert(opened.turn.id);
                }
            }
            (Some(Question::Steer(input)), Err(_)) => self.late.push(input),
            (Some(Question::Clean), _) => self.cleaned = true,
            (Some(_), _) => {}
        }
        Ok(())
    }

    async fn requested(&mut self, id: Value, method: &str, params: &RawValue) -> Result<(), Stop> {
        let asked = questions::read(method, params, &self.live, &mut self.map);
        let asked = asked.map_err(|why| self.live.surprise(&why))?;
        if self.asked.len() >= ASKED {
            return Err(self.live.surprise("too many questions at a time").into());
        }
        let gate = self.run.request.gate.clone();
        match asked {
            Asked::Unknown => self.live.tell(wire::refusal(&id)).await?,
            // It has no turn, so nobody can be asked for it.
            _ if self.over.is_some() => self.live.tell(wire::refusal(&id)).await?,
            Asked::Permits(calls) => {
                let decided = questions::permit(gate, calls);
                self.asked.spawn(async move { Some((id, decided.await?)) });
            }
            Asked::Runs(call) => {
                let ran = questions::run(gate, call);
                self.asked.spawn(async move { Some((id, ran.await?)) });
            }
            Asked::Refused(why) => {
                self.say(EngineEvent::Notice(format!("Codex was refused a call. {why}"))).await?;
                self.answer(&id, Verdict::Permit(Err(why))).await?;
            }
        }
        Ok(())
    }

    async fn answer(&mut self, id: &Value, verdict: Verdict) -> Result<(), Stop> {
        // The answer has no room for a reason: the model hears it as a message, before it goes on.
        if let Verdict::Permit(Err(why)) = &verdict
            && let Some(turn) = self.map.turn.clone()
        {
            let input = json!([history::text(&format!("[not permitted] {why}"))]);
            self.join(&turn, input, Question::Note).await?;
        }
        Ok(self.live.tell(wire::answer(id, verdict.answer())).await?)
    }

    async fn step(&mut self, step: Step) -> Result<(), Stop> {
        let event = match step {
            Step::Event(event) => event,
            Step::Call if self.calls >= self.run.request.steps_left => {
                return Err(end(TurnEnd::StepLimit));
            }
            Step::Call => EngineEvent::CallStart,
            Step::Counted(tokens) => {
                self.calls += 1;
                EngineEvent::Meta(self.count(tokens).await)
            }
            Step::Saved => EngineEvent::EngineSession { id: self.live.thread.clone() },
            Step::Again { code, text } => {
                let (scope, next_at) = (RetryScope::Call, clock::now_ms());
                let (number, of, attempt) = (None, None, None);
                let retry = RetryInfo { scope, number, of, attempt, code, next_at };
                EngineEvent::Retry { retry, text }
            }
            Step::Over(TurnEnd::Cancelled) if !self.interrupted => {
                return Err(self.live.surprise("an interrupt of its own").into());
            }
            Step::Over(over) => {
                self.over = Some(over);
                return Ok(());
            }
        };
        self.say(event).await
    }

    /// What a call used, by the relay. What it had to try before is part of it.
    async fn count(&mut self, tokens: Tokens) -> Meta {
        let told = tokio::time::timeout(COUNT, self.used.recv()).await;
        let Ok(Some(RelayUsage { mut meta, .. })) = told else { return self.reported(tokens) };
        while let Ok(more) = self.used.try_recv() {
            meta.usage.add(more.meta.usage);
        }
        meta
    }

    /// The program's own word, where the relay has none.
    fn reported(&self, tokens: Tokens) -> Meta {
        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        let (input, cached) = (count(tokens.input_tokens), count(tokens.cached_input_tokens));
        let written = count(tokens.cache_write_input_tokens);
        let output = count(tokens.output_tokens);
        let profile = &self.run.request.profile;
        let usage = Usage::new(input.saturating_sub(cached), output, cached, written);
        Meta {
            profile: Some(profile.name.clone()),
            provider: profile.provider.clone(),
            model: profile.model.clone(),
            api: "openai-responses".to_owned(),
            usage: usage.priced(profile.price.as_ref()),
            stop_reason: StopReason::EndTurn,
        }
    }

    async fn say(&self, event: EngineEvent) -> Result<(), Stop> {
        self.run.events.send(event).await.map_err(|_| Stop::Left)
    }
}

/// The turn ends in this way, and its process with it.
fn end(end: TurnEnd) -> Stop {
    Stop::Trouble(Trouble::End(end))
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
