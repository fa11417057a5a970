//! Refuses conversations the real service refuses: bad messages, calls without results, results
//! without calls.

use serde_json::Value;

use super::super::image;
use super::super::refusal::{Checked, Refusal, is_name, require, stranger};

const CALL_ID: usize = 40;

pub(crate) fn messages(messages: &Value) -> Checked {
    let Value::Array(messages) = messages else {
        return Err(Refusal::invalid("Missing required parameter: 'messages'."));
    };
    require(!messages.is_empty(), || {
        "Invalid 'messages': empty array. Expected an array with minimum length 1.".to_owned()
    })?;
    for (at, message) in messages.iter().enumerate() {
        check_message(at, message)?;
    }
    pair_calls(messages)
}

fn check_message(at: usize, message: &Value) -> Checked {
    let place = format!("messages[{at}]");
    let Value::Object(fields) = message else {
        return Err(Refusal::invalid(format!("Invalid type for '{place}': expected an object.")));
    };
    let role = message["role"].as_str().unwrap_or_default();
    let known: &[&str] = match role {
        "system" | "developer" | "user" => &["role", "content", "name"],
        "assistant" => {
            &["role", "content", "name", "refusal", "audio", "tool_calls", "function_call"]
        }
        "tool" => &["role", "content", "tool_call_id"],
        _ => {
            let message = format!("Invalid value: '{role}'. '{place}.role' is not known.");
            return Err(Refusal::invalid(message));
        }
    };
    if let Some(name) = stranger(fields, known) {
        return Err(Refusal::invalid(format!("Unknown parameter: '{place}.{name}'.")));
    }
    let optional = role == "assistant" && message["tool_calls"].is_array();
    check_content(&place, role, &message["content"], optional)?;
    match role {
        "assistant" => check_calls(&place, &message["tool_calls"]),
        "tool" => require(message["tool_call_id"].is_string(), || {
            format!("Missing required parameter: '{place}.tool_call_id'.")
        }),
        _ => Ok(()),
    }
}

fn check_content(place: &str, role: &str, content: &Value, optional: bool) -> Checked {
    match content {
        Value::Null => require(optional, || {
            format!("Invalid value for 'content': expected a string, got null. '{place}.content'")
        }),
        Value::String(_) => Ok(()),
        Value::Array(parts) => {
            require(!parts.is_empty(), || format!("Invalid '{place}.content': empty array."))?;
            parts.iter().try_for_each(|part| {
                let kind = part["type"].as_str().unwrap_or_default();
                let kinds = ["text", "image_url", "input_audio", "file", "refusal"];
                require(kinds.contains(&kind), || {
                    format!("Invalid value: '{kind}'. '{place}.content' holds an unknown part.")
                })?;
                require(kind != "text" || part["text"].is_string(), || {
                    format!("Missing required parameter: '{place}.content[].text'.")
                })?;
                if kind != "image_url" {
                    return Ok(());
                }
                require(role == "user", || {
                    format!(
                        "Invalid '{place}'. Image URLs are only allowed for messages with role \
                         'user', but this message with role '{role}' contains an image URL."
                    )
                })?;
                let place = format!("{place}.content[].image_url.url");
                image::check_url(&place, &part["image_url"]["url"])
            })
        }
        _ => Err(Refusal::invalid(format!("Invalid type for '{place}.content'."))),
    }
}

fn check_calls(place: &str, calls: &Value) -> Checked {
    let calls = match calls {
        Value::Null => return Ok(()),
        Value::Array(calls) => calls,
        _ => return Err(Refusal::invalid(format!("Invalid type for '{place}.tool_calls'."))),
    };
    require(!calls.is_empty(), || {
        format!(
            "Invalid '{place}.tool_calls': empty array. Expected an array with minimum length 1."
        )
    })?;
    for call in calls {
        let known = |value: &Value, names: &[&str]| {
            value.as_object().is_some_and(|fields| stranger(fields, names).is_none())
        };
        let good = known(call, &["id", "type", "function"])
            && known(&call["function"], &["name", "arguments"])
            && call["type"] == "function";
        require(good, || format!("Invalid parameter in '{place}.tool_calls'."))?;
        let id = call["id"].as_str().unwrap_or_default();
        require((1..=CALL_ID).contains(&id.len()), || {
            format!(
                "Invalid '{place}.tool_calls[].id': string too long. Expected a string with \
                 maximum length {CALL_ID}."
            )
        })?;
        let name = call["function"]["name"].as_str().unwrap_or_default();
        require(is_name(name, 64), || format!("Invalid '{place}.tool_calls[].function.name'."))?;
        require(call["function"]["arguments"].is_string(), || {
            format!(
                "Invalid type for '{place}.tool_calls[].function.arguments': expected a string."
            )
        })?;
    }
    Ok(())
}

/// Results stand right after the message with the calls, one for each.
fn pair_calls(messages: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    let mut answered: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            require(open.contains(&id), || {
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                 message with 'tool_calls'."
                    .to_owned()
            })?;
            require(!answered.contains(&id), || format!("Duplicate response to call {id}."))?;
            answered.push(id);
            continue;
        }
        all_answered(&open, &answered)?;
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        open = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        answered.clear();
    }
    all_answered(&open, &answered)
}

fn all_answered(open: &[&str], answered: &[&str]) -> Checked {
    let missing: Vec<&str> = open.iter().filter(|id| !answered.contains(id)).copied().collect();
    require(missing.is_empty(), || {
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding \
             to each 'tool_call_id'. The following tool_call_ids did not have response messages: \
             {}",
            missing.join(", ")
        )
    })
}
