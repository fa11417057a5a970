#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn lines_are_told_apart() {
    let heard = |line: &str| hear(line.as_bytes());
    assert!(matches!(
        heard("{\"id\":3,\"result\":{}}"),
        Ok(Heard::Answer { id: 3, answer: Ok(_) })
    ));
    let failed = heard("{\"error\":{\"code\":-32600,\"message\":\"no\"},\"id\":4}");
    assert!(matches!(failed, Ok(Heard::Answer { id: 4, answer: Err(why) }) if why == "no"));
    let asked = heard("{\"method\":\"m\",\"id\":\"a\",\"params\":{\"x\":1}}").unwrap();
    let Heard::Request { id, method, params } = asked else { panic!("no request") };
    assert_eq!((id, method.as_str(), params.get()), (json!("a"), "m", "{\"x\":1}"));
    let talk = heard("{\"method\":\"thread/status/changed\",\"params\":{},\"emittedAtMs\":1}");
    assert!(matches!(talk, Ok(Heard::Talk)));
    for line in [
        "",
        "[]",
        "{}",
        "{\"id\":1}",
        "{\"id\":{},\"method\":\"m\"}",
        "{\"id\":\"x\",\"result\":{}}",
        "{\"id\":1,\"result\":{},\"error\":{\"message\":\"\"}}",
        "{\"method\":\"turn/completed\"}",
        "{\"method\":\"turn/completed\",\"params\":\
         {\"threadId\":\"t\",\"turn\":{\"id\":\"t\",\"status\":\"odd\"}}}",
        "{\"method\":\"hook/started\",\"params\":{}}",
    ] {
        assert!(heard(line).is_err(), "{line}");
    }
}

/// Everything that was recorded can be read, but for what is off here.
#[test]
fn what_was_recorded_is_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/codex");
    let mut notices = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let method = line["msg"]["method"].as_str().unwrap_or_default();
            let off = NEVER.iter().any(|start| method.starts_with(start));
            let heard = hear(line["msg"].to_string().as_bytes());
            assert_eq!(heard.is_err(), off, "{heard:?} of {line}");
            notices += usize::from(matches!(heard, Ok(Heard::Notice(_))));
        }
    }
    assert!(notices > 400, "{notices}");
}

/// What is read, by the program's own schema: the fields exist, and those without a default here
/// are required there.
#[test]
fn the_schema_of_the_program_has_what_is_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(path.join("tests/recorded/codex_schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let expected: [(&str, &[&str], &[&str]); 13] = [
        ("TurnCompletedNotification", &["threadId", "turn"], &[]),
        ("TurnStartedNotification", &["threadId", "turn"], &[]),
        ("Turn", &["id", "status"], &["error"]),
        ("TurnError", &["message"], &["codexErrorInfo"]),
        ("ErrorNotification", &["threadId", "error", "willRetry"], &[]),
        ("ItemStartedNotification", &["threadId", "item"], &[]),
        ("ItemCompletedNotification", &["threadId", "item"], &[]),
        ("AgentMessageDeltaNotification", &["threadId", "itemId", "delta"], &[]),
        ("ThreadTokenUsageUpdatedNotification", &["threadId", "turnId", "tokenUsage"], &[]),
        (
            "TokenUsageBreakdown",
            &["inputTokens", "cachedInputTokens", "outputTokens"],
            &["cacheWriteInputTokens"],
        ),
        (
            "CommandExecutionRequestApprovalParams",
            &["threadId", "itemId"],
            &["kind", "command", "cwd", "additionalPermissions", "networkApprovalContext"],
        ),
        ("FileChangeRequestApprovalParams", &["threadId", "itemId"], &["grantRoot"]),
        ("DynamicToolCallParams", &["threadId", "callId", "tool", "arguments"], &["namespace"]),
    ];
    for (name, required, optional) in expected {
        let told = &schema[name];
        let needs: Vec<&str> =
            told["required"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        for field in required {
            assert!(needs.contains(field), "{name}.{field} is not required");
        }
        for field in required.iter().chain(optional) {
            let known = told["properties"].as_array().unwrap().iter().any(|it| it == field);
            assert!(known, "{name} has no {field}");
        }
    }
    // Every kind of item that is read, and every word of an error that is.
    let items: Vec<&str> =
        schema["ThreadItem"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    for kind in [
        "userMessage",
        "agentMessage",
        "reasoning",
        "commandExecution",
        "fileChange",
        "dynamicToolCall",
        "plan",
        "contextCompaction",
    ] {
        assert!(items.contains(&kind), "{kind}");
    }
}
