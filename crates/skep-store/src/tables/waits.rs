//! Turns that wait: until a decision on a call comes, or until a time; and what people decide.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::approval::{ApprovalKind, ApprovalState, Scope};
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::decision::Decision;
use skep_core::engine::RetryCode;
use skep_core::event::{EventKind, ItemState};
use skep_core::ids::{AgentId, ApprovalId, CallId, LaneId, SessionId, Token, TurnId};
use skep_core::visible::bounded_text;
use skep_db::{Refusal, Run, Tx, args};

use crate::tables::approvals::{self, Approval, Asking, NewApproval};
use crate::tables::inbox::{Accept, Accepted};
use crate::tables::lanes;
use crate::tables::leases::{agent_name, make_ready, move_items};
use crate::tables::org;
use crate::tables::org::shape::{self, ShapeDecision};
use crate::tables::people::grants::{AddGrant, GrantRow};

/// Characters of a pattern in an event.
const TOLD: usize = 400;

/// The turn waits: for decisions on calls, or for time. It keeps its lane and gives back its
/// slot.
#[derive(Clone)]
pub struct Park {
    pub turn: TurnId,
    pub token: Token,
    pub calls: Vec<(CallId, String)>,
    /// What is asked about some of them.
    pub approvals: Vec<NewApproval>,
    pub reason: String,
    /// It waits for the time alone, and is tried again then: why.
    pub retries: Option<RetryCode>,
    pub until: Option<Millis>,
    pub active_ms: i64,
    pub now: Millis,
}

impl Run for Park {
    /// False: a decision came in the meantime, or the turn was asked to end; it is ready instead.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let update = "UPDATE turns SET state = 'waiting', available_at = $3, waiting_for = $4, \
                      active_ms = $5, attempts = 0, changed_at = $6, outcome = $7 \
                      WHERE id = $1 AND token = $2 AND state = 'running' \
                      RETURNING lane, agent, session, cancel IS NOT NULL";
        let Self { turn, token, until, reason, active_ms, now, retries, .. } = self;
        let args = args![turn, token, until, reason, active_ms, now, retries];
        let found: Option<(LaneId, AgentId, SessionId, bool)> = tx.conn.find(update, &args).await?;
        let (lane, agent, session, mut goes_on) = found.ok_or(Refusal::Stale)?;
        for (call, reason) in &self.calls {
            // A decision on a call that still waited is news; one that it ran with is used up, and
            // so is one that was about something else: it is asked about anew.
            let wait = "UPDATE calls SET \
                        decision = CASE WHEN state = 'waiting' AND $5 = 0 THEN decision END, \
                        state = 'waiting', reason = $3, changed_at = $4 \
                        WHERE turn = $1 AND call_id = $2 AND state NOT IN ('done', 'unknown') \
                        RETURNING decision IS NOT NULL";
            let anew = self.approvals.iter().any(|asked| asked.call == *call);
            let args = args![self.turn, call, reason, self.now, anew];
            let decided: Option<bool> = tx.conn.find(wait, &args).await?;
            goes_on |= decided.ok_or_else(|| Refusal::not_found(format!("open call {call}")))?;
            // What it waits for may have come before it did.
            goes_on |= org::waits::settle(tx, &self.turn, call, self.now).await?;
        }
        let name = agent_name(tx, agent).await?;
        let (turn, agent_name, now) = (&self.turn, &name, self.now);
        for approval in &self.approvals {
            let asking = Asking { turn, agent, agent_name, session: &session, now };
            approvals::ask(tx, &asking, approval).await?;
        }
        move_items(tx, &self.turn, agent, ItemState::Running, ItemState::Waiting).await?;
        if goes_on {
            make_ready(tx, &self.turn, lane, agent, None, self.now).await?;
            return Ok(false);
        }
        lanes::vacate(tx, agent, &self.turn).await?;
        lanes::refresh(tx, lane, agent, self.now).await?;
        let kind = EventKind::TurnWaiting { reason: self.reason.clone(), until: self.until };
        tx.event(Asking { turn, agent, agent_name, session: &session, now }.event(kind));
        Ok(true)
    }
}

/// Ends the pause before a turn is tried again.
pub struct RetryNow {
    pub turn: TurnId,
    pub now: Millis,
}

impl Run for RetryNow {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let select = "SELECT lane, agent FROM turns WHERE id = $1 AND ended_at IS NULL \
                      AND state IN ('ready', 'waiting') AND outcome IS NOT NULL";
        let Some((lane, agent)) = tx.conn.find(select, &args![self.turn]).await? else {
            let detail = format!("the turn {} does not wait for another try", self.turn);
            return Err(Refusal::conflict("not_retrying", detail));
        };
        make_ready(tx, &self.turn, lane, agent, None, self.now).await
    }
}

/// A decision on a waiting call: the turn goes on with it.
#[derive(Clone)]
pub struct Decide {
    pub turn: TurnId,
    pub call: CallId,
    pub decision: Decision,
    pub now: Millis,
}

