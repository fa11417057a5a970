#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use skep_core::ids::CallId;
use skep_core::message::Meta;

use super::*;

/// Feeds chunks and the last word; the result is what was decoded, and the error that ended it.
fn decode(chunks: &[Value]) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = Decoder::default();
    let mut decoded = Vec::new();
    for chunk in chunks {
        let event = SseEvent { name: String::new(), data: chunk.to_string() };
        if let Err(error) = decoder.read(&event, &mut decoded) {
            return (decoded, Some(error.told("", String::new)));
        }
    }
    let failure = decoder.close(Last::Word, &mut decoded).err();
    (decoded, failure)
}

fn delta(delta: Value) -> Value {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    json!({"id": "c", "model": "m-1", "choices": [choice], "usage": null})
}

fn call(index: u64, id: &str, arguments: &str) -> Value {
    let function = json!({"name": "read", "arguments": arguments});
    delta(json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
}

fn more(index: u64, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
}

fn finish(reason: &str) -> Value {
    json!({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn usage() -> Value {
    let details = json!({"cached_tokens": 30, "cache_write_tokens": 20});
    json!({"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 7,
        "total_tokens": 67, "prompt_tokens_details": details}})
}

fn end(stop_reason: StopReason, usage: Usage) -> ModelEvent {
    ModelEvent::End(Meta {
        profile: None,
        provider: "openai".to_owned(),
        model: "m-1".to_owned(),
        api: "openai-chat".to_owned(),
        usage,
        stop_reason,
    })
}

fn told(id: &str, arguments: Value) -> ModelEvent {
    ModelEvent::ToolCall { id: CallId::new(id), name: "read".to_owned(), arguments }
}

fn reason_of(chunks: &[Value]) -> StopReason {
    match decode(chunks).0.last() {
        Some(ModelEvent::End(meta)) => meta.stop_reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_answer_with_interleaved_calls_and_exact_usage() {
    let chunks = [
        delta(json!({"role": "assistant", "content": "", "refusal": null})),
        delta(json!({"reasoning_content": "h"})),
        delta(json!({"reasoning": "m"})),
        delta(json!({"content": "I "})),
        delta(json!({"content": "look", "reasoning": {"other": "shape"}})),
        call(0, "a", ""),
        call(1, "b", "{"),
        more(0, "{\"file_path\": "),
        more(1, "}"),
        more(0, "\"ä\"}"),
        call(2, "c", ""),
        delta(json!({})),
        finish("tool_calls"),
        usage(),
    ];
    let expected = vec![
        ModelEvent::Thinking("h".to_owned()),
        ModelEvent::Thinking("m".to_owned()),
        ModelEvent::Text("I ".to_owned()),
        ModelEvent::Text("look".to_owned()),
        told("a", json!({"file_path": "ä"})),
        told("b", json!({})),
        told("c", json!({})),
        end(StopReason::ToolUse, Usage::new(10, 7, 30, 20)),
    ];
    assert_eq!(decode(&chunks), (expected, None));
}

/// An answer is not lost because its vendor cannot count.
#[test]
fn counts_that_are_none_are_no_reason_to_lose_the_answer() {
    let cases = [
        (json!(-5), json!("12"), Usage::new(0, 0, 0, 0)),
        (json!(null), json!([1]), Usage::new(0, 0, 0, 0)),
        (json!(7.0), json!(1e30), Usage::new(7, u64::MAX, 0, 0)),
        (json!({"a": 1}), json!(3), Usage::new(0, 3, 0, 0)),
    ];
    for (prompt, completion, usage) in cases {
        let counts = json!({"prompt_tokens": prompt, "completion_tokens": completion,
                            "prompt_tokens_details": {"cached_tokens": "many"}});
        let told = json!({"id": "c", "model": "m-1", "choices": [], "usage": counts});
        let chunks = [delta(json!({"content": "yes"})), finish("stop"), told];
        let expected = vec![ModelEvent::Text("yes".to_owned()), end(StopReason::EndTurn, usage)];
        assert_eq!(decode(&chunks), (expected, None), "{counts}");
    }
}

/// Each is the way of some compatible server.
#[test]
fn calls_are_told_apart_without_a_good_index() {
    let no_index = |id: &str, arguments: &str| {
        let function = json!({"name": "read", "arguments": arguments});
        delta(json!({"tool_calls": [{"id": id, "function": function}]}))
    };
    let tail = delta(json!({"tool_calls": [{"function": {"arguments": "}"}}]}));
    let repeated = call(0, "a", "}");
    let table = [
        ("one index", vec![call(0, "a", "{}"), call(0, "b", "{}")]),
        ("no index", vec![no_index("a", "{}"), no_index("b", "{"), tail]),
        ("id repeated", vec![call(0, "a", "{"), repeated, call(1, "b", "{}")]),
    ];
    for (name, mut chunks) in table {
        chunks.push(finish("stop"));
        let (events, failure) = decode(&chunks);
        assert_eq!(failure, None, "{name}");
        assert_eq!(events[..2], [told("a", json!({})), told("b", json!({}))], "{name}");
        assert_eq!(reason_of(&chunks), StopReason::ToolUse, "{name}");
    }
}

#[test]
fn every_reason_has_its_word() {
    let table = [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("tool_calls", StopReason::ToolUse),
        ("something_new", StopReason::Other),
    ];
    for (word, expected) in table {
        assert_eq!(reason_of(&[finish(word)]), expected, "{word}");
    }
    let refused = delta(json!({"refusal": "I will not."}));
    assert_eq!(reason_of(&[refused, finish("stop")]), StopReason::Refusal);
}

#[test]
fn a_call_cut_by_the_output_limit_is_left_out() {
    let chunks = [call(0, "a", "{}"), call(1, "b", "{\"file"), finish("length")];
    let expected = vec![told("a", json!({})), end(StopReason::MaxTokens, Usage::default())];
    assert_eq!(decode(&chunks), (expected, None));
}

#[test]
fn what_makes_no_sense_is_passing_and_gives_no_call() {
    let table = [
        ("stray piece", vec![more(0, "{}"), finish("tool_calls")]),
        ("no object", vec![json!("x")]),
        ("wrong shape", vec![json!({"choices": 1})]),
    ];
    for (name, chunks) in table {
        let (decoded, error) = decode(&chunks);
        assert!(matches!(error, Some(ModelError::Passing { .. })), "{name}: {error:?}");
        assert_eq!(decoded, [], "{name}");
    }
}

#[test]
fn an_error_ends_the_answer() {
    let error = |error: Value| decode(&[json!({"error": error})]).1.unwrap().to_string();
    let overloaded =
        json!({"message": "x", "type": "server_error", "code": "server_is_overloaded"});
    assert_eq!(error(overloaded), "the model vendor is overloaded: x");
    assert_eq!(error(json!("x")), "the model vendor failed in the middle of its answer: x");
}
