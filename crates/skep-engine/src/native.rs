//! The native loop: stream, gate, results, again, until the model wants nothing more. Whatever
//! goes wrong is an event; nothing here can throw.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use skep_core::Millis;
use skep_core::budget::Over;
use skep_core::count;
use skep_core::engine::{
    Capabilities, Engine, EngineEvent, FailureCode, RetryCode, RetryInfo, RetryScope, ToolCall,
    TurnEnd, TurnHandle, TurnRequest,
};
use skep_core::fallback;
use skep_core::message::{Message, Meta, StopReason};
use skep_core::provider::{ModelError, ModelEvent, ModelRequest};
use skep_core::retry::{self, RetryPolicy, RetryStep};
use skep_core::settings::{AgentSettings, Profile};
use tokio::sync::mpsc;

use crate::candidates::{self, Candidate, Failures, GivenUp};

/// Events on their way to the turn. A full queue slows the reading of the stream down, which
/// slows the vendor down.
const EVENTS: usize = 256;

pub struct NativeEngine {
    /// Of all turns: what one of them learns about a vendor holds for the others.
    failures: Arc<Failures>,
    timing: Timing,
}

/// Everything about time that a test wants to decide itself.
#[derive(Clone, Copy)]
pub struct Timing {
    pub policy: RetryPolicy,
    pub now: fn() -> Millis,
    /// A number in 0..1.
    pub jitter: fn() -> f64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            policy: RetryPolicy::default(),
            now: skep_guard::clock::now_ms,
            jitter: skep_guard::random::jitter,
        }
    }
}

impl NativeEngine {
    pub fn new(timing: Timing) -> Self {
        Self { failures: Arc::default(), timing }
    }
}

impl Engine for NativeEngine {
    fn id(&self) -> &str {
        "native"
    }

    fn display_name(&self) -> &str {
        "Native"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: true,
            interrupt: true,
            tool_events: true,
            full_history: true,
            approvals: true,
            own_tools: false,
        }
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        agent.profile.model.clone()
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(EVENTS);
        let candidates = candidates::of(&request);
        let failures = Arc::clone(&self.failures);
        // Owned by the receiver: the task ends when that is dropped, or by the cancel token.
        tokio::spawn(run(candidates, failures, request, self.timing, sender));
        TurnHandle::new(events)
    }
}

async fn run(
    candidates: Vec<Candidate>,
    failures: Arc<Failures>,
    request: TurnRequest,
    timing: Timing,
    events: mpsc::Sender<EngineEvent>,
) {
    let cancel = request.cancel.clone();
    let stop = if candidates.is_empty() {
        Stop::Ended(TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!("no model is set up for the profile {}", request.profile.name),
        })
    } else {
        let mut turn =
            Turn { candidates, asking: 0, failures, request, timing, events: events.clone() };
        tokio::select! {
            biased;
            // Leaving the branch drops the stream, and with it the request on the wire.
            () = cancel.cancelled() => Stop::Ended(TurnEnd::Cancelled),
            () = events.closed() => Stop::Quiet,
            stop = turn.steps() => stop,
        }
    };
    if let Stop::Ended(end) = stop {
        // Nobody listens any more: then nobody waits for it either.
        let _ = events.send(EngineEvent::End(end)).await;
    }
}

enum Stop {
    Ended(TurnEnd),
    /// The gate closed or the listener left: the turn goes on elsewhere, or not at all.
    Quiet,
}

struct Turn {
    /// The turn's profile and its fallbacks; never empty.
    candidates: Vec<Candidate>,
    /// Who was asked last.
    asking: usize,
    failures: Arc<Failures>,
    request: TurnRequest,
    timing: Timing,
    events: mpsc::Sender<EngineEvent>,
}

impl Turn {
    async fn steps(&mut self) -> Stop {
        let mut messages = self.request.messages.clone();
        for step in 1..=self.request.steps_left {
            let calls = match self.step(&messages).await {
                Ok(calls) => calls,
                Err(stop) => return stop,
            };
            if calls.is_empty() {
                return Stop::Ended(TurnEnd::Finished);
            }
            if step == self.request.steps_left {
                // No answer of the model could use the results, so nothing is done for them.
                break;
            }
            match self.request.gate.run(calls).await {
                Some(rows) => messages.extend(rows),
                None => return Stop::Quiet,
            }
        }
        Stop::Ended(TurnEnd::StepLimit)
    }

