//! How a tool describes its arguments to a model.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skep_core::provider::ToolSpec;

/// Where a path argument may lead.
pub(crate) const FILE_PATH: &str = "Path relative to the workspace, or absolute inside it.";

/// A tool that takes these arguments and no others.
pub(crate) fn spec(
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

pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn yes_or_no(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// Reads them; `takes` says what was expected.
pub(crate) fn read<T: DeserializeOwned>(arguments: Value, takes: &str) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("{takes}: {error}"))
}
