//! What a key expects, in words, read from the schema that editors use too.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::mistake::one_of;

/// The schema key for a description that JSON Schema keywords cannot express.
pub const EXPECTED: &str = "x-expected";

/// Subschemas are inlined, so that a key path is a schema path.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// What is expected at a path; `None` for a path the schema does not know.
pub fn at(schema: &Value, path: &[String]) -> Option<String> {
    find(schema, path).map(words)
}

/// The keys valid inside the mapping at a path.
pub fn keys<'a>(schema: &'a Value, path: &[String]) -> Vec<&'a str> {
    let properties = find(schema, path).and_then(|node| node.get("properties"));
    properties
        .and_then(Value::as_object)
        .map(|keys| keys.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn find<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut node = solid(schema);
    for step in path {
        let by_name = node.get("properties").and_then(|keys| keys.get(step));
        let next = by_name
            .or_else(|| node.get("additionalProperties").filter(|rest| rest.is_object()))
            .or_else(|| node.get("items"))?;
        node = solid(next);
    }
    Some(node)
}

/// An optional value is `anyOf [value, null]`: the value is what matters.
fn solid(node: &Value) -> &Value {
    let choices = node.get("anyOf").and_then(Value::as_array);
    let is_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) != Some("null");
    choices.and_then(|choices| choices.iter().find(is_null)).unwrap_or(node)
}

fn words(node: &Value) -> String {
    if let Some(text) = node.get(EXPECTED).and_then(Value::as_str) {
        return text.to_owned();
    }
    if let Some(choices) = node.get("enum").and_then(Value::as_array) {
        let names: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        return one_of(&names);
    }
    match kind(node) {
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => match node.get("items").map(|items| words(solid(items))) {
            Some(each) => format!("a list, each entry {each}"),
            None => "a list".to_owned(),
        },
        "object" => {
            let names = keys(node, &[]);
            if names.is_empty() {
                "a mapping".to_owned()
            } else {
                format!("a mapping with the keys {}", names.join(", "))
            }
        }
        other => format!("a value of type {other}"),
    }
}

fn kind(node: &Value) -> &str {
    match node.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ => "unknown",
    }
}
