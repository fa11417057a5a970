//! Calls whose outcome a crash left unknown: the list of them, and what a person found out.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::cause::CallRef;
use skep_core::event::{Event, EventKind, Resolution};
use skep_core::ids::{AgentId, AgentName, CallId, Principal, SessionId, SessionKey, TurnId};
use skep_core::message::Body;

use crate::engine::command::Run;
use crate::engine::conn::{Conn, Row};
use crate::engine::error::{Refusal, SqlError};
use crate::engine::tx::Tx;
use crate::tables::inbox::{Accept, Accepted};

/// A call of unknown outcome that nobody has resolved yet.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownCallRow {
    pub turn: TurnId,
    pub call_id: CallId,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub tool: String,
    pub at: Millis,
    pub session_key: SessionKey,
}

const UNRESOLVED: &str = "SELECT c.turn, c.call_id, a.name, c.tool, c.changed_at, l.key, \
                          t.agent FROM calls c JOIN turns t ON t.id = c.turn \
                          JOIN agents a ON a.id = t.agent \
                          JOIN lanes l ON l.id = t.lane WHERE c.state = 'unknown' \
                          AND c.resolved IS NULL ORDER BY c.changed_at DESC LIMIT $1";

/// Newest first.
pub async fn unknown_calls(conn: &mut Conn, limit: u32) -> Result<Vec<UnknownCallRow>, SqlError> {
    let rows = conn.rows(UNRESOLVED, &[limit.into()]).await?;
    rows.iter().map(decode).collect()
}

fn decode(row: &Row) -> Result<UnknownCallRow, SqlError> {
    Ok(UnknownCallRow {
        turn: TurnId(row.text(0)?),
        call_id: CallId(row.text(1)?),
        agent: AgentId(row.int(6)?),
        agent_name: AgentName(row.text(2)?),
        tool: row.text(3)?,
        at: row.int(4)?,
        session_key: SessionKey(row.text(5)?),
    })
}

/// What was called with what, as it stands in history: the tool and its arguments.
pub async fn made(conn: &mut Conn, made: &CallRef) -> Result<Option<(String, Json)>, SqlError> {
    let CallRef { turn, call } = made;
    let select = "SELECT h.body, c.tool FROM calls c JOIN turns t ON t.id = c.turn \
                  JOIN history h ON h.session = t.session AND h.seq = c.seq \
                  WHERE c.turn = $1 AND c.call_id = $2";
    let row = conn.row(select, &[turn.as_str().into(), call.as_str().into()]).await?;
    let Some(row) = row else { return Ok(None) };
    let body: Body = serde_json::from_str(&row.text(0)?)
        .map_err(|error| SqlError::decode(format!("a message: {error}")))?;
    let found = body.tool_calls().find(|(id, ..)| *id == call);
    let tool = row.text(1)?;
    Ok(found.map(|(_, _, arguments)| (tool, arguments.clone())))
}

/// Writes what became of a call, once.
pub struct Resolve {
    pub turn: TurnId,
    pub call: CallId,
    pub outcome: Resolution,
    pub note: Option<String>,
    pub principal: Principal,
    /// Brings the call back into its lane, where it is to run again.
    pub again: Option<Accept>,
    pub now: Millis,
}

impl Run for Resolve {
    type Out = Option<Accepted>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let resolve = "UPDATE calls SET resolved = $3, resolved_by = $4, resolved_at = $5, \
                       note = $6 WHERE turn = $1 AND call_id = $2 AND state = 'unknown' \
                       AND resolved IS NULL RETURNING tool, \
                       (SELECT a.name FROM turns t JOIN agents a ON a.id = t.agent \
                       WHERE t.id = turn), (SELECT t.session FROM turns t WHERE t.id = turn), \
                       (SELECT t.agent FROM turns t WHERE t.id = turn)";
        let args = [
            self.turn.as_str().into(),
            self.call.as_str().into(),
            self.outcome.as_str().into(),
            self.principal.as_str().into(),
            self.now.into(),
            (&self.note).into(),
        ];
        let Some(row) = tx.conn.row(resolve, &args).await? else {
            return Err(why_not(tx.conn, &self.turn, &self.call).await?);
        };
        let (tool, agent, session) = (row.text(0)?, AgentName(row.text(1)?), row.text(2)?);
        let agent_id = AgentId(row.int(3)?);
        let word = self.outcome.as_str();
        tx.audit(AuditRow {
            principal: Some(self.principal.0.clone()),
            agent: Some(agent.0.clone()),
            agent_id: Some(agent_id),
            session: Some(session.clone()),
            turn: Some(self.turn.0.clone()),
            call_id: Some(self.call.0.clone()),
            tool: Some(tool.clone()),
            arguments: json!({ "note": self.note }).to_string(),
            ..AuditRow::new(AuditKind::Decision, self.now, word)
        })
        .await?;
        let (call_id, outcome) = (self.call.clone(), self.outcome);
        let kind = EventKind::CallResolved { call_id, tool, outcome };
        let event = Event::of(agent_id, &agent, self.now, kind);
        tx.event(event.within(&SessionId(session), Some(&self.turn)));
        match &self.again {
            Some(accept) => accept.run(tx).await.map(Some),
            None => Ok(None),
        }
    }

    fn cost(&self) -> usize {
        1024 + self.again.as_ref().map_or(0, |again| again.cost())
    }
}

/// Why a call is not to be resolved.
pub async fn why_not(conn: &mut Conn, turn: &TurnId, call: &CallId) -> Result<Refusal, SqlError> {
    let select = "SELECT state, resolved, resolved_by FROM calls WHERE turn = $1 AND call_id = $2";
    let row = conn.row(select, &[turn.as_str().into(), call.as_str().into()]).await?;
    let Some(row) = row else {
        return Ok(Refusal::not_found(format!("call {call} of turn {turn}")));
    };
    Ok(match row.text_opt(1)? {
        Some(word) => {
            let by = row.text_opt(2)?.unwrap_or_default();
            let detail = format!("this call was resolved before: {word}, by {by}");
            Refusal::conflict("already_resolved", detail)
        }
        None => {
            let state = row.text(0)?;
            let detail = format!("this call is {state}: there is nothing to find out about it");
            Refusal::conflict("not_unknown", detail)
        }
    })
}
