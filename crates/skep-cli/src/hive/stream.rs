//! Watching a message while its turn runs: its text as it is written, and what the turn waits for.
//!
//! Deltas are provisional. The caller compares what was shown with the answer that counts.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use skep_guard::egress::HttpResponse;
use skep_model::sse::{Parser, SseEvent};
use tokio::time::sleep;

use crate::hive::Globals;
use crate::hive::client::{Client, escaped};
use crate::print::{foreign, items, outcome, output};

/// Before the first look at a message that is waited for, and before each later one.
const FIRST_LOOK: Duration = Duration::from_millis(600);

/// Events as they come.
pub struct EventReader {
    response: HttpResponse,
    parser: Parser,
    ready: VecDeque<SseEvent>,
}

impl EventReader {
    pub fn new(response: HttpResponse) -> Self {
        Self { response, parser: Parser::default(), ready: VecDeque::new() }
    }

    /// The name of the next one, and its data; `None` once the stream breaks.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        while self.ready.is_empty() {
            let bytes = self.response.chunk().await.ok().flatten()?;
            let mut events = Vec::new();
            self.parser.push(&bytes, &mut events).ok()?;
            self.ready.extend(events);
        }
        let event = self.ready.pop_front()?;
        Some((event.name, serde_json::from_str(&event.data).unwrap_or_default()))
    }
}

/// What was told of a message so far.
pub struct MessageWatch<'a> {
    client: &'a Client,
    globals: &'a Globals,
    agent: &'a str,
    /// The model call (token, number) whose text is on the current line.
    call: (i64, i64),
    /// The text of that call.
    pub shown: String,
    /// When the next try is, as it was told.
    next_at: Option<i64>,
    approvals: HashSet<String>,
}

impl<'a> MessageWatch<'a> {
    pub fn new(client: &'a Client, globals: &'a Globals, agent: &'a str) -> Self {
        let (shown, approvals) = (String::new(), HashSet::new());
        Self { client, globals, agent, call: (0, 0), shown, next_at: None, approvals }
    }

    /// Prints text until the message has ended or the stream breaks.
    pub async fn show(&mut self, mut events: EventReader) {
        while let Some((name, data)) = events.next().await {
            match name.as_str() {
                "delta" if data["part"] == "text" => self.write(&data),
                "response" | "error" | "resync" | "left" => break,
                name => self.tell(name, &data).await,
            }
        }
        self.end_line();
    }

    fn write(&mut self, data: &Value) {
        let number = |key: &str| data[key].as_i64().unwrap_or(0);
        let call = (number("token"), number("call"));
        if self.call != call {
            self.end_line();
            self.shown.clear();
            self.call = call;
        }
        let text = data["text"].as_str().unwrap_or_default();
        self.shown.push_str(text);
        output::piece(&foreign(text));
    }

    fn end_line(&mut self) {
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            self.shown.push('\n');
            output::piece("\n");
        }
    }

    /// Tells what the turn waits for, a decision or its next try, until it is dropped. A message
    /// that is answered at once costs no connection.
    pub async fn tell_waits(&mut self, item: &str) -> Infallible {
        let (agent, item) = (escaped(self.agent), escaped(item));
        let path = format!("/api/v1/agents/{agent}/messages/{item}?stream=true");
        loop {
            sleep(FIRST_LOOK).await;
            let Ok(response) = self.client.stream(&path).await else { continue };
            let mut events = EventReader::new(response);
            while let Some((name, data)) = events.next().await {
                self.tell(&name, &data).await;
            }
        }
    }

    async fn tell(&mut self, name: &str, data: &Value) {
        let (retry, now) = match name {
            "model_retry" => (data.clone(), data["at"].as_i64().unwrap_or(0)),
            "message" | "turn_waiting" => self.paused(&data["turn"]).await,
            _ => return,
        };
        let began = !self.shown.is_empty();
        self.end_line();
        self.shown.clear();
        if name != "model_retry" {
            self.tell_approvals(&data["turn"]).await;
        }
        let next_at = retry["next_at"].as_i64();
        if next_at.is_some() && next_at != self.next_at {
            self.next_at = next_at;
            let anew = if began { "; the answer begins anew" } else { "" };
            output::note(outcome::retry(&retry, now) + anew);
        }
    }

    /// The pause the turn is in already, and the hive's clock.
    async fn paused(&self, turn: &Value) -> (Value, i64) {
        let state = self.client.get("/api/v1/state").await.unwrap_or_default();
        let mut turns = items(&state["turns"]).iter();
        let retry = turns.find(|open| open["turn"] == *turn).map(|open| open["retry"].clone());
        let at = |key: &str| state["hive"][key].as_i64().unwrap_or(0);
        (retry.unwrap_or_default(), at("started_at") + at("uptime_ms"))
    }

    async fn tell_approvals(&mut self, turn: &Value) {
        let path = format!("/api/v1/approvals?limit=200&agent={}", escaped(self.agent));
        let page = self.client.get(&path).await.unwrap_or_default();
        let open = items(&page["approvals"]).iter();
        for approval in open.filter(|approval| approval["turn"] == *turn && turn.is_string()) {
            if self.approvals.insert(approval["id"].to_string()) {
                tell_approval(self.globals, approval);
            }
        }
    }
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
