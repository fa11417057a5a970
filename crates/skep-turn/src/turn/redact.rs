//! What the hive hears of an engine: its events without secrets, before anything keeps or tells
//! them. A word that comes in pieces waits for its end: it may be a secret.

use skep_core::engine::{EngineEvent, TurnEnd};
use skep_core::ids::CallId;
use skep_core::message::{Block, Body};
use skep_scrub::{Scrubber, Stream};

/// The text under way of one engine's run.
pub(crate) struct Redactor<'s> {
    scrubber: &'s Scrubber,
    part: Part,
    stream: Stream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    Text,
    Thinking,
}

impl<'s> Redactor<'s> {
    pub fn new(scrubber: &'s Scrubber) -> Self {
        Self { scrubber, part: Part::None, stream: Stream::default() }
    }

    /// What can be passed on now: what was held back, then the event itself.
    pub fn take(&mut self, event: EngineEvent) -> impl Iterator<Item = EngineEvent> + use<> {
        let (held, event) = match event {
            EngineEvent::Text(text) => self.piece(Part::Text, text),
            EngineEvent::Thinking(text) => self.piece(Part::Thinking, text),
            EngineEvent::Signature(signed) => (self.flush(), self.signature(signed)),
            EngineEvent::CallStart => {
                self.begin(Part::None);
                (None, Some(EngineEvent::CallStart))
            }
            other => {
                let held = self.flush();
                self.begin(Part::None);
                (held, self.whole(other))
            }
        };
        held.into_iter().chain(event)
    }

    fn piece(&mut self, part: Part, text: String) -> (Option<EngineEvent>, Option<EngineEvent>) {
        let mut held = None;
        if self.part != part {
            held = self.flush();
            self.begin(part);
        }
        let shown = self.stream.push(self.scrubber, text);
        (held, event_of(part, shown))
    }

    /// A signature proves the thinking as it was; of thinking that was changed it proves nothing,
    /// and the vendor would refuse the two together. Without it the block is not shown to the
    /// model again.
    fn signature(&mut self, signed: String) -> Option<EngineEvent> {
        let proves_nothing = self.part == Part::Thinking && self.stream.has_found();
        if proves_nothing || self.scrubber.clean(&signed) != signed {
            tracing::warn!("thinking held a secret; it is not shown to the model again");
            return None;
        }
        self.begin(Part::None);
        Some(EngineEvent::Signature(signed))
    }

    /// An event that comes in one piece.
    fn whole(&self, event: EngineEvent) -> Option<EngineEvent> {
        let clean = |text: String| self.scrubber.clean_owned(text);
        Some(match event {
            // Encrypted: with a piece replaced it is worth nothing.
            EngineEvent::RedactedThinking(data) if self.scrubber.clean(&data) != data => {
                return None;
            }
            EngineEvent::ToolCall { id, name, mut arguments } => {
                if self.scrubber.clean_json(&mut arguments) {
                    tracing::warn!(tool = clean(name.clone()), "a secret in a call was replaced");
                }
                let (id, name) = (CallId(clean(id.0)), clean(name));
                EngineEvent::ToolCall { id, name, arguments }
            }
            EngineEvent::OwnCall { id, name, mut arguments } => {
                self.scrubber.clean_json(&mut arguments);
                let (id, name) = (CallId(clean(id.0)), clean(name));
                EngineEvent::OwnCall { id, name, arguments }
            }
            EngineEvent::ToolResult { id, text, is_error } => {
                EngineEvent::ToolResult { id: CallId(clean(id.0)), text: clean(text), is_error }
            }
            EngineEvent::Raw(line) => EngineEvent::Raw(clean(line)),
            EngineEvent::Meta(mut meta) => {
                meta.model = clean(meta.model);
                EngineEvent::Meta(meta)
            }
            EngineEvent::Retry { retry, text } => EngineEvent::Retry { retry, text: clean(text) },
            EngineEvent::Notice(text) => EngineEvent::Notice(clean(text)),
            EngineEvent::End(end) => EngineEvent::End(match end {
                TurnEnd::Failed { code, text } => TurnEnd::Failed { code, text: clean(text) },
                TurnEnd::Park { until, code, reason } => {
                    TurnEnd::Park { until, code, reason: clean(reason) }
                }
                TurnEnd::Retry { code, text } => TurnEnd::Retry { code, text: clean(text) },
                end @ (TurnEnd::Finished
                | TurnEnd::Cancelled
                | TurnEnd::StepLimit
                | TurnEnd::StaleSession) => end,
            }),
            // Named one by one: a new kind of event has to be thought of here.
            event @ (EngineEvent::RedactedThinking(_)
            | EngineEvent::Asking(_)
            | EngineEvent::CallStart
            | EngineEvent::EngineSession { .. }
            | EngineEvent::Text(_)
            | EngineEvent::Thinking(_)
            | EngineEvent::Signature(_)) => event,
        })
    }

    fn flush(&mut self) -> Option<EngineEvent> {
        event_of(self.part, self.stream.finish(self.scrubber))
    }

    fn begin(&mut self, part: Part) {
        self.part = part;
        self.stream.clear();
    }
}

fn event_of(part: Part, text: String) -> Option<EngineEvent> {
    match part {
        _ if text.is_empty() => None,
        Part::None => None,
        Part::Text => Some(EngineEvent::Text(text)),
        Part::Thinking => Some(EngineEvent::Thinking(text)),
    }
}

