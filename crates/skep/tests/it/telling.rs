//! What a journey left behind, in lines short enough to compare as a whole.

use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::http::Events;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{WsClient, ws};

use crate::stage::Play;

/// `user hello`, `assistant tool_use: I look. + look {"text":"a"}`, `result look: looked at a`,
/// `result! effect: outcome unknown…` for an error.
pub fn lines(history: &[Value]) -> Vec<String> {
    history.iter().map(line).collect()
}

fn line(row: &Value) -> String {
    let blocks = row["content"].as_array().unwrap().iter();
    let content: Vec<String> = blocks.map(block).collect();
    let content = content.join(" + ");
    match row["role"].as_str().unwrap() {
        "user" => format!("user {content}"),
        "assistant" => {
            format!("assistant {}: {content}", row["meta"]["stopReason"].as_str().unwrap())
        }
        "toolResult" => {
            let mark = if row["isError"] == true { "!" } else { "" };
            format!("result{mark} {}: {content}", row["toolName"].as_str().unwrap())
        }
        other => format!("{other} {content}"),
    }
}

fn block(block: &Value) -> String {
    match block["type"].as_str().unwrap() {
        "toolCall" => format!("{} {}", block["name"].as_str().unwrap(), block["arguments"]),
        "thinking" => format!("({})", block["thinking"].as_str().unwrap()),
        _ => block["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// `ack m1 started`, `response m1,m2: text`, `error m1: interrupted`, in order of their seq, which
/// has no holes.
pub fn frames(client: &WsClient) -> Vec<String> {
    let seqs: Vec<u64> = client.durable().keys().copied().collect();
    let first = seqs.first().copied().unwrap_or(1);
    assert_eq!(seqs, (first..first + seqs.len() as u64).collect::<Vec<_>>(), "holes in seq");
    client.durable().values().map(frame).collect()
}

pub fn frame(frame: &Value) -> String {
    let word = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
    let to = ws::replies_to(frame).collect::<Vec<_>>().join(",");
    match word("type").as_str() {
        "ack" => format!("ack {} {}", word("message_id"), word("state")),
        "response" => format!("response {to}: {}", word("content")),
        "error" => format!("error {to}: {}", word("code")),
        other => other.to_owned(),
    }
}

/// The calls of a history: (turn, call id, tool).
pub fn calls(history: &[Value]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = Vec::new();
    for row in history {
        for block in row["content"].as_array().unwrap() {
            if block["type"] == "toolCall" {
                found.push((text(&row["turn"]), text(&block["id"]), text(&block["name"])));
            }
        }
    }
    found
}

impl Play {
    /// Sends with a wish; the receipt.
    pub async fn tell_mode(&self, agent: &str, session: &str, text: &str, mode: &str) -> Value {
        let path = format!("/api/v1/agents/{agent}/messages");
        let body = json!({"message": text, "session_key": session, "mode": mode});
        self.api().post(&path, &body).await.unwrap().good().unwrap()
    }

    /// Sends without waiting; the item's id.
    pub async fn item(&self, agent: &str, session: &str, text: &str) -> String {
        self.tell(agent, session, text).await["item_id"].as_str().unwrap().to_owned()
    }

    /// Ends the running turn of a session; whether there was one.
    pub async fn stop(&self, agent: &str, session: &str) -> bool {
        let path = format!("/api/v1/agents/{agent}/stop");
        let answer = self.api().post(&path, &json!({"session_key": session})).await.unwrap();
        answer.good().unwrap()["stopped"].as_bool().unwrap()
    }

    /// The message as it stands.
    pub async fn look_at(&self, agent: &str, item: &str) -> Value {
        let path = format!("/api/v1/agents/{agent}/messages/{item}");
        self.api().get(&path).await.unwrap().good().unwrap()
    }

    /// Waits until the message is in this state.
    pub async fn until_state(&self, agent: &str, item: &str, state: &str) -> Value {
        let what = format!("{item} to be {state}");
        let found = wait::until_async(&what, PATIENCE, || async {
            let found = self.look_at(agent, item).await;
            (found["state"] == state).then_some(found)
        });
        found.await.unwrap()
    }

    /// The end of an item, also of an agent that is gone.
    pub async fn inbox_ended(&self, item: &str) -> Value {
        let path = format!("/api/v1/inbox/{item}");
        let what = format!("{item} to end");
        let found = wait::until_async(&what, PATIENCE, || async {
            let found = self.api().get(&path).await.unwrap().good().unwrap();
            let open = ["pending", "running", "waiting"].map(Value::from);
            (!open.contains(&found["state"])).then_some(found)
        });
        found.await.unwrap()
    }

    /// Who the operator token of this play is.
    pub async fn principal(&self) -> String {
        let page = self.api().get("/api/v1/tokens").await.unwrap().good().unwrap();
        format!("token:{}", page["tokens"][0]["id"].as_str().unwrap())
    }

    /// Rows of the audit trail, the newest first.
    pub async fn audit(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/audit?limit=500&{query}");
        let page = self.api().get(&path).await.unwrap().good().unwrap();
        page["rows"].as_array().unwrap().clone()
    }

    /// Waits until the session's history fits.
    pub async fn until_history(
        &self,
        agent: &str,
        session: &str,
        what: &str,
        fits: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let found = wait::until_async(what, PATIENCE, || async {
            let history = self.history(agent, session).await;
            fits(&history).then_some(history)
        });
        found.await.unwrap()
    }

    /// The history of a session as lines.
    pub async fn told(&self, agent: &str, session: &str) -> Vec<String> {
        lines(&self.history(agent, session).await)
    }

    /// Every durable event so far, in order.
    pub async fn events(&self) -> Vec<Value> {
        let newest = self.state().await["seq"].as_u64().unwrap();
        let mut stream = self.api().events("/api/v1/events?since=0").await.unwrap();
        read_events(&mut stream, 0, newest).await
    }
}

/// Reads events after `seen` up to `newest`; each is there once and in order.
pub async fn read_events(stream: &mut Events, mut seen: u64, newest: u64) -> Vec<Value> {
    let mut events = Vec::new();
    while seen < newest {
        let event = stream.next_within(Duration::from_secs(10)).await.unwrap();
        let event = event.unwrap_or_else(|| panic!("the stream ended after {seen} of {newest}"));
        let Some(id) = &event.id else { continue };
        let seq: u64 = id.parse().unwrap();
        assert_eq!(seq, seen + 1, "a gap or a double");
        seen = seq;
        events.push(serde_json::from_str(&event.data).unwrap());
    }
    events
}

/// In each session turns come one after the other: two never run at once.
pub fn assert_one_run_each(events: &[Value]) {
    let mut open: std::collections::HashMap<String, String> = Default::default();
    for event in events {
        let session = event["session"].as_str().unwrap_or_default().to_owned();
        let turn = event["turn"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "turn_start" => {
                let before = open.insert(session.clone(), turn);
                assert_eq!(before, None, "two turns at once in session {session}");
            }
            "turn_end" => assert_eq!(open.remove(&session), Some(turn)),
            _ => {}
        }
    }
    assert!(open.is_empty(), "turns without an end: {open:?}");
}
