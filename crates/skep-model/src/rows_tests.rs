//! Rows and requests for the tests of the wires.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::json;
use skep_core::ids::{AgentName, CallId, ItemId, MessageId, SessionId, TurnId};
use skep_core::message::{Block, Body, Message, Meta, Origin, StopReason, Usage};
use skep_core::provider::{ModelRequest, SystemPrompt, ToolSpec};

pub(crate) fn row(body: Body) -> Arc<Message> {
    Arc::new(Message {
        tag: "history".to_owned(),
        id: "id".to_owned(),
        agent_id: AgentName::new("main"),
        session_id: SessionId::new("session"),
        turn: TurnId::new("turn"),
        seq: 1,
        timestamp: 1,
        body,
    })
}

pub(crate) fn origin() -> Origin {
    Origin {
        item: ItemId::new("item"),
        message_id: MessageId::new("message"),
        channel: "ws".to_owned(),
        kind: None,
        principal: "operator".to_owned(),
    }
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    row(Body::user(text, Vec::new(), origin()))
}

/// A message that came over this vendor's wire.
pub(crate) fn assistant(vendor: &str, content: Vec<Block>) -> Arc<Message> {
    let meta = Meta {
        profile: None,
        provider: vendor.to_owned(),
        model: "model".to_owned(),
        api: String::new(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    };
    row(Body::assistant(content, Some(meta)))
}

pub(crate) fn call(id: &str) -> Block {
    let arguments = json!({"z": 1, "a": 2});
    Block::ToolCall { id: CallId::new(id), name: "read".to_owned(), arguments }
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> Arc<Message> {
    row(Body::tool_result(CallId::new(id), "read", text.to_owned(), is_error))
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        input_schema: json!({"type": "object", "properties": {"z": {}, "a": {}}}),
    };
    ModelRequest {
        model: "model".to_owned(),
        system: SystemPrompt { shared: "shared".into(), agent: "agent".into() },
        tools: vec![tool("glob"), tool("read")].into(),
        messages,
        max_output_tokens: 100,
        thinking: None,
        temperature: Some(0.5),
        sees_images: true,
        cache_key: "session".to_owned(),
    }
}

pub(crate) fn thinking(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking { thinking: text.to_owned(), signature: signature.map(str::to_owned) }
}

/// Twenty turns of two steps each; `check` sees the rows before every call.
pub(crate) fn twenty_turns(vendor: &str, mut check: impl FnMut(&[Arc<Message>])) {
    let mut rows = Vec::new();
    for turn in 0..20 {
        rows.push(user(&format!("question {turn}")));
        for step in 0..2 {
            check(&rows);
            let (one, two) = (format!("{turn}-{step}-1"), format!("{turn}-{step}-2"));
            if step == 0 {
                let content = vec![thinking("hm", Some("s")), call(&one), call(&two)];
                rows.push(assistant(vendor, content));
                rows.push(result(&two, "second", false));
                rows.push(result(&one, "first", true));
            } else {
                rows.push(assistant(vendor, vec![Block::text("answer")]));
            }
        }
    }
}

/// Whether each body begins with all of the one before, but for what closes its list and itself.
pub(crate) fn assert_prefixes(bodies: &[String]) {
    assert_eq!(bodies.len(), 40);
    for pair in bodies.windows(2) {
        let before = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(before), "{}\n{}", pair[0], pair[1]);
    }
}
