//! Watching a session while its agent writes: deltas of the live events, shown as they come.
//!
//! Deltas are provisional. The caller compares what was shown with the answer that counts.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use reqwest::Response;
use serde_json::Value;
use skep_model::sse::Parser;
use tokio::time::sleep;

use crate::hive::Globals;
use crate::hive::client::{CallError, Client, escaped};
use crate::print::{foreign, items, outcome, output};

/// Before the first look at a message that is waited for, and before each later one.
const FIRST_LOOK: Duration = Duration::from_millis(600);

pub struct AnswerStream {
    response: Response,
    session: String,
    /// Turns of the watched session.
    turns: HashSet<String>,
    /// The model call (turn, token, number) whose text is on the current line.
    call: Option<(String, i64, i64)>,
    /// The text of that call.
    shown: String,
}

impl AnswerStream {
    /// Subscribes before the message is sent, so that its first word is not missed.
    pub async fn open(client: &Client, agent: &str, session: &str) -> Result<Self, CallError> {
        let state = client.get("/api/v1/state").await?;
        let seq = state["seq"].as_i64().unwrap_or(0);
        let path = format!("/api/v1/events?since={seq}&agent={}", escaped(agent));
        let response = client.stream(&path).await?;
        let ours = |turn: &&Value| turn["agent"] == agent && turn["session_key"] == session;
        let turns = items(&state["turns"]).iter().filter(ours);
        let turns = turns.filter_map(|turn| turn["turn"].as_str().map(str::to_owned)).collect();
        Ok(Self { response, session: session.to_owned(), turns, call: None, shown: String::new() })
    }

    /// Prints text until the message has ended or the stream breaks. Returns the printed text of
    /// the last model call.
    pub async fn show(&mut self, client: &Client, globals: &Globals, message_id: &str) -> String {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        while let Ok(Some(bytes)) = self.response.chunk().await {
            if parser.push(&bytes, &mut events).is_err() {
                break;
            }
            for event in events.drain(..) {
                let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
                let ended = event.name == "inbox_ended" && data["message_id"] == message_id;
                if ended || event.name == "resync" {
                    return self.end_line();
                }
                self.take(&event.name, &data);
                let ours = data["turn"].as_str().is_some_and(|turn| self.turns.contains(turn));
                if event.name == "approval_asked" && ours {
                    self.end_line();
                    self.shown.clear();
                    let agent = data["agent"].as_str().unwrap_or_default();
                    let open = waiting_approvals(client, agent, &data["turn"]).await;
                    let this = open.iter().filter(|one| one["id"] == data["approval"]);
                    this.for_each(|approval| tell_approval(globals, approval));
                }
            }
        }
        self.end_line()
    }

    fn take(&mut self, name: &str, data: &Value) {
        let Some(turn) = data["turn"].as_str() else { return };
        if name == "turn_start" && data["session_key"] == self.session.as_str() {
            self.turns.insert(turn.to_owned());
        }
        if name == "model_retry" && self.turns.contains(turn) {
            self.end_line();
            self.shown.clear();
            tell_retry(data, data["at"].as_i64().unwrap_or(0));
        }
        if name != "delta" || data["part"] != "text" || !self.turns.contains(turn) {
            return;
        }
        let number = |key: &str| data[key].as_i64().unwrap_or(0);
        let call = (turn.to_owned(), number("token"), number("call"));
        if self.call.as_ref() != Some(&call) {
            self.end_line();
            self.shown.clear();
            self.call = Some(call);
        }
        let text = data["text"].as_str().unwrap_or_default();
        self.shown.push_str(text);
        output::piece(&foreign(text));
    }

    fn end_line(&mut self) -> String {
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            output::piece("\n");
        }
        self.shown.clone()
    }
}

/// Tells what a message's turn waits for, a decision or its next try, until it is dropped. A
/// message that is answered at once costs no connection.
pub async fn tell_waits(client: &Client, globals: &Globals, agent: &str, item: &str) -> Infallible {
    let path = format!("/api/v1/agents/{}/messages/{}?stream=true", escaped(agent), escaped(item));
    let (mut told, mut named) = (None, HashSet::new());
    loop {
        sleep(FIRST_LOOK).await;
        let Ok(mut response) = client.stream(&path).await else { continue };
        let mut parser = Parser::default();
        let mut events = Vec::new();
        while let Ok(Some(bytes)) = response.chunk().await {
            if parser.push(&bytes, &mut events).is_err() {
                break;
            }
            for event in events.drain(..) {
                let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
                if matches!(event.name.as_str(), "message" | "approval_asked") {
                    for waiting in waiting_approvals(client, agent, &data["turn"]).await {
                        let id = waiting["id"].as_str().unwrap_or_default();
                        if named.insert(id.to_owned()) {
                            tell_approval(globals, &waiting);
                        }
                    }
                }
                let (retry, now) = match event.name.as_str() {
                    "message" => paused(client, &data["turn"]).await,
                    "model_retry" => (data.clone(), data["at"].as_i64().unwrap_or(0)),
                    _ => continue,
                };
                let at = retry["next_at"].as_i64();
                if at.is_some() && at != told {
                    told = at;
                    tell_retry(&retry, now);
                }
            }
        }
    }
}

/// The pause a turn is in already, and the hive's clock.
async fn paused(client: &Client, turn: &Value) -> (Value, i64) {
    let state = client.get("/api/v1/state").await.unwrap_or_default();
    let mut turns = items(&state["turns"]).iter();
    let retry = turns.find(|open| open["turn"] == *turn).map(|open| open["retry"].clone());
    let at = |key: &str| state["hive"][key].as_i64().unwrap_or(0);
    (retry.unwrap_or_default(), at("started_at") + at("uptime_ms"))
}

async fn waiting_approvals(client: &Client, agent: &str, turn: &Value) -> Vec<Value> {
    let page = client.get(&format!("/api/v1/approvals?limit=200&agent={}", escaped(agent))).await;
    let mut open = page.map(|page| items(&page["approvals"]).to_vec()).unwrap_or_default();
    open.retain(|approval| approval["turn"] == *turn && turn.is_string());
    open
}

/// Says that a call waits for a decision, and how to give it: no message does.
pub fn tell_approval(globals: &Globals, approval: &Value) {
    let text = |key: &str| foreign(approval[key].as_str().unwrap_or_default());
    let (agent, summary, id) = (text("agent"), text("summary"), text("id"));
    let note = format!(
        "skep: {agent} waits for approval of {summary}; see it with: skep approve; decide with: \
         skep approve {id}, or skep deny {id}"
    );
    output::note(globals.commands(&note));
}

fn tell_retry(retry: &Value, now: i64) {
    output::note(outcome::retry(retry, now));
}
