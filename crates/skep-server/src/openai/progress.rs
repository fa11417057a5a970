//! An answer in chunks. Chunks cannot be taken back, while what a model says is provisional until
//! it is written down: text of a call that is void ends the streaming, and the answer as it was
//! kept follows at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::sse::Event as Sent;
use skep_core::event::{DeltaPart, Event, EventKind};
use skep_core::message::Usage;
use skep_runtime::door::Followed;

use super::answer_of;
use super::reply::Chunks;
use crate::door::state::Doors;
use crate::request::openai_error::error;
use crate::request::problem::Problem;
use crate::stream::follow_stream::{FollowItem, Telling};

pub(crate) struct Progress {
    doors: Doors,
    chunks: Chunks,
    telling: Telling,
    ready: VecDeque<Sent>,
    text: Shown,
    stage: Stage,
}

/// Open → Ended | Left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The end of the message is told.
    Ended,
    /// The hive stops; the message goes on.
    Left,
}

/// What was sent of the answer so far.
#[derive(Default)]
struct Shown {
    sent: String,
    /// The model call under way: its token and number.
    call: Option<(i64, u32)>,
    /// The call's message is a row: its text stands.
    written: bool,
    /// Something shown was void, or something was missed: only the end is sent.
    silent: bool,
}

impl Progress {
    /// Whoever joins a message has missed what was said before.
    pub(crate) fn new(doors: &Doors, chunks: Chunks, telling: Telling, joined: bool) -> Self {
        let ready = VecDeque::from([chunks.role()]);
        let text = Shown { silent: joined, ..Shown::default() };
        Self { doors: Arc::clone(doors), chunks, telling, ready, text, stage: Stage::Open }
    }

    /// The last piece was given, and it was the end of the message.
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended && self.ready.is_empty()
    }

    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            if self.stage != Stage::Open {
                return None;
            }
            match self.telling.next().await {
                Some(FollowItem::Event(event)) => self.event(&event),
                Some(FollowItem::Lost) => self.text.silent = true,
                Some(FollowItem::End(followed, usage)) => self.end(*followed, usage).await,
                Some(FollowItem::Left) | None => {
                    let text = "the hive stops; the message is kept and goes on when it is back";
                    self.fail(&Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", text));
                    self.stage = Stage::Left;
                }
            }
        }
    }

    fn event(&mut self, event: &Event) {
        if let EventKind::TurnWaiting { reason, .. } = &event.kind {
            let text = format!("The turn waits: {reason}\n");
            self.ready.push_back(self.chunks.reasoning(&text));
        }
        if let Some(piece) = self.text.take(event) {
            self.ready.push_back(self.chunks.text(&piece));
        }
    }

    async fn end(&mut self, followed: Followed, usage: Option<Usage>) {
        self.stage = Stage::Ended;
        let answered = match answer_of(&self.doors, &followed).await {
            Ok(answered) => answered,
            Err(failure) => {
                return self.fail(&Problem::failed_turn(failure.code, failure.error));
            }
        };
        let last = followed.response.map(|response| response.content).unwrap_or_default();
        if let Some(rest) = self.text.rest(&answered.text, &last) {
            self.ready.push_back(self.chunks.text(&rest));
        }
        self.ready.push_back(self.chunks.finish(answered.finish));
        if self.chunks.include_usage {
            self.ready.push_back(self.chunks.usage(usage.unwrap_or_default()));
        }
        self.done();
    }

    fn fail(&mut self, problem: &Problem) {
        self.ready.push_back(Sent::default().data(error(&problem.summary()).to_string()));
        self.done();
    }

    fn done(&mut self) {
        self.ready.push_back(Sent::default().data("[DONE]"));
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
            if self.call.is_some() && !self.written {
                self.silent = true;
                return None;
            }
            if !self.sent.is_empty() {
                piece.push_str("\n\n");
            }
            self.call = Some(call);
            self.written = false;
        }
        piece.push_str(text);
        self.sent.push_str(&piece);
        Some(piece)
    }

    /// What is missing of the whole text; where something else was shown, the last words of it.
    fn rest(&self, whole: &str, last: &str) -> Option<String> {
        match whole.strip_prefix(&self.sent) {
            Some("") => None,
            Some(rest) => Some(rest.to_owned()),
            None => Some(format!("\n\n{last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_streamed_ends_as_the_answer_that_was_kept() {
        // (call, text) pieces; None: written down. Then the texts kept, and what is sent in all.
        type Case<'a> = (&'a [Option<(u32, &'a str)>], &'a [&'a str], &'a str);
        let cases: &[Case<'_>] = &[
            (&[], &["hello"], "hello"),
            (&[Some((1, "hel")), Some((1, "lo")), None], &["hello"], "hello"),
            (&[Some((1, "hel"))], &["hello"], "hello"),
            (
                &[Some((1, "I look.")), None, Some((2, "It is 4."))],
                &["I look.", "It is 4."],
                "I look.\n\nIt is 4.",
            ),
            // The first try was cut and said something else.
            (&[Some((1, "It mi")), Some((2, "It is 4."))], &["It is 4."], "It mi\n\nIt is 4."),
            (&[Some((1, "It is")), Some((2, "It is 4."))], &["It is 4."], "It is 4."),
            // Events were lost after the first words.
            (&[Some((1, "I l"))], &["I look.", "It is 4."], "I look.\n\nIt is 4."),
        ];
        for (pieces, kept, expected) in cases {
            let mut shown = Shown::default();
            let mut sent = String::new();
            for piece in *pieces {
                match piece {
                    Some((call, text)) => sent.extend(shown.say((1, *call), text)),
                    None => shown.written = true,
                }
            }
            sent.extend(shown.rest(&kept.join("\n\n"), kept.last().unwrap()));
            assert_eq!(&sent, expected, "{pieces:?}");
        }
    }
}
