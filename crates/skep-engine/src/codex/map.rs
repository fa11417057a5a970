//! What the program tells of a turn, as events of ours. Pure: the same lines give the same steps.
//!
//! Between two counts of tokens there is one model call; what comes first of it begins it. A call
//! of the program's own tools goes through these states, from its item to the end of that:
//! announced (nobody has asked), asked (the gate was), refused (by us, without a question).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use skep_core::engine::{EngineEvent, FailureCode, RetryCode, TurnEnd};
use skep_core::ids::CallId;

use super::permissions::{self, OwnCall, SHELL};
use super::wire::{
    CallStatus, CommandItem, Delta, ErrorInfo, FilesItem, Item, MessageItem, Notice, ReasoningItem,
    Tokens, TurnError, TurnStatus,
};

/// Items that are under way at a time.
const OPEN_ITEMS: usize = 1024;

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Event(EngineEvent),
    /// A model call begins.
    Call,
    /// A model call has ended.
    Counted(Tokens),
    /// What the thread was given is part of it.
    Saved,
    /// The call failed, and is made again.
    Again {
        code: RetryCode,
        text: String,
    },
    Over(TurnEnd),
}

pub(super) struct Map {
    thread: String,
    workspace: PathBuf,
    /// The turn that runs, once the program has named it.
    pub turn: Option<String>,
    /// A model call is under way.
    calls: bool,
    /// It has said something already.
    spoke: bool,
    open: BTreeMap<String, Open>,
}

enum Open {
    Words { heard: bool },
    Own { calls: Result<Vec<OwnCall>, String>, state: OwnState },
}

#[derive(Clone, Copy, PartialEq)]
enum OwnState {
    Announced,
    Asked,
    Refused,
}

impl Map {
    pub fn new(thread: String, workspace: PathBuf) -> Self {
        let open = BTreeMap::new();
        Self { thread, workspace, turn: None, calls: false, spoke: false, open }
    }

