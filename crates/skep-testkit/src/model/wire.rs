//! The wires this server speaks. Everything that differs between them is asked here.

use serde_json::Value;

use super::frames::{self, Frame};
use super::refusal::Checked;
use super::reply::{Fault, Reply};
use super::request::{Entry, ModelRequest};
use super::{anthropic, openai, openai_chat, openai_responses};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// `POST /v1/messages`
    Anthropic,
    /// `POST /v1/chat/completions`
    OpenAiChat,
    /// `POST /v1/responses`
    OpenAiResponses,
}

impl Wire {
    pub const ALL: [Wire; 3] = [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses];

    pub fn path(self) -> &'static str {
        match self {
            Wire::Anthropic => "/v1/messages",
            Wire::OpenAiChat => "/v1/chat/completions",
            Wire::OpenAiResponses => "/v1/responses",
        }
    }

    /// The field of the body that holds the conversation.
    pub fn conversation(self) -> &'static str {
        match self {
            Wire::Anthropic | Wire::OpenAiChat => "messages",
            Wire::OpenAiResponses => "input",
        }
    }

    pub(crate) fn check(self, request: &ModelRequest) -> Checked {
        match self {
            Wire::Anthropic => anthropic::check(request),
            Wire::OpenAiChat => openai_chat::check(request),
            Wire::OpenAiResponses => openai_responses::check(request),
        }
    }

    /// The answer, as a stream or as one message, whichever was asked for.
    pub(crate) fn render(self, reply: &Reply, request: &ModelRequest) -> Vec<Frame> {
        let write = |pen: Box<dyn frames::Pen + '_>| {
            if request.streams() { frames::stream(pen, reply) } else { frames::whole(pen, reply) }
        };
        match self {
            Wire::Anthropic => write(Box::new(anthropic::Writer::new(reply, request))),
            Wire::OpenAiChat => write(Box::new(openai_chat::Writer::new(reply, request))),
            Wire::OpenAiResponses => write(Box::new(openai_responses::Writer::new(reply, request))),
        }
    }

    /// The status and the body of an error.
    pub(crate) fn error(self, fault: &Fault, request_id: &str) -> (u16, Value) {
        match self {
            Wire::Anthropic => anthropic::error(fault, request_id),
            Wire::OpenAiChat | Wire::OpenAiResponses => openai::error(fault),
        }
    }

    pub(crate) fn key(self, request: &ModelRequest) -> Option<&str> {
        match self {
            Wire::Anthropic => anthropic::key(request),
            Wire::OpenAiChat | Wire::OpenAiResponses => openai::key(request),
        }
    }

    pub(crate) fn system_text(self, request: &ModelRequest) -> String {
        match self {
            Wire::Anthropic => anthropic::system_text(request),
            Wire::OpenAiChat => openai_chat::system_text(request),
            Wire::OpenAiResponses => openai_responses::system_text(request),
        }
    }

    pub(crate) fn entries(self, request: &ModelRequest) -> Vec<Entry> {
        match self {
            Wire::Anthropic => anthropic::entries(request),
            Wire::OpenAiChat => openai_chat::entries(request),
            Wire::OpenAiResponses => openai_responses::entries(request),
        }
    }
}
