//! The closing transaction: the last step, the end of every item the turn answered, and the
//! frames that tell it, in one commit.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::engine::FailureCode;
use skep_core::event::{EventKind, ItemState};
use skep_core::frame::FrameKind;
use skep_core::ids::{ChannelId, ItemId, MessageId};
use skep_core::ids::{Token, TurnId};
use skep_core::message::{Message, Meta, StopReason, Usage};
use skep_db::{Refusal, Run, Tx, args, record};

use crate::tables::agents::{Tally, tally};
use crate::tables::approvals;
use crate::tables::inbox::EndedTurn;
use crate::tables::journal::{Entry, Leased, cost_of, tell_rows, write_entries};
use crate::tables::lanes;
use crate::tables::org::cancel::{self, CancelledTasks};
pub use crate::tables::org::results::KeptResult;
use crate::tables::org::results::{self, TurnResult};
use crate::tables::org::waits;
use crate::tables::outbox::{self, NewFrame};

#[derive(Clone)]
pub struct Close {
    pub turn: TurnId,
    pub token: Token,
    pub entries: Vec<Entry>,
    pub outcome: Outcome,
    /// Where the answer is kept whole, for each task that it may be too long for.
    pub kept: Vec<KeptResult>,
    /// The turn waited before, and may have left approvals open.
    pub resumed: bool,
    pub usage: Usage,
    pub active_ms: i64,
    pub now: Millis,
}

/// How a turn ended, for all of its items alike.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Answered { text: String },
    Ended { state: ItemState, code: FailureCode, text: String },
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "done",
            Self::Ended { code, .. } => code.as_str(),
        }
    }

    /// Why it ended without an answer: a word, and a text for people.
    fn failure(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Answered { .. } => (None, None),
            Self::Ended { code, text, .. } => (Some(code.as_str().to_owned()), Some(text.clone())),
        }
    }

    fn state(&self) -> ItemState {
        match self {
            Self::Answered { .. } => ItemState::Done,
            Self::Ended { state, .. } => *state,
        }
    }
}

pub struct Closed {
    /// The lane has more to do.
    pub more: bool,
    /// The rows of `entries`, in their order.
    pub rows: Vec<Message>,
    /// Turns of others that were asked to end: the caller ends them.
    pub stopped: Vec<EndedTurn>,
}

impl Run for Close {
    type Out = Closed;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let update = "UPDATE turns SET state = 'ended', ended_at = $2, changed_at = $2, \
                      outcome = $3, answer = $4, error = $5, active_ms = $6, \
                      steps = steps + $7, waiting_for = NULL, available_at = NULL, \
                      stop_reason = $8 WHERE id = $1";
        let (answer, error) = match &self.outcome {
            Outcome::Answered { text } => (Some(text), None),
            Outcome::Ended { text, .. } => (None, Some(text)),
        };
        let stop = answer.and(self.stop_reason());
        let (leased, found) = Leased::find(tx, &self.turn, self.token, self.now).await?;
        let answers = self.entries.iter().filter(|entry| matches!(entry, Entry::Assistant { .. }));
        let (word, answers) = (self.outcome.word(), answers.count());
        let args = args![self.turn, self.now, word, answer, error, self.active_ms, answers, stop];
        tx.conn.run(update, &args).await?;
        let mut more = found.pending > 0;
        let rows = write_entries(tx, &leased, &self.entries).await?;
        tell_rows(tx, &leased, rows.iter());
        let CancelledTasks { turns: stopped, woke, .. } = self.end_items(tx, &leased).await?;
        more |= woke || !stopped.is_empty();
        if self.resumed {
            approvals::withdraw(tx, &leased.asking()).await?;
            waits::forget(tx, &self.turn).await?;
        }
        if found.pending > 0 {
            lanes::refresh(tx, leased.lane, leased.agent, self.now).await?;
        }
        if found.alone {
            more |= lanes::vacate(tx, leased.agent, &self.turn).await?;
        }
        let (code, error) = self.outcome.failure();
        let kind = EventKind::TurnEnd {
            ok: error.is_none(),
            code,
            error,
            usage: self.usage,
            profile: self.answered_by(),
        };
        tx.event(leased.event(kind));
        Ok(Closed { more, rows, stopped })
    }

    fn cost(&self) -> usize {
        cost_of(&self.entries) + 1024
    }
}

struct EndedItem {
    id: ItemId,
    message_id: MessageId,
    channel: Option<ChannelId>,
    cause: Cause,
}

record!(EndedItem { id, message_id, channel, cause });

impl Close {
    /// Of the model calls, newest first.
    fn metas(&self) -> impl Iterator<Item = &Meta> {
        self.entries.iter().rev().filter_map(|entry| match entry {
            Entry::Assistant { message, .. } => message.body.meta.as_ref(),
            _ => None,
        })
    }

    fn answered_by(&self) -> Option<String> {
        self.metas().find_map(|meta| meta.profile.clone())
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.metas().next().map(|meta| meta.stop_reason)
    }

