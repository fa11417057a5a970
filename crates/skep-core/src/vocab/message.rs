//! The canonical message: one row of history, one line of an export (spec 04 §4).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Millis;
use crate::vocab::cause::ItemKind;
use crate::vocab::file::{File, FileData};
use crate::vocab::ids::{AgentName, CallId, ItemId, MessageId, SessionId, TurnId};
use crate::vocab::money::{Money, Price};
use crate::vocab::words::words;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageRole)]
pub enum Role {
    User,
    Assistant,
    ToolResult,
    System,
}

/// A piece of a message, kept in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    Text {
        text: String,
    },
    /// Thinking is only shown to the model again together with its signature.
    Thinking {
        thinking: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Thinking the vendor encrypted; replayed verbatim, never shown.
    #[serde(rename = "redacted_thinking")]
    RedactedThinking {
        data: String,
    },
    ToolCall {
        id: CallId,
        name: String,
        arguments: Value,
    },
    File(File),
}

/// The fields of every block: read in one walk, where a tagged enum would be put aside first until
/// its tag is found. Each turn reads its whole session.
#[derive(Deserialize)]
struct AnyBlock {
    #[serde(rename = "type")]
    kind: BlockKind,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<CallId>,
    name: Option<String>,
    arguments: Option<Value>,
    mime: Option<String>,
    size: Option<u64>,
    hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum BlockKind {
    Text,
    Thinking,
    #[serde(rename = "redacted_thinking")]
    RedactedThinking,
    ToolCall,
    File,
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn need<T, E: serde::de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        fn decoded<E: serde::de::Error>(base64: &str) -> Result<FileData, E> {
            FileData::from_base64(base64).ok_or_else(|| E::custom("data is no base64"))
        }
        let any = AnyBlock::deserialize(deserializer)?;
        Ok(match any.kind {
            BlockKind::Text => Self::Text { text: need(any.text, "text")? },
            BlockKind::Thinking => Self::Thinking {
                thinking: need(any.thinking, "thinking")?,
                signature: any.signature,
            },
            BlockKind::RedactedThinking => Self::RedactedThinking { data: need(any.data, "data")? },
            BlockKind::ToolCall => Self::ToolCall {
                id: need(any.id, "id")?,
                name: need(any.name, "name")?,
                // `null` is what a model may well have said.
                arguments: any.arguments.unwrap_or_default(),
            },
            BlockKind::File => Self::File(File {
                name: need(any.name, "name")?,
                mime: need(any.mime, "mime")?,
                size: need(any.size, "size")?,
                hash: need(any.hash, "hash")?,
                data: any.data.as_deref().map(decoded).transpose()?,
            }),
        })
    }
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// More than any call has, and little enough that no sum of the store runs over.
pub const MOST_TOKENS: u64 = 1_000_000_000;

/// Tokens as the wire reported them, and what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total_tokens: u64,
    /// `None` if the price is unknown, which is not zero.
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
}

/// No tokens and no cost.
impl Default for Usage {
    fn default() -> Self {
        Self { cost: Some(Money::ZERO), ..Self::new(0, 0, 0, 0) }
    }
}

impl Usage {
    /// Not priced yet.
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        // What a vendor says is not ours to trust: no sum of it may ever run over.
        let [input, output, cache_read, cache_write] =
            [input, output, cache_read, cache_write].map(|count| count.min(MOST_TOKENS));
        let total_tokens = input + output + cache_read + cache_write;
        Self { input, output, cache_read, cache_write, total_tokens, cost: None }
    }

    /// Nobody said how much it was, which is not nothing.
    pub fn uncounted() -> Self {
        Self::new(0, 0, 0, 0)
    }

    fn is_uncounted(&self) -> bool {
        *self == Self::uncounted()
    }

    /// What the call cost; unknown without a price, and where the vendor counted nothing.
    pub fn priced(self, price: Option<&Price>) -> Self {
        let price = price.filter(|_| self.total_tokens > 0);
        Self { cost: price.map(|price| price.of(&self)), ..self }
    }

    /// A sum with an unknown part is unknown.
    pub fn add(&mut self, other: Usage) {
        for (sum, more) in [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.total_tokens, other.total_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cost = self.cost.zip(other.cost).map(|(sum, more)| sum.plus(more));
    }
}

