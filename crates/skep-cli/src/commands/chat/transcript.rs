//! The state of the conversation: finished entries, the running turn, messages on their way.
//! Pure: it takes updates; others paint it and send messages.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::approvals::PendingApprovals;
use super::commands;
use super::connection::{ChatCommand, ChatRead, ChatUpdate, is_key, speaks_of};
use super::picker::Picker;
use super::questions::PendingQuestions;
use crate::commands::approve::verdict;
use crate::failure::Failure;
use crate::hive::escaped;
use crate::print::outcome;
use crate::print::time;
use crate::print::values::items;

/// A finished entry; it never changes.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEntry {
    Said(String),
    Answer(String),
    /// What a command was answered with.
    Listing(String),
    Thought(String),
    Tool(ToolEntry),
    /// Model, tokens, cost and time of a turn.
    Usage(String),
    Note(String),
    Trouble(String),
    /// A pending approval, complete.
    Question(Value),
    /// What the agent asks the operator.
    Asked(Value),
    /// The content of a file that a call names.
    Pinned(Value),
    /// What became of an approval or a question.
    Decided(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolEntry {
    pub name: String,
    /// The main argument, on one line.
    pub target: String,
    pub failed: bool,
    pub took_ms: Option<i64>,
    pub diff: Option<String>,
    pub output: String,
}

/// The text of the running model call; it is provisional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveMessage {
    turn: String,
    token: i64,
    call: i64,
    /// Deltas below this are in the text already.
    next: i64,
    pub thinking: String,
    pub text: String,
}

impl LiveMessage {
    /// Identifies the model call.
    pub fn mark(&self) -> (i64, i64) {
        (self.token, self.call)
    }
}

/// A tool call that has begun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningCall {
    pub name: String,
    pub target: String,
    pub since: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningTurn {
    pub id: String,
    /// Start time by the hive's clock.
    pub since: i64,
    pub waits_for: Option<String>,
    /// The pause before the next try.
    pub retry: Option<Value>,
}

/// A sent message that is not in the history yet.
#[derive(Clone, Debug, PartialEq)]
pub struct OutgoingMessage {
    pub id: String,
    pub text: String,
    /// The state from the ack: `queued`, `started`, …; `None` before the ack.
    pub state: Option<String>,
}

#[derive(Default)]
pub struct ChatTranscript {
    pub entries: Vec<ChatEntry>,
    pub live: Option<LiveMessage>,
    pub calls: Vec<(String, RunningCall)>,
    pub turn: Option<RunningTurn>,
    pub outgoing: Vec<OutgoingMessage>,
    pub approvals: PendingApprovals,
    pub questions: PendingQuestions,
    /// A conversation is being chosen.
    pub picker: Option<Picker>,
    pub connected: bool,
    pub ended: Option<Failure>,
    /// The turn that ended last. What is still told of its text is in its answer.
    over: String,
    agent: String,
    session: String,
    /// Of the hive.
    agents: Vec<String>,
    model: String,
    /// Turns whose end without an answer is shown.
    told: HashSet<String>,
    /// Answered messages, and whether the answer was a success.
    answered: HashMap<String, bool>,
}

impl ChatTranscript {
    pub fn new(agent: &str, session: &str) -> Self {
        let (agent, session) = (agent.to_owned(), session.to_owned());
        Self { connected: true, agent, session, ..Self::default() }
    }

    /// The agent and the session key.
    pub fn place(&self) -> (&str, &str) {
        (&self.agent, &self.session)
    }

    /// Begins the choice of a conversation, and reads those there are.
    pub fn choose(&mut self, all_agents: bool) -> Vec<ChatCommand> {
        self.picker = Some(Picker::new(&self.agent, all_agents));
        let agents = self.agents.iter().filter(|name| all_agents || **name == self.agent);
        let path = |agent| format!("/api/v1/agents/{}/sessions?limit=500", escaped(agent));
        agents.map(|agent| ChatCommand::Read(ChatRead::Sessions, path(agent))).collect()
    }

