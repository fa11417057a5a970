//! Calls whose outcome a crash left unknown: the list of them, and what a person found out.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::cause::CallRef;
use skep_core::event::{Event, EventKind, Resolution};
use skep_core::ids::{AgentId, AgentName, CallId, Principal, SessionId, SessionKey, TurnId};
use skep_core::message::Body;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

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

record!(UnknownCallRow { turn, call_id, agent, agent_name, tool, at, session_key });

const UNRESOLVED: &str = "SELECT c.turn, c.call_id, t.agent, a.name, c.tool, c.changed_at, \
                          l.key FROM calls c JOIN turns t ON t.id = c.turn \
                          JOIN agents a ON a.id = t.agent \
                          JOIN lanes l ON l.id = t.lane WHERE c.state = 'unknown' \
                          AND c.resolved IS NULL ORDER BY c.changed_at DESC LIMIT $1";

/// Newest first.
pub async fn unknown_calls(conn: &mut Conn, limit: u32) -> Result<Vec<UnknownCallRow>, SqlError> {
    conn.list(UNRESOLVED, &args![limit]).await
}

/// What was called with what, as it stands in history: the tool and its arguments.
pub async fn made(conn: &mut Conn, made: &CallRef) -> Result<Option<(String, Json)>, SqlError> {
    let CallRef { turn, call } = made;
    let select = "SELECT h.body, c.tool FROM calls c JOIN turns t ON t.id = c.turn \
                  JOIN history h ON h.session = t.session AND h.seq = c.seq \
                  WHERE c.turn = $1 AND c.call_id = $2";
    let row: Option<(Body, String)> = conn.find(select, &args![turn, call]).await?;
    let Some((body, tool)) = row else { return Ok(None) };
    let found = body.tool_calls().find(|(id, ..)| *id == call);
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
        let args = args![self.turn, self.call, self.outcome, self.principal, self.now, self.note];
        let found: Option<(String, AgentName, SessionId, AgentId)> =
            tx.conn.find(resolve, &args).await?;
        let Some((tool, agent, session, agent_id)) = found else {
            return Err(why_not(tx.conn, &self.turn, &self.call).await?);
        };
        let word = self.outcome.as_str();
        tx.audit(AuditRow {
            principal: Some(self.principal.0.clone()),
            agent: Some(agent.0.clone()),
            agent_id: Some(agent_id),
            session: Some(session.0.clone()),
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
        tx.event(event.within(&session, Some(&self.turn)));
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
    let row: Option<(String, Option<String>, Option<String>)> =
        conn.find(select, &args![turn, call]).await?;
    let Some((state, resolved, by)) = row else {
        return Ok(Refusal::not_found(format!("call {call} of turn {turn}")));
    };
    Ok(match resolved {
        Some(word) => {
            let by = by.unwrap_or_default();
            let detail = format!("this call was resolved before: {word}, by {by}");
            Refusal::conflict("already_resolved", detail)
        }
        None => {
            let detail = format!("this call is {state}: there is nothing to find out about it");
            Refusal::conflict("not_unknown", detail)
        }
    })
}
