//! What the tools of the organisation take.

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::ids::AgentName;
use skep_core::overlap::Overlap;
use skep_core::provider::ToolSpec;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Priority {
    Critical,
    High,
    Normal,
    Low,
}

impl Priority {
    pub fn rank(self) -> i64 {
        match self {
            Self::Critical => 0,
            Self::High => 1,
            Self::Normal => 2,
            Self::Low => 3,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DelegateArguments {
    pub team: AgentName,
    pub task: String,
    pub priority: Option<Priority>,
    pub overlap_policy: Option<Overlap>,
    pub context: Option<String>,
    pub skill: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkillArguments {
    pub name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryArguments {
    pub team: AgentName,
    pub query: String,
    pub timeout_ms: Option<i64>,
    pub skill: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueriesArguments {
    pub teams: Vec<AgentName>,
    pub query: String,
    pub timeout_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EscalateArguments {
    pub message: String,
    pub reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HandUpArguments {
    pub task: String,
    pub priority: Option<Priority>,
    pub correlation_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompletedArguments {
    pub team: Option<AgentName>,
    pub since: Option<i64>,
    pub limit: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTeamsArguments {
    pub recursive: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {
    pub team: Option<AgentName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateTeamArguments {
    pub team: AgentName,
    #[serde(default)]
    pub scope_add: Vec<String>,
    #[serde(default)]
    pub scope_remove: Vec<String>,
    pub description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnArguments {
    pub name: AgentName,
    pub description: Option<String>,
    pub scope_accepts: Vec<String>,
    pub init_context: Option<String>,
    /// As it stands on record: what it was is with the call.
    pub credentials: Option<Value>,
    pub engine: Option<String>,
    pub profile: Option<String>,
    pub allowed_tools: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestSpawnArguments {
    pub name: AgentName,
    pub description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShutdownArguments {
    pub name: AgentName,
    pub cascade: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentArguments {
    pub agent: AgentName,
}

pub(super) fn spec(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
) -> ToolSpec {
    let mut input_schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        input_schema["required"] = required.into();
    }
    input_schema["additionalProperties"] = false.into();
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema }
}

pub(super) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(super) fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub(super) fn number(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

pub(super) fn one_of(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}
