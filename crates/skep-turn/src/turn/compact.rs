//! Compaction: the older part of a session is told to the model in notes it wrote itself. The rows
//! stay; only what the model is shown changes, from the row that tells of it on.

use std::sync::Arc;

use tokio::sync::mpsc;

use skep_core::compaction::{self, Reason, Seam};
use skep_core::engine::{EngineEvent, FailureCode, SessionKeeper, TurnEnd};
use skep_core::fold::Fold;
use skep_core::ids::TurnId;
use skep_core::message::{Body, Message};
use skep_store::close::Outcome;
use skep_store::compactions::Compaction;
use skep_store::journal::Entry;

use super::context::ModelContext;
use super::engine::EngineRun;
use super::own_loop::ParkedRun;
use super::persist::{Joining, Lost};
use super::redact::Redactor;
use super::state::{EndRequest, EngineMemory, Turn, TurnState};

const INSTRUCTION: &str = include_str!("prompts/notes.md");
/// Longer notes would be no notes.
const LONGEST_NOTES: usize = 64 * 1024;

/// What came of an attempt to make room.
pub(crate) enum Room {
    Made,
    /// Nothing could go, or no notes came of it: why.
    No(String),
    /// The turn ended meanwhile.
    Over,
}

/// What came of asking for notes.
enum Notes {
    Written(Box<Body>),
    /// The model said nothing that could be used.
    Empty(Option<Box<Body>>),
    Failed(TurnEnd),
    Ended(EndRequest),
}

impl Turn {
    /// Runs the engine over the session; where that grew too long, it is first told in notes: once
    /// where the vendor refuses it, before that whenever its window is nearly full.
    pub(crate) async fn converse(
        &self,
        state: &mut TurnState,
        mut context: ModelContext,
        mut parked: Option<ParkedRun>,
    ) -> Result<(), Lost> {
        let refused = |compaction: &Compaction| {
            compaction.turn == self.lease.turn && compaction.reason == Reason::Overflow
        };
        let mut overflowed = context.compaction.as_ref().is_some_and(refused);
        // Where no room could be made there is no point in asking for it at every step.
        let mut may_rest = true;
        loop {
            if may_rest && parked.is_none() && self.is_full(context.used()) {
                match self.make_room(state, &context, Reason::Full, None).await? {
                    Room::Over => return Ok(()),
                    Room::Made => context = self.read_context(state).await?,
                    Room::No(why) => {
                        self.tell(format!("the session goes on as it is: {why}"));
                        may_rest = false;
                    }
                }
            }
            let run = match self.keeper() {
                SessionKeeper::Hive => self.run_engine(state, context.all(), may_rest).await?,
                SessionKeeper::Engine { on_resume } => {
                    self.run_own_loop(state, &context, on_resume, parked.take()).await?
                }
            };
            let end = match run {
                EngineRun::Over => return Ok(()),
                EngineRun::Full | EngineRun::Stale => {
                    context = self.read_context(state).await?;
                    continue;
                }
                EngineRun::TooLong(end) => end,
            };
            // What was journalled meanwhile counts too.
            context = self.read_context(state).await?;
            if overflowed {
                return self.finish(state, end).await;
            }
            overflowed = true;
            match self.make_room(state, &context, Reason::Overflow, None).await? {
                Room::Over => return Ok(()),
                Room::Made => context = self.read_context(state).await?,
                Room::No(_) => return self.finish(state, end).await,
            }
        }
    }

    /// Whether the next call of the model would come too near to the end of its window.
    pub(crate) fn is_full(&self, used: Option<u64>) -> bool {
        let window = self.agent.profile.context_window;
        used.zip(window).is_some_and(|(used, window)| compaction::is_full(used, window))
    }