    /// What follows from a notice; the error says what nobody expected.
    pub fn hear(&mut self, notice: Notice) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        match notice {
            Notice::TurnStarted(told) => {
                self.own_thread(&told.thread_id)?;
                self.turn = Some(told.turn.id);
            }
            Notice::TurnCompleted(told) => {
                if told.thread_id == self.thread && self.turn.as_ref() == Some(&told.turn.id) {
                    self.turn = None;
                    self.over(told.turn.status, told.turn.error, &mut steps);
                }
            }
            Notice::ItemStarted(told) => {
                self.own_thread(&told.thread_id)?;
                self.started(told.item, &mut steps)?;
            }
            Notice::ItemCompleted(told) => {
                self.own_thread(&told.thread_id)?;
                self.completed(told.item, &mut steps)?;
            }
            Notice::Said(Delta { thread_id, item_id, delta }) => {
                self.own_thread(&thread_id)?;
                self.say(&item_id, delta, &mut steps);
            }
            Notice::Thought(Delta { thread_id, item_id, delta }) => {
                self.own_thread(&thread_id)?;
                self.begin(&mut steps);
                if let Some(Open::Words { heard }) = self.open.get_mut(&item_id) {
                    *heard = true;
                }
                steps.push(Step::Event(EngineEvent::Thinking(delta)));
            }
            Notice::ThoughtPart(part) => {
                self.own_thread(&part.thread_id)?;
                if let Some(Open::Words { heard: true }) = self.open.get(&part.item_id) {
                    steps.push(Step::Event(EngineEvent::Thinking("\n\n".to_owned())));
                }
            }
            Notice::Used(used) => {
                let Tokens { input_tokens, output_tokens, .. } = used.token_usage.last;
                let counts = input_tokens > 0 || output_tokens > 0;
                let ours =
                    used.thread_id == self.thread && self.turn.as_ref() == Some(&used.turn_id);
                if ours && counts {
                    self.calls = false;
                    steps.push(Step::Counted(used.token_usage.last));
                }
            }
            Notice::Error(told) => {
                if told.thread_id == self.thread && told.will_retry {
                    self.calls = false;
                    let code = why(&told.error).err().unwrap_or(RetryCode::Unavailable);
                    steps.push(Step::Again { code, text: told.error.message });
                }
            }
        }
        Ok(steps)
    }

    /// The calls that an approval is asked for; the error is why it is refused. `told` is what the
    /// question itself says they are: of a patch it says nothing.
    pub fn asks(
        &mut self,
        item: &str,
        told: Option<Result<Vec<OwnCall>, String>>,
    ) -> Result<Vec<OwnCall>, String> {
        if let Some(told) = &told
            && !self.open.contains_key(item)
        {
            let own = Open::Own { calls: told.clone(), state: OwnState::Announced };
            self.opens(item.to_owned(), own)?;
        }
        match self.open.get_mut(item) {
            Some(Open::Own { calls, state: state @ OwnState::Announced }) => {
                let same = told.is_none_or(|told| told == *calls);
                let asks = match same {
                    true => calls.clone(),
                    false => Err("It is not the command that was announced.".to_owned()),
                };
                *state = if asks.is_ok() { OwnState::Asked } else { OwnState::Refused };
                asks
            }
            Some(_) => Err("It was asked for before.".to_owned()),
            None => Err(permissions::UNKNOWN_PATCH.to_owned()),
        }
    }

    /// An approval for this item is refused without a question to the gate, for the reason given.
    pub fn refuse(&mut self, item: &str, why: &str) -> String {
        if let Some(Open::Own { state: state @ OwnState::Announced, .. }) = self.open.get_mut(item)
        {
            *state = OwnState::Refused;
        }
        why.to_owned()
    }

    /// Whether calls of its own are under way.
    pub fn runs(&self) -> bool {
        self.open.values().any(|open| matches!(open, Open::Own { .. }))
    }

    fn own_thread(&self, thread: &str) -> Result<(), String> {
        match thread == self.thread {
            true => Ok(()),
            false => Err("a second thread, though agents of its own are off".to_owned()),
        }
    }

    fn begin(&mut self, steps: &mut Vec<Step>) {
        if !std::mem::replace(&mut self.calls, true) {
            self.spoke = false;
            steps.push(Step::Call);
        }
    }

    fn opens(&mut self, id: String, open: Open) -> Result<(), String> {
        if self.open.len() >= OPEN_ITEMS {
            return Err(format!("more than {OPEN_ITEMS} items at a time"));
        }
        match self.open.insert(id, open) {
            None => Ok(()),
            Some(_) => Err("two items of one name".to_owned()),
        }
    }

    fn started(&mut self, item: Item, steps: &mut Vec<Step>) -> Result<(), String> {
        match item {
            Item::UserMessage | Item::Plan | Item::Ours => Ok(()),
            Item::Message(MessageItem { id, .. }) | Item::Reasoning(ReasoningItem { id, .. }) => {
                self.begin(steps);
                self.opens(id, Open::Words { heard: false })
            }
            Item::Command(CommandItem { id, command, cwd, .. }) => {
                self.begin(steps);
                let call = permissions::of_command(&id, &command, &cwd, &self.workspace);
                let calls = call.map(|call| vec![call]);
                self.opens(id, Open::Own { calls, state: OwnState::Announced })
            }
            Item::Files(FilesItem { id, changes, .. }) => {
                self.begin(steps);
                let calls = permissions::of_patch(&id, &changes, &self.workspace);
                self.opens(id, Open::Own { calls, state: OwnState::Announced })
            }
            Item::Compaction => {
                // Its thread is not what was said any more: ours is summed up, and it begins anew.
                let text = "Codex summed its thread up by itself".to_owned();
                let code = FailureCode::ContextTooLong;
                steps.push(Step::Over(TurnEnd::Failed { code, text }));
                Ok(())
            }
            Item::Foreign { id, kind } => {
                self.begin(steps);
                steps.push(foreign(id, kind));
                Ok(())
            }
        }
    }

    fn completed(&mut self, item: Item, steps: &mut Vec<Step>) -> Result<(), String> {
        match item {
            Item::UserMessage => steps.push(Step::Saved),
            Item::Plan | Item::Ours | Item::Compaction => {}
            Item::Message(MessageItem { id, text }) => {
                if !self.was_heard(&id) && !text.is_empty() {
                    self.say(&id, text, steps);
                }
                self.open.remove(&id);
            }
            Item::Reasoning(ReasoningItem { id, summary, content }) => {
                let text = summary.into_iter().chain(content).collect::<Vec<_>>().join("\n\n");
                if !self.was_heard(&id) && !text.is_empty() {
                    self.begin(steps);
                    steps.push(Step::Event(EngineEvent::Thinking(text)));
                }
                self.open.remove(&id);
            }
            Item::Command(item) => {
                let raw = json!({"command": item.command});
                let mut text = item.aggregated_output.unwrap_or_default();
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                match item.exit_code {
                    Some(code) if code >= 0 => text.push_str(&format!("[exit code {code}]")),
                    // A command that outlived its turn.
                    Some(_) => text.push_str("[ended with the turn]"),
                    None => text.push_str("[it was not run]"),
                }
                self.ended(item.id, item.status, (SHELL, raw), &text, steps)?;
            }
            Item::Files(item) => {
                let raw = json!({"files": item.changes.len()});
                let text = match item.status {
                    CallStatus::Completed => "applied",
                    _ => "the patch was not applied",
                };
                self.ended(item.id, item.status, (permissions::PATCH, raw), text, steps)?;
            }
            Item::Foreign { id, kind } => {
                steps.push(foreign(id.clone(), kind));
                let (id, text) = (CallId::new(id), "done".to_owned());
                steps.push(Step::Event(EngineEvent::ToolResult { id, text, is_error: false }));
            }
        }
        Ok(())
    }

    fn was_heard(&self, id: &str) -> bool {
        matches!(self.open.get(id), Some(Open::Words { heard: true }))
    }

    fn say(&mut self, id: &str, mut text: String, steps: &mut Vec<Step>) {
        self.begin(steps);
        let first = !self.was_heard(id);
        if let Some(Open::Words { heard }) = self.open.get_mut(id) {
            *heard = true;
        }
        // Two messages of one call are one of ours.
        if first && std::mem::replace(&mut self.spoke, true) {
            text.insert_str(0, "\n\n");
        }
        steps.push(Step::Event(EngineEvent::Text(text)));
    }

    /// A call of its own is over.
    fn ended(
        &mut self,
        id: String,
        status: CallStatus,
        (name, raw): (&str, serde_json::Value),
        text: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), String> {
        if status == CallStatus::InProgress {
            return Err("a call that has ended and goes on".to_owned());
        }
        let (calls, state) = match self.open.remove(&id) {
            Some(Open::Own { calls, state }) => (calls, state),
            _ => (Err(String::new()), OwnState::Announced),
        };
        let ran = status != CallStatus::Declined;
        if state != OwnState::Asked && !ran {
            return Ok(());
        }
        let calls = calls.map(|calls| calls.into_iter().map(|own| own.call).collect::<Vec<_>>());
        let calls = calls.unwrap_or_default().into_iter();
        let mut calls: Vec<_> = calls.map(|call| (call.id, call.name, call.arguments)).collect();
        if calls.is_empty() {
            calls.push((CallId::new(id), name.to_owned(), raw));
        }
        for (id, name, arguments) in calls {
            // Nobody was asked: the turn hears of the call, and of what came of it.
            if state != OwnState::Asked {
                let id = id.clone();
                steps.push(Step::Event(EngineEvent::OwnCall { id, name, arguments }));
            }
            let (text, is_error) = (text.to_owned(), status != CallStatus::Completed);
            steps.push(Step::Event(EngineEvent::ToolResult { id, text, is_error }));
        }
        Ok(())
    }

    fn over(&mut self, status: TurnStatus, error: Option<TurnError>, steps: &mut Vec<Step>) {
        self.calls = false;
        // What began and never asked: the turn is told before it ends.
        for (id, open) in &self.open {
            if let Open::Own { state: OwnState::Announced, .. } = open {
                steps.push(foreign(id.clone(), SHELL.to_owned()));
            }
        }
        steps.push(Step::Over(match (status, error) {
            (TurnStatus::Completed, _) => TurnEnd::Finished,
            (TurnStatus::Interrupted, _) => TurnEnd::Cancelled,
            (TurnStatus::Failed | TurnStatus::InProgress, error) => end_of(error),
        }));
    }
}

