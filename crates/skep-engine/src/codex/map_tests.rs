#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::codex::wire::{Heard, hear};

fn map() -> Map {
    Map::new("t".to_owned(), PathBuf::from("/w"))
}

fn told(map: &mut Map, method: &str, mut params: Value) -> Result<Vec<Step>, String> {
    if params["threadId"].is_null() {
        params["threadId"] = json!("t");
    }
    let line = json!({"method": method, "params": params}).to_string();
    match hear(line.as_bytes())? {
        Heard::Notice(notice) => map.hear(notice),
        _ => Ok(Vec::new()),
    }
}

fn events(steps: Vec<Step>) -> Vec<EngineEvent> {
    let events = steps.into_iter().filter_map(|step| match step {
        Step::Event(event) => Some(event),
        _ => None,
    });
    events.collect()
}

fn command(status: &str) -> Value {
    json!({"item": {"type": "commandExecution", "id": "c", "command": "/bin/bash -c ls",
           "cwd": "/w", "status": status, "exitCode": 0, "aggregatedOutput": "a"}})
}

#[test]
fn messages_of_one_call_are_set_apart_and_pieces_are_not_told_twice() {
    let mut map = map();
    let message =
        |id: &str, text: &str| json!({"item": {"type": "agentMessage", "id": id, "text": text}});
    assert_eq!(told(&mut map, "item/started", message("a", "")).unwrap(), [Step::Call]);
    let delta = json!({"itemId": "a", "delta": "one"});
    let said = told(&mut map, "item/agentMessage/delta", delta).unwrap();
    assert_eq!(events(said), [EngineEvent::Text("one".to_owned())]);
    assert_eq!(told(&mut map, "item/completed", message("a", "one")).unwrap(), []);
    told(&mut map, "item/started", message("b", "")).unwrap();
    // One that came without pieces.
    let said = told(&mut map, "item/completed", message("b", "two")).unwrap();
    assert_eq!(events(said), [EngineEvent::Text("\n\ntwo".to_owned())]);
}

#[test]
fn only_a_call_that_was_asked_for_has_a_result_alone() {
    let told_ids = |steps: Vec<Step>| {
        let ids = events(steps).into_iter().map(|event| match event {
            EngineEvent::OwnCall { id, .. } => format!("started {id}"),
            EngineEvent::ToolResult { id, is_error, .. } => format!("result {id} {is_error}"),
            other => format!("{other:?}"),
        });
        ids.collect::<Vec<_>>()
    };
    let mut map = map();
    told(&mut map, "item/started", command("inProgress")).unwrap();
    assert!(map.runs());
    let asks = map.asks("c", None).unwrap();
    assert_eq!(asks[0].call.arguments, json!({"command": "ls"}));
    assert!(map.asks("c", None).is_err(), "once");
    let ended = told(&mut map, "item/completed", command("completed")).unwrap();
    assert_eq!(told_ids(ended), ["result c false"]);
    assert!(!map.runs());
    // Nobody was asked.
    told(&mut map, "item/started", command("inProgress")).unwrap();
    let ended = told(&mut map, "item/completed", command("failed")).unwrap();
    assert_eq!(told_ids(ended), ["started c", "result c true"]);
    // Refused by us, and not run.
    told(&mut map, "item/started", command("inProgress")).unwrap();
    map.refuse("c", "no");
    assert_eq!(told(&mut map, "item/completed", command("declined")).unwrap(), []);
    // Refused by us, and run all the same.
    told(&mut map, "item/started", command("inProgress")).unwrap();
    map.refuse("c", "no");
    let ended = told(&mut map, "item/completed", command("completed")).unwrap();
    assert_eq!(told_ids(ended), ["started c", "result c false"]);
    // An end without a beginning.
    let ended = told(&mut map, "item/completed", command("completed")).unwrap();
    assert_eq!(told_ids(ended), ["started c", "result c false"]);
}

#[test]
fn another_command_than_the_announced_one_is_not_asked_for() {
    let mut map = map();
    told(&mut map, "item/started", command("inProgress")).unwrap();
    let other = permissions::of_command("c", "/bin/bash -c 'rm x'", "/w", &map.workspace);
    assert!(map.asks("c", Some(other.map(|call| vec![call]))).is_err());
    assert!(map.asks("p", None).is_err(), "a patch that nobody knows");
}

