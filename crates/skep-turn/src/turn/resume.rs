//! What a turn finds when it begins or goes on: its session, its open calls, and whether it was
//! asked to end before it could.

use std::sync::Arc;

use serde_json::Value;

use skep_core::engine::{FailureCode, ToolCall};
use skep_core::event::ItemState;
use skep_core::file::File;
use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message, Role, Usage};
use skep_core::redelivery::{self, Again};
use skep_guard::random;
use skep_store::close::{Close, Outcome};
use skep_store::leases::Lease;
use skep_store::{approvals, files, history, outcomes};

use super::context::ModelContext;
use super::ending;
use super::env::TurnEnv;
use super::persist::Lost;
use super::state::{EndRequest, Turn, TurnState};
use super::step::{self, StepEnd};

/// Who an item is from that runs an approved call. No credential has such a name.
pub const APPROVAL_EVENT: &str = "approval:";

impl Turn {
    /// Messages that joined the turn come without the bytes of their files.
    pub(crate) async fn fill_files(&self, rows: &mut [Arc<Message>]) -> Result<(), Lost> {
        let open = |row: &Arc<Message>| row.body.files().any(|f| f.data.is_none() && self.needs(f));
        if !rows.iter().any(open) {
            return Ok(());
        }
        let read = self.env.store.read(async |conn| {
            let rows = rows.iter_mut().map(Arc::make_mut);
            files::fill(conn, rows, |file| self.needs(file)).await
        });
        read.await.map_err(|error| Lost::Refused(format!("reading files: {error}")))
    }

    /// A model that does not see is told of pictures in words.
    pub(crate) fn needs(&self, file: &File) -> bool {
        let profile = &self.agent.profile;
        let one_sees = || profile.fallback.iter().any(|other| other.sees_images);
        !file.is_image() || profile.sees_images || one_sees()
    }

    /// The calls of the last journalled message of this turn, when it asked for any.
    pub(crate) async fn open_calls(
        &self,
        rows: &[Arc<Message>],
    ) -> Result<Option<Vec<step::PlannedCall>>, Lost> {
        let last = rows.iter().rev().find(|row| row.body.role == Role::Assistant);
        let Some(last) = last.filter(|row| row.turn == self.lease.turn) else {
            return Ok(None);
        };
        let turn = self.lease.turn.clone();
        let read = self.env.store.read(async |conn| history::calls(conn, &turn).await);
        let calls = read.await.map_err(|error| Lost::Refused(error.to_string()))?;
        let mut planned = step::replan(&last.body, &calls);
        if planned.iter().any(|call| call.again == Again::Wait) {
            let read = self.env.store.read(async |conn| approvals::open_of_turn(conn, &turn).await);
            let open = read.await.map_err(|error| Lost::Refused(error.to_string()))?;
            for call in &mut planned {
                let asked = open.iter().find(|asked| asked.call == call.call.id);
                call.question = asked.map(|asked| (asked.id.clone(), asked.expires_at));
            }
        }
        Ok((!planned.is_empty()).then_some(planned))
    }

    /// A turn that is there to run an approved call does so before its model says anything.
    /// `Some`: it is over for this lease.
    pub(crate) async fn run_approved(
        &self,
        state: &mut TurnState,
        context: &mut ModelContext,
    ) -> Result<Option<()>, Lost> {
        let own: Vec<_> = context.rows.iter().filter(|row| row.turn == self.lease.turn).collect();
        let origin = own.first().and_then(|row| row.body.origin.as_ref());
        let event = origin.is_some_and(|origin| origin.principal.starts_with(APPROVAL_EVENT));
        if !event || own.iter().any(|row| row.body.role == Role::Assistant) {
            return Ok(None);
        }
        let turn = &self.lease.turn;
        let read = self.env.store.read(async |conn| {
            let found = approvals::of_event(conn, turn).await?;
            let Some(row) = found.filter(|row| row.used_at.is_none()) else { return Ok(None) };
            // As the model made it: hooks look at it anew, and what they make of it has to be
            // what was approved.
            let made = outcomes::arguments(conn, &row.turn, &row.call).await?;
            Ok(Some((made, row)))
        });
        let found = read.await.map_err(|error| Lost::Refused(error.to_string()))?;
        let Some((made, row)) = found else { return Ok(None) };
        let id = CallId(format!("approved_{}", row.number));
        let arguments = made.unwrap_or(row.arguments);
        let call = Block::ToolCall { id, name: row.tool, arguments };
        let body = Body::assistant(vec![call], None);
        let mut calls = step::plan(self, &body);
        let by = row.decided_by.unwrap_or_default();
        for planned in &mut calls {
            planned.decision = Some(approvals::decision(&row.id, true, &by, None));
        }
        self.run_own_step(state, context, body, calls).await
    }