words! {
    /// Why a model call, and so an assistant message, ended.
    StopReason {
        EndTurn = "end_turn",
        ToolUse = "tool_use",
        MaxTokens = "max_tokens",
        StopSequence = "stop_sequence",
        Refusal = "refusal",
        /// A person ended the turn; the text so far is kept.
        Cancelled = "cancelled",
        /// A newer message took the turn's place; the text so far is kept.
        Interrupted = "interrupted",
        /// The turn failed for good; the text so far is kept.
        Error = "error",
        Other = "other",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The profile that answered; it may be a fallback of the one that was to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    pub provider: String,
    pub model: String,
    /// The wire format, for instance `anthropic-messages`.
    pub api: String,
    /// Absent where nobody counted: of a call that was cut off.
    #[serde(skip_serializing_if = "Usage::is_uncounted", default = "Usage::uncounted")]
    pub usage: Usage,
    pub stop_reason: StopReason,
}

/// Where a user message came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    pub item: ItemId,
    pub message_id: MessageId,
    /// `ws`, `api`, `cli`.
    pub channel: String,
    pub principal: String,
    /// Why it was in the inbox; absent where a person wrote.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<ItemKind>,
}

/// What stands in a message, before the writer gave it its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Body {
    pub role: Role,
    pub content: Vec<Block>,
    /// What was put before a user's text in the prompt (time, unread, memory…): part of the row,
    /// so that a request is built from rows alone and stays the same bytes for ever.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<Meta>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub origin: Option<Origin>,
}

impl Body {
    fn bare(role: Role, content: Vec<Block>) -> Self {
        Self {
            role,
            content,
            shown: None,
            meta: None,
            tool_call_id: None,
            tool_name: None,
            is_error: None,
            details: None,
            origin: None,
        }
    }

    /// Files stand before the text: models answer better about what they have seen already.
    pub fn user(text: impl Into<String>, files: Vec<File>, origin: Origin) -> Self {
        let text = text.into();
        let mut content: Vec<Block> = files.into_iter().map(Block::File).collect();
        if content.is_empty() || !text.trim().is_empty() {
            content.push(Block::text(text));
        }
        Self { origin: Some(origin), ..Self::bare(Role::User, content) }
    }

    pub fn assistant(content: Vec<Block>, meta: Option<Meta>) -> Self {
        Self { meta, ..Self::bare(Role::Assistant, content) }
    }

    pub fn tool_result(call: CallId, tool: impl Into<String>, text: String, error: bool) -> Self {
        Self {
            tool_call_id: Some(call),
            tool_name: Some(tool.into()),
            is_error: Some(error),
            ..Self::bare(Role::ToolResult, vec![Block::text(text)])
        }
    }

    /// All text blocks joined: what a person reads.
    pub fn plain_text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.content.iter().filter_map(|block| match block {
            Block::File(file) => Some(file),
            _ => None,
        })
    }

    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.content.iter_mut().filter_map(|block| match block {
            Block::File(file) => Some(file),
            _ => None,
        })
    }

    /// Whether the simple view shows it: something a person or the agent said or gave.
    pub fn is_spoken(&self) -> bool {
        let says = |block: &Block| matches!(block, Block::Text { .. } | Block::File(_));
        matches!(self.role, Role::User | Role::Assistant) && self.content.iter().any(says)
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = (&CallId, &str, &Value)> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, name, arguments } => Some((id, name.as_str(), arguments)),
            _ => None,
        })
    }
}

/// A stored message: a body with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Always `history`, so that a line of an export says what it is.
    #[serde(rename = "type", default = "history_tag")]
    pub tag: String,
    pub id: String,
    pub agent_id: AgentName,
    pub session_id: SessionId,
    pub turn: TurnId,
    /// Order inside the session; never the timestamp.
    pub seq: i64,
    pub timestamp: Millis,
    #[serde(flatten)]
    pub body: Body,
}

pub fn history_tag() -> String {
    "history".to_owned()
}

/// Which part of a history a reader asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// What was said: user and assistant text, and files.
    #[default]
    Simple,
    /// Every block, result, model and usage.
    Full,
}

/// A message as the view shows it, or nothing when the view leaves it out.
pub fn view_of(message: Message, view: View) -> Option<Message> {
    if view == View::Full {
        return Some(message);
    }
    let mut message = message;
    let spoken = message.body.is_spoken();
    message.body.content.retain(|block| matches!(block, Block::Text { .. } | Block::File(_)));
    message.body.meta = None;
    message.body.shown = None;
    spoken.then_some(message)
}
