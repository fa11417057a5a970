//! The native loop: stream, gate, results, again, until the model wants nothing more. Whatever
//! goes wrong is an event; nothing here can throw.

use std::sync::Arc;

use futures_util::StreamExt;
use skep_core::Millis;
use skep_core::engine::{
    Capabilities, Engine, EngineEvent, FailureCode, ToolCall, TurnEnd, TurnHandle, TurnRequest,
};
use skep_core::message::Message;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider};
use skep_core::retry::{self, Next, RetryPolicy};
use skep_core::settings::AgentSettings;
use tokio::sync::mpsc;

/// Events on their way to the turn. A full queue slows the reading of the stream down, which
/// slows the vendor down.
const EVENTS: usize = 256;

pub struct NativeEngine {
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
        Self { timing }
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
        let provider = request.providers.get(&request.profile.name);
        // Owned by the receiver: the task ends when that is dropped, or by the cancel token.
        tokio::spawn(run(provider, request, self.timing, sender));
        TurnHandle { events, steer: None }
    }
}

async fn run(
    provider: Option<Arc<dyn Provider>>,
    request: TurnRequest,
    timing: Timing,
    events: mpsc::Sender<EngineEvent>,
) {
    let cancel = request.cancel.clone();
    let stop = match provider {
        Some(provider) => {
            let turn = Turn { provider, request, timing, events: events.clone() };
            tokio::select! {
                biased;
                // Leaving the branch drops the stream, and with it the request on the wire.
                () = cancel.cancelled() => Stop::Ended(TurnEnd::Cancelled),
                () = events.closed() => Stop::Quiet,
                stop = turn.steps() => stop,
            }
        }
        None => Stop::Ended(TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!("no model is set up for the profile {}", request.profile.name),
        }),
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
    provider: Arc<dyn Provider>,
    request: TurnRequest,
    timing: Timing,
    events: mpsc::Sender<EngineEvent>,
}

impl Turn {
    async fn steps(&self) -> Stop {
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
            match self.request.gate.call(calls).await {
                Some(rows) => messages.extend(rows),
                None => return Stop::Quiet,
            }
        }
        Stop::Ended(TurnEnd::StepLimit)
    }

    /// One answer of the model, asked for again as long as that may help.
    async fn step(&self, messages: &[Arc<Message>]) -> Result<Vec<ToolCall>, Stop> {
        let request = Arc::new(self.model_request(messages));
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.call(Arc::clone(&request)).await? {
                Ok(calls) => return Ok(calls),
                Err(error) => error,
            };
            match retry::decide(&self.timing.policy, &error, tries, (self.timing.jitter)()) {
                Next::Again { after } => {
                    let note = format!("{error}; asking again in {} ms", after.as_millis());
                    self.emit(EngineEvent::Note(note)).await?;
                    tokio::time::sleep(after).await;
                }
                Next::Park { after } => {
                    let pause = Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX);
                    let until = (self.timing.now)().saturating_add(pause);
                    let reason = error.to_string();
                    return Err(Stop::Ended(TurnEnd::Park { until, reason }));
                }
                Next::GiveUp => return Err(Stop::Ended(end_of(error))),
            }
        }
    }

    /// One try. Calls are only handed back when the answer is complete: what an answer that broke
    /// off had asked for never runs.
    async fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> Result<Result<Vec<ToolCall>, ModelError>, Stop> {
        self.emit(EngineEvent::CallStart).await?;
        let mut stream = self.provider.call(request);
        let mut calls = Vec::new();
        while let Some(item) = stream.next().await {
            let event = match item {
                Ok(event) => event,
                Err(error) => return Ok(Err(error)),
            };
            match event {
                ModelEvent::Text(text) => self.emit(EngineEvent::Text(text)).await?,
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
                    self.emit(EngineEvent::Meta(meta)).await?;
                    return Ok(Ok(calls));
                }
            }
        }
        let text = "the model's answer ended before it was complete".to_owned();
        Ok(Err(ModelError::Passing { text, retry_after: None }))
    }

    fn model_request(&self, messages: &[Arc<Message>]) -> ModelRequest {
        let profile = &self.request.profile;
        ModelRequest {
            model: profile.model.clone(),
            system: self.request.system.clone(),
            tools: Arc::clone(self.request.gate.specs()),
            messages: messages.to_vec(),
            max_output_tokens: profile.max_output_tokens,
            thinking: profile.thinking,
            temperature: profile.temperature,
        }
    }

    async fn emit(&self, event: EngineEvent) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::Quiet)
    }
}

/// What is left to do about an error after which the model is not asked again.
fn end_of(error: ModelError) -> TurnEnd {
    let failed = |code, text| TurnEnd::Failed { code, text };
    match error {
        ModelError::Passing { text, .. } => TurnEnd::Retry { text },
        ModelError::Auth { text } => failed(FailureCode::ProviderAuth, text),
        ModelError::Rejected { text } => failed(FailureCode::ProviderRejected, text),
        ModelError::ContextTooLong { text } => {
            failed(FailureCode::ContextTooLong, format!("{text}; start a new session with /new"))
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
