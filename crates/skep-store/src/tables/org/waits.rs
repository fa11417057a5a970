//! Calls that wait for the answers of tasks. The decision of such a call is written when the last
//! answer is there, or when its time is over.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::decision::Decision;
use skep_core::ids::{AgentId, CallId, ItemId, LaneId, TurnId};

use crate::tables::leases::make_ready;
use skep_db::{Conn, Refusal, SqlError, Tx, args};

pub(crate) async fn insert(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    task: &ItemId,
    until: Millis,
) -> Result<(), SqlError> {
    let insert = "INSERT INTO waits (turn, call, task, until) VALUES ($1, $2, $3, $4)";
    tx.conn.run(insert, &args![turn, call, task, until]).await?;
    Ok(())
}

/// The call that waits for the task no longer does. Nothing where none did.
pub(crate) async fn end(
    tx: &mut Tx<'_>,
    task: &ItemId,
) -> Result<Option<(TurnId, CallId)>, SqlError> {
    let select = "SELECT turn, call FROM waits WHERE task = $1";
    let found = tx.conn.find(select, &args![task]).await?;
    if found.is_some() {
        tx.conn.run("DELETE FROM waits WHERE task = $1", &args![task]).await?;
    }
    Ok(found)
}

/// Gives the call its decision where it waits for nothing more. One that is not parked yet finds
/// it when it parks.
pub(crate) async fn settle(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    now: Millis,
) -> Result<bool, Refusal> {
    let open = "SELECT 1 FROM waits WHERE turn = $1 AND call = $2 LIMIT 1";
    if tx.conn.find::<i64>(open, &args![turn, call]).await?.is_some() {
        return Ok(false);
    }
    let answers = answers(tx.conn, turn, call).await?;
    if answers.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    let decision = Decision::Tool(json!({ "tasks": answers })).stored();
    let update = "UPDATE calls SET decision = $3, changed_at = $4 WHERE turn = $1 \
                  AND call_id = $2 AND state = 'waiting' AND decision IS NULL";
    if tx.conn.run(update, &args![turn, call, decision, now]).await? == 0 {
        return Ok(false);
    }
    let select = "SELECT lane, agent FROM turns WHERE id = $1 AND state = 'waiting'";
    let waiting: Option<(LaneId, AgentId)> = tx.conn.find(select, &args![turn]).await?;
    if let Some((lane, agent)) = waiting {
        make_ready(tx, turn, lane, agent, None, now).await?;
    }
    Ok(true)
}

/// What the tasks of a call have come to, in the order they were given.
pub(crate) async fn answers(
    conn: &mut Conn,
    turn: &TurnId,
    call: &CallId,
) -> Result<Json, SqlError> {
    type Answer = (String, String, String, Option<String>, Option<String>);
    let select = "SELECT t.item, a.name, t.state, t.result, t.code FROM tasks t \
                  JOIN agents a ON a.id = t.agent WHERE t.from_turn = $1 AND t.from_call = $2 \
                  AND t.kind = 'query'";
    let rows: Vec<Answer> = conn.list(select, &args![turn, call]).await?;
    let answer = |(task, team, state, result, code): Answer| {
        let mut answer = json!({"task": task, "team": team, "state": state});
        answer["result"] = result.into();
        answer["code"] = code.into();
        answer
    };
    Ok(rows.into_iter().map(answer).collect())
}

/// The turn has ended: what it waited for tells its end as an event.
pub(crate) async fn forget(tx: &mut Tx<'_>, turn: &TurnId) -> Result<(), SqlError> {
    tx.conn.run("DELETE FROM waits WHERE turn = $1", &args![turn]).await?;
    Ok(())
}
