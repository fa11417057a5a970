//! What an item of the inbox is there for.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::vocab::ids::{ApprovalId, CallId, TurnId};

/// Why an item is in the inbox: what its turn does. A row keeps it as a word (`items.kind`) and,
/// where more belongs to it, as JSON (`items.cause`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody wrote to the agent.
    Message,
    /// Somebody gave a command.
    Command(Slash),
    /// A call was approved after its turn had ended; it runs now.
    Approved(ApprovalId),
    /// A call of unknown outcome is to run again.
    Again(CallRef),
    /// Another agent gave it work; the call that did.
    Task { call: CallRef },
    /// Another agent wrote to it.
    Peer,
    /// Something it waits for happened.
    Event,
    /// The agent itself wanted to be reminded.
    Reminder,
    /// A trigger of the settings fired.
    Trigger { name: String },
    /// The first item of a new agent.
    Bootstrap,
    /// An agent below it needs help.
    Escalation,
    /// Another agent asks it something.
    Question,
    /// A turn that was stopped goes on.
    Continue,
}

/// A call of a turn, wherever it is named again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRef {
    pub turn: TurnId,
    pub call: CallId,
}

/// A command as it was understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slash {
    Stop,
    /// A new session; the rest of the line becomes its first message.
    New {
        rest: Option<String>,
    },
    /// Which model answers here; without a word, what there is.
    Model {
        wanted: Option<String>,
    },
    /// How hard it thinks; without a word, what there is.
    Think {
        wanted: Option<String>,
    },
    /// Replaces the older part of the session by notes for the model, which keep what is named.
    Compact {
        keep: Option<String>,
    },
    Status,
    Help,
    /// A `/word` that is none of ours.
    Unknown {
        word: String,
    },
}

/// A row that this program cannot read, most likely because a newer one wrote it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cause `{kind}` of an item cannot be read ({why}); a newer version may have written it"
)]
pub struct UnreadCause {
    kind: String,
    why: String,
}

impl Cause {
    /// The word of it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Command(_) => "command",
            Self::Approved(_) => "approved",
            Self::Again(_) => "again",
            Self::Task { .. } => "task",
            Self::Peer => "peer",
            Self::Event => "event",
            Self::Reminder => "reminder",
            Self::Trigger { .. } => "trigger",
            Self::Bootstrap => "bootstrap",
            Self::Escalation => "escalation",
            Self::Question => "question",
            Self::Continue => "continue",
        }
    }

    /// What belongs to the word, where more does.
    pub fn more(&self) -> Option<Value> {
        match self {
            Self::Command(slash) => Some(json!(slash)),
            Self::Approved(id) => Some(json!(id)),
            Self::Again(call) | Self::Task { call } => Some(json!(call)),
            Self::Trigger { name } => Some(json!(name)),
            Self::Message
            | Self::Peer
            | Self::Event
            | Self::Reminder
            | Self::Bootstrap
            | Self::Escalation
            | Self::Question
            | Self::Continue => None,
        }
    }

    /// The same from its row.
    pub fn read(kind: &str, more: Option<&str>) -> Result<Self, UnreadCause> {
        Ok(match kind {
            "message" => Self::Message,
            "command" => Self::Command(parse(kind, more)?),
            "approved" => Self::Approved(parse(kind, more)?),
            "again" => Self::Again(parse(kind, more)?),
            "task" => Self::Task { call: parse(kind, more)? },
            "peer" => Self::Peer,
            "event" => Self::Event,
            "reminder" => Self::Reminder,
            "trigger" => Self::Trigger { name: parse(kind, more)? },
            "bootstrap" => Self::Bootstrap,
            "escalation" => Self::Escalation,
            "question" => Self::Question,
            "continue" => Self::Continue,
            _ => return Err(unread(kind, "the word is unknown")),
        })
    }

    /// As lists of items call it: a call that runs late is an event for people.
    pub fn listed(&self) -> &'static str {
        match self {
            Self::Approved(_) => "event",
            Self::Again(_) => "message",
            other => other.kind(),
        }
    }

    /// Whether an item may join a turn that runs. The others begin a turn of their own.
    pub fn joins(&self) -> bool {
        matches!(self, Self::Message | Self::Event)
    }
}

fn parse<T: DeserializeOwned>(kind: &str, more: Option<&str>) -> Result<T, UnreadCause> {
    serde_json::from_str(more.unwrap_or("null")).map_err(|error| unread(kind, error))
}

fn unread(kind: &str, why: impl ToString) -> UnreadCause {
    UnreadCause { kind: kind.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn call() -> CallRef {
        CallRef { turn: TurnId::new("t"), call: CallId::new("c") }
    }

    #[test]
    fn every_cause_is_read_as_it_was_stored() {
        let compact = Slash::Compact { keep: Some("the plan".into()) };
        let table = [
            (Cause::Message, "message", None),
            (Cause::Command(Slash::Stop), "command", Some(json!("stop"))),
            (Cause::Command(compact), "command", Some(json!({"compact": {"keep": "the plan"}}))),
            (Cause::Approved(ApprovalId::new("a")), "approved", Some(json!("a"))),
            (Cause::Again(call()), "again", Some(json!({"turn": "t", "call": "c"}))),
            (Cause::Task { call: call() }, "task", Some(json!({"turn": "t", "call": "c"}))),
            (Cause::Peer, "peer", None),
            (Cause::Event, "event", None),
            (Cause::Reminder, "reminder", None),
            (Cause::Trigger { name: "daily".into() }, "trigger", Some(json!("daily"))),
            (Cause::Bootstrap, "bootstrap", None),
            (Cause::Escalation, "escalation", None),
            (Cause::Question, "question", None),
            (Cause::Continue, "continue", None),
        ];
        for (cause, kind, more) in table {
            assert_eq!((cause.kind(), cause.more()), (kind, more));
            let stored = cause.more().map(|more| more.to_string());
            assert_eq!(Cause::read(kind, stored.as_deref()), Ok(cause));
        }
    }

    #[test]
    fn what_a_newer_version_wrote_is_an_error_that_says_so() {
        let table = [
            ("dream", None, "the cause `dream` of an item cannot be read (the word is unknown)"),
            ("command", Some(r#""dance""#), "unknown variant `dance`"),
            ("approved", None, "the cause `approved` of an item cannot be read (invalid type"),
        ];
        for (kind, more, expected) in table {
            let text = Cause::read(kind, more).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert!(text.ends_with("; a newer version may have written it"), "{text}");
        }
    }
}