    pub fn take(&mut self, update: ChatUpdate) {
        match update {
            ChatUpdate::Opened { state, rows, turns } => self.open(&state, &rows, &turns),
            ChatUpdate::Rows(rows) => rows.iter().for_each(|row| self.row(row)),
            ChatUpdate::Frame(frame) if frame["type"] == "event" => self.event(&frame["event"]),
            ChatUpdate::Frame(frame) => self.frame(&frame),
            ChatUpdate::Questions(open) => self.approvals.know(open),
            ChatUpdate::Asked(open) => self.entries.extend(self.questions.know(open)),
            ChatUpdate::Read(ChatRead::Covers(patterns), found) => {
                let found = found.unwrap_or_else(|why| json!({"covers": false, "why": why}));
                self.approvals.covers(&patterns, &found);
            }
            ChatUpdate::Told(Ok(text)) => self.note(text),
            ChatUpdate::Read(_, Err(why)) | ChatUpdate::Told(Err(why)) => {
                self.entries.push(ChatEntry::Trouble(why));
            }
            ChatUpdate::Read(ChatRead::Sessions, Ok(page)) => {
                self.picker.iter_mut().for_each(|picker| picker.know(&page));
            }
            ChatUpdate::Read(ChatRead::File, Ok(file)) => {
                self.entries.push(ChatEntry::Pinned(file));
            }
            ChatUpdate::Lost { why } => {
                // The text comes again from its start after the reconnect.
                self.live = None;
                if self.connected {
                    self.note(format!("The connection to the hive is lost ({why}); trying again."));
                }
                self.connected = false;
            }
            ChatUpdate::Back => {
                self.connected = true;
                self.note("Connected again; nothing was lost.".to_owned());
            }
            ChatUpdate::Ended(failure) => self.ended = Some(failure),
        }
    }

    pub fn say(&mut self, id: &str, text: &str) {
        let (id, text) = (id.to_owned(), text.to_owned());
        self.outgoing.push(OutgoingMessage { id, text, state: None });
    }

    /// The outcome of the message once its turn is over and shown.
    pub fn finished(&self, id: &str) -> Option<bool> {
        let waits = self.turn.is_some() || self.outgoing.iter().any(|out| out.id == id);
        self.answered.get(id).copied().filter(|_| !waits)
    }

    pub fn note(&mut self, text: String) {
        self.entries.push(ChatEntry::Note(text));
    }

    fn open(&mut self, state: &Value, rows: &[Value], turns: &[Value]) {
        let ended: Vec<&Value> = turns
            .iter()
            .filter(|turn| turn["retry"].is_null() && !self.told.contains(&text(&turn["turn"])))
            .collect();
        self.live = None;
        self.agents = items(&state["agents"]).iter().map(|agent| text(&agent["name"])).collect();
        let ours = items(&state["turns"]).iter().find(|turn| {
            turn["agent"] == self.agent.as_str() && is_key(&turn["session_key"], &self.session)
        });
        self.turn = ours.map(|turn| RunningTurn {
            id: text(&turn["turn"]),
            since: turn["since"].as_i64().unwrap_or(0),
            waits_for: turn["waiting_for"].as_str().map(str::to_owned),
            retry: Some(turn["retry"].clone()).filter(Value::is_object),
        });
        for row in rows {
            self.row(row);
            ended.iter().filter(|turn| turn["seq"] == row["seq"]).for_each(|turn| self.tell(turn));
        }
        let above = |turn: &&&Value| !rows.iter().any(|row| row["seq"] == turn["seq"]);
        ended.iter().filter(above).for_each(|turn| self.tell(turn));
    }

    /// A turn that ended without an answer.
    fn tell(&mut self, turn: &Value) {
        self.told.insert(text(&turn["turn"]));
        self.entries.push(match turn["code"].as_str() {
            Some("cancelled" | "interrupted" | "client_gone") => {
                ChatEntry::Note("Stopped. /retry".to_owned())
            }
            _ => ChatEntry::Trouble(format!("{}   /retry", outcome::why(turn))),
        });
    }

