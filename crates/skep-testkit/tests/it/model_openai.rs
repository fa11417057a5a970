//! The scripted model on the OpenAI wires: shapes, questions about requests, refusals.

use reqwest::Response;
use serde_json::{Value, json};
use skep_testkit::model::{Usage, Wire, signature_of};
use skep_testkit::{Reply, ScriptedModel};

use crate::model::{client, events};

async fn post(model: &ScriptedModel, wire: Wire, body: &Value) -> Response {
    let url = format!("{}{}", model.base_url(), wire.path());
    let request = match wire {
        Wire::Anthropic => {
            client().post(url).header("x-api-key", "key").header("anthropic-version", "2023-06-01")
        }
        Wire::OpenAiChat | Wire::OpenAiResponses => client().post(url).bearer_auth("key"),
    };
    request.json(body).send().await.unwrap()
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "path": { "type": "string" } } })
}

/// A request with this conversation.
fn body(wire: Wire, stream: bool, conversation: Value) -> Value {
    let mut body = json!({ "model": "m", "stream": stream });
    body[wire.conversation()] = conversation;
    match wire {
        Wire::Anthropic => {
            body["max_tokens"] = json!(100);
            body["system"] = json!("Be brief.");
            body["tools"] = json!([{ "name": "read", "input_schema": schema() }]);
        }
        Wire::OpenAiChat => {
            let function = json!({ "name": "read", "parameters": schema() });
            body["tools"] = json!([{ "type": "function", "function": function }]);
            if stream {
                body["stream_options"] = json!({ "include_usage": true });
            }
        }
        Wire::OpenAiResponses => {
            body["instructions"] = json!("Be brief.");
            body["store"] = json!(false);
            body["include"] = json!(["reasoning.encrypted_content"]);
            body["tools"] = json!([{ "type": "function", "name": "read",
                "parameters": schema(), "strict": false }]);
        }
    }
    body
}

fn hello(wire: Wire) -> Value {
    match wire {
        Wire::OpenAiChat => json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "hello" },
        ]),
        Wire::Anthropic | Wire::OpenAiResponses => json!([{ "role": "user", "content": "hello" }]),
    }
}

fn full() -> Reply {
    Reply::new()
        .thinking("hm")
        .redacted_thinking("opaque")
        .text_in(["Hel", "lo"])
        .tool_with_id("call_1", "read", json!({ "path": "a" }))
        .tool_with_id("call_2", "read", json!({}))
        .usage(Usage {
            input_tokens: Some(11),
            output_tokens: Some(7),
            cache_creation_input_tokens: 3,
            cache_read_input_tokens: 5,
        })
}

#[tokio::test]
async fn chat_streams_chunks_in_the_shapes_of_the_real_wire() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(full());
    let wire = Wire::OpenAiChat;
    let text = post(&model, wire, &body(wire, true, hello(wire))).await.text().await.unwrap();
    let mut lines: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(lines.pop(), Some("data: [DONE]"));
    let chunks: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    let (last, rest) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 19);
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    assert_eq!(last["usage"]["total_tokens"], 26);
    let opened = |index: usize, id: &str| {
        let function = json!({ "name": "read", "arguments": "" });
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function",
            "function": function }] })
    };
    let piece = |index: usize, text: &str| {
        json!({ "tool_calls": [{ "index": index,
        "function": { "arguments": text } }] })
    };
    let deltas: Vec<&Value> = rest.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    let expected = [
        json!({ "role": "assistant", "content": "", "refusal": null }),
        json!({ "reasoning_content": "hm" }),
        json!({ "content": "Hel" }),
        json!({ "content": "lo" }),
        opened(0, "call_1"),
        piece(0, "{\"path\":\"a\"}"),
        opened(1, "call_2"),
        piece(1, "{}"),
        json!({}),
    ];
    assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn responses_stream_items_in_the_shapes_of_the_real_wire() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(full());
    let wire = Wire::OpenAiResponses;
    let text = post(&model, wire, &body(wire, true, hello(wire))).await.text().await.unwrap();
    let events = events(&text);
    assert!(events.iter().all(|(name, data)| data["type"] == **name));
    let numbers: Vec<u64> =
        events.iter().map(|(_, data)| data["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let names: Vec<&str> = events
        .iter()
        .map(|(name, _)| name.strip_prefix("response.").unwrap_or(name.as_str()))
        .collect();
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, expected);
    let response = &events.last().unwrap().1["response"];
    assert_eq!(response["usage"]["input_tokens"], 19);
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 5);
    let output = response["output"].as_array().unwrap();
    assert_eq!(output[0]["encrypted_content"], signature_of("hm"));
    assert_eq!(output[0]["summary"], json!([{ "type": "summary_text", "text": "hm" }]));
    assert_eq!(
        (&output[1]["encrypted_content"], &output[1]["summary"]),
        (&json!("opaque"), &json!([]))
    );
    assert_eq!(output[2]["content"][0]["text"], "Hello");
    assert_eq!(output[3]["arguments"], "{\"path\":\"a\"}");
    let done: Vec<&Value> = events
        .iter()
        .filter(|(name, _)| name == "response.output_item.done")
        .map(|(_, data)| &data["item"])
        .collect();
    assert_eq!(done, output.iter().collect::<Vec<_>>());
}