    /// One answer, of the first profile that gives one.
    async fn step(&mut self, messages: &[Arc<Message>]) -> Result<Vec<ToolCall>, Stop> {
        let failed_at: Vec<_> = self
            .candidates
            .iter()
            .map(|candidate| self.failures.last(&candidate.profile.name))
            .collect();
        let mut given_up: Vec<GivenUp> = Vec::new();
        for candidate in fallback::order(&failed_at, (self.timing.now)()) {
            self.turn_to(candidate, given_up.last()).await?;
            match self.ask(&self.candidates[candidate], messages).await? {
                Ok(calls) => {
                    self.failures.forget(&self.candidates[candidate].profile.name);
                    return Ok(calls);
                }
                Err(given) => {
                    let helps = fallback::helps(&given.error);
                    given_up.push(given);
                    if !helps {
                        break;
                    }
                    self.failures
                        .note(&self.candidates[candidate].profile.name, (self.timing.now)());
                }
            }
        }
        Err(Stop::Ended(candidates::end_of(given_up)))
    }

    /// Says who is asked from now on, where that changes.
    async fn turn_to(&mut self, candidate: usize, failed: Option<&GivenUp>) -> Result<(), Stop> {
        if candidate == self.asking {
            return Ok(());
        }
        let name = &self.candidates[candidate].profile.name;
        let why = match failed {
            Some(failed) => Some(failed.to_string()),
            None if candidate == 0 => None,
            None => {
                let first = &self.candidates[0].profile.name;
                Some(format!("the profile {first} failed less than a minute ago"))
            }
        };
        if let Some(why) = why {
            let notice = format!("{why}; asking the profile {name} instead");
            self.emit(EngineEvent::Notice(notice)).await?;
        }
        self.asking = candidate;
        self.emit(EngineEvent::Asking(Arc::clone(&self.candidates[candidate].profile))).await
    }