    /// Runs the call this turn is there for, as a step of its own. `Some`: the turn is over for
    /// this lease.
    pub(crate) async fn run_again(
        &self,
        state: &mut TurnState,
        context: &mut ModelContext,
    ) -> Result<Option<()>, Lost> {
        let Some(body) = self.call_again(&context.rows) else { return Ok(None) };
        let calls = step::plan(self, &body);
        self.run_own_step(state, context, body, calls).await
    }

    /// A step that no model asked for.
    async fn run_own_step(
        &self,
        state: &mut TurnState,
        context: &mut ModelContext,
        body: Body,
        calls: Vec<step::PlannedCall>,
    ) -> Result<Option<()>, Lost> {
        match step::run(self, state, Some(step::new_message(body)), calls).await? {
            StepEnd::Parked => Ok(Some(())),
            StepEnd::Ended { request, open } => self.end(state, request, open).await.map(Some),
            StepEnd::Done(_) => {
                *context = self.read_context(state).await?;
                Ok(None)
            }
        }
    }

    /// The call this turn is there to run, where it has not asked for it yet: as if the model had.
    fn call_again(&self, rows: &[Arc<Message>]) -> Option<Body> {
        let mut own = rows.iter().filter(|row| row.turn == self.lease.turn);
        let again = own.next()?.body.details.as_ref()?.get("again")?;
        if own.any(|row| row.body.role == Role::Assistant) {
            return None;
        }
        let call = Block::ToolCall {
            id: CallId(format!("again_{}", random::uuid().simple())),
            name: again["tool"].as_str()?.to_owned(),
            arguments: again["arguments"].clone(),
        };
        Some(Body::assistant(vec![call], None))
    }

    /// A turn that was asked to end, or made no progress too often, asks no model.
    pub(crate) fn ending_at_once(&self) -> Option<(Outcome, &'static str)> {
        let ended = |state, code, text: String| Outcome::Ended { state, code, text };
        if let Some(reason) = self.lease.cancel {
            let request = EndRequest::Cancel(reason);
            let text = format!("Not finished: {}.", request.because());
            let ended = ended(ItemState::Cancelled, ending::code_of(reason), text);
            return Some((ended, request.because()));
        }
        if self.lease.attempts >= i64::from(self.settings.limits.attempts) {
            let text = format!(
                "Given up after {} attempts that ended without a step. Send it again to retry.",
                self.lease.attempts
            );
            let because = "the turn was given up";
            return Some((ended(ItemState::Dead, FailureCode::Dead, text), because));
        }
        None
    }

    pub(crate) async fn close_open_calls(
        &self,
        state: &mut TurnState,
        (outcome, because): (Outcome, &'static str),
        open: Option<Vec<step::PlannedCall>>,
    ) -> Result<(), Lost> {
        let mut entries = Vec::new();
        for planned in open.unwrap_or_default() {
            match planned.again {
                Again::Keep => {}
                Again::Unknown => entries.push(step::unknown(&planned.call)),
                Again::Run | Again::Wait => entries.push(step::not_run(&planned.call, because)),
            }
        }
        self.close(state, entries, outcome).await
    }

    pub(crate) fn usage_so_far(&self, rows: &[Arc<Message>]) -> Usage {
        let mut usage = Usage::default();
        let own = rows.iter().filter(|row| row.turn == self.lease.turn);
        for meta in own.filter_map(|row| row.body.meta.as_ref()) {
            usage.add(meta.usage);
        }
        usage
    }
}

/// Closes a turn whose agent cannot run it.
pub(crate) async fn close_unable(env: &TurnEnv, lease: &Lease, reason: &str) -> Result<(), Lost> {
    let read = env.store.read(async |conn| {
        let mut calls = Vec::new();
        for row in history::calls(conn, &lease.turn).await? {
            let arguments = outcomes::arguments(conn, &lease.turn, &row.call_id).await?;
            calls.push((row, arguments.unwrap_or(Value::Null)));
        }
        Ok(calls)
    });
    let calls = read.await.map_err(|error| Lost::Refused(error.to_string()))?;
    let entries = calls.into_iter().filter_map(|(row, arguments)| {
        let call = ToolCall { id: row.call_id, name: row.tool, arguments };
        match redelivery::decide(row.state, row.retry_safe, row.decision.is_some()) {
            Again::Keep => None,
            Again::Unknown => Some(step::unknown(&call)),
            Again::Run | Again::Wait => Some(step::not_run(&call, "its agent cannot run")),
        }
    });
    let close = Close {
        turn: lease.turn.clone(),
        token: lease.token,
        entries: entries.collect(),
        outcome: Outcome::Ended {
            state: ItemState::Failed,
            code: FailureCode::AgentUnavailable,
            text: format!("The agent {} cannot run: {reason}", lease.agent_name),
        },
        resumed: lease.resumed,
        usage: Usage::default(),
        active_ms: lease.active_ms,
        now: env.now(),
    };
    let closed = env.persist(&env.stop.cut, close).await?;
    env.lanes.look_for_more(closed.more);
    Ok(())
}
