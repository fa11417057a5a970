//! What an import takes and what it refuses, line by line.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn line(seq: i64, more: Value) -> String {
    let mut line = json!({
        "type": "history", "id": format!("m{seq}"), "agentId": "main", "sessionId": "s-1",
        "turn": "t.1", "seq": seq, "timestamp": 1000 + seq, "role": "user",
        "content": [{"type": "text", "text": "hello"}],
    });
    for (key, value) in more.as_object().unwrap() {
        line[key] = value.clone();
    }
    line.to_string()
}

fn call(seq: i64, id: &str) -> String {
    let blocks = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "toolCall", "id": id, "name": "read", "arguments": {"b": null, "a": 1.5}},
    ]);
    line(seq, json!({"role": "assistant", "content": blocks}))
}

fn answer(seq: i64, id: &str) -> String {
    let details = json!({"diff": "-a\n+b"});
    let more = json!({"role": "toolResult", "toolCallId": id, "toolName": "read",
                      "isError": false, "details": details});
    line(seq, more)
}

fn read_all(lines: &[String]) -> Result<Vec<Message>, String> {
    read(&AgentName::new("main"), &lines.join("\n"))
}

fn write_all(messages: &[Message]) -> String {
    messages.iter().map(|message| write(message, HistoryForm::Skep, "").unwrap()).collect()
}

fn with_file(data: Value) -> Value {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let file = json!({"type": "file", "name": "a.txt", "mime": "text/plain", "size": 3,
                      "hash": hash, "data": data});
    json!({"content": [file]})
}

#[test]
fn what_is_written_is_what_was_read() {
    let file = line(4, with_file("YWJj".into()));
    let lines = [line(1, json!({})), call(2, "c"), answer(3, "c"), file];
    let text = write_all(&read_all(&lines).unwrap());
    let again = read(&AgentName::new("main"), &text).unwrap();
    assert_eq!(write_all(&again), text);
    let given: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kept: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(given, kept);
}

#[test]
fn a_refusal_names_the_line_and_the_reason() {
    let first = || line(1, json!({}));
    let cases: Vec<(Vec<String>, &str)> = vec![
        (vec![first(), "{".to_owned()], "line 2: this is not JSON"),
        (vec![first(), String::new(), first()], "line 2: this is not JSON"),
        (vec![line(1, json!({"type": "other"}))], "line 1: `type` is not \"history\""),
        (vec![line(1, json!({"role": "robot"}))], "line 1: this is not a message"),
        (vec![line(1, json!({"seq": "1"}))], "line 1: this is not a message"),
        (vec![line(1, json!({"mood": "good"}))], "line 1: `mood` is not known here"),
        (
            vec![line(1, json!({"content": [{"type": "text", "text": "x", "bold": true}]}))],
            "line 1: `content.0.bold` is not known here",
        ),
        (vec![line(1, json!({"agentId": "cto"}))], "line 1: it belongs to the agent cto"),
        (vec![line(1, json!({"sessionId": "../../x"}))], "line 1: `sessionId` has 1 to 100"),
        (vec![line(1, json!({"id": "a\"b"}))], "line 1: `id` has 1 to 100"),
        (vec![line(1, json!({"turn": ""}))], "line 1: `turn` has 1 to 100"),
        (vec![line(1, with_file("YWJk".into()))], "line 1: the `data` of the file \"a.txt\""),
        (vec![line(1, with_file(Value::Null))], "line 1: the `data` of the file \"a.txt\""),
        (vec![line(2, json!({}))], "line 1: `seq` is 2, but 1 comes next"),
        (vec![first(), line(3, json!({}))], "line 2: `seq` is 3, but 2 comes next"),
        (vec![first(), line(2, json!({"sessionId": "s-2"}))], "line 2: it is of another session"),
        (vec![first(), answer(2, "c")], "line 2: no call before it is named `c`"),
        (vec![first(), call(2, "c"), line(3, json!({}))], "line 2: the call `c` has no result"),
    ];
    for (lines, expected) in cases {
        let said = read_all(&lines).unwrap_err();
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    let spent = |cost: Value| {
        let usage = json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0,
                           "totalTokens": 2, "cost": cost});
        let meta = json!({"provider": "p", "model": "m", "api": "a", "usage": usage,
                          "stopReason": "max_tokens"});
        read_all(&[line(1, json!({"role": "assistant", "meta": meta}))])
    };
    let changed = spent(json!(0.000_000_000_1)).unwrap_err();
    assert!(changed.starts_with("line 1: `meta.usage.cost` would be kept as 0"), "{changed}");
    // Other programs write 0.0 as 0; an answer that was cut off is marked for people.
    let read = spent(json!(0)).unwrap().remove(0);
    let text = write(&read, HistoryForm::Markdown, "").unwrap();
    assert!(text.ends_with("hello\n\n*Incomplete: output limit reached*\n\n"), "{text}");
    // Nothing is no loss.
    assert!(read_all(&[line(1, json!({"details": null}))]).is_ok());
}

#[test]
fn a_message_of_the_size_of_a_session_is_refused() {
    let sized = |bytes: usize| {
        let text = "x".repeat(bytes);
        line(1, json!({"content": [{"type": "text", "text": text}]}))
    };
    assert!(read_all(&[sized(MESSAGE_BYTES - 1000)]).is_ok());
    let refused = read_all(&[sized(MESSAGE_BYTES)]).unwrap_err();
    assert!(refused.starts_with("line 1: the message has 167773"), "{refused}");
}
