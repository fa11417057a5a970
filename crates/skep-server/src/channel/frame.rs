//! The frames of a socket.
//!
//! From a client, one JSON object a text message:
//! - `{content, id?, agent?, session?, mode?, attachments?}` a message; `id` makes sending it
//!   again harmless
//! - `{type:"interrupt", agent?, session?}` ends the turn that runs in the conversation
//! - `{type:"subscribe", agent?, session?, since?}` raw live events, as `event` frames
//! - `{type:"approve", id, decision, hash, scope?, patterns?, note?}` decides on a call that waits
//!   for a person, answered by an `approval` frame
//! - `{type:"answer", id, answer?, options?}` answers what an agent asks the operator, answered by
//!   an `answered` frame
//!
//! To a client: `hello {channel, seq}` first; durable `ack`, `response` and `error` with `id` and
//! `seq`; and without `seq`: `error {error, code, message_id?}` for a frame that was not taken,
//! `delta`, `progress`, `event`, `active`, and `resync {from}`: frames were left out. Durable ones
//! after `from` follow by themselves; provisional text shown so far is void. `resync` without
//! `from` ends the subscription: read the state and subscribe again from its `seq`.

use axum::extract::ws::Utf8Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use skep_core::event::Event;
use skep_core::file::Attachment;
use skep_core::ids::{AgentId, AgentName, ChannelId, SessionKey, is_agent_name};
use skep_core::question::GivenAnswer;
use skep_core::settings::QueueMode;
use skep_runtime::door::{Action, ActiveTurn, ApprovalInfo, DoorError, ErrorKind};

use crate::channel::event_texts::told;
use crate::request::{DecisionRequest, RawAttachment, attachment, extract, unread};

/// What a client asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientFrame {
    Message(IncomingMessage),
    Interrupt(Named),
    Subscribe { agent: Option<AgentName>, session: Option<String>, since: Option<i64> },
    Approve { id: String, decision: DecisionRequest },
    Answer { id: String, answer: GivenAnswer },
}

/// A message on its way in.
#[derive(Debug, PartialEq)]
pub(crate) struct IncomingMessage {
    pub(crate) content: String,
    pub(crate) id: Option<String>,
    pub(crate) named: Named,
    pub(crate) mode: Option<QueueMode>,
    pub(crate) attachments: Vec<Attachment>,
}

/// A conversation as a client names it; who it is decides which one that is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) agent: AgentName,
    /// Nothing: the channel's own.
    pub(crate) session: Option<String>,
}

/// A conversation of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) agent: AgentName,
    pub(crate) agent_id: AgentId,
    pub(crate) session: SessionKey,
}

/// A frame that was not taken, and the id it carried.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: DoorError,
    pub(crate) message_id: Option<String>,
}

/// Every field any frame may have; which of them belong together is checked after.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(rename = "type")]
    kind: Option<String>,
    content: Option<String>,
    id: Option<String>,
    agent: Option<String>,
    session: Option<String>,
    mode: Option<QueueMode>,
    since: Option<i64>,
    topic_id: Option<IgnoredAny>,
    attachments: Option<Vec<RawAttachment>>,
    decision: Option<Value>,
    scope: Option<Value>,
    patterns: Option<Value>,
    note: Option<Value>,
    hash: Option<Value>,
    answer: Option<Value>,
    options: Option<Value>,
}

impl ClientFrame {
    pub(crate) fn parse(text: &str) -> Result<Self, Refused> {
        if extract::is_list(text.as_bytes()) {
            let error = invalid("invalid_frame", "a frame is a JSON object, not a list");
            return Err(Refused { error, message_id: None });
        }
        if extract::has_too_many_values(text.as_bytes()) {
            let text = format!("a frame has {} values at most", extract::VALUES);
            let error = DoorError::new(ErrorKind::TooLarge, "too_many_values", text);
            return Err(Refused { error, message_id: None });
        }
        let raw: Raw = serde_json::from_str(text)
            .map_err(|error| Refused { error: unreadable(&error), message_id: id_in(text) })?;
        let id = raw.id.clone();
        raw.check().map_err(|error| Refused { error, message_id: id })
    }

    /// What the table of roles is asked about it.
    pub(crate) fn action(&self) -> Action {
        match self {
            Self::Message(_) | Self::Interrupt(_) => Action::Talk,
            Self::Subscribe { .. } => Action::Watch,
            Self::Approve { .. } => Action::Decide,
            Self::Answer { .. } => Action::Approve,
        }
    }

