//! What an item of the inbox is there for.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::vocab::ids::{ApprovalId, CallId, TurnId};
use crate::vocab::words::words;

/// The word of nearly all items.
const MESSAGE: &str = "message";

/// Why an item is in the inbox: what its turn does. A row keeps it as a word (`items.kind`) and,
/// where more belongs to it, as JSON (`items.cause`). A new word comes with a migration: an older
/// program then refuses the database instead of the row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "cause", rename_all = "snake_case")]
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

words! {
    /// Why an item is in the inbox, where no person wrote it: what the history row of it keeps.
    ItemKind {
        Task = "task", Peer = "peer", Event = "event", Reminder = "reminder",
        Trigger = "trigger", Bootstrap = "bootstrap", Escalation = "escalation",
        Question = "question", Continue = "continue", Approved = "approved",
    }
}

/// A call of a turn, wherever it is named again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRef {
    pub turn: TurnId,
    pub call: CallId,
}

/// What an item says of the turn that it begins, beside its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ItemOptions {
    /// The subagent that the turn is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
}

impl ItemOptions {
    /// As a row keeps them; nothing where it says nothing.
    pub fn stored(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }
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
    /// A message that is done with a skill; without a name, which ones there are.
    Skill {
        name: Option<String>,
        rest: Option<String>,
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
    /// As a row keeps it: the word, and what belongs to it.
    pub fn stored(&self) -> (Cow<'static, str>, Option<String>) {
        if *self == Self::Message {
            return (MESSAGE.into(), None);
        }
        let row = json!(self);
        let kind = row["kind"].as_str().unwrap_or_default().to_owned();
        (kind.into(), row.get("cause").map(Value::to_string))
    }

    /// The same from its row.
    pub fn read(kind: &str, more: Option<&str>) -> Result<Self, UnreadCause> {
        if kind == MESSAGE {
            return Ok(Self::Message);
        }
        let more: Result<Value, _> = serde_json::from_str(more.unwrap_or("null"));
        let read = more.and_then(|more| Self::deserialize(json!({"kind": kind, "cause": more})));
        read.map_err(|why| UnreadCause { kind: kind.to_owned(), why: why.to_string() })
    }

    /// As lists of items call it: a call that runs late is an event for people.
    pub fn listed(&self) -> Cow<'static, str> {
        match self {
            Self::Approved(_) => "event".into(),
            Self::Again(_) => MESSAGE.into(),
            other => other.stored().0,
        }
    }

    /// What the row in history says of it; nothing where a person wrote.
    pub fn item_kind(&self) -> Option<ItemKind> {
        Some(match self {
            Self::Message | Self::Command(_) | Self::Again(_) => return None,
            Self::Approved(_) => ItemKind::Approved,
            Self::Task { .. } => ItemKind::Task,
            Self::Peer => ItemKind::Peer,
            Self::Event => ItemKind::Event,
            Self::Reminder => ItemKind::Reminder,
            Self::Trigger { .. } => ItemKind::Trigger,
            Self::Bootstrap => ItemKind::Bootstrap,
            Self::Escalation => ItemKind::Escalation,
            Self::Question => ItemKind::Question,
            Self::Continue => ItemKind::Continue,
        })
    }

    /// Whether an item may join a turn that runs. The others begin a turn of their own.
    pub fn joins(&self) -> bool {
        matches!(self, Self::Message | Self::Event)
    }
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
            (
                Cause::Task { call: call() },
                "task",
                Some(json!({"call": {"turn": "t", "call": "c"}})),
            ),
            (Cause::Peer, "peer", None),
            (Cause::Event, "event", None),
            (Cause::Reminder, "reminder", None),
            (Cause::Trigger { name: "daily".into() }, "trigger", Some(json!({"name": "daily"}))),
            (Cause::Bootstrap, "bootstrap", None),
            (Cause::Escalation, "escalation", None),
            (Cause::Question, "question", None),
            (Cause::Continue, "continue", None),
        ];
        for (cause, kind, more) in table {
            let stored = cause.stored();
            assert_eq!(stored, (kind.into(), more.map(|more| more.to_string())));
            // What a row of history says is the word of the item.
            assert!(cause.item_kind().is_none_or(|it| it.as_str() == kind), "{cause:?}");
            assert_eq!(Cause::read(&stored.0, stored.1.as_deref()), Ok(cause));
        }
    }

    #[test]
    fn options_are_kept_where_there_are_any() {
        assert_eq!(ItemOptions::default().stored(), None);
        let options = ItemOptions { subagent: Some("critic".into()) };
        let stored = options.stored().unwrap();
        assert_eq!(stored, r#"{"subagent":"critic"}"#);
        assert_eq!(serde_json::from_str::<ItemOptions>(&stored).unwrap(), options);
    }

    #[test]
    fn what_a_newer_version_wrote_is_an_error_that_says_so() {
        let table = [
            ("dream", None, "the cause `dream` of an item cannot be read (unknown variant `dream`"),
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