    /// One answer of one profile, asked for again as long as that may help.
    async fn ask(
        &self,
        candidate: &Candidate,
        messages: &[Arc<Message>],
    ) -> Result<Result<Vec<ToolCall>, GivenUp>, Stop> {
        let request = Arc::new(self.model_request(&candidate.profile, messages));
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.call(candidate, Arc::clone(&request)).await? {
                Ok(calls) => return Ok(Ok(calls)),
                Err(error) => error,
            };
            let profile = candidate.profile.name.clone();
            match retry::decide(&self.timing.policy, &error, tries, (self.timing.jitter)()) {
                RetryStep::Again { code, after } => {
                    let retry = RetryInfo {
                        scope: RetryScope::Call,
                        number: Some(tries + 1),
                        of: Some(self.timing.policy.tries),
                        attempt: None,
                        code,
                        next_at: self.after(after),
                    };
                    let mut woken = std::pin::pin!(self.request.retry_now.notified());
                    // From here on: whoever hears of the pause may end it at once.
                    woken.as_mut().enable();
                    self.emit(EngineEvent::Retry { retry, text: error.to_string() }).await?;
                    let _ = tokio::time::timeout(after, woken).await;
                }
                RetryStep::Park { after } => {
                    let until = Some(self.after(after));
                    return Ok(Err(GivenUp { profile, error, until }));
                }
                RetryStep::GiveUp => return Ok(Err(GivenUp { profile, error, until: None })),
            }
        }
    }

    fn after(&self, pause: Duration) -> Millis {
        let pause = Millis::try_from(pause.as_millis()).unwrap_or(Millis::MAX);
        (self.timing.now)().saturating_add(pause)
    }

    /// One try. Calls are only handed back when the answer is complete: what an answer that broke
    /// off had asked for never runs.
    async fn call(
        &self,
        candidate: &Candidate,
        request: Arc<ModelRequest>,
    ) -> Result<Result<Vec<ToolCall>, ModelError>, Stop> {
        let hold = match self.request.allowance.hold(&candidate.profile, &request).await {
            Ok(hold) => hold,
            Err(Over { code, text, .. }) => {
                return Err(Stop::Ended(TurnEnd::Failed { code, text }));
            }
        };
        self.emit(EngineEvent::CallStart).await?;
        let mut hold = hold;
        let mut stream = candidate.provider.call(Arc::clone(&request));
        let mut calls = Vec::new();
        let mut spoke = false;
        while let Some(item) = stream.next().await {
            let event = match item {
                Ok(event) => event,
                Err(error) => {
                    hold.failed();
                    return Ok(Err(error));
                }
            };
            hold.hear(heard_in(&event));
            match event {
                ModelEvent::Text(text) => {
                    spoke |= !text.trim().is_empty();
                    self.emit(EngineEvent::Text(text)).await?;
                }
                ModelEvent::Thinking(text) => self.emit(EngineEvent::Thinking(text)).await?,
                ModelEvent::Signature(text) => self.emit(EngineEvent::Signature(text)).await?,
                ModelEvent::RedactedThinking(data) => {
                    self.emit(EngineEvent::RedactedThinking(data)).await?;
                }
                ModelEvent::ToolCall { id, name, arguments } => {
                    let call = ToolCall { id, name, arguments };
                    calls.push(call.clone());
                    let ToolCall { id, name, arguments } = call;
                    self.emit(EngineEvent::ToolCall { id, name, arguments }).await?;
                }
                ModelEvent::End(meta) => {
                    let profile = Some(candidate.profile.name.clone());
                    let usage = count::plausible(meta.usage, &request);
                    if usage.total_tokens < meta.usage.total_tokens {
                        let (said, counts) = (meta.usage.total_tokens, usage.total_tokens);
                        let text = format!(
                            "The vendor counts {said} tokens, more than a call of this size can \
                             use; it counts as {counts}."
                        );
                        self.emit(EngineEvent::Notice(text)).await?;
                    }
                    let usage = usage.priced(candidate.profile.price.as_ref());
                    let meta = Meta { profile, usage, ..meta };
                    let lacks = lacking(meta.stop_reason, spoke, &calls);
                    match lacks {
                        Some(_) => hold.unusable(meta.clone()),
                        None => hold.answered(usage),
                    }
                    // Also of an answer that is none: it was paid for.
                    self.emit(EngineEvent::Meta(meta)).await?;
                    return Ok(lacks.map_or(Ok(calls), Err));
                }
            }
        }
        hold.failed();
        let text = "the model's answer ended before it was complete".to_owned();
        Ok(Err(ModelError::Passing { code: RetryCode::Cut, text, retry_after: None }))
    }

    fn model_request(&self, profile: &Profile, messages: &[Arc<Message>]) -> ModelRequest {
        let (thinking, max_output_tokens) = match self.request.think {
            None => (profile.thinking, profile.max_output_tokens),
            // Vendors take what is thought out of the answer's room: it gets its own.
            Some(level) => {
                let budget = level.budget();
                let room = profile.max_output_tokens.saturating_add(budget.unwrap_or(0));
                (budget, room)
            }
        };
        ModelRequest {
            model: profile.model.clone(),
            system: self.request.system.clone(),
            tools: Arc::clone(self.request.gate.specs()),
            messages: candidates::without_foreign_thinking(messages, &profile.name),
            max_output_tokens,
            thinking,
            temperature: profile.temperature,
            sees_images: profile.sees_images,
            cache_key: self.request.session.to_string(),
        }
    }

    async fn emit(&self, event: EngineEvent) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::Quiet)
    }
}

/// What is wrong with an answer that ended well and holds nothing: such a turn is not done.
fn lacking(reason: StopReason, spoke: bool, calls: &[ToolCall]) -> Option<ModelError> {
    let rejected = |text: &str| Some(ModelError::Rejected { text: text.to_owned() });
    let passing = |text: &str| {
        let (code, text) = (RetryCode::Unusable, text.to_owned());
        Some(ModelError::Passing { code, text, retry_after: None })
    };
    match reason {
        _ if !calls.is_empty() => None,
        StopReason::ToolUse => passing("the model announced a call that did not come"),
        _ if spoke => None,
        // Asked again it would be the same.
        StopReason::MaxTokens => rejected(
            "the model used its whole output limit before it said anything; raise \
             max_output_tokens of the profile, or let it think less",
        ),
        StopReason::Refusal => rejected("the model vendor's filter withheld the answer"),
        _ => passing("the model's answer is empty"),
    }
}

/// Tokens of a piece of an answer, one at least.
fn heard_in(event: &ModelEvent) -> u64 {
    match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => count::of_text(text).max(1),
        ModelEvent::Signature(_) => 1,
        ModelEvent::RedactedThinking(data) => count::of_text(data).max(1),
        ModelEvent::ToolCall { arguments, .. } => count::of_text(&arguments.to_string()).max(1),
        ModelEvent::End(_) => 0,
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
