//! The lines of `codex app-server`: JSON-RPC without its version field, both ways. Only what is
//! read has a type here; what has one is read strictly, and what does not fit ends the run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Notices by which the program tells that something acts which nobody was asked about: a hook, a
/// server of tools, a reviewer in the place of a person, a process or call of its own.
const NEVER: [&str; 12] = [
    "hook/",
    "mcpServer/",
    "item/mcpToolCall/",
    "item/autoApprovalReview/",
    "autoApprovalReview/",
    "guardianWarning",
    "command/exec/",
    "process/",
    "thread/realtime/",
    "thread/goal/updated",
    "item/commandExecution/terminalInteraction",
    "externalAgentConfig/",
];

/// A line, by what it is.
#[derive(Debug)]
pub(super) enum Heard {
    Answer {
        id: u64,
        answer: Result<Box<RawValue>, String>,
    },
    /// It waits for an answer under its own id.
    Request {
        id: Value,
        method: String,
        params: Box<RawValue>,
    },
    Notice(Notice),
    /// Nothing that matters here.
    Talk,
}

/// What the program tells of a turn.
#[derive(Debug)]
pub(super) enum Notice {
    TurnStarted(TurnTold),
    TurnCompleted(TurnTold),
    ItemStarted(ItemTold),
    ItemCompleted(ItemTold),
    Said(Delta),
    Thought(Delta),
    /// The next part of the thinking begins.
    ThoughtPart(ItemNamed),
    Used(Used),
    Error(ErrorTold),
}

