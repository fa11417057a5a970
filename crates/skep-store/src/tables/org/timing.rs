//! When the model and the tools of a turn were at work, and what it waited for.

use skep_core::Millis;
use skep_core::approval::ApprovalState;
use skep_core::event::CallState;
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::message::Body;
use skep_db::{Columns, Conn, Record, SqlError, args, record};

use crate::tables::history::ModelTimes;

/// Rows of history that are looked at together.
const PAGE: i64 = 200;
/// Of a longer turn the last rows are left out.
const MOST_ROWS: usize = 2000;

/// A turn and everything of it that has a time.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnTimes {
    pub turn: TimedTurn,
    /// What it began with, and when that came in.
    pub item: Option<(ItemId, Millis)>,
    pub rows: Vec<TimedRow>,
    pub calls: Vec<TimedCall>,
    pub approvals: Vec<TimedApproval>,
    /// How long calls ran, by the audit trail.
    pub took: Vec<(CallId, i64)>,
    /// There are more rows than are given.
    pub cut: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TimedTurn {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub state: String,
    pub waiting_for: Option<String>,
    pub started_at: Millis,
    pub changed_at: Millis,
    pub ended_at: Option<Millis>,
    pub active_ms: i64,
    pub first_seq: i64,
    /// How it ended, or while it is to be tried again why: a word.
    pub outcome: Option<String>,
    /// Those before this one that failed.
    pub attempts: i64,
}

record! { TimedTurn {
    agent, agent_name, session, session_key, state, waiting_for, started_at, changed_at, ended_at,
    active_ms, first_seq, outcome, attempts,
} }

/// A row of history.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRow {
    pub turn: TurnId,
    pub seq: i64,
    pub at: Millis,
    pub body: Body,
    /// Of the model call that said it, where that was seen.
    pub times: Option<ModelTimes>,
}

impl Record for TimedRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (turn, seq, at, body) = row.take()?;
        let (span, first, tries): (Option<(Millis, Millis)>, Option<Millis>, Option<i64>) =
            row.take()?;
        let tries = tries.unwrap_or(1);
        let times = span.map(|(began, ended)| ModelTimes { began, first, ended, tries });
        Ok(Self { turn, seq, at, body, times })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TimedCall {
    pub call: CallId,
    pub tool: String,
    pub state: CallState,
    /// What it waits for.
    pub reason: Option<String>,
    pub changed_at: Millis,
    /// First.
    pub started_at: Option<Millis>,
    /// It waited, and went on with what was decided or answered.
    pub waited: bool,
}

record!(TimedCall { call, tool, state, reason, changed_at, started_at, waited });

/// A question of it to a person.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedApproval {
    pub id: String,
    pub call: CallId,
    pub tool: String,
    pub state: ApprovalState,
    pub asked_at: Millis,
    pub decided_at: Option<Millis>,
    pub decided_by: Option<String>,
}

record!(TimedApproval { id, call, tool, state, asked_at, decided_at, decided_by });

pub async fn of_turn(conn: &mut Conn, turn: &TurnId) -> Result<Option<TurnTimes>, SqlError> {
    let select = "SELECT t.agent, a.name, t.session, l.key, t.state, t.waiting_for, t.started_at, \
                  t.changed_at, t.ended_at, t.active_ms, t.first_seq, t.outcome, t.attempts \
                  FROM turns t \
                  JOIN agents a ON a.id = t.agent JOIN lanes l ON l.id = t.lane WHERE t.id = $1";
    let Some(found) = conn.find::<TimedTurn>(select, &args![turn]).await? else {
        return Ok(None);
    };
    let item = "SELECT id, created_at FROM items WHERE turn = $1 ORDER BY ord LIMIT 1";
    let item = conn.find(item, &args![turn]).await?;
    let (rows, cut) = rows_of(conn, turn, &found).await?;
    let calls = "SELECT call_id, tool, state, reason, changed_at, started_at, decision IS NOT NULL \
                 FROM calls WHERE turn = $1 ORDER BY seq, position";
    let calls = conn.list(calls, &args![turn]).await?;
    let approvals = "SELECT id, call_id, tool, state, asked_at, decided_at, decided_by \
                     FROM approvals WHERE turn = $1 ORDER BY call_id";
    let approvals = conn.list(approvals, &args![turn]).await?;
    let took = "SELECT call_id, took_ms FROM audit WHERE turn = $1 AND kind = 'call' \
                AND call_id IS NOT NULL";
    let took = conn.list(took, &args![turn]).await?;
    Ok(Some(TurnTimes { turn: found, item, rows, calls, approvals, took, cut }))
}

/// They stand together: a session runs one turn at a time.
async fn rows_of(
    conn: &mut Conn,
    turn: &TurnId,
    found: &TimedTurn,
) -> Result<(Vec<TimedRow>, bool), SqlError> {
    let select = "SELECT turn, seq, at, body, model_began, model_ended, model_first, model_tries \
                  FROM history WHERE session = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
    let (mut rows, mut next): (Vec<TimedRow>, i64) = (Vec::new(), found.first_seq);
    loop {
        let page: Vec<TimedRow> = conn.list(select, &args![found.session, next, PAGE]).await?;
        let full = i64::try_from(page.len()).is_ok_and(|count| count == PAGE);
        next = page.last().map_or(next, |row| row.seq + 1);
        let before = rows.len() + page.len();
        rows.extend(page.into_iter().take_while(|row| row.turn == *turn));
        if !full || rows.len() < before {
            return Ok((rows, false));
        }
        if rows.len() >= MOST_ROWS {
            return Ok((rows, true));
        }
    }
}

/// What the turns of a chain asked people, oldest first: those of its first item and its tasks.
pub async fn approvals_of_chain(
    conn: &mut Conn,
    root: &ItemId,
) -> Result<Vec<(ItemId, TimedApproval)>, SqlError> {
    let of_root = "SELECT i.id, p.id, p.call_id, p.tool, p.state, p.asked_at, p.decided_at, \
                   p.decided_by FROM items i JOIN approvals p ON p.turn = i.turn \
                   WHERE i.id = $1 AND p.kind = 'call' LIMIT $2";
    let of_tasks = "SELECT i.id, p.id, p.call_id, p.tool, p.state, p.asked_at, p.decided_at, \
                    p.decided_by FROM tasks t JOIN items i ON i.id = t.item \
                    JOIN approvals p ON p.turn = i.turn \
                    WHERE t.root = $1 AND p.kind = 'call' LIMIT $2";
    let mut found: Vec<(ItemId, TimedApproval)> = conn.list(of_root, &args![root, PAGE]).await?;
    found.extend(conn.list(of_tasks, &args![root, PAGE]).await?);
    found.sort_by_key(|(_, approval)| approval.asked_at);
    Ok(found)
}
