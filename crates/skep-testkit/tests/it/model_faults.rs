//! Every fault the model can be told to have, as a client sees it.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::Value;
use skep_testkit::model::Ending;
use skep_testkit::{Reply, ScriptedModel};

use crate::model::{hello, post};

/// What arrived and whether the stream ended properly.
async fn received(model: &ScriptedModel) -> (Vec<u8>, bool) {
    let Ok(answer) = post(model, &hello(true)).await else {
        return (Vec::new(), false);
    };
    let mut stream = answer.bytes_stream();
    let mut seen = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => seen.extend_from_slice(&chunk),
            Err(_) => return (seen, false),
        }
    }
    (seen, true)
}

#[tokio::test]
async fn error_answers_have_the_status_and_shape_of_the_real_service() {
    let cases = [
        (Reply::rate_limited(Some("7")), 429, "rate_limit_error"),
        (Reply::rate_limited(None), 429, "rate_limit_error"),
        (Reply::server_error(), 500, "api_error"),
        (Reply::overloaded(), 529, "overloaded_error"),
        (Reply::unauthorized(), 401, "authentication_error"),
        (Reply::forbidden(), 403, "permission_error"),
        (Reply::bad_request("no"), 400, "invalid_request_error"),
        (Reply::too_large(), 413, "request_too_large"),
        (Reply::context_too_long(), 400, "invalid_request_error"),
    ];
    let model = ScriptedModel::start().await.unwrap();
    for (reply, status, kind) in cases {
        let with_hint = format!("{reply:?}").contains("Some(\"7\")");
        model.push(reply);
        let answer = post(&model, &hello(true)).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(answer.headers().get("retry-after").is_some(), with_hint);
        let body: Value = answer.json().await.unwrap();
        assert_eq!((&body["type"], &body["error"]["type"]), (&"error".into(), &kind.into()));
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn cuts_at_every_byte_and_delivers_exactly_what_came_before() {
    let model = ScriptedModel::start().await.unwrap();
    let reply = || Reply::new().tool_with_id("toolu_1", "read", serde_json::json!({ "path": "a" }));
    model.push(reply());
    let (whole, ended) = received(&model).await;
    assert!(ended);
    let step = if skep_testkit::all() { 1 } else { 29 };
    for bytes in (0..whole.len()).step_by(step) {
        model.push(reply().cut_after(bytes));
        let (seen, ended) = received(&model).await;
        assert!(!ended, "cut after {bytes}");
        assert_eq!(seen.len(), bytes);
        let last = model.requests().len();
        assert_eq!(model.wait_for_end(last).await.unwrap(), Ending::Cut);
    }
}

#[tokio::test]
async fn cuts_inside_the_arguments() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::new().open_tool("read").delta("{\"path\":\"/et").cut());
    let (seen, ended) = received(&model).await;
    let seen = String::from_utf8(seen).unwrap();
    assert!(!ended && seen.contains("/et") && !seen.contains("content_block_stop"));
}

#[tokio::test]
async fn pages_garbage_and_nothing_instead_of_a_stream() {
    let model = ScriptedModel::start().await.unwrap();
    for status in [200, 502] {
        model.push(Reply::html(status));
        let answer = post(&model, &hello(true)).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert!(answer.text().await.unwrap().starts_with("<!DOCTYPE html>"));
    }
    model.push_all([Reply::empty(), Reply::garbage(), Reply::new().text("a").raw("data: }{\n\n")]);
    assert_eq!(received(&model).await, (Vec::new(), true));
    let (garbage, ended) = received(&model).await;
    assert!(ended && garbage.contains(&0));
    let (mixed, _) = received(&model).await;
    assert!(String::from_utf8(mixed).unwrap().contains("data: }{"));
}

#[tokio::test]
async fn an_error_event_ends_the_stream() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::new().text("a").error_event("overloaded_error", "Overloaded"));
    let (seen, ended) = received(&model).await;
    let seen = String::from_utf8(seen).unwrap();
    assert!(ended && seen.contains("event: error") && !seen.contains("message_stop"));
}

#[tokio::test]
async fn trickles_and_splits_without_losing_a_byte() {
    let model = ScriptedModel::start().await.unwrap();
    let arguments = serde_json::json!({ "path": "ä" });
    let reply = || Reply::new().tool_with_id("toolu_1", "read", arguments.clone());
    model.push_all([reply(), reply().chunked(3)]);
    let (whole, _) = received(&model).await;
    let (split, _) = received(&model).await;
    assert_eq!(split.len(), whole.len());
    model.push(reply().trickle(Duration::from_micros(200)));
    let start = Instant::now();
    let (slow, ended) = received(&model).await;
    assert!(ended && slow.len() == whole.len());
    assert!(start.elapsed() > Duration::from_micros(200) * whole.len() as u32);
}

#[tokio::test]
async fn fifty_calls_in_one_answer() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::fifty_calls("read"));
    let message: Value = post(&model, &hello(false)).await.unwrap().json().await.unwrap();
    let ids: std::collections::HashSet<&str> = message["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 50);
}
