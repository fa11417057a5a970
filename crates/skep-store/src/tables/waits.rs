//! Turns that wait: until a decision on a call comes, or until a time.

use skep_core::Millis;
use skep_core::decision::Decision;
use skep_core::event::{EventKind, ItemState};
use skep_core::ids::{AgentId, CallId, LaneId, SessionId, Token, TurnId};

use crate::engine::command::Run;
use crate::engine::error::Refusal;
use crate::engine::tx::Tx;
use crate::tables::approvals::{self, Asking, NewApproval};
use crate::tables::lanes;
use crate::tables::leases::{agent_name, make_ready, move_items};

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
    pub until: Option<Millis>,
    pub active_ms: i64,
    pub now: Millis,
}

impl Run for Park {
    /// False: a decision came in the meantime, or the turn was asked to end; it is ready instead.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let update = "UPDATE turns SET state = 'waiting', available_at = $3, waiting_for = $4, \
                      active_ms = $5, attempts = 0, changed_at = $6 \
                      WHERE id = $1 AND token = $2 AND state = 'running' \
                      RETURNING lane, agent, session, cancel";
        let args = [
            self.turn.as_str().into(),
            self.token.0.into(),
            self.until.into(),
            (&self.reason).into(),
            self.active_ms.into(),
            self.now.into(),
        ];
        let row = tx.conn.row(update, &args).await?.ok_or(Refusal::Stale)?;
        let (lane, agent) = (LaneId(row.int(0)?), AgentId(row.int(1)?));
        let session = SessionId(row.text(2)?);
        let mut goes_on = row.text_opt(3)?.is_some();
        for (call, reason) in &self.calls {
            // A decision on a call that still waited is news; one that it ran with is used up, and
            // so is one that was about something else: it is asked about anew.
            let wait = "UPDATE calls SET \
                        decision = CASE WHEN state = 'waiting' AND $5 = 0 THEN decision END, \
                        state = 'waiting', reason = $3, changed_at = $4 \
                        WHERE turn = $1 AND call_id = $2 AND state NOT IN ('done', 'unknown') \
                        RETURNING decision IS NOT NULL";
            let anew = self.approvals.iter().any(|asked| asked.call == *call);
            let args = [
                self.turn.as_str().into(),
                call.as_str().into(),
                reason.into(),
                self.now.into(),
                anew.into(),
            ];
            let row = tx.conn.row(wait, &args).await?;
            let row = row.ok_or_else(|| Refusal::not_found(format!("open call {call}")))?;
            goes_on |= row.bool(0)?;
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
        lanes::refresh(tx, lane, agent, self.now).await?;
        let kind = EventKind::TurnWaiting { reason: self.reason.clone(), until: self.until };
        tx.event(Asking { turn, agent, agent_name, session: &session, now }.event(kind));
        Ok(true)
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
        let args = [
            self.turn.as_str().into(),
            self.call.as_str().into(),
            (&decision).into(),
            self.now.into(),
        ];
        if tx.conn.run(update, &args).await? == 0 {
            return Err(Refusal::not_found(format!("waiting call {}", self.call)));
        }
        let select = "SELECT lane, agent FROM turns WHERE id = $1 AND state = 'waiting'";
        if let Some(row) = tx.conn.row(select, &[self.turn.as_str().into()]).await? {
            let (lane, agent) = (LaneId(row.int(0)?), AgentId(row.int(1)?));
            make_ready(tx, &self.turn, lane, agent, None, self.now).await?;
        }
        Ok(())
    }
}
