//! Calls that wait for the answers of tasks. The decision of such a call is written when the last
//! answer is there, or when its time is over.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::decision::Decision;
use skep_core::ids::{AgentId, CallId, ItemId, LaneId, SessionKey, TurnId};

use crate::tables::leases::make_ready;
use crate::tables::pending;
use skep_db::{Conn, Refusal, SqlError, Tx, args};

/// Until a call that is about to wait is looked at again.
const NOT_YET: Millis = 1000;

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
    let open = "SELECT task FROM waits WHERE turn = $1 AND call = $2 LIMIT 1";
    match tx.conn.find::<ItemId>(open, &args![turn, call]).await? {
        Some(wait) if is_receiver(&wait) => return settle_receiver(tx, turn, call, now).await,
        Some(_) => return Ok(false),
        None => {}
    }
    let answers = answers(tx.conn, turn, call).await?;
    if answers.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    decide(tx, turn, call, json!({ "tasks": answers }), now).await
}

/// False: the call does not wait, or not yet.
async fn decide(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    value: Json,
    now: Millis,
) -> Result<bool, Refusal> {
    let decision = Decision::Tool(value).stored();
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

/// A call that waits for messages has a wait of its own, of no task.
const RECEIVER: &str = "recv:";

pub(crate) fn is_receiver(wait: &ItemId) -> bool {
    wait.as_str().starts_with(RECEIVER)
}

fn receiver(turn: &TurnId, call: &CallId) -> ItemId {
    ItemId(format!("{RECEIVER}{turn}/{call}"))
}

/// From now on the call waits for messages. One that waits does so as long as it said first.
pub(crate) async fn insert_receiver(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    until: Millis,
) -> Result<(), SqlError> {
    let insert = "INSERT INTO waits (turn, call, task, until) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (turn, call, task) DO NOTHING";
    tx.conn.run(insert, &args![turn, call, receiver(turn, call), until]).await?;
    Ok(())
}

pub(crate) async fn end_receiver(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
) -> Result<(), SqlError> {
    end(tx, &receiver(turn, call)).await.map(drop)
}

/// A message has come: whoever waits for one in the conversation goes on.
pub(crate) async fn wake_receiver(
    tx: &mut Tx<'_>,
    agent: AgentId,
    key: &SessionKey,
    now: Millis,
) -> Result<(), Refusal> {
    let waiting = "SELECT w.turn, w.call FROM lanes l JOIN turns t ON t.lane = l.id \
                   AND t.ended_at IS NULL JOIN waits w ON w.turn = t.id \
                   WHERE l.agent = $1 AND l.key = $2";
    let waiting: Vec<(TurnId, CallId)> = tx.conn.list(waiting, &args![agent, key]).await?;
    for (turn, call) in waiting {
        settle(tx, &turn, &call, now).await?;
    }
    Ok(())
}

async fn settle_receiver(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    now: Millis,
) -> Result<bool, Refusal> {
    let lane = "SELECT lane FROM turns WHERE id = $1";
    let lane: Option<LaneId> = tx.conn.find(lane, &args![turn]).await?;
    let come = match lane {
        Some(lane) => pending::peers(tx.conn, lane).await? > 0,
        None => false,
    };
    if !come || !decide(tx, turn, call, json!({ "messages": true }), now).await? {
        return Ok(false);
    }
    end_receiver(tx, turn, call).await?;
    Ok(true)
}

/// No message came in time. One that does not wait yet is looked at again.
pub(crate) async fn expire_receiver(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    call: &CallId,
    now: Millis,
) -> Result<bool, Refusal> {
    let begins = "SELECT 1 FROM calls c JOIN turns t ON t.id = c.turn WHERE c.turn = $1 \
                  AND c.call_id = $2 AND t.ended_at IS NULL AND c.state IN ('planned', 'started')";
    if tx.conn.find::<i64>(begins, &args![turn, call]).await?.is_some() {
        let later = "UPDATE waits SET until = $3 WHERE turn = $1 AND call = $2";
        tx.conn.run(later, &args![turn, call, now + NOT_YET]).await?;
        return Ok(false);
    }
    end_receiver(tx, turn, call).await?;
    decide(tx, turn, call, json!({ "messages": false }), now).await
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
                  AND t.kind IN ('query', 'subagent')";
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
