//! The body of an answer as events, whatever its header calls it: most servers send events, some
//! send one JSON document or one on each line.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use skep_core::engine::RetryCode;
use skep_core::provider::ModelError;

use crate::answer::{cut, garbage};
use crate::failure;
use crate::sse::{Parser, SseError, SseEvent};

/// The most a body that is no stream of events may have.
const DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
/// White space before a body shows what it is; some servers keep a connection open with it.
const BLANK_BYTES: usize = 64 * 1024;

pub(crate) enum ResponseBody {
    /// Only white space came so far.
    Blank(Vec<u8>),
    Events(Box<Parser>),
    Documents(Vec<u8>),
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::Blank(Vec::new())
    }
}

/// What a piece of the body holds, and what is wrong behind it.
#[derive(Default)]
pub(crate) struct BodyPiece {
    pub events: Vec<SseEvent>,
    pub fault: Option<ModelError>,
}

impl ResponseBody {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> BodyPiece {
        match self {
            Self::Blank(seen) => {
                seen.extend_from_slice(bytes);
                let bytes = std::mem::take(seen);
                self.begin(bytes)
            }
            Self::Events(parser) => {
                let mut events = Vec::new();
                let parsed = parser.push(bytes, &mut events);
                BodyPiece { events: apart(events), fault: parsed.err().map(unreadable) }
            }
            Self::Documents(document) => {
                document.extend_from_slice(bytes);
                let fault = (document.len() > DOCUMENT_BYTES).then(|| garbage("endless document"));
                BodyPiece { events: Vec::new(), fault }
            }
        }
    }

    /// The body ended well.
    pub(crate) fn finish(&mut self) -> BodyPiece {
        match self {
            Self::Blank(_) => BodyPiece::default(),
            Self::Events(parser) => match parser.finish() {
                Ok(last) => BodyPiece { events: apart(last.into_iter().collect()), fault: None },
                Err(error) => BodyPiece { events: Vec::new(), fault: Some(unreadable(error)) },
            },
            Self::Documents(document) => documents(document),
        }
    }

    fn begin(&mut self, bytes: Vec<u8>) -> BodyPiece {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii_start();
        match text.first() {
            None if bytes.len() < BLANK_BYTES => {
                *self = Self::Blank(bytes);
                BodyPiece::default()
            }
            Some(b'<') => BodyPiece { events: Vec::new(), fault: Some(failure::no_answer()) },
            Some(b'{' | b'[') => {
                *self = Self::Documents(text.to_vec());
                BodyPiece::default()
            }
            _ => {
                *self = Self::Events(Box::default());
                self.push(&bytes)
            }
        }
    }
}

/// Events without a blank line between them come out as one: their data holds several documents.
fn apart(events: Vec<SseEvent>) -> Vec<SseEvent> {
    let joined = |event: &SseEvent| {
        event.data.contains('\n') && serde_json::from_str::<IgnoredAny>(&event.data).is_err()
    };
    if !events.iter().any(joined) {
        return events;
    }
    let lines = |event: SseEvent| match joined(&event) {
        false => vec![event],
        true => event
            .data
            .lines()
            .map(|line| SseEvent { name: String::new(), data: line.to_owned() })
            .collect(),
    };
    events.into_iter().flat_map(lines).collect()
}

/// One document, several, or a list of them. What is cut off behind a whole one is a fault.
fn documents(body: &[u8]) -> BodyPiece {
    let mut piece = BodyPiece::default();
    let event = |raw: &RawValue| SseEvent { name: String::new(), data: raw.get().to_owned() };
    for document in serde_json::Deserializer::from_slice(body).into_iter::<&RawValue>() {
        let Ok(document) = document else {
            piece.fault = Some(cut());
            break;
        };
        match serde_json::from_str::<Vec<&RawValue>>(document.get()) {
            Ok(list) => piece.events.extend(list.into_iter().map(event)),
            Err(_) => piece.events.push(event(document)),
        }
    }
    piece
}

fn unreadable(error: SseError) -> ModelError {
    failure::passing(
        RetryCode::Unusable,
        format!("the model vendor's answer makes no sense: {error}"),
    )
}