#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    id: Option<Value>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
struct RpcError {
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnTold {
    pub thread_id: String,
    pub turn: Turn,
}

#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub id: String,
    pub status: TurnStatus,
    pub error: Option<TurnError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TurnStatus {
    Completed,
    Interrupted,
    Failed,
    InProgress,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnError {
    pub message: String,
    pub codex_error_info: Option<ErrorInfo>,
}

/// A word, or an object with the word as its only key and more about it inside.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ErrorInfo {
    Word(String),
    Detailed(std::collections::BTreeMap<String, ErrorDetail>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorDetail {
    pub http_status_code: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorTold {
    pub thread_id: String,
    pub error: TurnError,
    pub will_retry: bool,
}

#[derive(Debug)]
pub(super) struct ItemTold {
    pub thread_id: String,
    pub item: Item,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemParams {
    thread_id: String,
    item: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemNamed {
    pub thread_id: String,
    pub item_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta {
    pub thread_id: String,
    pub item_id: String,
    pub delta: String,
}

/// An item of a turn, by its kind.
#[derive(Debug)]
pub(super) enum Item {
    UserMessage,
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Command(CommandItem),
    Files(FilesItem),
    /// A tool of ours: `item/tool/call` asks for it.
    Ours,
    Plan,
    Compaction,
    /// A tool of the program that is off, or one that came with a newer version.
    Foreign {
        id: String,
        kind: String,
    },
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageItem {
    pub id: String,
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReasoningItem {
    pub id: String,
    #[serde(default)]
    pub summary: Vec<String>,
    #[serde(default)]
    pub content: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandItem {
    pub id: String,
    pub command: String,
    pub cwd: String,
    pub status: CallStatus,
    pub aggregated_output: Option<String>,
    pub exit_code: Option<i32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FilesItem {
    pub id: String,
    pub changes: Vec<FileChange>,
    pub status: CallStatus,
}

#[derive(Debug, Deserialize)]
struct ItemHead {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CallStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct FileChange {
    pub path: String,
    pub kind: ChangeKind,
    pub diff: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum ChangeKind {
    Add,
    Delete,
    Update { move_path: Option<String> },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Used {
    pub thread_id: String,
    pub turn_id: String,
    pub token_usage: TokenUsage,
}

#[derive(Debug, Deserialize)]
pub(super) struct TokenUsage {
    pub last: Tokens,
}

/// Of one model call. The wire has signed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tokens {
    pub input_tokens: i64,
    pub cached_input_tokens: i64,
    #[serde(default)]
    pub cache_write_input_tokens: i64,
    pub output_tokens: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandApproval {
    #[serde(default)]
    pub kind: ApprovalKind,
    pub thread_id: String,
    pub item_id: String,
    pub command: Option<String>,
    pub cwd: Option<String>,
    /// It wants more than a command: refused.
    pub additional_permissions: Option<Value>,
    pub network_approval_context: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ApprovalKind {
    #[default]
    Command,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileApproval {
    pub thread_id: String,
    pub item_id: String,
    /// It wants a whole folder for the rest of the session: refused.
    pub grant_root: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolRequest {
    pub thread_id: String,
    pub call_id: String,
    pub namespace: Option<String>,
    pub tool: String,
    pub arguments: Value,
}

/// The answer to `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialized {
    pub user_agent: String,
}

/// The answer to `thread/start` and `thread/resume`: what is in force.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadOpened {
    pub thread: ThreadNamed,
    pub model_provider: String,
    pub cwd: String,
    pub approval_policy: Value,
    pub approvals_reviewer: String,
    #[serde(default)]
    pub instruction_sources: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ThreadNamed {
    pub id: String,
}

/// The answer to `turn/start`.
#[derive(Debug, Deserialize)]
pub(super) struct TurnOpened {
    pub turn: TurnNamed,
}

#[derive(Debug, Deserialize)]
pub(super) struct TurnNamed {
    pub id: String,
}

/// What a line says; the error says why it says nothing.
pub(super) fn hear(line: &[u8]) -> Result<Heard, String> {
    let envelope: Envelope = serde_json::from_slice(line)
        .map_err(|error| format!("a line that is no message: {error}"))?;
    let params = || envelope.params.map_or_else(|| RawValue::NULL.to_owned(), RawValue::to_owned);
    match (envelope.method, envelope.id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) if id.is_string() || id.is_u64() || id.is_i64() => {
            Ok(Heard::Request { id, method, params: params() })
        }
        (Some(method), None, None, None) => notice(&method, &params()),
        (None, Some(id), Some(result), None) => {
            let id = id.as_u64().ok_or("an answer to nobody")?;
            Ok(Heard::Answer { id, answer: Ok(result.to_owned()) })
        }
        (None, Some(id), None, Some(error)) => {
            let id = id.as_u64().ok_or("an answer to nobody")?;
            Ok(Heard::Answer { id, answer: Err(error.message) })
        }
        _ => Err("a line that is neither a request nor an answer".to_owned()),
    }
}

fn notice(method: &str, params: &RawValue) -> Result<Heard, String> {
    Ok(Heard::Notice(match method {
        "turn/started" => Notice::TurnStarted(read(method, params)?),
        "turn/completed" => Notice::TurnCompleted(read(method, params)?),
        "item/started" => Notice::ItemStarted(item(method, params)?),
        "item/completed" => Notice::ItemCompleted(item(method, params)?),
        "item/agentMessage/delta" => Notice::Said(read(method, params)?),
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
            Notice::Thought(read(method, params)?)
        }
        "item/reasoning/summaryPartAdded" => Notice::ThoughtPart(read(method, params)?),
        "thread/tokenUsage/updated" => Notice::Used(read(method, params)?),
        "error" => Notice::Error(read(method, params)?),
        never if NEVER.iter().any(|start| never.starts_with(start)) => {
            return Err(format!("`{method}`, which is off"));
        }
        _ => return Ok(Heard::Talk),
    }))
}

fn item(method: &str, params: &RawValue) -> Result<ItemTold, String> {
    let ItemParams { thread_id, item } = read(method, params)?;
    let ItemHead { kind, id } = read(method, &item)?;
    let item = match kind.as_str() {
        "userMessage" => Item::UserMessage,
        "agentMessage" => Item::Message(read(&kind, &item)?),
        "reasoning" => Item::Reasoning(read(&kind, &item)?),
        "commandExecution" => Item::Command(read(&kind, &item)?),
        "fileChange" => Item::Files(read(&kind, &item)?),
        "dynamicToolCall" => Item::Ours,
        "plan" => Item::Plan,
        "contextCompaction" => Item::Compaction,
        _ => Item::Foreign { id, kind },
    };
    Ok(ItemTold { thread_id, item })
}

/// Reads what a message holds.
pub(super) fn read<'a, T: Deserialize<'a>>(what: &str, params: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(params.get()).map_err(|error| format!("`{what}`: {error}"))
}

pub(super) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"id": id, "method": method, "params": params})
}

pub(super) fn answer(id: &Value, result: impl Serialize) -> Value {
    json!({"id": id, "result": result})
}

/// For requests that nobody here answers.
pub(super) fn refusal(id: &Value) -> Value {
    json!({"id": id, "error": {"code": -32601, "message": "this client does not offer that"}})
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