    /// The id it carries, to name it in a refusal.
    pub(crate) fn message_id(&self) -> Option<String> {
        match self {
            Self::Message(said) => said.id.clone(),
            Self::Approve { id, .. } | Self::Answer { id, .. } => Some(id.clone()),
            Self::Interrupt(_) | Self::Subscribe { .. } => None,
        }
    }

    /// The approval it is the answer to.
    pub(crate) fn decides(&self) -> Option<&str> {
        match self {
            Self::Approve { id, .. } => Some(id),
            Self::Message(_)
            | Self::Interrupt(_)
            | Self::Subscribe { .. }
            | Self::Answer { .. } => None,
        }
    }
}

impl Raw {
    fn check(self) -> Result<ClientFrame, DoorError> {
        match self.kind.as_deref() {
            None => self.message(),
            Some("interrupt") => {
                self.refuse_others("interrupt", &["type", "agent", "session", "topic_id"])?;
                self.named().map(ClientFrame::Interrupt)
            }
            Some("subscribe") => self.subscribe(),
            Some("approve") => self.approve(),
            Some("answer") => self.answer(),
            Some(other) => {
                let shown = skep_scrub::known().beginning(other, 40);
                Err(invalid(
                    "unknown_type",
                    format!(
                        "there is no frame of type {shown:?}; a message has no type, the others \
                         are interrupt, subscribe, approve and answer"
                    ),
                ))
            }
        }
    }

    fn message(self) -> Result<ClientFrame, DoorError> {
        let usual = ["content", "id", "agent", "session", "mode", "topic_id", "attachments"];
        self.refuse_others("message", &usual)?;
        let named = self.named()?;
        let attachments = attachment::decode(self.attachments)?;
        // What is written, and under which id, is for the hive to judge.
        let content = self.content.unwrap_or_default();
        let Self { id, mode, .. } = self;
        Ok(ClientFrame::Message(IncomingMessage { content, id, named, mode, attachments }))
    }

    fn subscribe(self) -> Result<ClientFrame, DoorError> {
        self.refuse_others("subscribe", &["type", "agent", "session", "since"])?;
        if self.since.is_some_and(|since| since < 0) {
            return Err(invalid("invalid_frame", "since is a number from 0"));
        }
        let agent = self.agent.map(agent_name).transpose()?;
        Ok(ClientFrame::Subscribe { agent, session: self.session, since: self.since })
    }

    /// The same body as over REST.
    fn approve(self) -> Result<ClientFrame, DoorError> {
        let usual = ["type", "id", "decision", "scope", "patterns", "note", "hash"];
        self.refuse_others("approve", &usual)?;
        let id = self.id.ok_or_else(|| {
            invalid("invalid_frame", "an approve frame names the approval with `id`")
        })?;
        let given = [
            ("decision", self.decision),
            ("scope", self.scope),
            ("patterns", self.patterns),
            ("note", self.note),
            ("hash", self.hash),
        ];
        let decision = body(given)?;
        Ok(ClientFrame::Approve { id, decision })
    }

    /// The same body as over REST.
    fn answer(self) -> Result<ClientFrame, DoorError> {
        self.refuse_others("answer", &["type", "id", "answer", "options"])?;
        let id = self.id.ok_or_else(|| {
            invalid("invalid_frame", "an answer frame names the question with `id`")
        })?;
        let answer = body([("answer", self.answer), ("options", self.options)])?;
        Ok(ClientFrame::Answer { id, answer })
    }

    fn named(&self) -> Result<Named, DoorError> {
        if self.topic_id.is_some() {
            let detail = "topics are not part of this version; use session";
            return Err(invalid("unknown_topic", detail));
        }
        let agent = agent_name(self.agent.clone().unwrap_or_else(|| "main".to_owned()))?;
        Ok(Named { agent, session: self.session.clone() })
    }

    fn refuse_others(&self, kind: &str, usual: &[&str]) -> Result<(), DoorError> {
        let given = [
            ("type", self.kind.is_some()),
            ("content", self.content.is_some()),
            ("id", self.id.is_some()),
            ("agent", self.agent.is_some()),
            ("session", self.session.is_some()),
            ("mode", self.mode.is_some()),
            ("since", self.since.is_some()),
            ("topic_id", self.topic_id.is_some()),
            ("attachments", self.attachments.is_some()),
            ("decision", self.decision.is_some()),
            ("scope", self.scope.is_some()),
            ("patterns", self.patterns.is_some()),
            ("note", self.note.is_some()),
            ("hash", self.hash.is_some()),
            ("answer", self.answer.is_some()),
            ("options", self.options.is_some()),
        ];
        let strange = given.iter().find(|(name, given)| *given && !usual.contains(name));
        match strange {
            None => Ok(()),
            Some((name, _)) => {
                Err(invalid("invalid_frame", format!("a {kind} frame has no field {name:?}")))
            }
        }
    }
}