    fn row(&mut self, row: &Value) {
        match row["role"].as_str() {
            Some("user") => {
                let id = &row["origin"]["messageId"];
                self.outgoing.retain(|out| *id != out.id.as_str());
                // Results and tasks are nobody's words.
                match row["origin"]["kind"].is_null() {
                    true => self.entries.push(ChatEntry::Said(words(row))),
                    false => self.note(words(row)),
                }
            }
            Some("assistant") => {
                // The final text replaces the provisional one.
                self.live = None;
                self.answers();
                if let Some(model) = row["meta"]["model"].as_str() {
                    model.clone_into(&mut self.model);
                }
                items(&row["content"]).iter().for_each(|block| self.block(block));
                let incomplete = outcome::incomplete(&row["meta"]["stopReason"]);
                incomplete.into_iter().for_each(|words| self.note(words.to_owned()));
            }
            Some("toolResult") => self.result(row),
            _ => self.note(words(row)),
        }
    }

    fn block(&mut self, block: &Value) {
        match block["type"].as_str() {
            Some("text") => self.entries.push(ChatEntry::Answer(text(&block["text"]))),
            Some("thinking") => self.entries.push(ChatEntry::Thought(text(&block["thinking"]))),
            Some("toolCall") => {
                let name = text(&block["name"]);
                let target = target(&block["arguments"]);
                let since = self.call(&block["id"]).and_then(|call| call.since);
                self.calls.retain(|(id, _)| block["id"] != id.as_str());
                self.calls.push((text(&block["id"]), RunningCall { name, target, since }));
            }
            _ => {}
        }
    }

    fn call(&self, id: &Value) -> Option<&RunningCall> {
        self.calls.iter().find(|(known, _)| *id == known.as_str()).map(|(_, call)| call)
    }

    fn result(&mut self, row: &Value) {
        let id = &row["toolCallId"];
        let call = self.call(id).cloned().unwrap_or_default();
        self.calls.retain(|(known, _)| *id != known.as_str());
        let took = call.since.zip(row["timestamp"].as_i64());
        self.entries.push(ChatEntry::Tool(ToolEntry {
            name: text(&row["toolName"]),
            target: call.target,
            failed: row["isError"] == true,
            took_ms: took.map(|(since, until)| (until - since).max(0)),
            diff: row["details"]["diff"].as_str().map(str::to_owned),
            output: words(row),
        }));
    }

