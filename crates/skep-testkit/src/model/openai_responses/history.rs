//! Refuses conversations the real service refuses: bad items, calls without results, results
//! without calls, thinking that is forged, alone or kept nowhere.

use serde_json::Value;

use super::super::image;
use super::super::openai::text_of;
use super::super::refusal::{Checked, Refusal, is_name, require};
use super::super::request::signature_of;
use super::check::only_fields;

const CALL_ID: usize = 64;
const INPUT_PARTS: &[&str] = &["input_text", "input_image", "input_file"];

pub(crate) fn input(input: &Value, kept_nowhere: bool) -> Checked {
    let items = match input {
        Value::String(_) => return Ok(()),
        Value::Array(items) => items,
        _ => return Err(Refusal::invalid("Missing required parameter: 'input'.")),
    };
    for (at, item) in items.iter().enumerate() {
        check_item(at, item, kept_nowhere)?;
    }
    followed_thinking(items)?;
    pair_calls(items)
}

fn check_item(at: usize, item: &Value, kept_nowhere: bool) -> Checked {
    let place = format!("input[{at}].");
    let Value::Object(fields) = item else {
        return Err(Refusal::invalid(format!("Invalid type for 'input[{at}]'.")));
    };
    let kind = item["type"].as_str().unwrap_or("message");
    let known: &[&str] = match kind {
        "message" => &["type", "role", "content", "id", "status", "phase"],
        "function_call" => &["type", "id", "call_id", "name", "arguments", "status", "namespace"],
        "function_call_output" => &["type", "id", "call_id", "output", "status", "name"],
        "reasoning" => &["type", "id", "summary", "content", "encrypted_content", "status"],
        _ => {
            let message = format!("Invalid value: '{kind}'. '{place}type' is not known.");
            return Err(Refusal::invalid(message));
        }
    };
    only_fields(&place, fields, known)?;
    match kind {
        "message" => check_message(&place, item),
        "function_call" => check_call(&place, item),
        "function_call_output" => {
            let place = format!("{place}output");
            match &item["output"] {
                Value::String(_) => Ok(()),
                Value::Array(parts) => check_parts(&place, parts, INPUT_PARTS),
                _ => Err(Refusal::invalid(format!("Missing required parameter: '{place}'."))),
            }
        }
        _ => check_reasoning(&place, item, kept_nowhere),
    }
}

fn check_message(place: &str, item: &Value) -> Checked {
    let role = item["role"].as_str().unwrap_or_default();
    let roles = ["user", "assistant", "system", "developer"];
    require(roles.contains(&role), || format!("Invalid value: '{role}'. '{place}role'."))?;
    let parts = match &item["content"] {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        _ => {
            return Err(Refusal::invalid(format!("Missing required parameter: '{place}content'.")));
        }
    };
    let kinds: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => INPUT_PARTS,
    };
    check_parts(&format!("{place}content"), parts, kinds)
}

fn check_parts(place: &str, parts: &[Value], kinds: &[&str]) -> Checked {
    parts.iter().try_for_each(|part| {
        let kind = part["type"].as_str().unwrap_or_default();
        require(kinds.contains(&kind), || {
            format!("Invalid value: '{kind}'. Supported values are: {kinds:?}. '{place}'")
        })?;
        require(!kind.ends_with("_text") || part["text"].is_string(), || {
            format!("Missing required parameter: '{place}[].text'.")
        })?;
        match kind {
            "input_image" => image::check_url(&format!("{place}[].image_url"), &part["image_url"]),
            _ => Ok(()),
        }
    })
}

fn check_call(place: &str, item: &Value) -> Checked {
    let id = item["call_id"].as_str().unwrap_or_default();
    require((1..=CALL_ID).contains(&id.len()), || {
        format!(
            "Invalid '{place}call_id': string too long. Expected a string with maximum length \
             {CALL_ID}."
        )
    })?;
    let name = item["name"].as_str().unwrap_or_default();
    require(is_name(name, 128), || format!("Invalid '{place}name'."))?;
    require(item["arguments"].is_string(), || {
        format!("Invalid type for '{place}arguments': expected a string.")
    })
}

fn check_reasoning(place: &str, item: &Value, kept_nowhere: bool) -> Checked {
    let id = item["id"].as_str().unwrap_or_default();
    require(id.starts_with("rs_"), || {
        format!("Invalid '{place}id': '{id}'. Expected an ID that begins with 'rs'.")
    })?;
    require(item["summary"].is_array(), || {
        format!("Missing required parameter: '{place}summary'.")
    })?;
    let sealed = item["encrypted_content"].as_str().unwrap_or_default();
    if sealed.is_empty() && kept_nowhere {
        return Err(Refusal::not_found(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        )));
    }
    // What a test made up starts otherwise and passes: this server cannot know it.
    let ours = sealed.starts_with("EqQBCkYI");
    require(!ours || sealed == signature_of(&text_of(&item["summary"])), || {
        "The encrypted content could not be verified.".to_owned()
    })
}

fn followed_thinking(items: &[Value]) -> Checked {
    let follows = |item: Option<&Value>| {
        item.is_some_and(|item| {
            matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
                || item["role"] == "assistant"
        })
    };
    for (at, item) in items.iter().enumerate() {
        require(item["type"] != "reasoning" || follows(items.get(at + 1)), || {
            format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                item["id"].as_str().unwrap_or_default()
            )
        })?;
    }
    Ok(())
}

fn pair_calls(items: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => open.push(id),
            Some("function_call_output") => {
                let at = open.iter().position(|call| *call == id).ok_or_else(|| {
                    let message =
                        format!("No tool call found for function call output with call_id {id}.");
                    Refusal::invalid(message)
                })?;
                open.remove(at);
            }
            _ => {}
        }
    }
    require(open.is_empty(), || {
        format!("No tool output found for function call {}.", open.join(", "))
    })
}