/// What a body of these fields says.
fn body<T: DeserializeOwned>(
    given: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Result<T, DoorError> {
    let given = given.into_iter();
    let fields = given.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        invalid("invalid_frame", format!("this frame cannot be used: {}", unread::why(&error)))
    })
}

fn agent_name(name: String) -> Result<AgentName, DoorError> {
    match is_agent_name(&name) {
        true => Ok(AgentName::new(name)),
        false => {
            let shown = skep_scrub::known().beginning(&name, 64);
            let detail = format!("there is no agent {shown:?}");
            Err(DoorError::new(ErrorKind::NotFound, "unknown_agent", detail))
        }
    }
}

fn unreadable(error: &serde_json::Error) -> DoorError {
    match error.is_data() {
        true => {
            invalid("invalid_frame", format!("this frame cannot be used: {}", unread::why(error)))
        }
        false => invalid("bad_json", format!("this is not JSON: {}", unread::why(error))),
    }
}

/// The id of a frame with another mistake in it, so that its sender can tell which one it was.
fn id_in(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get("id")?.as_str()?.to_owned())
}

pub(crate) fn invalid(code: &'static str, text: impl Into<String>) -> DoorError {
    DoorError::new(ErrorKind::Invalid, code, text)
}

pub(crate) fn hello(channel: &ChannelId, seq: i64) -> Utf8Bytes {
    wire(&json!({ "type": "hello", "channel": channel, "seq": seq }))
}

pub(crate) fn resync(from: i64) -> Utf8Bytes {
    wire(&json!({ "type": "resync", "from": from }))
}

pub(crate) fn resync_events() -> Utf8Bytes {
    wire(&json!({ "type": "resync" }))
}

pub(crate) fn error(refused: &Refused) -> Utf8Bytes {
    let DoorError { code, text, .. } = &refused.error;
    let mut frame = json!({ "type": "error", "error": text, "code": code });
    if let (Some(id), Some(fields)) = (&refused.message_id, frame.as_object_mut()) {
        fields.insert("message_id".to_owned(), id.clone().into());
    }
    wire(&frame)
}

pub(crate) fn event(event: &Event) -> Utf8Bytes {
    wire(&json!({ "type": "event", "event": told(event) }))
}

/// The model call under way, for a subscriber that comes late.
pub(crate) fn active(active: &ActiveTurn) -> Utf8Bytes {
    wire(&json!({ "type": "active", "active": active }))
}

/// A question that was just answered.
pub(crate) fn approval(approval: &ApprovalInfo) -> Utf8Bytes {
    wire(&json!({ "type": "approval", "approval": approval }))
}

/// An agent has its answer.
pub(crate) fn answered(id: &str) -> Utf8Bytes {
    wire(&json!({ "type": "answered", "question": id }))
}

pub(crate) fn progress(place: &Place, turn: &str, tool: &str) -> Utf8Bytes {
    wire(&json!({
        "type": "progress",
        "content": format!("using {tool}"),
        "tool": tool,
        "agent": place.agent,
        "session": place.session,
        "turn": turn,
    }))
}

/// Where a piece of provisional text belongs. Another token or call voids what was shown before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeltaMark {
    pub(crate) turn: String,
    pub(crate) token: i64,
    pub(crate) call: u32,
    pub(crate) index: u32,
}

pub(crate) fn delta(place: &Place, mark: &DeltaMark, text: &str) -> Utf8Bytes {
    wire(&json!({
        "type": "delta",
        "content": text,
        "agent": place.agent,
        "session": place.session,
        "turn": mark.turn,
        "token": mark.token,
        "call": mark.call,
        "index": mark.index,
    }))
}

