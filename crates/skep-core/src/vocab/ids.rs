//! Ids are newtypes: a turn can never be passed where a session is meant.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

text_id! {
    /// The name of an agent; unique among the living ones.
    AgentName,
    /// One process that works on the store; it keeps its name over restarts.
    NodeName,
    /// One conversation of one agent (UUIDv7).
    SessionId,
    /// What a door calls a conversation: `main`, a channel id, a topic. It leads to a session.
    SessionKey,
    /// One run of an engine (UUIDv7).
    TurnId,
    /// The durable unit that wakes an agent (UUIDv7).
    ItemId,
    /// What the sender calls a message: its own id, or the item's.
    MessageId,
    /// A stable place frames go to, such as `ws:4f…`.
    ChannelId,
    /// A tool call, as the model named it.
    CallId,
    /// A question to a person about one call (UUIDv7).
    ApprovalId,
    /// Who a credential belongs to: `operator`, or the id of a token.
    Principal,
}

impl AgentName {
    /// In the place of an agent where the hive as a whole is meant.
    pub fn nobody() -> Self {
        Self(String::new())
    }

    pub fn is_nobody(&self) -> bool {
        self.0.is_empty()
    }

    /// `id:7` stands for an agent by its id, also for one that was removed. No name has a colon.
    pub fn as_id(&self) -> Option<AgentId> {
        self.0.strip_prefix("id:")?.parse().ok().map(AgentId)
    }
}

/// The internal id of an agent's row: a new agent of an old name inherits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AgentId(pub i64);

/// A lane's row: agent + session key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneId(pub i64);

/// A lane's fencing token: every lease takes the next one, and a write with an old one is refused.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct Token(pub i64);

pub const SESSION_KEY_CHARACTERS: usize = 200;

/// The form of a session key: whatever a door can call a conversation in one line.
pub fn is_session_key(key: &str) -> bool {
    !key.is_empty()
        && key.chars().count() <= SESSION_KEY_CHARACTERS
        && !key.chars().any(char::is_control)
}

/// The name rule of agents: lower-case words of letters and digits joined by single dashes.
pub fn is_agent_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Words that stand for somebody where agents write to each other: no agent has one as its name.
pub const RESERVED_NAMES: [&str; 4] = ["operator", "parent", "children", "siblings"];

/// What such a name consists of, in words.
pub const NEW_AGENT_NAME: &str = "1 to 64 lower-case letters, digits and single dashes, and is \
                                  none of operator, parent, children, siblings";

/// Whether a new agent may have the name.
pub fn is_new_agent_name(name: &str) -> bool {
    is_agent_name(name) && !RESERVED_NAMES.contains(&name)
}

pub const TOKEN_NAME_BYTES: usize = 64;

/// The name rule of tokens: one that cannot be taken for another, nor for the id of anybody.
pub fn is_token_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" ._@+-".contains(&b);
    name.len() <= TOKEN_NAME_BYTES
        && name.bytes().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// What may name a session, a turn or a message, also in the name of a file: ours are UUIDs, those
/// of an import may be others.
pub fn is_session_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 100
        && !id.starts_with('.')
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::{is_agent_name, is_new_agent_name, is_session_id, is_token_name};

    #[test]
    fn session_ids() {
        for good in ["a", "0190a3b2-7c1d-7000-8000-000000000001", "x.y_z", &"x".repeat(100)] {
            assert!(is_session_id(good), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "a\"b", "é", "a\n", &"x".repeat(101)] {
            assert!(!is_session_id(bad), "{bad}");
        }
    }

    #[test]
    fn token_names() {
        for good in ["a", "laptop", "CI of anna@example.org", "x.y_z-1+2", &"x".repeat(64)] {
            assert!(is_token_name(good), "{good}");
        }
        let long = "x".repeat(65);
        let bad = [
            "",
            "..",
            ".",
            " a",
            "a ",
            "-a",
            "a\nb",
            "a\tb",
            "a\0",
            "a\u{1b}[2J",
            "аnna",
            "é",
            "a\u{200b}b",
            "token:1",
            "role:operator",
            "a, b",
            "a/b",
            &long,
        ];
        for bad in bad {
            assert!(!is_token_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn agent_names() {
        for good in ["main", "a", "cto-2", "0", &"x".repeat(64)] {
            assert!(is_agent_name(good) && is_new_agent_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a--b", "Main", "a_b", "a b", "é", "../x", &"x".repeat(65)] {
            assert!(!is_agent_name(bad) && !is_new_agent_name(bad), "{bad}");
        }
        for word in ["operator", "parent", "children", "siblings", "*"] {
            assert!(!is_new_agent_name(word), "{word}");
        }
    }
}