/// Rows may be older than what is known as a secret; the model is not shown it all the same.
pub(crate) fn clean(scrubber: &Scrubber, body: &mut Body) {
    let take = |text: &mut String| *text = scrubber.clean_owned(std::mem::take(text));
    body.shown.iter_mut().for_each(take);
    body.content.retain_mut(|block| {
        match block {
            Block::Text { text } => take(text),
            Block::Thinking { thinking, signature } => {
                let found = scrubber.clean(thinking) != thinking.as_str();
                // A signature proves nothing about words that were replaced.
                if found {
                    take(thinking);
                    *signature = None;
                }
            }
            Block::RedactedThinking { data } => return scrubber.clean(data) == data.as_str(),
            Block::ToolCall { arguments, .. } => {
                scrubber.clean_json(arguments);
            }
            Block::File(_) => {}
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skep_core::engine::FailureCode;
    use skep_scrub::Secret;

    use super::*;

    fn heard(events: Vec<EngineEvent>) -> Vec<EngineEvent> {
        let scrubber = Scrubber::default();
        scrubber.add([Secret::new("key", "sk-secret-1")]);
        let mut redactor = Redactor::new(&scrubber);
        events.into_iter().flat_map(|event| redactor.take(event).collect::<Vec<_>>()).collect()
    }

    fn text(text: &str) -> EngineEvent {
        EngineEvent::Text(text.to_owned())
    }

    fn thinking(text: &str) -> EngineEvent {
        EngineEvent::Thinking(text.to_owned())
    }

    fn signature(text: &str) -> EngineEvent {
        EngineEvent::Signature(text.to_owned())
    }

    fn call(id: &str, argument: &str) -> EngineEvent {
        let arguments = json!({"command": argument});
        EngineEvent::ToolCall { id: CallId::new(id), name: "bash".to_owned(), arguments }
    }

    fn failed(text: &str) -> EngineEvent {
        let code = FailureCode::ProviderRejected;
        EngineEvent::End(TurnEnd::Failed { code, text: text.to_owned() })
    }

    #[test]
    fn what_is_heard() {
        let cases: [(&str, Vec<EngineEvent>, Vec<EngineEvent>); 7] = [
            (
                "pieces",
                vec![text("it is sk-se"), text("cret"), text("-1."), text(" End s")],
                vec![text("it is "), text("[secret:key]. End ")],
            ),
            (
                "the end brings out what was held back",
                vec![text("file"), text("s"), thinking("sk-"), failed("no sk-secret-1")],
                vec![text("files"), thinking("sk-"), failed("no [secret:key]")],
            ),
            (
                "signed thinking that held a secret loses its signature, the next one keeps its",
                vec![
                    thinking("sk-secret-1"),
                    signature("a"),
                    text("x"),
                    thinking("y"),
                    signature("b"),
                ],
                vec![thinking("[secret:key]"), text("x"), thinking("y"), signature("b")],
            ),
            (
                "blocks of thinking in a row: one signature never covers what it did not sign",
                vec![thinking("sk-secret-1"), signature("a"), thinking("y"), signature("b")],
                vec![thinking("[secret:key]"), thinking("y")],
            ),
            (
                "a signature that holds it",
                vec![thinking("y"), signature("{sk-secret-1}"), text("! ")],
                vec![thinking("y"), text("! ")],
            ),
            (
                "calls, encrypted thinking",
                vec![
                    call("sk-secret-1", "echo sk-secret-1"),
                    EngineEvent::RedactedThinking("sk-secret-1".to_owned()),
                ],
                vec![call("[secret:key]", "echo [secret:key]")],
            ),
            (
                "an answer that begins anew",
                vec![text("sk-"), EngineEvent::CallStart, text("secret-1 ")],
                vec![EngineEvent::CallStart, text("secret-1 ")],
            ),
        ];
        for (what, said, expected) in cases {
            assert_eq!(heard(said), expected, "{what}");
        }
    }

    #[test]
    fn rows_older_than_a_secret_are_shown_without_it() {
        let scrubber = Scrubber::default();
        scrubber.add([Secret::new("late", "sk-late-1234")]);
        let thinking = |text: &str, signature: Option<&str>| Block::Thinking {
            thinking: text.to_owned(),
            signature: signature.map(str::to_owned),
        };
        let call = |path: &str| Block::ToolCall {
            id: CallId::new("c"),
            name: "read".to_owned(),
            arguments: json!({ "path": path }),
        };
        let redacted = |data: &str| Block::RedactedThinking { data: data.to_owned() };
        let mut body = Body::assistant(
            vec![
                Block::text("it is sk-late-1234"),
                thinking("sk-late-1234", Some("proof")),
                thinking("nothing", Some("proof")),
                redacted("sk-late-1234"),
                redacted("opaque"),
                call("/sk-late-1234"),
            ],
            None,
        );
        body.shown = Some("sk-late-1234".to_owned());
        clean(&scrubber, &mut body);
        let expected = [
            Block::text("it is [secret:late]"),
            thinking("[secret:late]", None),
            thinking("nothing", Some("proof")),
            redacted("opaque"),
            call("/[secret:late]"),
        ];
        assert_eq!(
            (body.content.as_slice(), body.shown.as_deref()),
            (&expected[..], Some("[secret:late]"))
        );
    }
}
