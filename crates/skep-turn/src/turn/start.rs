//! From a planned call to its start: through the gate, a place among the calls that run, one more
//! look where time passed, and the mark on the disk. A call that is cut off before that is planned.

use std::sync::Arc;

use skep_core::engine::{OwnTool, ToolCall};
use skep_core::message::Message;
use skep_core::role::Role;
use skep_core::tool::ToolContext;
use skep_store::journal::Entry;

use super::persist::Lost;
use super::state::{EndRequest, Turn, TurnState};
use crate::gate::{ClearedCall, Examination, GateEnv};

/// What a step has written, and what it is still to write.
#[derive(Default)]
pub(crate) struct StepLog {
    pub entries: Vec<Entry>,
    pub rows: Vec<Arc<Message>>,
}

impl StepLog {
    /// Writes all of it with these; where the turn is to end first, these are not written.
    async fn write_with(
        &mut self,
        turn: &Turn,
        state: &mut TurnState,
        marks: Vec<Entry>,
    ) -> Result<Result<(), EndRequest>, Lost> {
        let before = self.entries.len();
        self.entries.extend(marks);
        Ok(match turn.write_unless_ended(state, self.entries.clone()).await? {
            Ok(written) => {
                self.rows.extend(written);
                self.entries.clear();
                Ok(())
            }
            Err(request) => {
                self.entries.truncate(before);
                Err(request)
            }
        })
    }
}

/// Takes a call through the gate until it could start: it has its place, and what a person said yes
/// to is what would run. `own`: the tool is the engine's. `Err`: the turn ends first, and the call
/// is still planned.
pub(crate) async fn reach_start(
    turn: &Turn,
    state: &mut TurnState,
    call: &ToolCall,
    own: Option<&OwnTool>,
    context: &ToolContext,
    log: &mut StepLog,
) -> Result<Result<Examination, EndRequest>, Lost> {
    if let Some(refused) = state.braked(call) {
        return Ok(Ok(Examination::Ended(Box::new(refused))));
    }
    let (ended, examined) = turn.guarded(turn.examine(call, own, context)).await;
    let mut cleared = match (ended, examined) {
        (Some(request), _) => return Ok(Err(request)),
        (None, Examination::Cleared(cleared)) => cleared,
        (None, examined) => return Ok(Ok(examined)),
    };
    if !turn.admit_now(&mut cleared) {
        // A call that is cut off while it waits is on record as planned.
        if let Err(request) = log.write_with(turn, state, vec![Entry::Queued]).await? {
            return Ok(Err(request));
        }
    }
    let (ended, admitted) = turn.guarded(turn.admit(call, cleared, context)).await;
    Ok(ended.map_or(Ok(admitted), Err))
}

/// Marks a call as started, with its approval and everything before it in one commit. `Err`: the
/// turn ends, and the call does not begin.
pub(crate) async fn mark_started(
    turn: &Turn,
    state: &mut TurnState,
    call: &ToolCall,
    approval: Option<String>,
    log: &mut StepLog,
) -> Result<Result<(), EndRequest>, Lost> {
    // The wish to end may have come with the last commit.
    if let Some(request) = turn.end_requested() {
        return Ok(Err(request));
    }
    let mut marks = vec![started(call)];
    marks.extend(approval.clone().map(|approval| Entry::Approved { approval }));
    if let Err(request) = log.write_with(turn, state, marks).await? {
        return Ok(Err(request));
    }
    // Or it came while the disk took its time: what has not begun does not begin.
    let Some(request) = turn.end_requested() else { return Ok(Ok(())) };
    if request == EndRequest::Cut {
        log.entries.push(Entry::Unstarted { call: call.id.clone(), approval });
    }
    Ok(Err(request))
}

pub(crate) fn started(call: &ToolCall) -> Entry {
    Entry::Started { call: call.id.clone() }
}

impl Turn {
    /// Takes a call through the gate as far as it can go without running.
    pub async fn examine(
        &self,
        call: &ToolCall,
        own: Option<&OwnTool>,
        context: &ToolContext,
    ) -> Examination {
        let policy = self.live_policy();
        self.gate(&policy).examine(call, own, context).await
    }

    pub fn admit_now(&self, cleared: &mut ClearedCall) -> bool {
        GateEnv::admit_now(&self.env.gate.admission, self.lease.agent, self.user(), cleared)
    }

    /// For whom it runs, unless for an operator.
    fn user(&self) -> Option<&str> {
        let principal = self.lease.requester.principal.as_str();
        let (role, _) = (self.env.gate.holder_of)(principal);
        (role != Some(Role::Operator)).then_some(principal)
    }

    /// Waits for a place where the call has none yet. What was decided before it waited, and what a
    /// person said yes to, is looked at again by the rules and files of now.
    pub async fn admit(
        &self,
        call: &ToolCall,
        cleared: Box<ClearedCall>,
        context: &ToolContext,
    ) -> Examination {
        if !cleared.waits() && cleared.approval().is_none() {
            return Examination::Cleared(cleared);
        }
        let policy = self.live_policy();
        let cleared = match cleared.waits() {
            true => match self.gate(&policy).admit(call, cleared, self.user(), context).await {
                Examination::Cleared(cleared) => cleared,
                ended => return ended,
            },
            false => cleared,
        };
        let policy = self.live_policy();
        self.gate(&policy).recheck(call, cleared, context).await
    }
}