    /// Tells the older part of the session in notes. `wish` is what a person wants kept.
    pub(crate) async fn make_room(
        &self,
        state: &mut TurnState,
        context: &ModelContext,
        reason: Reason,
        wish: Option<&str>,
    ) -> Result<Room, Lost> {
        // What asks for it is no part of it.
        let asks = |row: &Arc<Message>| reason == Reason::Asked && row.turn == self.lease.turn;
        let rows = context.whole();
        let rows = &rows[..rows.iter().position(asks).unwrap_or(rows.len())];
        let at = match reason {
            Reason::Asked => compaction::cut_asked(rows),
            Reason::Full | Reason::Overflow => compaction::cut(rows),
        };
        let Some(at) = at else {
            return Ok(Room::No("there is nothing that could be told in notes".to_owned()));
        };
        self.tell(format!("making notes of {at} messages, to show the model these instead"));
        let (text, meta) = match self.ask_for_notes(state, context.up_to(at), wish).await? {
            Notes::Written(body) => (body.plain_text(), body.meta),
            Notes::Ended(request) => {
                self.end(state, request, Vec::new()).await?;
                return Ok(Room::Over);
            }
            Notes::Empty(body) if reason != Reason::Full => {
                (compaction::plain_notes(&rows[..at]), body.and_then(|body| body.meta))
            }
            // The part that is to go is too long for the model by itself.
            Notes::Failed(TurnEnd::Failed {
                code: FailureCode::ContextTooLong | FailureCode::ProviderRejected,
                ..
            }) => (compaction::plain_notes(&rows[..at]), None),
            Notes::Empty(_) => return Ok(Room::No("the model wrote no notes".to_owned())),
            Notes::Failed(end) if reason == Reason::Full => {
                return Ok(Room::No(format!("no notes could be made: {end:?}")));
            }
            Notes::Failed(end) => {
                self.finish(state, end).await?;
                return Ok(Room::Over);
            }
        };
        let inside = rows.get(at).is_some_and(|row| row.turn == rows[at - 1].turn);
        let task = inside.then(|| self.task(context)).flatten();
        let notes = match task {
            Some(task) => format!("What you were asked for, and are at now:\n{task}\n\n{text}"),
            None => text,
        };
        let notes: String = notes.chars().take(LONGEST_NOTES).collect();
        let upto = rows[at - 1].seq;
        let mut body = compaction::seam(&Seam { upto, messages: at, reason }, &notes);
        body.meta = meta;
        let seam = Entry::Seam { message: self.said_message(body) };
        // A session that an engine keeps has the rows, not the notes.
        state.engine_session = EngineMemory::Stale;
        self.write(state, vec![seam], Joining::Later).await?;
        // What the model is shown begins elsewhere from here on.
        state.session = None;
        Ok(Room::Made)
    }

    /// Carries out `/compact`: the turn is nothing else.
    pub(crate) async fn compact_as_asked(
        &self,
        state: &mut TurnState,
        context: ModelContext,
        wish: Option<&str>,
    ) -> Result<(), Lost> {
        let own = |compaction: &Compaction| compaction.turn == self.lease.turn;
        // After a crash it may be done already.
        if !context.compaction.as_ref().is_some_and(own) {
            match self.make_room(state, &context, Reason::Asked, wish).await? {
                Room::Over => return Ok(()),
                Room::Made => {}
                Room::No(why) => {
                    let text = format!("Nothing was compacted: {why}.");
                    return self.close(state, Vec::new(), Outcome::Answered { text }).await;
                }
            }
        }
        let text = "Compacted: older messages are shown to the model as notes from here on. The \
                    history keeps every message; its full view has the notes.";
        let outcome = Outcome::Answered { text: text.to_owned() };
        self.close(state, Vec::new(), outcome).await
    }

    /// One call of the model over the rows that are to go: they are what it was shown before, so
    /// that its cache holds.
    async fn ask_for_notes(
        &self,
        state: &mut TurnState,
        mut rows: Vec<Arc<Message>>,
        wish: Option<&str>,
    ) -> Result<Notes, Lost> {
        let Some(engine) = self.snapshot.engine(&self.agent) else {
            return Ok(Notes::Empty(None));
        };
        let mut text = INSTRUCTION.to_owned();
        if let Some(wish) = wish {
            text.push_str(&format!("\nTo be kept above all: {wish}\n"));
        }
        rows.push(self.aside(&TurnId::new("notes"), i64::MAX, text));
        // Nobody listens at this gate: a call that is asked for does not run.
        let (requests, _) = mpsc::channel(1);
        let mut request = self.request(rows, requests, 0);
        request.steps_left = 1;
        request.cancel = self.ender.child_token();
        let mut handle = engine.start(request);
        let mut redactor = Redactor::new(skep_scrub::known());
        let mut fold = Fold::default();
        let mut said = None;
        loop {
            let event = tokio::select! {
                biased;
                request = self.ended() => {
                    self.ender.cancel();
                    return Ok(Notes::Ended(request));
                }
                event = handle.events.recv() => event,
            };
            let Some(event) = event else {
                return Ok(notes_of(said));
            };
            for event in redactor.take(event) {
                match event {
                    EngineEvent::Meta(meta) => {
                        self.running.times().end(self.env.now());
                        self.count(state, &meta);
                        said = Some(Box::new(fold.finish(meta)));
                    }
                    EngineEvent::End(TurnEnd::Finished | TurnEnd::StepLimit) => {
                        return Ok(notes_of(said));
                    }
                    // An answer came, and it was empty; what it used is written.
                    EngineEvent::End(_) if said.is_some() => return Ok(Notes::Empty(None)),
                    EngineEvent::End(end) => {
                        // The next message is no other try of this call.
                        self.running.times().cut(self.env.now());
                        return Ok(Notes::Failed(end));
                    }
                    EngineEvent::Notice(text) => {
                        tracing::debug!(turn = %self.lease.turn, text, "engine, making notes");
                    }
                    EngineEvent::Retry { retry, text } => self.back_off(state, retry, text),
                    event => {
                        self.time(&event);
                        fold.apply(event);
                    }
                }
            }
        }
    }
}

fn notes_of(said: Option<Box<Body>>) -> Notes {
    match said {
        Some(body) if !body.plain_text().trim().is_empty() => Notes::Written(body),
        said => Notes::Empty(said),
    }
}