/// The answer as one message, put back into the conversation with results for its calls.
fn continued(wire: Wire, answer: &Value, results: [&str; 2]) -> Value {
    let mut conversation = hello(wire).as_array().unwrap().clone();
    let ids = ["call_1", "call_2"];
    let pairs = ids.iter().zip(results);
    match wire {
        Wire::Anthropic => {
            conversation.push(json!({ "role": "assistant", "content": answer["content"] }));
            let blocks: Vec<Value> = pairs
                .map(|(id, text)| {
                    let error = text.strip_prefix("Error: ");
                    json!({ "type": "tool_result", "tool_use_id": id,
                        "content": error.unwrap_or(text), "is_error": error.is_some() })
                })
                .collect();
            conversation.push(json!({ "role": "user", "content": blocks }));
        }
        Wire::OpenAiChat => {
            let mut message = answer["choices"][0]["message"].clone();
            // OpenAI takes no thinking back here.
            message.as_object_mut().unwrap().remove("reasoning_content");
            conversation.push(message);
            conversation.extend(
                pairs.map(
                    |(id, text)| json!({ "role": "tool", "tool_call_id": id, "content": text }),
                ),
            );
        }
        Wire::OpenAiResponses => {
            conversation.extend(answer["output"].as_array().unwrap().clone());
            conversation.extend(pairs.map(|(id, text)| {
                json!({ "type": "function_call_output", "call_id": id, "output": text })
            }));
        }
    }
    conversation.into()
}

#[tokio::test]
async fn requests_answer_the_same_questions_on_every_wire() {
    for wire in Wire::ALL {
        let model = ScriptedModel::start().await.unwrap();
        model.require_key("key");
        model.push_all([full(), Reply::say("done")]);
        let answer = post(&model, wire, &body(wire, false, hello(wire))).await;
        let answer: Value = answer.json().await.unwrap();
        let results = ["fine", "Error: not fine"];
        let next = body(wire, true, continued(wire, &answer, results));
        let status = post(&model, wire, &next).await.status();
        assert_eq!((status.as_u16(), model.refusals()), (200, vec![]), "{wire:?}");
        let (first, second) = (&model.requests()[0], &model.requests()[1]);
        assert_eq!((first.wire, first.key()), (wire, Some("key")));
        assert_eq!((first.steps_done(), second.steps_done()), (0, 1), "{wire:?}");
        assert_eq!(second.last_user_text(), "hello", "{wire:?}");
        assert_eq!(second.system_text(), "Be brief.", "{wire:?}");
        assert_eq!(second.tool_names(), ["read"], "{wire:?}");
        let told: Vec<_> = second
            .last_tool_results()
            .into_iter()
            .map(|result| (result.id, result.text, result.is_error))
            .collect();
        let expected = [("call_1", "fine", false), ("call_2", "not fine", true)];
        let expected = expected.map(|(id, text, error)| (id.to_owned(), text.to_owned(), error));
        assert_eq!(told, expected, "{wire:?}");
        assert_eq!(second.tool_results().len(), 2);
    }
}

#[tokio::test]
async fn faults_have_the_status_and_shape_of_each_wire() {
    let cases = [
        (Reply::rate_limited(Some("7")), 429, json!("rate_limit_exceeded")),
        (Reply::server_error(), 500, Value::Null),
        (Reply::overloaded(), 503, json!("server_is_overloaded")),
        (Reply::unauthorized(), 401, json!("invalid_api_key")),
        (Reply::forbidden(), 403, Value::Null),
        (Reply::not_found(), 404, json!("model_not_found")),
        (Reply::context_too_long(), 400, json!("context_length_exceeded")),
    ];
    for wire in [Wire::OpenAiChat, Wire::OpenAiResponses] {
        let model = ScriptedModel::start().await.unwrap();
        for (reply, status, code) in cases.clone() {
            model.push(reply);
            let answer = post(&model, wire, &body(wire, true, hello(wire))).await;
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
            let error: Value = answer.json().await.unwrap();
            assert_eq!(error["error"]["code"], code);
            assert!(error["error"]["message"].is_string() && error["error"]["type"].is_string());
        }
        model.push(Reply::new().text("a").error_event("overloaded_error", "Overloaded"));
        let text = post(&model, wire, &body(wire, true, hello(wire))).await.text().await.unwrap();
        assert!(text.contains("server_is_overloaded"), "{text}");
        assert!(!text.contains("[DONE]") && !text.contains("response.completed"), "{text}");
    }
}
