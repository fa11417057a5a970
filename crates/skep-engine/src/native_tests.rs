#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use skep_core::BoxStream;
use skep_core::engine::{Allowance, Gate, GateRequest};
use skep_core::ids::{AgentId, AgentName, CallId, SessionId, TurnId};
use skep_core::message::{Body, Meta, StopReason, Usage};
use skep_core::provider::{Provider, Providers, SystemPrompt, ToolSpec};
use skep_core::settings::{KnownModels, Profile, SandboxSettings};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;

type Item = Result<ModelEvent, ModelError>;

/// A vendor driven by the test: every call reads from the channel the test gave for it.
#[derive(Default)]
struct FakeProvider {
    streams: Mutex<VecDeque<mpsc::UnboundedReceiver<Item>>>,
    requests: Mutex<Vec<(Instant, Arc<ModelRequest>)>>,
}

impl FakeProvider {
    /// The next call gives what is sent here; dropping the sender ends its stream.
    fn expect_call(&self) -> mpsc::UnboundedSender<Item> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.streams.lock().unwrap().push_back(receiver);
        sender
    }

    fn expect(&self, items: impl IntoIterator<Item = Item>) {
        let sender = self.expect_call();
        items.into_iter().for_each(|item| sender.send(item).unwrap());
    }

    fn expect_failures(&self, error: &ModelError, count: usize) {
        (0..count).for_each(|_| self.expect([Err(error.clone())]));
    }

    /// Pauses between the calls, in milliseconds.
    fn pauses(&self) -> Vec<u128> {
        let requests = self.requests.lock().unwrap();
        requests.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis()).collect()
    }

    fn calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

impl Provider for FakeProvider {
    fn id(&self) -> &str {
        "fake"
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Item> {
        self.requests.lock().unwrap().push((Instant::now(), request));
        let receiver = self.streams.lock().unwrap().pop_front().expect("an unexpected call");
        let next = |mut receiver: mpsc::UnboundedReceiver<Item>| async move {
            receiver.recv().await.map(|item| (item, receiver))
        };
        futures_util::stream::unfold(receiver, next).boxed()
    }
}

struct Rig {
    provider: Arc<FakeProvider>,
    events: mpsc::Receiver<EngineEvent>,
    gate: mpsc::Receiver<GateRequest>,
    cancel: CancellationToken,
    retry_now: Arc<Notify>,
}

fn start(provider: FakeProvider, steps_left: u32) -> Rig {
    let provider = Arc::new(provider);
    let (sender, gate) = mpsc::channel(1);
    let spec =
        ToolSpec { name: "read".to_owned(), description: String::new(), input_schema: json!({}) };
    let (cancel, retry_now) = (CancellationToken::new(), Arc::default());
    let shared: Arc<dyn Provider> = Arc::clone(&provider) as Arc<dyn Provider>;
    let request = TurnRequest {
        agent: AgentName::new("main"),
        agent_id: AgentId(1),
        turn: TurnId::new("turn"),
        session: SessionId::new("session"),
        profile: Arc::new(Profile {
            name: "default".to_owned(),
            provider: "fake".to_owned(),
            model: "model".to_owned(),
            max_output_tokens: 100,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: None,
            price: None,
            sees_images: false,
            known: KnownModels::NONE,
        }),
        providers: Providers::new(BTreeMap::from([("default".to_owned(), shared)])),
        think: None,
        workspace: PathBuf::from("/nowhere"),
        sandbox: SandboxSettings::default(),
        options: Default::default(),
        resume: None,
        system: SystemPrompt { shared: "shared".into(), agent: "agent".into() },
        messages: vec![row("question")],
        gate: Gate::new(vec![spec].into(), sender),
        steps_left,
        allowance: Allowance::unbounded(),
        cancel: cancel.clone(),
        retry_now: Arc::clone(&retry_now),
    };
    let timing = Timing { now: || 1_000_000, jitter: || 1.0, ..Timing::default() };
    let engine = NativeEngine::new(timing);
    let events = engine.start(request).events;
    Rig { provider, events, gate, cancel, retry_now }
}

impl Rig {
    async fn batch(&mut self) -> (Vec<ToolCall>, oneshot::Sender<Vec<Arc<Message>>>) {
        match self.gate.recv().await {
            Some(GateRequest::Run { calls, reply }) => (calls, reply),
            _ => panic!("the engine asked for no calls"),
        }
    }

