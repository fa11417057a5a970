//! Which tools Claude Code has: a few of its own, by the words our rules know them by, and ours, by
//! the names that a server inside of its lines gives them. What is in neither list is denied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use skep_core::engine::{CallPermit, OwnTool, ToolCall};
use skep_core::ids::CallId;
use skep_core::message::{Block, Message};
use skep_core::policy::Class;
use skep_core::provider::ToolSpec;
use skep_core::relay::RelayTools;

use super::wire::McpMessage;

/// Its own tools that it is started with: name, our key, class. Their arguments that rules look at
/// (`command`, `file_path`, `path`) have our names.
const OWN: [(&str, &str, Class); 6] = [
    ("Bash", "bash", Class::Run),
    ("Edit", "edit", Class::Write),
    ("Glob", "glob", Class::Read),
    ("Grep", "grep", Class::Read),
    ("Read", "read", Class::Read),
    ("Write", "write", Class::Write),
];
/// Stands in a request where other tools could be found; it can do nothing.
const PLACEHOLDER: &str = "DeferredToolPlaceholder";
/// Of the rules, for calls that are not to be made: no list names it.
const REFUSED_KEY: &str = "claude.refused";

pub(super) const SERVER: &str = "skep";
const PREFIX: &str = "mcp__skep__";
/// Models take names of 64 letters.
const NAME_BYTES: usize = 64 - PREFIX.len();

/// Where Claude Code says which call of the model a request is for.
const CALL_ID: &str = "claudecode/toolUseId";

const METHOD_MISSING: i64 = -32601;
const PARAMS_WRONG: i64 = -32602;

/// Whose tools there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolChoice {
    #[default]
    Both,
    Ours,
}

impl ToolChoice {
    fn own(self) -> &'static [(&'static str, &'static str, Class)] {
        match self {
            Self::Both => &OWN,
            Self::Ours => &[],
        }
    }

    /// As the program takes them; empty for none.
    pub fn list(self) -> String {
        self.own().iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(",")
    }
}

/// What a name of its wire stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolKind {
    Own(OwnTool),
    /// One of ours, by our name.
    Ours(String),
    Unknown,
}

/// The tools of one launch.
#[derive(Debug)]
pub(super) struct ClaudeTools {
    choice: ToolChoice,
    specs: Arc<[ToolSpec]>,
    /// Our names by those of its wire, without the prefix.
    names: BTreeMap<String, String>,
}

impl ClaudeTools {
    pub fn new(choice: ToolChoice, specs: Arc<[ToolSpec]>) -> Self {
        let names = specs.iter().enumerate();
        let names = names.map(|(at, spec)| (wire_name(at, &spec.name), spec.name.clone()));
        let names = names.collect();
        Self { choice, specs, names }
    }

    pub fn kind(&self, name: &str) -> ToolKind {
        if let Some(ours) = name.strip_prefix(PREFIX).and_then(|name| self.names.get(name)) {
            return ToolKind::Ours(ours.clone());
        }
        let own = self.choice.own().iter().find(|(own, ..)| *own == name);
        own.map_or(ToolKind::Unknown, |(_, key, class)| {
            ToolKind::Own(OwnTool { key: (*key).to_owned(), class: *class })
        })
    }

    /// The name in our history.
    pub fn told(&self, name: &str) -> String {
        match self.kind(name) {
            ToolKind::Ours(ours) => ours,
            ToolKind::Own(_) | ToolKind::Unknown => name.to_owned(),
        }
    }

    /// What may stand in its requests to the model.
    pub fn for_relay(&self) -> RelayTools {
        let own = self.choice.own().iter().map(|(name, ..)| (*name).to_owned());
        let ours = self.names.keys().map(|name| format!("{PREFIX}{name}"));
        RelayTools {
            names: own.chain(ours).chain([PLACEHOLDER.to_owned()]).collect(),
            prefixes: Vec::new(),
            types: BTreeSet::new(),
        }
    }