    fn event(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("turn_start") => self.start(event),
            Some("delta") => self.delta(event),
            Some("tool_start") => {
                let since = event["at"].as_i64();
                match self.calls.iter_mut().find(|(id, _)| event["call_id"] == id.as_str()) {
                    Some((_, call)) => call.since = since,
                    None => {
                        let name = text(&event["tool"]);
                        let call = RunningCall { name, target: String::new(), since };
                        self.calls.push((text(&event["call_id"]), call));
                    }
                }
            }
            Some("model_retry") => {
                // What the broken try said is no answer.
                self.live = None;
                if let Some(turn) = &mut self.turn {
                    turn.retry = Some(event.clone());
                }
            }
            Some("turn_waiting") => {
                if let Some(turn) = &mut self.turn {
                    turn.waits_for = Some(text(&event["reason"]));
                }
            }
            Some("approval_decided") => {
                let id = event["approval"].as_str().unwrap_or_default();
                let about = self.approvals.decided(id);
                self.entries.push(ChatEntry::Decided(decided(event, about.as_ref())));
            }
            Some("question_ended") => self.entries.extend(self.questions.ended(event)),
            Some("turn_end") => self.end(event),
            Some("call_unknown") => {
                let tool = text(&event["tool"]);
                let text = format!("Whether {tool} did its work is not known: look, then say so.");
                self.entries.push(ChatEntry::Trouble(text));
            }
            _ => {}
        }
    }

    fn start(&mut self, event: &Value) {
        self.live = None;
        let known = self.turn.as_ref().filter(|turn| event["turn"] == turn.id.as_str());
        let begun = known.map(|turn| turn.since);
        // Another try is no news: it was announced.
        if event["resumed"] == true && known.is_some_and(|turn| turn.retry.is_none()) {
            self.note("The turn goes on from its last step.".to_owned());
        }
        let since = begun.or(event["at"].as_i64()).unwrap_or(0);
        self.over.clear();
        self.turn = Some(RunningTurn { id: text(&event["turn"]), since, ..RunningTurn::default() });
    }

    /// The model answers: the pause before this try is over.
    fn answers(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.retry = None;
        }
    }

    /// A new lease or model call replaces the text of the one before.
    fn delta(&mut self, event: &Value) {
        self.answers();
        let number = |key: &str| event[key].as_i64().unwrap_or(0);
        let (turn, mark) = (text(&event["turn"]), (number("token"), number("call")));
        if turn == self.over {
            return;
        }
        let live = match self.live.take() {
            Some(live) if live.turn == turn && mark < (live.token, live.call) => {
                self.live = Some(live);
                return;
            }
            Some(live) if live.turn == turn && mark == (live.token, live.call) => live,
            _ => LiveMessage { turn, token: mark.0, call: mark.1, ..LiveMessage::default() },
        };
        let live = self.live.insert(live);
        if number("index") < live.next {
            return;
        }
        live.next = number("index") + 1;
        let words = event["text"].as_str().unwrap_or_default();
        match event["part"] == "thinking" {
            true => live.thinking.push_str(words),
            false => live.text.push_str(words),
        }
    }

    fn active(&mut self, active: &Value) {
        let number = |key: &str| active[key].as_i64().unwrap_or(0);
        let mut live = LiveMessage {
            turn: text(&active["turn"]),
            token: number("token"),
            call: number("call"),
            next: number("deltas"),
            ..LiveMessage::default()
        };
        for block in items(&active["content"]) {
            live.text.push_str(block["text"].as_str().unwrap_or_default());
            live.thinking.push_str(block["thinking"].as_str().unwrap_or_default());
        }
        self.live = Some(live).filter(|live| live.turn != self.over);
    }

    fn end(&mut self, event: &Value) {
        self.live = None;
        self.over = text(&event["turn"]);
        self.calls.clear();
        let since = self.turn.take().map(|turn| turn.since);
        if event["ok"] != true {
            self.tell(event);
        }
        let took = since.zip(event["at"].as_i64()).map(|(since, until)| (until - since).max(0));
        self.entries.push(ChatEntry::Usage(usage(&self.model, &event["usage"], took)));
    }

    fn frame(&mut self, frame: &Value) {
        match frame["type"].as_str() {
            Some("ack") => {
                let state = frame["state"].as_str().map(str::to_owned);
                let ours = |out: &&mut OutgoingMessage| frame["message_id"] == out.id.as_str();
                if let Some(out) = self.outgoing.iter_mut().find(ours) {
                    out.state = state;
                }
            }
            Some("active") => self.active(&frame["active"]),
            Some("response") => {
                self.answer(frame, true);
                for command in self.take_commands(frame) {
                    self.entries.push(ChatEntry::Said(command.text));
                    self.entries.push(ChatEntry::Listing(text(&frame["content"])));
                }
            }
            Some("error") => self.refusal(frame),
            _ => {}
        }
    }

    fn answer(&mut self, frame: &Value, good: bool) {
        for id in items(&frame["in_reply_to"]) {
            self.answered.insert(text(id), good);
        }
        if let Some(id) = frame["message_id"].as_str() {
            self.answered.insert(id.to_owned(), good);
        }
    }

    /// Commands that the hive answered itself; they have no history row.
    fn take_commands(&mut self, frame: &Value) -> Vec<OutgoingMessage> {
        let of_it = |out: &OutgoingMessage| speaks_of(frame, &out.id) && out.state == done();
        let commands = self.outgoing.iter().filter(|out| of_it(out)).cloned().collect();
        self.outgoing.retain(|out| !of_it(out));
        commands
    }

    fn refusal(&mut self, frame: &Value) {
        self.answer(frame, false);
        if let Some(id) = frame["message_id"].as_str() {
            self.approvals.refused(id);
            self.questions.refused(id);
        }
        let code = text(&frame["code"]);
        let error = text(&frame["error"]);
        // An unknown command is answered with the list of those that there are.
        let (error, list) = error.split_once('\n').unwrap_or((&error, ""));
        let list = match code.as_str() {
            "unknown_command" => Some(commands::help()),
            _ => Some(list.to_owned()).filter(|list| !list.is_empty()),
        };
        let trouble = ChatEntry::Trouble(format!("{error} ({code})"));
        if frame["turn"].is_string() {
            // The event for the end of the turn shows it.
            return;
        }
        if code == "nothing_running" {
            self.note("Nothing runs here.".to_owned());
            return;
        }
        let ours = self.outgoing.iter().filter(|out| speaks_of(frame, &out.id));
        let said: Vec<ChatEntry> = ours.map(|out| ChatEntry::Said(out.text.clone())).collect();
        self.outgoing.retain(|out| !speaks_of(frame, &out.id));
        self.entries.extend(said);
        self.entries.push(trouble);
        self.entries.extend(list.map(ChatEntry::Listing));
    }
}