    async fn next(&mut self) -> EngineEvent {
        self.events.recv().await.expect("an event")
    }

    /// All events up to the close, pauses left out.
    async fn rest(&mut self) -> Vec<EngineEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.events.recv().await {
            if !matches!(event, EngineEvent::Retry { .. }) {
                events.push(event);
            }
        }
        events
    }

    async fn end(&mut self) -> TurnEnd {
        match self.rest().await.pop() {
            Some(EngineEvent::End(end)) => end,
            other => panic!("the run ended with {other:?}"),
        }
    }
}

fn row(text: &str) -> Arc<Message> {
    Arc::new(Message {
        tag: "history".to_owned(),
        id: text.to_owned(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new("turn"),
        seq: 1,
        timestamp: 1,
        body: Body::tool_result(CallId::new(text), "read", text.to_owned(), false),
    })
}

fn text(text: &str) -> Item {
    Ok(ModelEvent::Text(text.to_owned()))
}

fn call(id: &str) -> Item {
    let (name, arguments) = ("read".to_owned(), json!({"id": id}));
    Ok(ModelEvent::ToolCall { id: CallId::new(id), name, arguments })
}

fn meta(stop_reason: StopReason) -> Meta {
    Meta {
        profile: Some("default".to_owned()),
        provider: "fake".to_owned(),
        model: "model".to_owned(),
        api: "fake".to_owned(),
        usage: Usage::new(1, 2, 3, 4),
        stop_reason,
    }
}

fn end(stop_reason: StopReason) -> Item {
    Ok(ModelEvent::End(meta(stop_reason)))
}

fn passing(retry_after: Option<u64>) -> ModelError {
    let retry_after = retry_after.map(Duration::from_secs);
    let (code, text) = (RetryCode::Overloaded, "overloaded".to_owned());
    ModelError::Passing { code, text, retry_after }
}

fn ids(messages: &[Arc<Message>]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn pieces_are_told_as_they_come() {
    let provider = FakeProvider::default();
    let stream = provider.expect_call();
    let mut rig = start(provider, 5);
    assert_eq!(rig.next().await, EngineEvent::CallStart);
    stream.send(Ok(ModelEvent::Thinking("hm".to_owned()))).unwrap();
    assert_eq!(rig.next().await, EngineEvent::Thinking("hm".to_owned()));
    stream.send(Ok(ModelEvent::Signature("sign".to_owned()))).unwrap();
    assert_eq!(rig.next().await, EngineEvent::Signature("sign".to_owned()));
    stream.send(Ok(ModelEvent::RedactedThinking("xyz".to_owned()))).unwrap();
    assert_eq!(rig.next().await, EngineEvent::RedactedThinking("xyz".to_owned()));
    stream.send(text("hel")).unwrap();
    assert_eq!(rig.next().await, EngineEvent::Text("hel".to_owned()));
    stream.send(end(StopReason::EndTurn)).unwrap();
    assert_eq!(rig.next().await, EngineEvent::Meta(meta(StopReason::EndTurn)));
    assert_eq!(rig.rest().await, [EngineEvent::End(TurnEnd::Finished)]);
    let (_, request) = rig.provider.requests.lock().unwrap()[0].clone();
    assert_eq!((request.model.as_str(), request.max_output_tokens), ("model", 100));
    assert_eq!(request.tools[0].name, "read");
    assert_eq!(&*request.system.agent, "agent");
}

#[tokio::test(start_paused = true)]
async fn calls_go_to_the_gate_as_one_batch_and_its_rows_into_the_next_request() {
    let provider = FakeProvider::default();
    provider.expect([text("I look"), call("one"), call("two"), end(StopReason::ToolUse)]);
    provider.expect([text("done"), end(StopReason::EndTurn)]);
    let mut rig = start(provider, 5);
    let batch = rig.batch().await;
    let expected: Vec<(String, Value)> =
        ["one", "two"].map(|id| (id.to_owned(), json!({"id": id}))).into();
    let calls: Vec<(String, Value)> =
        batch.0.iter().map(|call| (call.id.to_string(), call.arguments.clone())).collect();
    assert_eq!(calls, expected);
    assert_eq!(rig.provider.calls(), 1);
    batch.1.send(vec![row("assistant"), row("one"), row("two"), row("steered")]).unwrap();
    assert_eq!(rig.end().await, TurnEnd::Finished);
    let (_, request) = rig.provider.requests.lock().unwrap()[1].clone();
    let expected = ["question", "assistant", "one", "two", "steered"];
    assert_eq!(ids(&request.messages), expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_after_its_calls_runs_none_of_them_and_is_asked_for_again() {
    let provider = FakeProvider::default();
    // Once with an error, once by just ending.
    provider.expect([text("a"), call("lost"), Err(passing(None))]);
    provider.expect([call("lost")]);
    provider.expect([text("b"), end(StopReason::EndTurn)]);
    let mut rig = start(provider, 5);
    let events = rig.rest().await;
    let starts = events.iter().filter(|event| **event == EngineEvent::CallStart).count();
    assert_eq!(starts, 3);
    assert_eq!(events.last(), Some(&EngineEvent::End(TurnEnd::Finished)));
    assert!(rig.gate.try_recv().is_err());
    assert_eq!(rig.provider.pauses(), [500, 1000]);
    let (_, request) = rig.provider.requests.lock().unwrap()[2].clone();
    assert_eq!(ids(&request.messages), ["question"]);
}

#[tokio::test(start_paused = true)]
async fn four_tries_with_growing_pauses_then_the_turn_is_given_back() {
    let provider = FakeProvider::default();
    provider.expect_failures(&passing(None), 4);
    let mut rig = start(provider, 5);
    assert_eq!(
        rig.end().await,
        TurnEnd::Retry { code: RetryCode::Overloaded, text: "overloaded".to_owned() }
    );
    assert_eq!(rig.provider.pauses(), [500, 1000, 2000]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_holds_nothing_is_never_done() {
    let thought = || Ok(ModelEvent::Thinking("hm".to_owned()));
    let limit = "the model used its whole output limit before it said anything; raise \
                 max_output_tokens of the profile, or let it think less";
    let table = [
        (StopReason::EndTurn, " \n", "the model's answer is empty", 4),
        (StopReason::Other, "", "the model's answer is empty", 4),
        (StopReason::ToolUse, "I look.", "the model announced a call that did not come", 4),
        (StopReason::MaxTokens, "", limit, 1),
        (StopReason::Refusal, "", "the model vendor's filter withheld the answer", 1),
    ];
    for (reason, said, expected, calls) in table {
        let provider = FakeProvider::default();
        (0..calls).for_each(|_| provider.expect([thought(), text(said), end(reason)]));
        let mut rig = start(provider, 5);
        let events = rig.rest().await;
        let paid = events.iter().filter(|event| matches!(event, EngineEvent::Meta(_))).count();
        assert_eq!((rig.provider.calls(), paid), (calls, calls), "{reason:?}");
        let text = match events.last() {
            Some(EngineEvent::End(TurnEnd::Retry { text, .. } | TurnEnd::Failed { text, .. })) => {
                text
            }
            other => panic!("{other:?}"),
        };
        assert!(text.contains(expected), "{text}");
    }
    // A refusal in words is an answer.
    let provider = FakeProvider::default();
    provider.expect([text("I will not."), end(StopReason::Refusal)]);
    assert_eq!(start(provider, 5).end().await, TurnEnd::Finished);
}

#[tokio::test(start_paused = true)]
async fn the_tries_are_counted_anew_for_each_step() {
    let provider = FakeProvider::default();
    provider.expect_failures(&passing(None), 3);
    provider.expect([call("one"), end(StopReason::ToolUse)]);
    provider.expect_failures(&passing(None), 3);
    provider.expect([text("done"), end(StopReason::EndTurn)]);
    let mut rig = start(provider, 5);
    let batch = rig.batch().await;
    batch.1.send(vec![]).unwrap();
    assert_eq!(rig.end().await, TurnEnd::Finished);
    assert_eq!(rig.provider.calls(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_short_pause_asked_for_is_kept_and_a_long_one_parks() {
    let provider = FakeProvider::default();
    provider.expect_failures(&passing(Some(60)), 1);
    provider.expect_failures(&passing(Some(61)), 1);
    let mut rig = start(provider, 5);
    let expected = TurnEnd::Park {
        until: 1_061_000,
        code: RetryCode::Overloaded,
        reason: "overloaded".to_owned(),
    };
    assert_eq!(rig.end().await, expected);
    assert_eq!(rig.provider.pauses(), [60_000]);
}

#[tokio::test(start_paused = true)]
async fn errors_that_do_not_pass_end_the_turn_at_once() {
    let said = || "said".to_owned();
    let table = [
        (ModelError::Auth { text: said() }, FailureCode::ProviderAuth, "said (profile default)"),
        (ModelError::Rejected { text: said() }, FailureCode::ProviderRejected, "said"),
        (
            ModelError::ContextTooLong { text: said() },
            FailureCode::ContextTooLong,
            "said; start a new conversation with /new",
        ),
    ];
    for (error, code, text) in table {
        let provider = FakeProvider::default();
        provider.expect([Err(error)]);
        let mut rig = start(provider, 5);
        assert_eq!(rig.end().await, TurnEnd::Failed { code, text: text.to_owned() });
        assert_eq!(rig.provider.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_step_limit_counts_model_answers() {
    let provider = FakeProvider::default();
    provider.expect([call("one"), end(StopReason::ToolUse)]);
    provider.expect([call("two"), end(StopReason::ToolUse)]);
    let mut rig = start(provider, 2);
    let batch = rig.batch().await;
    batch.1.send(vec![]).unwrap();
    assert_eq!(rig.end().await, TurnEnd::StepLimit);
    assert_eq!(rig.provider.calls(), 2);
    assert!(rig.gate.recv().await.is_none(), "calls of the last answer do not run");

    let provider = FakeProvider::default();
    provider.expect([text("done"), end(StopReason::EndTurn)]);
    assert_eq!(start(provider, 1).end().await, TurnEnd::Finished);

    let mut rig = start(FakeProvider::default(), 0);
    assert_eq!(rig.rest().await, [EngineEvent::End(TurnEnd::StepLimit)]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_drops_the_stream_at_once() {
    let provider = FakeProvider::default();
    let stream = provider.expect_call();
    let mut rig = start(provider, 5);
    stream.send(text("hel")).unwrap();
    assert_eq!(rig.next().await, EngineEvent::CallStart);
    assert_eq!(rig.next().await, EngineEvent::Text("hel".to_owned()));
    rig.cancel.cancel();
    stream.closed().await;
    assert_eq!(rig.rest().await, [EngineEvent::End(TurnEnd::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_told_and_ends_early_when_somebody_wants_the_next_try_now() {
    let provider = FakeProvider::default();
    provider.expect_failures(&passing(Some(60)), 1);
    provider.expect([text("hi"), end(StopReason::EndTurn)]);
    let mut rig = start(provider, 5);
    let begun = Instant::now();
    // Nobody pauses yet: it is not kept for later.
    rig.retry_now.notify_waiters();
    assert_eq!(rig.next().await, EngineEvent::CallStart);
    let retry = RetryInfo {
        scope: RetryScope::Call,
        number: Some(2),
        attempt: None,
        of: Some(4),
        code: RetryCode::Overloaded,
        next_at: 1_060_000,
    };
    assert_eq!(rig.next().await, EngineEvent::Retry { retry, text: "overloaded".to_owned() });
    rig.retry_now.notify_waiters();
    assert_eq!(rig.end().await, TurnEnd::Finished);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_pause_and_a_wait_for_the_gate() {
    let provider = FakeProvider::default();
    provider.expect_failures(&passing(Some(60)), 1);
    let mut rig = start(provider, 5);
    let begun = Instant::now();
    assert_eq!(rig.next().await, EngineEvent::CallStart);
    assert!(matches!(rig.next().await, EngineEvent::Retry { .. }));
    rig.cancel.cancel();
    assert_eq!(rig.end().await, TurnEnd::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(1));

    let provider = FakeProvider::default();
    provider.expect([call("one"), end(StopReason::ToolUse)]);
    let mut rig = start(provider, 5);
    let batch = rig.batch().await;
    rig.cancel.cancel();
    assert_eq!(rig.end().await, TurnEnd::Cancelled);
    assert!(batch.1.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_does_not_go_on_ends_the_run_quietly() {
    let provider = FakeProvider::default();
    provider.expect([call("one"), end(StopReason::ToolUse)]);
    let mut rig = start(provider, 5);
    drop(rig.batch().await);
    let last = rig.rest().await.pop();
    assert_eq!(last, Some(EngineEvent::Meta(meta(StopReason::ToolUse))));
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_leaves_ends_the_run() {
    let provider = FakeProvider::default();
    let stream = provider.expect_call();
    let mut rig = start(provider, 5);
    assert_eq!(rig.next().await, EngineEvent::CallStart);
    drop(rig.events);
    stream.closed().await;
}