/// A call that nobody knows.
fn foreign(id: String, name: String) -> Step {
    Step::Event(EngineEvent::OwnCall { id: CallId::new(id), name, arguments: json!({}) })
}

fn end_of(error: Option<TurnError>) -> TurnEnd {
    let Some(error) = error else {
        let text = "Codex ended the turn and did not say why".to_owned();
        return TurnEnd::Failed { code: FailureCode::EngineCrashed, text };
    };
    let why = why(&error);
    let text = error.message.chars().take(2000).collect();
    match why {
        Ok(code) => TurnEnd::Failed { code, text },
        Err(code) => TurnEnd::Retry { code, text },
    }
}

/// Why a turn failed: for good, or so that it may be tried again.
fn why(error: &TurnError) -> Result<FailureCode, RetryCode> {
    let (word, status) = match &error.codex_error_info {
        None => ("", None),
        Some(ErrorInfo::Word(word)) => (word.as_str(), None),
        Some(ErrorInfo::Detailed(detailed)) => match detailed.first_key_value() {
            Some((word, detail)) => (word.as_str(), detail.http_status_code),
            None => ("", None),
        },
    };
    // Refused before a vendor saw it, or by one without a word for it: the answer is the message.
    let told = |mark: &str| error.message.contains(mark);
    match (word, status) {
        _ if told("[limit_cost]") => Ok(FailureCode::LimitCost),
        _ if told("[limit_tokens]") => Ok(FailureCode::LimitTokens),
        _ if told("context_length_exceeded") => Ok(FailureCode::ContextTooLong),
        ("contextWindowExceeded", _) => Ok(FailureCode::ContextTooLong),
        ("unauthorized", _) | (_, Some(401 | 403)) => Ok(FailureCode::ProviderAuth),
        ("usageLimitExceeded" | "rateLimitExceeded", _) | (_, Some(429)) => {
            Err(RetryCode::RateLimited)
        }
        ("serverOverloaded" | "policyCapacityUnavailable" | "flexUnavailable", _)
        | (_, Some(529)) => Err(RetryCode::Overloaded),
        ("internalServerError", _) | (_, Some(500..)) => Err(RetryCode::Unavailable),
        (_, Some(408)) => Err(RetryCode::Timeout),
        (_, Some(_)) => Ok(FailureCode::ProviderRejected),
        ("httpConnectionFailed" | "responseStreamConnectionFailed", None) => {
            Err(RetryCode::Unreachable)
        }
        ("responseStreamDisconnected" | "responseTooManyFailedAttempts", None) => {
            Err(RetryCode::Cut)
        }
        _ => Ok(FailureCode::ProviderRejected),
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