/// `approved once: make deploy   14:35, by anna`
fn decided(event: &Value, about: Option<&Value>) -> String {
    let verdict = verdict(&event["state"], event, about.unwrap_or(&Value::Null));
    let at = event["at"].as_i64().map(time::clock).unwrap_or_default();
    let by = event["by"].as_str().map(|by| format!(", by {by}")).unwrap_or_default();
    format!("{verdict}   {at}{by}")
}

fn done() -> Option<String> {
    Some("done".to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The text blocks of a row.
fn words(row: &Value) -> String {
    let blocks = items(&row["content"]).iter();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The main argument of a tool call: a well-known key, else the first text.
fn target(arguments: &Value) -> String {
    const TELLING: [&str; 6] = ["file_path", "command", "pattern", "path", "url", "query"];
    let named = TELLING.iter().find_map(|key| arguments[*key].as_str());
    let first = || arguments.as_object()?.values().find_map(Value::as_str);
    named.or_else(first).unwrap_or_default().to_owned()
}

fn usage(model: &str, usage: &Value, took_ms: Option<i64>) -> String {
    let number = |key: &str| usage[key].as_i64().unwrap_or(0);
    let input = number("input") + number("cacheRead") + number("cacheWrite");
    let mut parts: Vec<String> = Vec::new();
    if !model.is_empty() {
        parts.push(model.to_owned());
    }
    if input + number("output") > 0 {
        parts.push(format!("{} in, {} out", short(input), short(number("output"))));
    }
    parts.extend(
        usage["cost"].as_f64().filter(|cost| *cost > 0.0).map(|cost| format!("${cost:.4}")),
    );
    parts.extend(took_ms.map(seconds));
    parts.join(" · ")
}

/// `950`, `1.2k`, `34k`, `1.2M`.
fn short(number: i64) -> String {
    match number {
        ..1_000 => number.to_string(),
        1_000..10_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// `0.2 s`, `12.0 s`, `3m 5s`.
pub fn seconds(milliseconds: i64) -> String {
    match milliseconds {
        ..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => crate::print::time::span(milliseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: Value) -> ChatUpdate {
        ChatUpdate::Frame(json!({"type": "event", "event": event}))
    }

    /// What is told of its text after the end of a turn would stand below its answer for good.
    #[test]
    fn text_that_comes_after_the_end_of_its_turn_is_not_shown_again() {
        let mut chat = ChatTranscript::new("main", "main");
        let delta = |turn: &str| event(json!({"type": "delta", "turn": turn, "text": "Hello."}));
        chat.take(event(json!({"type": "turn_start", "turn": "t1", "at": 1})));
        chat.take(delta("t1"));
        assert_eq!(chat.live.as_ref().map(|live| live.text.as_str()), Some("Hello."));
        chat.take(event(json!({"type": "turn_end", "turn": "t1", "ok": true, "at": 2})));
        let active = json!({"turn": "t1", "content": [{"text": "Hello."}]});
        chat.take(ChatUpdate::Frame(json!({"type": "active", "active": active})));
        chat.take(delta("t1"));
        assert!(chat.live.is_none());
        chat.take(delta("t2"));
        assert!(chat.live.is_some());
    }
}