/// A frame may be older than what is known as a secret, or repeat what the client sent.
pub(crate) fn wire(frame: &Value) -> Utf8Bytes {
    skep_scrub::known().clean_json_text(frame.to_string()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<ClientFrame, Refused> {
        ClientFrame::parse(text)
    }

    fn named(agent: &str, session: Option<&str>) -> Named {
        Named { agent: AgentName::new(agent), session: session.map(str::to_owned) }
    }

    #[test]
    fn frames_that_are_taken() {
        let message = |content: &str, id: Option<&str>, named, mode| {
            ClientFrame::Message(IncomingMessage {
                content: content.to_owned(),
                id: id.map(str::to_owned),
                named,
                mode,
                attachments: Vec::new(),
            })
        };
        let cases = [
            (r#"{"content":"hi"}"#, message("hi", None, named("main", None), None)),
            (
                r#"{"content":"hi","id":"m1","agent":"cto","session":"x","mode":"interrupt"}"#,
                message("hi", Some("m1"), named("cto", Some("x")), Some(QueueMode::Interrupt)),
            ),
            (
                r#"{"content":"hi","topic_id":null,"attachments":[],"agent":null}"#,
                message("hi", None, named("main", None), None),
            ),
            ("{}", message("", None, named("main", None), None)),
            (r#"{"type":"interrupt"}"#, ClientFrame::Interrupt(named("main", None))),
            (
                r#"{"type":"subscribe","agent":"cto","session":"s","since":4}"#,
                ClientFrame::Subscribe {
                    agent: Some(AgentName::new("cto")),
                    session: Some("s".to_owned()),
                    since: Some(4),
                },
            ),
            (
                r#"{"type":"answer","id":"q","answer":"yes","options":["a"]}"#,
                ClientFrame::Answer {
                    id: "q".to_owned(),
                    answer: GivenAnswer { options: vec!["a".into()], ..GivenAnswer::words("yes") },
                },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn frames_that_are_refused() {
        let deep = "[".repeat(100_000);
        let cases = [
            ("", "bad_json", None),
            ("hello", "bad_json", None),
            (r#"{"content":"hi""#, "bad_json", None),
            (deep.as_str(), "invalid_frame", None),
            ("[]", "invalid_frame", None),
            ("3", "invalid_frame", None),
            (r#"{"content":5,"id":"m1"}"#, "invalid_frame", Some("m1")),
            (r#"{"content":"a","role":"operator","id":"m1"}"#, "invalid_frame", Some("m1")),
            (r#"{"content":"a","since":1}"#, "invalid_frame", None),
            (r#"{"content":"a","content":"b"}"#, "invalid_frame", None),
            (r#"{"content":"a","mode":"steer"}"#, "invalid_frame", None),
            (r#"{"content":"a","id":7}"#, "invalid_frame", None),
            (r#"{"content":"a","agent":"../x"}"#, "unknown_agent", None),
            (r#"{"content":"a","topic_id":"t"}"#, "unknown_topic", None),
            (r#"{"content":"a","attachments":[{}]}"#, "invalid_frame", None),
            (
                r#"{"content":"a","id":"m3","attachments":[{"name":"a","data":"!"}]}"#,
                "unsupported_attachment",
                Some("m3"),
            ),
            (r#"{"type":"interrupt","attachments":[]}"#, "invalid_frame", None),
            (r#"{"type":"approve","id":"m2"}"#, "invalid_frame", Some("m2")),
            (r#"{"type":"approve","decision":"approve","hash":"h"}"#, "invalid_frame", None),
            (r#"{"type":"approved","id":"m2"}"#, "unknown_type", Some("m2")),
            (r#"{"content":"yes","decision":"approve"}"#, "invalid_frame", None),
            (r#"{"type":"message","content":"a"}"#, "unknown_type", None),
            (r#"{"type":"interrupt","content":"a"}"#, "invalid_frame", None),
            (r#"{"type":"interrupt","topic_id":"t"}"#, "unknown_topic", None),
            (r#"{"type":"subscribe","since":-1}"#, "invalid_frame", None),
            (r#"{"type":"subscribe","content":"a"}"#, "invalid_frame", None),
        ];
        for (text, code, id) in cases {
            let shown = &text[..text.len().min(60)];
            let refused = parse(text).expect_err(shown);
            assert_eq!(refused.error.code, code, "{shown}: {}", refused.error.text);
            assert_eq!(refused.message_id.as_deref(), id, "{shown}");
        }
    }

    #[test]
    fn protocol_errors_have_no_seq() {
        let refused =
            Refused { error: invalid("bad_json", "why"), message_id: Some("m1".to_owned()) };
        let expected = r#"{"type":"error","error":"why","code":"bad_json","message_id":"m1"}"#;
        assert_eq!(error(&refused).as_str(), expected);
    }
}
