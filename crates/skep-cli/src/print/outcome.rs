//! What became of a turn: how it ended without an answer, or when it is tried again.

use serde_json::Value;

use super::{Tone, foreign, stamp, text, time, toned};

/// `overloaded, try 2 of 4, next in 8s`; `now` by the hive's clock.
pub fn retry(retry: &Value, now: i64) -> String {
    let why = match retry["code"].as_str() {
        Some("rate_limited") => "rate limited".to_owned(),
        Some("unavailable") => "the model vendor failed".to_owned(),
        Some("unreachable") => "the model vendor cannot be reached".to_owned(),
        Some("timeout") => "the model vendor stays silent".to_owned(),
        Some("cut") => "the answer broke off".to_owned(),
        Some("unusable") => "the answer cannot be used".to_owned(),
        Some("engine_crashed") => "the engine crashed".to_owned(),
        _ => text(&retry["code"]),
    };
    let attempt = retry["attempt"].as_i64().map(|number| format!(", attempt {number} of the turn"));
    let attempt = attempt.unwrap_or_default();
    let tries = match (retry["try"].as_i64(), retry["of"].as_i64()) {
        (Some(number), Some(of)) if retry["scope"] == "turn" => {
            format!(", attempt {number} of {of} of the turn")
        }
        (Some(number), Some(of)) => format!("{attempt}, try {number} of {of}"),
        _ => String::new(),
    };
    let pause = retry["next_at"].as_i64().unwrap_or(now).saturating_sub(now);
    // Rounded up: `0s` would be now.
    format!("{why}{tries}, next in {}", time::span(pause.max(0).saturating_add(999)))
}

/// What an answer says of itself that is not whole, by why the model stopped.
pub fn incomplete(stop_reason: &Value) -> Option<&'static str> {
    match stop_reason.as_str()? {
        "max_tokens" => Some("Incomplete: output limit reached"),
        "refusal" => Some("The model refused to continue"),
        _ => None,
    }
}

/// How a turn ended: `the model vendor refused the key (401) (provider_auth)`.
pub fn why(turn: &Value) -> String {
    match (turn["error"].as_str(), turn["code"].as_str()) {
        (Some(error), Some(code)) => format!("{} ({})", foreign(error), foreign(code)),
        (Some(error), None) => foreign(error),
        (None, Some(code)) => foreign(code),
        (None, None) => "the answer is empty".to_owned(),
    }
}

/// A row of the history that is no message.
pub fn lines(turn: &Value, now: i64) -> Vec<String> {
    let state = text(&turn["state"]);
    let at = match turn["ended_at"].is_null() {
        true => stamp(&turn["started_at"]),
        false => stamp(&turn["ended_at"]),
    };
    let tone = if state == "failed" { Tone::Bad } else { Tone::Strong };
    let head = match state.as_str() {
        "empty" => "turn ended with an empty answer".to_owned(),
        state => format!("turn {state}"),
    };
    let mut lines = vec![format!("{} {}", toned(&at, Tone::Faint), toned(&head, tone))];
    if state != "empty" {
        lines.extend(why(turn).lines().map(|line| format!("  {line}")));
    }
    if !turn["retry"].is_null() {
        lines.push(format!("  {}", retry(&turn["retry"], now)));
    }
    lines.push(match turn["tools_run"].as_i64() {
        Some(1) => "  1 tool call was run".to_owned(),
        Some(count) if count > 1 => format!("  {count} tool calls were run"),
        _ => "  no tool was run".to_owned(),
    });
    match (turn["retried_as"].as_str(), turn["item"].as_str()) {
        (Some(item), _) => lines.push(format!("  tried again as {}", foreign(item))),
        (None, Some(item)) if state != "retrying" => {
            lines.push(format!("  next: skep task retry {}", foreign(item)));
        }
        _ => {}
    }
    lines.push(String::new());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pause_says_why_which_try_and_when() {
        let cases = [
            (json!({"code": "overloaded", "try": 2, "of": 4, "next_at": 8600}), 600),
            (json!({"code": "rate_limited", "next_at": 91_000}), 0),
            (json!({"scope": "turn", "code": "cut", "try": 2, "of": 3, "next_at": 1000}), 0),
            (json!({"attempt": 2, "code": "cut", "try": 2, "of": 4, "next_at": 1000}), 900),
            (json!({"code": "cut", "try": 2, "of": 4, "next_at": 10}), 900),
        ];
        let expected = [
            "overloaded, try 2 of 4, next in 8s",
            "rate limited, next in 1m 31s",
            "the answer broke off, attempt 2 of 3 of the turn, next in 1s",
            "the answer broke off, attempt 2 of the turn, try 2 of 4, next in 1s",
            "the answer broke off, try 2 of 4, next in 0s",
        ];
        for ((case, now), expected) in cases.iter().zip(expected) {
            assert_eq!(retry(case, *now), expected);
        }
    }

    #[test]
    fn a_turn_without_an_answer_says_what_why_and_how_to_try_again() {
        let turn = json!({
            "state": "failed", "ended_at": 1000, "started_at": 0, "code": "provider_auth",
            "error": "the model vendor refused the key (401)", "tools_run": 0, "item": "i-1",
        });
        let expected = "\
1970-01-01 00:00:01Z turn failed
  the model vendor refused the key (401) (provider_auth)
  no tool was run
  next: skep task retry i-1
";
        assert_eq!(lines(&turn, 0).join("\n"), expected);
        let turn = json!({
            "state": "retrying", "started_at": 0, "code": "overloaded", "error": "busy",
            "tools_run": 2, "item": "i-1",
            "retry": {"code": "overloaded", "try": 2, "of": 3, "next_at": 30_000},
        });
        let expected = "\
1970-01-01 00:00:00Z turn retrying
  busy (overloaded)
  overloaded, try 2 of 3, next in 20s
  2 tool calls were run
";
        assert_eq!(lines(&turn, 10_000).join("\n"), expected);
        let turn = json!({
            "state": "empty", "ended_at": 0, "started_at": 0, "tools_run": 1, "item": "i-1",
            "retried_as": "i-2",
        });
        let expected = "\
1970-01-01 00:00:00Z turn ended with an empty answer
  1 tool call was run
  tried again as i-2
";
        assert_eq!(lines(&turn, 0).join("\n"), expected);
    }
}
