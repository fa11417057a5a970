//! Changes of the hive that a person has to approve. The call has its answer at once, and a task of
//! the operator stands for it until it is decided; then the conversation that asked hears of it: a
//! yes runs the call there, everything else is told.

use skep_core::Millis;
use skep_core::approval::ApprovalState;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::heads;
use skep_core::ids::{ApprovalId, ItemId, Principal, SessionKey};
use skep_core::task::{TaskKind, TaskState};
use skep_core::task_event::EXPIRED;
use skep_core::visible::bounded_text;

use super::chain::{self, ChainPlace};
use super::hierarchy::OPERATOR;
use super::new_item::NewItem;
use super::results::{self, Task, TaskEnd};
use crate::tables::approvals::{self, Approval, Asking, NewApproval};
use crate::tables::inbox::NORMAL;
use skep_db::{Refusal, SqlError, Tx, args};

/// Characters of the arguments that are told again.
const PREVIEW: usize = 400;

/// The task that stands for a question that was just asked.
pub(crate) async fn open(
    tx: &mut Tx<'_>,
    asking: &Asking<'_>,
    new: &NewApproval,
) -> Result<(), Refusal> {
    let place = ChainPlace::of_turn(tx.conn, asking.turn).await?.ok_or(Refusal::Stale)?;
    let key = "SELECT l.key FROM turns t JOIN lanes l ON l.id = t.lane WHERE t.id = $1";
    let key: Option<SessionKey> = tx.conn.find(key, &args![asking.turn]).await?;
    let key = key.ok_or(Refusal::Stale)?;
    let insert = "INSERT INTO tasks (item, root, parent_task, agent, from_agent, from_key, \
                  from_turn, from_call, kind, created_at, deadline, body) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'shape', $9, $10, $11)";
    let body = about(&new.tool, &new.arguments.to_string());
    let args = args![
        new.id,
        place.root,
        place.task,
        OPERATOR,
        asking.agent,
        key,
        asking.turn,
        new.call,
        asking.now,
        new.expires_at,
        body,
    ];
    tx.conn.run(insert, &args).await?;
    if let Some(task) = &place.task {
        let more = "UPDATE tasks SET open = open + 1 WHERE item = $1";
        tx.conn.run(more, &args![task]).await?;
    }
    chain::count(tx, &place.root, 1, false).await?;
    Ok(())
}

fn about(tool: &str, arguments: &str) -> String {
    format!("{tool} {}", bounded_text(arguments, PREVIEW))
}

/// What a person has decided.
pub(crate) struct ShapeDecision<'a> {
    pub approve: bool,
    pub by: &'a str,
    pub note: Option<&'a str>,
    pub now: Millis,
}

/// A person has decided; their answer is on record.
pub(crate) async fn decide(
    tx: &mut Tx<'_>,
    approval: &Approval,
    decision: &ShapeDecision<'_>,
) -> Result<(), Refusal> {
    let ShapeDecision { approve, by, note, now } = *decision;
    let id = ItemId::new(&approval.id);
    let (state, code) = match approve {
        true => (TaskState::Done, None),
        false => (TaskState::Failed, Some("denied")),
    };
    if let Some(task) = Task::open(tx.conn, &id).await? {
        let text = note.unwrap_or_default();
        let end = TaskEnd { state, code, text, file: None, now };
        results::mark_ended(tx, &task, &end).await?;
    }
    let note = note.map(|note| format!("\nNote: {note}"));
    let note = note.unwrap_or_default();
    let tool = &approval.tool;
    let (cause, text) = match approve {
        true => (
            Cause::Approved(ApprovalId::new(&approval.id)),
            format!("The call of `{tool}` is approved by {by}, and runs now.{note}"),
        ),
        false => {
            let text = format!("{by} denied it; nothing was changed.{note}");
            (Cause::Event, told(approval, "approval_denied", &text))
        }
    };
    tell(tx, approval, cause, &text, &format!("approval:{id}"), now).await
}

/// Nobody has decided in time.
pub(crate) async fn expire(tx: &mut Tx<'_>, task: &Task, now: Millis) -> Result<(), Refusal> {
    let (state, code) = (TaskState::Failed, Some(EXPIRED));
    let text = "Nobody decided in time. That is not a no: ask again where it is still wanted.";
    results::mark_ended(tx, task, &TaskEnd { state, code, text, file: None, now }).await?;
    let Some(approval) = approvals::find(tx.conn, task.item.as_str()).await? else {
        return Ok(());
    };
    let dedup = format!("approval:{}/expired", task.item);
    let text = told(&approval, "approval_expired", text);
    tell(tx, &approval, Cause::Event, &text, &dedup, now).await
}

/// The task of a question has ended: what nobody has decided needs no decision any more.
pub(crate) async fn close(tx: &mut Tx<'_>, task: &Task, end: &TaskEnd<'_>) -> Result<(), SqlError> {
    if task.kind != TaskKind::Shape {
        return Ok(());
    }
    let state = match end.code {
        Some(EXPIRED) => ApprovalState::Expired,
        _ => ApprovalState::Withdrawn,
    };
    approvals::end_open(tx, task.item.as_str(), state, end.now).await
}

/// The first line is ours: nothing in what follows looks like it.
fn told(approval: &Approval, word: &str, text: &str) -> String {
    let about = about(&approval.tool, &approval.arguments.to_string());
    format!(
        "[event {word} | approval {} | {}]\n{}\n{}",
        approval.id,
        approval.tool,
        heads::quoted(&about),
        heads::quoted(text)
    )
}

/// Puts it into the conversation that asked.
async fn tell(
    tx: &mut Tx<'_>,
    approval: &Approval,
    cause: Cause,
    text: &str,
    dedup: &str,
    now: Millis,
) -> Result<(), Refusal> {
    let place = match &approval.item {
        Some(item) => ChainPlace::of_item(tx.conn, item).await?,
        None => None,
    };
    let Some(place) = place else { return Ok(()) };
    let id = ItemId(dedup.replace([':', '/'], "."));
    let event = NewItem {
        id: &id,
        agent: approval.agent,
        agent_name: &approval.agent_name,
        key: &approval.session_key,
        cause,
        options: ItemOptions::default(),
        priority: NORMAL,
        principal: Principal(format!("approval:{}", approval.id)),
        body: text,
        place: &place,
        hops: place.hops,
        correlation: Some(&approval.id),
        dedup,
        now,
    };
    event.insert(tx).await?;
    Ok(())
}