#[test]
fn what_began_and_never_asked_is_told_before_the_end() {
    let mut map = map();
    let turn = |status: &str| json!({"turn": {"id": "x", "status": status}});
    told(&mut map, "turn/started", turn("inProgress")).unwrap();
    told(&mut map, "item/started", command("inProgress")).unwrap();
    let steps = told(&mut map, "turn/completed", turn("completed")).unwrap();
    assert_eq!(steps.last(), Some(&Step::Over(TurnEnd::Finished)));
    assert!(matches!(&steps[0], Step::Event(EngineEvent::OwnCall { id, .. }) if id.0 == "c"));
}

#[test]
fn only_this_turn_of_this_thread_ends_it() {
    let mut map = map();
    let end = |thread: &str, turn: &str| {
        let turn = json!({"id": turn, "status": "completed"});
        json!({"threadId": thread, "turn": turn})
    };
    let begun = json!({"turn": {"id": "x", "status": "inProgress"}});
    told(&mut map, "turn/started", begun).unwrap();
    assert_eq!(told(&mut map, "turn/completed", end("other", "x")).unwrap(), []);
    assert_eq!(told(&mut map, "turn/completed", end("t", "other")).unwrap(), []);
    assert!(told(&mut map, "turn/started", end("other", "y")).is_err());
    let over = told(&mut map, "turn/completed", end("t", "x")).unwrap();
    assert_eq!(over, [Step::Over(TurnEnd::Finished)]);
}

#[test]
fn tokens_of_this_turn_end_a_call() {
    let mut map = map();
    let used = |turn: &str, input: i64| {
        let last = json!({"inputTokens": input, "cachedInputTokens": 0, "outputTokens": 0,
                          "totalTokens": 9, "reasoningOutputTokens": 0});
        json!({"turnId": turn, "tokenUsage": {"last": last, "total": last}})
    };
    told(&mut map, "turn/started", json!({"turn": {"id": "x", "status": "inProgress"}})).unwrap();
    let method = "thread/tokenUsage/updated";
    // Of the turn before, and of none.
    assert_eq!(told(&mut map, method, used("y", 3)).unwrap(), []);
    assert_eq!(told(&mut map, method, used("x", 0)).unwrap(), []);
    assert!(matches!(told(&mut map, method, used("x", 3)).unwrap()[..], [Step::Counted(_)]));
}

#[test]
fn every_error_has_an_end() {
    let end = |message: &str, info: Value| {
        let mut map = map();
        told(&mut map, "turn/started", json!({"turn": {"id": "x", "status": "inProgress"}}))
            .unwrap();
        let error = json!({"message": message, "codexErrorInfo": info});
        let turn = json!({"turn": {"id": "x", "status": "failed", "error": error}});
        match told(&mut map, "turn/completed", turn).unwrap().pop() {
            Some(Step::Over(TurnEnd::Failed { code, .. })) => code.as_str().to_owned(),
            Some(Step::Over(TurnEnd::Retry { code, .. })) => format!("later {}", code.as_str()),
            other => format!("{other:?}"),
        }
    };
    for (message, info, expected) in [
        ("", json!("contextWindowExceeded"), "context_too_long"),
        ("{\"code\": \"context_length_exceeded\"}", json!("other"), "context_too_long"),
        ("no money [limit_cost]", json!("other"), "limit_cost"),
        ("no tokens [limit_tokens]", json!("badRequest"), "limit_tokens"),
        ("", json!("unauthorized"), "provider_auth"),
        ("", json!({"httpConnectionFailed": {"httpStatusCode": 401}}), "provider_auth"),
        (
            "",
            json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
            "later rate_limited",
        ),
        ("", json!("usageLimitExceeded"), "later rate_limited"),
        ("", json!("serverOverloaded"), "later overloaded"),
        ("", json!("internalServerError"), "later unavailable"),
        ("", json!({"httpConnectionFailed": {"httpStatusCode": 503}}), "later unavailable"),
        ("", json!({"httpConnectionFailed": {"httpStatusCode": 404}}), "provider_rejected"),
        ("", json!({"httpConnectionFailed": {"httpStatusCode": null}}), "later unreachable"),
        ("", json!({"responseStreamDisconnected": {}}), "later cut"),
        ("", json!("modelNotFound"), "provider_rejected"),
        ("", json!("newWord"), "provider_rejected"),
        ("", Value::Null, "provider_rejected"),
    ] {
        assert_eq!(end(message, info.clone()), expected, "{message} {info}");
    }
}

#[test]
fn a_thread_that_it_summed_up_is_left() {
    let mut map = map();
    let item = json!({"item": {"type": "contextCompaction", "id": "k"}});
    let steps = told(&mut map, "item/started", item).unwrap();
    let code = FailureCode::ContextTooLong;
    let [Step::Over(TurnEnd::Failed { code: told, .. })] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*told, code);
}