impl Run for Decide {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let decision = self.decision.stored();
        let update = "UPDATE calls SET decision = $3, changed_at = $4 WHERE turn = $1 \
                      AND call_id = $2 AND state = 'waiting' AND decision IS NULL \
                      AND EXISTS (SELECT 1 FROM turns WHERE id = $1 AND ended_at IS NULL)";
        let args = args![self.turn, self.call, decision, self.now];
        if tx.conn.run(update, &args).await? == 0 {
            return Err(Refusal::not_found(format!("waiting call {}", self.call)));
        }
        let select = "SELECT lane, agent FROM turns WHERE id = $1 AND state = 'waiting'";
        if let Some((lane, agent)) = tx.conn.find(select, &args![self.turn]).await? {
            make_ready(tx, &self.turn, lane, agent, None, self.now).await?;
        }
        Ok(())
    }
}

/// A person's answer. It is refused when there is one already, when the question was another one,
/// or when nothing waits for it any more.
pub struct AnswerApproval {
    pub id: String,
    pub approve: bool,
    pub scope: Scope,
    pub patterns: Vec<String>,
    pub note: Option<String>,
    /// The hash that the decider was shown.
    pub hash: String,
    pub by: String,
    /// The door it came through.
    pub from: String,
    /// Grants that are written in the same commit.
    pub grants: Vec<GrantRow>,
    /// Of a question that was asked again: the item that runs the call.
    pub event: Option<Box<Accept>>,
    pub now: Millis,
}

impl Run for AnswerApproval {
    /// What became of the item, where there is one.
    type Out = Option<Accepted>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let found = approvals::existing(tx.conn, &self.id).await?;
        found.answerable(&self.hash, self.now)?;
        let waits = !found.reopened && found.kind == ApprovalKind::Call;
        if waits && approvals::is_told_to_end(tx.conn, &found.turn).await? {
            return Err(approvals::withdrawn(&self.id));
        }
        let state = if self.approve { ApprovalState::Approved } else { ApprovalState::Denied };
        let update = "UPDATE approvals SET state = $2, decided_by = $3, decided_at = $4, \
                      decided_from = $5, scope = $6, patterns = $7, note = $8 WHERE id = $1";
        let patterns = (!self.patterns.is_empty()).then(|| json!(self.patterns).to_string());
        let args =
            args![self.id, state, self.by, self.now, self.from, self.scope, patterns, self.note];
        tx.conn.run(update, &args).await?;
        let asking = found.asking(self.now);
        tx.event(asking.event(self.told(state)));
        tx.audit(self.trace(&found, state)).await?;
        for grant in &self.grants {
            AddGrant(grant.clone()).run(tx).await?;
        }
        if found.kind == ApprovalKind::Shape {
            let decision = ShapeDecision {
                approve: self.approve,
                by: &self.by,
                note: self.note.as_deref(),
                now: self.now,
            };
            return shape::decide(tx, &found, &decision).await.map(|()| None);
        }
        if found.reopened {
            return self.run_as_item(tx).await;
        }
        let decision = Decision::Approval {
            id: ApprovalId::new(&self.id),
            approve: self.approve,
            by: self.by.clone(),
            note: self.note.clone(),
        };
        let (turn, call) = (found.turn.clone(), found.call.clone());
        let decide = Decide { turn, call, decision, now: self.now };
        decide.run(tx).await.map(|()| None)
    }
}

impl AnswerApproval {
    fn told(&self, state: ApprovalState) -> EventKind {
        let patterns = self.patterns.iter().map(|pattern| bounded_text(pattern, TOLD));
        EventKind::ApprovalDecided {
            approval: self.id.clone(),
            state,
            by: Some(self.by.clone()),
            scope: Some(self.scope),
            patterns: patterns.collect(),
        }
    }

    /// Who decided what, for the audit trail.
    fn trace(&self, found: &Approval, state: ApprovalState) -> AuditRow {
        let word = format!("{} {} through {}", state.as_str(), self.scope.as_str(), self.from);
        let mut links = vec![json!({"stage": "approval", "word": word})];
        let patterns = self.patterns.iter().map(|pattern| ("pattern", pattern));
        for (stage, word) in patterns.chain(self.note.iter().map(|note| ("note", note))) {
            links.push(json!({"stage": stage, "word": word}));
        }
        let row = AuditRow::new(AuditKind::Decision, self.now, state.as_str());
        AuditRow { decision: Json::Array(links).to_string(), ..found.trace(&self.by, row) }
    }

    /// The asking turn has ended: the call gets a turn of its own.
    async fn run_as_item(&self, tx: &mut Tx<'_>) -> Result<Option<Accepted>, Refusal> {
        let Some(event) = self.event.as_ref().filter(|_| self.approve) else {
            return match self.approve {
                false => Ok(None),
                true => Err(Refusal::conflict("changed", "it was reopened; read it again")),
            };
        };
        event.run(tx).await.map(Some)
    }
}
