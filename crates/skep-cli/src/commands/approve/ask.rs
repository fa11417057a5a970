//! Asks the person at the terminal about one approval: yes or no, its scope, a preview of what a
//! pattern covers, and a reason for a no.

use serde_json::{Value, json};
use skep_guard::hangup;

use super::{allowed, choices, covers_path, decide, joined, own_patterns, past, show_decided};
use crate::failure::Failure;
use crate::hive::{Client, Globals};
use crate::print::{foreign, items, output, text};

/// Asks until there is a decision or an empty line.
pub(super) async fn one(
    client: &Client,
    globals: &Globals,
    question: &Value,
) -> Result<(), Failure> {
    let can_last = question["once_only"].is_null();
    let prompt = match can_last {
        true => {
            "approve? [y]es once, [s] for this conversation, [a]lways, [n]o, Enter to leave it: "
        }
        false => "approve? [y]es once, [n]o, Enter to leave it: ",
    };
    // A key that was pressed before the call could be read decides nothing.
    hangup::forget_typed();
    let body = loop {
        let Some(typed) = output::typed(prompt) else { return Ok(()) };
        match typed.as_str() {
            "y" | "yes" | "once" => break json!({"decision": "approve"}),
            "s" | "session" | "a" | "always" if can_last => {
                let scope = if typed.starts_with('s') { "session" } else { "always" };
                if let Some(body) = lasting(client, question, scope).await {
                    break body;
                }
            }
            "n" | "no" => {
                let note = output::typed("why, for the agent (Enter for no reason): ");
                break json!({"decision": "deny", "note": note});
            }
            other => output::note(format!("{} is none of these", foreign(other))),
        }
    };
    let id = id_of(question);
    // The hash binds the decision to what was just shown.
    let mut body = body;
    body["hash"] = question["hash"].clone();
    match decide(client, id, &body).await {
        Ok(done) => show_decided(globals, &done),
        // Somebody else decided first, or the approval changed: continue with the next one.
        Err(failure) => output::note(failure.to_string()),
    }
    Ok(())
}

fn id_of(question: &Value) -> &str {
    question["id"].as_str().unwrap_or_default()
}

/// The body of a decision that outlasts this call, after a preview of what it covers. `None`: ask
/// again.
async fn lasting(client: &Client, question: &Value, scope: &str) -> Option<Value> {
    let choices = choices(question);
    output::line("what is allowed:");
    for (number, patterns) in choices.iter().enumerate() {
        output::line(format!("  {}  {}", number + 1, joined(patterns)));
    }
    let exact = client.get(&covers_path(id_of(question), scope, &[])).await.ok();
    if let Some(exact) = exact.filter(|exact| exact["covers"] == true) {
        match items(&exact["allows"]).is_empty() {
            true => output::line(format!("  e  {}", allowed(&Value::Null, &question["tool"]))),
            false => output::line("  e  exactly this call"),
        }
    }
    let chosen = output::typed("a number, e, a pattern of your own, Enter to go back: ")?;
    let number = chosen.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let patterns = match (chosen.as_str(), number.and_then(|at| choices.get(at))) {
        ("e", _) => Vec::new(),
        (_, Some(patterns)) => patterns.clone(),
        _ => own_patterns(&chosen),
    };
    if !preview(client, question, scope, &patterns).await {
        return None;
    }
    match output::typed("is that what you want? [y]es, Enter to go back: ")?.as_str() {
        "y" | "yes" => {}
        _ => return None,
    }
    Some(json!({"decision": "approve", "scope": scope, "patterns": patterns}))
}

/// Shows what the patterns cover; false if they do not cover this call.
async fn preview(client: &Client, question: &Value, scope: &str, patterns: &[String]) -> bool {
    let id = id_of(question);
    let found = match client.get(&covers_path(id, scope, patterns)).await {
        Ok(found) => found,
        Err(error) => {
            output::note(client.failure("see what that covers", error).to_string());
            return false;
        }
    };
    if found["covers"] != true {
        output::note(format!("that does not cover this call: {}", text(&found["why"])));
        return false;
    }
    let reach = if scope == "always" { "from now on" } else { "in this conversation" };
    let allows = allowed(&found["allows"], &question["tool"]);
    output::line(format!("it allows {reach}: {allows}"));
    let others = items(&found["others"]);
    match others.is_empty() {
        true => output::line("it covers this call, and nothing else that waits"),
        false => output::line("it covers this call, and approves these that wait too:"),
    }
    for other in others {
        let (tool, key) = (text(&other["tool"]), text(&other["session_key"]));
        output::line(format!("  {tool} in {key}: {}", text(&other["summary"])));
    }
    output::line(past(&found));
    true
}