    /// The answer to a message that is no call.
    pub fn answer(&self, message: &McpMessage) -> Result<Value, (i64, String)> {
        match message.method.as_str() {
            "initialize" => Ok(json!({
                "protocolVersion": message.params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": SERVER, "version": "1"},
            })),
            "tools/list" => Ok(json!({ "tools": self.described() })),
            "ping" => Ok(json!({})),
            other if other.starts_with("notifications/") => Ok(json!({})),
            other => Err((METHOD_MISSING, format!("there is no method {other}"))),
        }
    }

    fn described(&self) -> Vec<Value> {
        let described = self.specs.iter().enumerate().map(|(at, spec)| {
            json!({
                "name": wire_name(at, &spec.name),
                "description": spec.description,
                "inputSchema": spec.input_schema,
            })
        });
        described.collect()
    }

    /// The call that a `tools/call` asks for.
    pub fn call(&self, params: &Value) -> Result<ToolCall, (i64, String)> {
        let wrong = |what: &str| (PARAMS_WRONG, format!("the call has no {what}"));
        let id = params["_meta"][CALL_ID].as_str().ok_or_else(|| wrong("id"))?;
        let name = params["name"].as_str().and_then(|name| self.names.get(name));
        let name = name.ok_or_else(|| wrong("name of a tool"))?.clone();
        let arguments = match &params["arguments"] {
            Value::Null => json!({}),
            arguments @ Value::Object(_) => arguments.clone(),
            _ => return Err(wrong("arguments that are an object")),
        };
        Ok(ToolCall { id: CallId::new(id), name, arguments })
    }
}

/// What the rules know a call by that is refused whatever they say.
pub(super) fn refused_tool() -> OwnTool {
    OwnTool { key: REFUSED_KEY.to_owned(), class: Class::Read }
}

/// What of a call is not offered, although its tool is: nothing runs beyond its call.
pub(super) fn not_offered(tool: &OwnTool, input: &Value) -> Option<String> {
    let background = tool.key == "bash" && input["run_in_background"] == true;
    background.then(|| {
        "background_refused: commands run in the foreground here. Call again without \
         run_in_background"
            .to_owned()
    })
}

/// What a permitted call runs with, or why it does not. `None`: nobody decides any more.
pub(super) fn decided(permit: Option<CallPermit>) -> Option<Result<Value, String>> {
    match permit? {
        CallPermit::Allow { arguments } => Some(Ok(arguments)),
        CallPermit::Deny { reason } => Some(Err(reason)),
        CallPermit::Waits(_) => None,
    }
}

/// The result of a call of ours, as MCP has it.
pub(super) fn call_result(rows: &[Arc<Message>], id: &CallId) -> Value {
    let row = rows.iter().find(|row| row.body.tool_call_id.as_ref() == Some(id));
    let Some(row) = row else {
        let text = "the call has no result";
        return json!({"content": [{"type": "text", "text": text}], "isError": true});
    };
    let content = row.body.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(json!({"type": "text", "text": text})),
        Block::File(file) => {
            let data = file.data.as_ref().filter(|_| file.is_image())?.to_base64();
            Some(json!({"type": "image", "data": data, "mimeType": file.mime}))
        }
        _ => None,
    });
    let content: Vec<Value> = content.collect();
    json!({"content": content, "isError": row.body.is_error == Some(true)})
}

