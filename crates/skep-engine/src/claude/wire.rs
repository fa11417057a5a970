//! What Claude Code writes and is told, line by line: `stream-json` and the control protocol in it.
//! Read is only what is used; what has another shape than expected is an error of the line.

use serde::Deserialize;
use serde_json::{Value, json};

use skep_core::ids::CallId;

/// One line of its standard output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ClaudeLine {
    System(SystemNote),
    StreamEvent {
        event: StreamEvent,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    Assistant(AssistantLine),
    User(UserLine),
    Result(ResultLine),
    ControlRequest {
        request_id: String,
        request: ControlRequest,
    },
    ControlResponse {
        response: ControlResponse,
    },
    /// A request of its own that it does not wait for any more.
    ControlCancelRequest {
        request_id: String,
    },
    /// What became of a message it was sent.
    CommandLifecycle {
        command_uuid: String,
        state: String,
    },
    RateLimitEvent {
        rate_limit_info: RateLimit,
    },
    KeepAlive,
    ToolProgress,
    ToolUseSummary,
    AuthStatus,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum SystemNote {
    /// A turn of its own begins.
    Init,
    ApiRetry(ApiRetry),
    #[serde(other)]
    Other,
}

/// It asks the model again after a pause.
#[derive(Debug, Deserialize)]
pub(super) struct ApiRetry {
    pub attempt: u32,
    pub max_retries: u32,
    pub retry_delay_ms: f64,
    pub error_status: Option<u16>,
    #[serde(default)]
    pub error: String,
}

/// The vendor's stream, passed on.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    MessageStart {
        message: StartedMessage,
    },
    ContentBlockStart {
        content_block: StartedBlock,
    },
    ContentBlockDelta {
        delta: BlockDelta,
    },
    MessageStop,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct StartedMessage {
    pub id: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StartedBlock {
    Text {
        text: String,
    },
    RedactedThinking {
        data: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    #[serde(other)]
    Other,
}

/// A block of the model's message, once it is complete.
#[derive(Debug, Deserialize)]
pub(super) struct AssistantLine {
    pub message: AssistantMessage,
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AssistantMessage {
    pub id: String,
    pub model: String,
    pub content: Vec<AssistantBlock>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AssistantBlock {
    ToolUse {
        id: CallId,
        name: String,
        input: Value,
    },
    /// Text and thinking came with the stream.
    #[serde(other)]
    Other,
}

/// Results of calls; also what it was told, and notes that it writes to itself.
#[derive(Debug, Deserialize)]
pub(super) struct UserLine {
    pub message: UserMessage,
    #[serde(default)]
    pub parent_tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserMessage {
    pub content: UserContent,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum UserContent {
    Blocks(Vec<UserBlock>),
    #[allow(dead_code)]
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum UserBlock {
    ToolResult {
        tool_use_id: CallId,
        #[serde(default)]
        content: ResultContent,
        #[serde(default)]
        is_error: bool,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ResultContent {
    Text(String),
    Blocks(Vec<ResultBlock>),
}

impl Default for ResultContent {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResultBlock {
    Text {
        text: String,
    },
    #[serde(other)]
    Other,
}

impl ResultContent {
    pub fn into_text(self) -> String {
        let blocks = match self {
            Self::Text(text) => return text,
            Self::Blocks(blocks) => blocks,
        };
        let texts = blocks.into_iter().map(|block| match block {
            ResultBlock::Text { text } => text,
            ResultBlock::Other => "[not a text]".to_owned(),
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The end of a turn. `subtype` says nothing: a failed turn may call itself a success.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine {
    pub is_error: bool,
    #[serde(default)]
    pub terminal_reason: Option<String>,
    #[serde(default)]
    pub result: Option<String>,
    #[serde(default)]
    pub errors: Option<Vec<String>>,
    #[serde(default)]
    pub api_error_status: Option<u16>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RateLimit {
    pub status: String,
    /// In seconds since the epoch.
    #[serde(default, rename = "resetsAt")]
    pub resets_at: Option<f64>,
}

/// What it asks of us.
#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum ControlRequest {
    HookCallback {
        input: HookInput,
    },
    CanUseTool(ToolAsk),
    McpMessage {
        server_name: String,
        message: McpMessage,
    },
    #[serde(other)]
    Other,
}

/// A call that is about to be made.
#[derive(Debug, Deserialize)]
pub(super) struct HookInput {
    pub hook_event_name: String,
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: CallId,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolAsk {
    pub tool_name: String,
    pub input: Value,
    pub tool_use_id: CallId,
}

#[derive(Debug, Deserialize)]
pub(super) struct McpMessage {
    pub method: String,
    /// Absent in a notification.
    #[serde(default)]
    pub id: Value,
    #[serde(default)]
    pub params: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ControlResponse {
    pub subtype: String,
    pub request_id: String,
    #[serde(default)]
    pub response: Value,
    #[serde(default)]
    pub error: Option<String>,
}

/// What a hook is told about a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HookAnswer {
    /// With these arguments, where they differ from its own.
    Allow(Option<Value>),
    Deny(String),
    /// A permission request is to follow.
    Ask,
}

pub(super) fn read(line: &[u8]) -> Result<ClaudeLine, String> {
    serde_json::from_slice(line).map_err(|error| format!("a line that cannot be read: {error}"))
}

/// `hook`: every call goes through it; `server` answers calls of our tools.
pub(super) fn initialize(request: &str, hook: &str, server: &str, hook_seconds: u64) -> String {
    let hook = json!({"matcher": null, "hookCallbackIds": [hook], "timeout": hook_seconds});
    control(
        request,
        &json!({
            "subtype": "initialize",
            "sdkMcpServers": [server],
            "hooks": {"PreToolUse": [hook]},
        }),
    )
}

pub(super) fn interrupt(request: &str) -> String {
    control(request, &json!({"subtype": "interrupt"}))
}

fn control(id: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": id, "request": request}).to_string()
}

/// A message of a person; `uuid` is how its way through the program is told.
pub(super) fn user(uuid: &str, content: &[Value]) -> String {
    json!({
        "type": "user",
        "uuid": uuid,
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
    })
    .to_string()
}

pub(super) fn hook_answer(request: &str, answer: HookAnswer) -> String {
    let (decision, reason, changed) = match answer {
        HookAnswer::Allow(changed) => ("allow", "permitted".to_owned(), changed),
        HookAnswer::Deny(reason) => ("deny", reason, None),
        HookAnswer::Ask => ("ask", "a person is asked".to_owned(), None),
    };
    let mut output = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    });
    if let Some(changed) = changed {
        output["updatedInput"] = changed;
    }
    answered(request, &json!({ "hookSpecificOutput": output }))
}

pub(super) fn permission(request: &str, decided: Result<Value, String>) -> String {
    let answer = match decided {
        Ok(input) => json!({"behavior": "allow", "updatedInput": input}),
        Err(reason) => json!({"behavior": "deny", "message": reason}),
    };
    answered(request, &answer)
}

/// The answer to a message of MCP: a result, or a code and why.
pub(super) fn mcp(request: &str, id: &Value, result: Result<Value, (i64, String)>) -> String {
    let id = if id.is_null() { json!(0) } else { id.clone() };
    let mut answer = json!({"jsonrpc": "2.0", "id": id});
    match result {
        Ok(result) => answer["result"] = result,
        Err((code, message)) => answer["error"] = json!({"code": code, "message": message}),
    }
    answered(request, &json!({ "mcp_response": answer }))
}

fn answered(request: &str, response: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request, "response": response});
    json!({"type": "control_response", "response": response}).to_string()
}

pub(super) fn refused(request: &str, error: &str) -> String {
    let response = json!({"subtype": "error", "request_id": request, "error": error});
    json!({"type": "control_response", "response": response}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_another_shape_is_an_error() {
        for line in [
            "",
            "hello",
            "[]",
            "{}",
            r#"{"type": "other"}"#,
            r#"{"type": "result", "subtype": "success"}"#,
            r#"{"type": "stream_event", "event": {"type": "message_start"}}"#,
            r#"{"type": "control_request", "request_id": 1, "request": {"subtype": "x"}}"#,
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
        let line = br#"{"type": "system", "subtype": "anything", "more": [1]}"#;
        assert!(matches!(read(line), Ok(ClaudeLine::System(SystemNote::Other))));
    }

    #[test]
    fn an_answer_is_one_line() {
        let said = hook_answer("r", HookAnswer::Deny("two\nlines".to_owned()));
        assert!(!said.contains('\n'));
        let said = mcp("r", &Value::Null, Err((-1, "a\nb".to_owned())));
        assert!(!said.contains('\n') && said.contains(r#""id":0"#));
    }
}
