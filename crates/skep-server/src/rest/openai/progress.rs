//! An answer in chunks. Chunks cannot be taken back, while what a model says is provisional until
//! it is written down: text of a call that is void ends the streaming, and the answer as it was
//! kept follows at the end.

use std::collections::VecDeque;

use axum::response::sse::Event as Sent;
use skep_core::event::{DeltaPart, Event, EventKind};
use skep_core::message::Usage;
use skep_runtime::door::Followed;

use super::failure;
use super::reply::{Chunks, error};
use crate::telling::{Telling, Told};

pub(crate) struct Progress {
    chunks: Chunks,
    telling: Telling,
    ready: VecDeque<Sent>,
    text: Shown,
    over: bool,
}

/// What was sent of the answer so far.
#[derive(Default)]
struct Shown {
    /// Of the model call under way, with the token and number of that call.
    of_call: String,
    call: Option<(i64, u32)>,
    /// The call's message is a row: its text stands.
    written: bool,
    /// Something shown was void: only the end is sent.
    silent: bool,
    any: bool,
}

impl Progress {
    pub(crate) fn new(chunks: Chunks, telling: Telling) -> Self {
        let ready = VecDeque::from([chunks.role()]);
        Self { chunks, telling, ready, text: Shown::default(), over: false }
    }

    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            if self.over {
                return None;
            }
            match self.telling.next().await {
                Some(Told::Event(event)) => {
                    if let Some(piece) = self.text.take(&event) {
                        self.ready.push_back(self.chunks.text(&piece));
                    }
                }
                Some(Told::Lost) => self.text.silent = true,
                Some(Told::End(followed, usage)) => self.end(*followed, usage),
                Some(Told::Left) | None => {
                    let text = "the hive stops; the message is kept and goes on when it is back";
                    self.fail("stopping", text);
                }
            }
        }
    }

    fn end(&mut self, followed: Followed, usage: Option<Usage>) {
        let Some(response) = followed.response else {
            let (code, text) = failure(followed.error);
            return self.fail(&code, &text);
        };
        if let Some(rest) = self.text.rest(&response.content) {
            self.ready.push_back(self.chunks.text(&rest));
        }
        self.ready.push_back(self.chunks.stop());
        if self.chunks.include_usage {
            self.ready.push_back(self.chunks.usage(usage.unwrap_or_default()));
        }
        self.finish();
    }

    fn fail(&mut self, code: &str, text: &str) {
        self.ready.push_back(Sent::default().data(error(500, text, code, None).to_string()));
        self.finish();
    }

    fn finish(&mut self) {
        self.ready.push_back(Sent::default().data("[DONE]"));
        self.over = true;
    }
}

impl Shown {
    /// The text to send for this event.
    fn take(&mut self, event: &Event) -> Option<String> {
        match &event.kind {
            EventKind::HistoryUpdated { .. } => {
                self.written = true;
                None
            }
            EventKind::Delta { token, call, part: DeltaPart::Text, text, .. } => {
                self.say((token.0, *call), text)
            }
            _ => None,
        }
    }

    fn say(&mut self, call: (i64, u32), text: &str) -> Option<String> {
        if self.silent {
            return None;
        }
        let mut piece = String::new();
        if self.call != Some(call) {
            if !self.of_call.is_empty() && !self.written {
                self.silent = true;
                return None;
            }
            if self.any {
                piece.push_str("\n\n");
            }
            self.of_call.clear();
            self.call = Some(call);
            self.written = false;
        }
        self.any = true;
        self.of_call.push_str(text);
        piece.push_str(text);
        Some(piece)
    }

    /// What is missing of the answer as it was kept.
    fn rest(&self, answer: &str) -> Option<String> {
        if let Some(rest) = answer.strip_prefix(&self.of_call) {
            return (!rest.is_empty()).then(|| rest.to_owned());
        }
        let gap = if self.any { "\n\n" } else { "" };
        Some(format!("{gap}{answer}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_streamed_ends_as_the_answer_that_was_kept() {
        // (call, text) pieces; None: written down. Then the answer, and what is sent in all.
        type Case<'a> = (&'a [Option<(u32, &'a str)>], &'a str, &'a str);
        let cases: &[Case<'_>] = &[
            (&[], "hello", "hello"),
            (&[Some((1, "hel")), Some((1, "lo")), None], "hello", "hello"),
            (&[Some((1, "hel"))], "hello", "hello"),
            (
                &[Some((1, "I look.")), None, Some((2, "It is 4."))],
                "It is 4.",
                "I look.\n\nIt is 4.",
            ),
            // The first try was cut and said something else.
            (&[Some((1, "It mi")), Some((2, "It is 4."))], "It is 4.", "It mi\n\nIt is 4."),
            (&[Some((1, "It is")), Some((2, "It is 4."))], "It is 4.", "It is 4."),
        ];
        for (pieces, answer, expected) in cases {
            let mut shown = Shown::default();
            let mut sent = String::new();
            for piece in *pieces {
                match piece {
                    Some((call, text)) => sent.extend(shown.say((1, *call), text)),
                    None => shown.written = true,
                }
            }
            sent.extend(shown.rest(answer));
            assert_eq!(&sent, expected, "{pieces:?}");
        }
    }
}
