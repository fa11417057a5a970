//! What is counted, as a system that watches reads it.

use std::collections::BTreeMap;

use serde_json::json;
use skep_testkit::Reply;

use crate::stage::{Play, Stage};

/// Every line that is no comment: its name with labels, and its value.
async fn counts(play: &Play) -> BTreeMap<String, f64> {
    let answer = play.api().get("/metrics").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    let kind = answer.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(answer.text.ends_with("# EOF\n"), "{}", answer.text);
    let lines = answer.text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn channel_metrics_count_turns_calls_tools_and_requests() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().tool("look", json!({"text": "a"})).tool("made-up", json!({})));
    stage.model.push(Reply::say("there"));
    let play = stage.up().await;
    let _socket = play.ws().await;
    play.ask("main", "where?").await;
    play.api().get("/api/v1/agents/main/messages/nothing").await.unwrap();
    play.api().get("/no/such/place").await.unwrap();
    let counts = counts(&play).await;
    let count =
        |name: &str| *counts.get(name).unwrap_or_else(|| panic!("no {name} in {counts:#?}"));
    assert_eq!(count("skep_turns_total{outcome=\"done\"}"), 1.0);
    assert_eq!(count("skep_model_calls_total{profile=\"default\"}"), 2.0);
    assert!(count("skep_model_tokens_total{profile=\"default\",kind=\"output\"}") > 0.0);
    assert_eq!(count("skep_tool_calls_total{tool=\"look\",outcome=\"ok\"}"), 1.0);
    // What a model makes up has no line of its own.
    assert_eq!(count("skep_tool_calls_total{tool=\"other\",outcome=\"error\"}"), 1.0);
    assert_eq!(count("skep_sockets"), 1.0);
    assert_eq!(count("skep_work{state=\"queued\"}"), 0.0);
    let route = "/api/v1/agents/{agent}/messages/{id}";
    let followed =
        format!("skep_http_requests_total{{method=\"GET\",route=\"{route}\",status=\"404\"}}");
    assert_eq!(count(&followed), 1.0);
    assert_eq!(
        count("skep_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}"),
        1.0
    );
    assert!(count("skep_store_writes_total") >= count("skep_store_commits_total"));
    assert!(count("skep_store_commits_total") > 0.0);
    let later = self::counts(&play).await;
    for (name, value) in counts.iter().filter(|(name, _)| name.contains("_total")) {
        assert!(later[name] >= *value, "{name} went back");
    }
    let shown = play.api().get("/metrics").await.unwrap().text;
    for family in ["skep_store_commits", "skep_store_writes", "skep_turns", "skep_http_requests"] {
        assert!(shown.contains(&format!("# TYPE {family} counter\n")), "{shown}");
    }
    assert!(count("process_resident_memory_bytes") > 1e6 && count("process_open_fds") > 5.0);
    assert!(counts.keys().all(|name| !name.contains("session")), "{counts:#?}");
}
