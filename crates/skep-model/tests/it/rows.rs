//! Rows and requests for the tests of this crate.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Value, json};
use skep_core::cause::ItemKind;
use skep_core::file::File;
use skep_core::ids::{AgentName, CallId, ItemId, MessageId, SessionId, TurnId};
use skep_core::message::{Block, Body, Message, Origin};
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider, SystemPrompt, ToolSpec};

pub fn row(turn: &str, body: Body) -> Arc<Message> {
    Arc::new(Message {
        tag: "history".to_owned(),
        id: "id".to_owned(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new(turn),
        seq: 1,
        timestamp: 1,
        body,
    })
}

pub fn user(turn: &str, text: &str) -> Arc<Message> {
    with_files(turn, text, &[])
}

/// Files by name, type and content.
pub fn with_files(turn: &str, text: &str, files: &[(&str, &str, &[u8])]) -> Arc<Message> {
    let files = files.iter().map(|(name, mime, bytes)| File::new(*name, *mime, *bytes));
    row(turn, Body::user(text, files.collect(), origin(None)))
}

/// What is not a person's message.
pub fn item(turn: &str, kind: ItemKind, text: &str) -> Arc<Message> {
    row(turn, Body::user(text, Vec::new(), origin(Some(kind))))
}

fn origin(kind: Option<ItemKind>) -> Origin {
    Origin {
        item: ItemId::new("item"),
        message_id: MessageId::new("message"),
        channel: "ws".to_owned(),
        principal: "operator".to_owned(),
        kind,
    }
}

/// The rows a step leaves behind: the assistant's message, and a result for every call.
pub fn step(turn: &str, events: &[ModelEvent]) -> Vec<Arc<Message>> {
    let mut content: Vec<Block> = Vec::new();
    let mut results = Vec::new();
    let mut meta = None;
    for event in events {
        match event {
            ModelEvent::Text(text) => content.push(Block::text(text)),
            ModelEvent::Thinking(text) => {
                content.push(Block::Thinking { thinking: text.clone(), signature: None });
            }
            ModelEvent::Signature(signed) => {
                if let Some(Block::Thinking { signature, .. }) = content.last_mut() {
                    *signature = Some(signed.clone());
                }
            }
            ModelEvent::RedactedThinking(data) => {
                content.push(Block::RedactedThinking { data: data.clone() });
            }
            ModelEvent::ToolCall { id, name, arguments } => {
                content.push(Block::ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                });
                results.push(Body::tool_result(id.clone(), name, format!("of {id}"), false));
            }
            ModelEvent::End(end) => meta = Some(end.clone()),
        }
    }
    let assistant = Body::assistant(content, meta);
    [assistant].into_iter().chain(results).map(|body| row(turn, body)).collect()
}

pub fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    let spec = ToolSpec {
        name: "read".to_owned(),
        description: "Reads a file.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"file_path": {"type": "string"}}}),
    };
    ModelRequest {
        model: "test-model".to_owned(),
        system: SystemPrompt { shared: "shared".into(), agent: "agent".into() },
        tools: vec![spec].into(),
        messages,
        max_output_tokens: 4096,
        thinking: None,
        temperature: None,
        sees_images: true,
        cache_key: "session".to_owned(),
    }
}

pub type Outcome = (Vec<ModelEvent>, Option<ModelError>);

/// Follows a call to its end and checks the shape every provider keeps: the last item is `End` or
/// an error, and nothing comes after it.
pub async fn follow(provider: &dyn Provider, request: ModelRequest) -> Outcome {
    let mut stream = provider.call(Arc::new(request));
    let mut events = Vec::new();
    let mut failure = None;
    while let Some(item) = stream.next().await {
        assert!(failure.is_none(), "an item after the error");
        assert!(!matches!(events.last(), Some(ModelEvent::End(_))), "an item after the end");
        match item {
            Ok(event) => events.push(event),
            Err(error) => failure = Some(error),
        }
    }
    assert!(stream.next().await.is_none());
    let ended = matches!(events.last(), Some(ModelEvent::End(_)));
    assert!(ended != failure.is_some(), "neither end nor error, or both: {events:?} {failure:?}");
    (events, failure)
}

/// Neighbouring pieces joined, so that only what was said counts, not how it was cut.
pub fn joined(events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let mut joined: Vec<ModelEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(ModelEvent::Text(open)), ModelEvent::Text(text)) => open.push_str(&text),
            (Some(ModelEvent::Thinking(open)), ModelEvent::Thinking(text)) => open.push_str(&text),
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// All but the end, joined.
pub fn said(events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let mut events = joined(events);
    events.retain(|event| !matches!(event, ModelEvent::End(_)));
    events
}

pub fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

pub fn thinking(text: &str) -> ModelEvent {
    ModelEvent::Thinking(text.to_owned())
}

pub fn call(id: &str, name: &str, arguments: Value) -> ModelEvent {
    ModelEvent::ToolCall { id: CallId::new(id), name: name.to_owned(), arguments }
}