    async fn end_items(
        &self,
        tx: &mut Tx<'_>,
        leased: &Leased<'_>,
    ) -> Result<CancelledTasks, Refusal> {
        let select =
            "SELECT id, message_id, channel, kind, cause FROM items WHERE turn = $1 ORDER BY ord";
        let items: Vec<EndedItem> = tx.conn.list(select, &args![self.turn]).await?;
        let (code, error) = match &self.outcome {
            Outcome::Answered { .. } => (None, None),
            Outcome::Ended { code, text, .. } => (Some(code.as_str()), Some(text)),
        };
        let state = self.outcome.state();
        let update = "UPDATE items SET state = $2, error_code = $3, error = $4, \
                      finished_at = $5 WHERE turn = $1";
        tx.conn.run(update, &args![self.turn, state, code, error, self.now]).await?;
        let ended = i64::try_from(items.len()).unwrap_or(0);
        let by = Tally { running: -ended, turns: -1, ..Tally::default() };
        tally(tx, leased.agent, by).await?;
        if state == ItemState::Done && items.iter().any(|item| item.cause == Cause::Bootstrap) {
            let ready = "UPDATE agents SET bootstrapped = 1 WHERE id = $1";
            tx.conn.run(ready, &args![leased.agent]).await?;
        }
        self.answer_channels(tx, leased, &items).await?;
        let cancelled = self.end_tasks(tx, leased, &items).await?;
        for EndedItem { id: item, message_id, .. } in items {
            let (code, error) = self.outcome.failure();
            tx.event(leased.event(EventKind::InboxEnded { item, message_id, state, code, error }));
        }
        Ok(cancelled)
    }

    /// What the turn was a part of may have ended with it, and what it gave ends with it.
    async fn end_tasks(
        &self,
        tx: &mut Tx<'_>,
        leased: &Leased<'_>,
        items: &[EndedItem],
    ) -> Result<CancelledTasks, Refusal> {
        let mut cancelled = CancelledTasks::default();
        let (code, text) = match &self.outcome {
            Outcome::Answered { text } => (None, text),
            Outcome::Ended { code, text, .. } => (Some(code.as_str()), text),
        };
        let state = self.outcome.state();
        if state == ItemState::Cancelled && code != Some(FailureCode::Interrupted.as_str()) {
            cancel::of_turn(tx, &self.turn, self.now, &mut cancelled).await?;
        } else if self.resumed || state != ItemState::Done {
            // One that never waited and has answered has no subagent at work.
            cancel::subagents_of(tx, &self.turn, self.now, &mut cancelled).await?;
        }
        let comes_back = |item: &EndedItem| {
            use Cause::{Approved, Continue, Event, Peer, Reminder};
            matches!(item.cause, Approved(_) | Event | Peer | Reminder | Continue)
        };
        let in_chain = |item: &EndedItem| {
            let given = matches!(item.cause, Cause::Task { .. } | Cause::Escalation);
            comes_back(item) || given || item.cause == Cause::Question
        };
        if !items.iter().any(in_chain) {
            return Ok(cancelled);
        }
        let ended = TurnResult {
            turn: &self.turn,
            lane: leased.lane,
            agent_name: &leased.agent_name,
            state,
            code,
            text,
            kept: &self.kept,
            comes_back: items.iter().all(comes_back),
            now: self.now,
        };
        results::of_turn(tx, &ended, &mut cancelled).await?;
        Ok(cancelled)
    }

    /// One frame for each channel that asked, naming all of its messages.
    async fn answer_channels(
        &self,
        tx: &mut Tx<'_>,
        leased: &Leased<'_>,
        items: &[EndedItem],
    ) -> Result<(), Refusal> {
        let mut told: Vec<&ChannelId> = Vec::new();
        for item in items {
            let Some(channel) = &item.channel else { continue };
            if told.contains(&channel) {
                continue;
            }
            told.push(channel);
            let asked = items.iter().filter(|other| other.channel.as_ref() == Some(channel));
            let to: Vec<&str> = asked.map(|item| item.message_id.as_str()).collect();
            let agent = &leased.agent_name;
            let (kind, payload) = match &self.outcome {
                Outcome::Answered { text } => {
                    let mut payload = json!({"content": text, "in_reply_to": to, "agent": agent,
                                             "turn": self.turn});
                    if let Some(stop) = self.stop_reason() {
                        payload["stop_reason"] = stop.as_str().into();
                    }
                    (FrameKind::Response, payload)
                }
                Outcome::Ended { code, text, .. } => (
                    FrameKind::Error,
                    json!({"code": code.as_str(), "error": text, "in_reply_to": to,
                           "agent": agent, "turn": self.turn}),
                ),
            };
            let id = format!("{}.end", item.id);
            let new = NewFrame { id, channel, item: &item.id, kind, payload, now: self.now };
            outbox::push(tx, new).await?;
        }
        Ok(())
    }
}