/// Longer names end in the place of the tool in the list, which tells them apart.
fn wire_name(at: usize, name: &str) -> String {
    if name.len() <= NAME_BYTES {
        return name.to_owned();
    }
    let end = format!("_{at}");
    let mut kept = NAME_BYTES - end.len();
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    format!("{}{end}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;
    use skep_core::ids::{AgentName, SessionId, TurnId};
    use skep_core::message::{Body, history_tag};

    fn tools(choice: ToolChoice, names: &[&str]) -> ClaudeTools {
        let specs = names.iter().map(|name| ToolSpec {
            name: (*name).to_owned(),
            description: "What it does.".to_owned(),
            input_schema: json!({"type": "object"}),
        });
        ClaudeTools::new(choice, specs.collect())
    }

    #[test]
    fn what_is_in_no_list_is_unknown() {
        let both = tools(ToolChoice::Both, &["send", "web_fetch"]);
        let bash = OwnTool { key: "bash".to_owned(), class: Class::Run };
        assert_eq!(both.kind("Bash"), ToolKind::Own(bash));
        assert_eq!(both.kind("mcp__skep__send"), ToolKind::Ours("send".to_owned()));
        for name in ["WebFetch", "Task", "bash", "send", "mcp__skep__other", "mcp__other__send"] {
            assert_eq!(both.kind(name), ToolKind::Unknown, "{name}");
        }
        let ours = tools(ToolChoice::Ours, &["send"]);
        assert_eq!((ours.kind("Bash"), ToolChoice::Ours.list().as_str()), (ToolKind::Unknown, ""));
        assert_eq!(ToolChoice::Both.list(), "Bash,Edit,Glob,Grep,Read,Write");
    }

    #[test]
    fn a_name_that_is_too_long_leads_back_by_the_table() {
        let (one, two) = ("a".repeat(64), format!("{}b", "a".repeat(63)));
        let tools = tools(ToolChoice::Both, &[&one, &two]);
        for name in tools.for_relay().names {
            assert!(name.len() <= 64, "{name}");
        }
        let wire: Vec<String> = tools.names.keys().map(|name| format!("{PREFIX}{name}")).collect();
        let told: Vec<String> = wire.iter().map(|name| tools.told(name)).collect();
        assert_eq!(told, [one, two]);
    }

    #[test]
    fn a_call_needs_an_id_a_name_and_an_object() {
        let tools = tools(ToolChoice::Both, &["send"]);
        let call = |params: Value| tools.call(&params);
        let meta = json!({"claudecode/toolUseId": "toolu_1"});
        let good = call(json!({"name": "send", "_meta": meta})).unwrap();
        let (id, arguments) = (CallId::new("toolu_1"), json!({}));
        assert_eq!(good, ToolCall { id, name: "send".to_owned(), arguments });
        for wrong in [
            json!({"name": "send"}),
            json!({"name": "other", "_meta": meta}),
            json!({"name": "send", "_meta": meta, "arguments": [1]}),
            json!(null),
        ] {
            assert_eq!(call(wrong.clone()).unwrap_err().0, PARAMS_WRONG, "{wrong}");
        }
        let ask = |method: &str| {
            let params = json!({"protocolVersion": "2025-11-25"});
            tools.answer(&McpMessage { method: method.to_owned(), id: Value::Null, params })
        };
        assert_eq!(ask("initialize").unwrap()["protocolVersion"], "2025-11-25");
        assert_eq!(ask("tools/list").unwrap()["tools"][0]["name"], "send");
        assert_eq!(ask("notifications/initialized").unwrap(), json!({}));
        assert_eq!(ask("resources/list").unwrap_err().0, METHOD_MISSING);
    }

    #[test]
    fn a_result_is_that_of_its_call() {
        let body = Body::tool_result(CallId::new("a"), "send", "sent".to_owned(), false);
        let row = Arc::new(Message {
            tag: history_tag(),
            id: String::new(),
            agent_id: AgentName::new("main"),
            session_id: SessionId::new("s"),
            turn: TurnId::new("t"),
            seq: 1,
            timestamp: 0,
            body,
        });
        let told = call_result(&[Arc::clone(&row)], &CallId::new("a"));
        let content = json!([{"type": "text", "text": "sent"}]);
        assert_eq!(told, json!({"content": content, "isError": false}));
        assert_eq!(call_result(&[row], &CallId::new("b"))["isError"], true);
    }

    #[test]
    fn nothing_runs_beyond_its_call() {
        let bash = OwnTool { key: "bash".to_owned(), class: Class::Run };
        assert!(not_offered(&bash, &json!({"run_in_background": true})).is_some());
        assert!(not_offered(&bash, &json!({"command": "ls"})).is_none());
    }
}
