//! What a turn finds when it begins or goes on: its session, its open calls, and whether it was
//! asked to end before it could.

use std::sync::Arc;

use skep_core::cause::{CallRef, Cause};
use skep_core::decision::Decision;
use skep_core::engine::{FailureCode, ToolCall};
use skep_core::event::{CancelReason, ItemState};
use skep_core::file::File;
use skep_core::ids::{ApprovalId, CallId, TurnId};
use skep_core::message::{Block, Body, Message, Role, Usage};
use skep_core::redelivery::{self, Again};
use skep_guard::random;
use skep_store::close::{Close, Outcome};
use skep_store::leases::Lease;
use skep_store::{Conn, SqlError, approvals, files, history, outcomes};

use super::context::ModelContext;
use super::ending;
use super::env::TurnEnv;
use super::persist::Lost;
use super::state::{EndRequest, Turn, TurnState};
use super::step::{self, StepEnd};

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
        let mut planned = match calls.iter().any(|call| call.own) {
            false => step::replan(&last.body, &calls),
            // Its messages are on record as they were said, and their calls may end in any order.
            true => {
                let own = rows.iter().filter(|row| row.turn == self.lease.turn);
                own.flat_map(|row| step::replan(&row.body, &calls)).collect()
            }
        };
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

    /// A turn that is there for one call runs it, as if its model had asked for it, before the
    /// model says anything. `Some`: the turn is over for this lease.
    pub(crate) async fn run_own_call(
        &self,
        state: &mut TurnState,
        context: &mut ModelContext,
    ) -> Result<Option<()>, Lost> {
        let mut own = context.rows.iter().filter(|row| row.turn == self.lease.turn);
        if !matches!(self.lease.cause, Cause::Approved(_) | Cause::Again(_))
            || own.any(|row| row.body.role == Role::Assistant)
        {
            return Ok(None);
        }
        let read = self.env.store.read(async |conn| match &self.lease.cause {
            Cause::Approved(id) => approved_call(conn, id).await,
            Cause::Again(call) => {
                let id = CallId(format!("again_{}", random::uuid().simple()));
                let made = outcomes::made(conn, call).await?;
                let call = |(name, arguments)| Block::ToolCall { id, name, arguments };
                Ok(made.map(|made| (call(made), None, None)))
            }
            _ => Ok(None),
        });
        let found = read.await.map_err(|error| Lost::Refused(error.to_string()))?;
        let Some((call, decision, asking)) = found else { return Ok(None) };
        if let Some(asking) = asking {
            self.env.gate.secrets.share(&asking, &self.lease.turn);
        }
        let body = Body::assistant(vec![call], None);
        let mut calls = step::plan(self, &body);
        for planned in &mut calls {
            planned.decision.clone_from(&decision);
        }
        match Box::pin(step::run(self, state, Some(step::new_message(body)), calls)).await? {
            StepEnd::Parked => Ok(Some(())),
            StepEnd::Ended { request, open } => self.end(state, request, open).await.map(Some),
            StepEnd::Done(_) => {
                *context = self.read_context(state).await?;
                Ok(None)
            }
        }
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
        if self.lease.attempts >= i64::from(self.snapshot.settings.limits.attempts) {
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

/// A call, what was decided about it, and the turn that made it.
type OwnCall = (Block, Option<Decision>, Option<TurnId>);

/// The call of an approval that was not used yet. It is as the model made it: hooks look at it
/// anew, and what they make of it has to be what was approved.
async fn approved_call(conn: &mut Conn, id: &ApprovalId) -> Result<Option<OwnCall>, SqlError> {
    let found = approvals::find(conn, id.as_str()).await?;
    let Some(row) = found.filter(|row| row.used_at.is_none()) else { return Ok(None) };
    let asking = row.turn.clone();
    let made = outcomes::made(conn, &CallRef { turn: row.turn, call: row.call }).await?;
    let call = Block::ToolCall {
        id: CallId(format!("approved_{}", row.number)),
        name: row.tool,
        arguments: made.map_or(row.arguments, |(_, arguments)| arguments),
    };
    let by = row.decided_by.unwrap_or_default();
    let decision = Decision::Approval { id: id.clone(), approve: true, by, note: None };
    Ok(Some((call, Some(decision), Some(asking))))
}

/// Closes a turn whose agent cannot run it.
pub(crate) async fn close_unable(env: &TurnEnv, lease: &Lease, reason: &str) -> Result<(), Lost> {
    let read = env.store.read(async |conn| {
        let mut calls = Vec::new();
        for row in history::calls(conn, &lease.turn).await? {
            let of = CallRef { turn: lease.turn.clone(), call: row.call_id.clone() };
            let arguments = outcomes::made(conn, &of).await?.unwrap_or_default().1;
            calls.push((row, arguments));
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
        kept: Vec::new(),
        resumed: lease.resumed,
        usage: Usage::default(),
        active_ms: lease.active_ms,
        now: env.now(),
    };
    let closed = env.persist(&env.stop.cut, close).await?;
    env.session_scopes.end_subagent(lease);
    for ended in &closed.stopped {
        env.lanes.registry.cancel(&ended.turn, CancelReason::Stop);
    }
    env.lanes.look_for_more(closed.more);
    Ok(())
}
