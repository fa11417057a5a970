//! The journal of a turn: each step is on record before the next one acts on it.

use std::borrow::Cow;

use serde_json::Value as Json;
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::compaction::{self, Seam};
use skep_core::decision::Decision;
use skep_core::event::{CallState, Event, EventKind};
use skep_core::ids::{AgentId, AgentName, CallId, LaneId, SessionId, Token, TurnId};
use skep_core::message::{Body, Message};
use skep_db::{Refusal, Run, SqlError, Tx, args, record};

use crate::tables::agents::{Tally, tally};
use crate::tables::approvals::{self, Asking, NewApproval};
use crate::tables::engine_sessions::LaunchedSession;
use crate::tables::history::{self, NewHistoryRow, RowPlace};
use crate::tables::inbox::user_body;
use crate::tables::org::shape;
use crate::tables::pending::PendingItem;
use crate::tables::spend;

/// How many messages a step takes in at the most; the rest come with the next one.
const STEERED_AT_ONCE: i64 = 32;
/// Changes that one agent may have asked for and nobody has decided on: nobody overlooks more.
const MOST_SHAPES: usize = 20;

/// Writes what happened in a turn, under its lease.
#[derive(Clone)]
pub struct Journal {
    pub turn: TurnId,
    pub token: Token,
    pub entries: Vec<Entry>,
    /// A step is complete: messages that wait in the lane join the turn after it.
    pub steer: bool,
    pub active_ms: i64,
    pub now: Millis,
}

#[derive(Clone)]
pub enum Entry {
    /// A model call ended: its message, and the calls it asks for.
    Assistant { message: NewHistoryRow, calls: Vec<NewCall> },
    /// The call waits for its place among those that run: it could not come further.
    Queued,
    /// The call is about to run.
    Started { call: CallId },
    /// The call was marked as started and certainly did not run: it is planned again.
    Unstarted { call: CallId, approval: Option<String> },
    /// The model is shown notes from here on; the row says which.
    Seam { message: NewHistoryRow },
    /// An event for watchers, at its place among the others.
    Note { text: String },
    /// The call is about to run with this approval.
    Approved { approval: String },
    /// Nobody answered this question in time.
    Expired { approval: String },
    /// A change of the hive is asked for; the call that wants it does not wait.
    Asked { approval: Box<NewApproval> },
    /// The engine's own session has every row up to here.
    Seen { session: LaunchedSession },
    /// The call has its answer, or will never have one.
    Result { message: NewHistoryRow, call: CallId, state: CallState, audit: Option<Box<Audit>> },
}

#[derive(Clone)]
pub struct NewCall {
    pub id: CallId,
    pub tool: String,
    pub retry_safe: bool,
    /// What was decided about it before it was written.
    pub decision: Option<Decision>,
    /// An engine with a loop of its own asked for it: it is never run again by us.
    pub own: bool,
}

impl Entry {
    /// The row it becomes.
    pub fn message(&self) -> Option<&NewHistoryRow> {
        match self {
            Self::Assistant { message, .. }
            | Self::Result { message, .. }
            | Self::Seam { message } => Some(message),
            Self::Queued
            | Self::Started { .. }
            | Self::Unstarted { .. }
            | Self::Note { .. }
            | Self::Approved { .. }
            | Self::Seen { .. }
            | Self::Asked { .. }
            | Self::Expired { .. } => None,
        }
    }

    /// Announces or describes something; it is no progress by itself.
    fn is_mark(&self) -> bool {
        match self {
            Self::Started { .. }
            | Self::Unstarted { .. }
            | Self::Approved { .. }
            | Self::Seen { .. }
            | Self::Asked { .. }
            | Self::Note { .. } => true,
            // `Queued` is progress: a turn that waits behind others does not crash a process.
            Self::Queued
            | Self::Assistant { .. }
            | Self::Seam { .. }
            | Self::Expired { .. }
            | Self::Result { .. } => false,
        }
    }
}

/// One row of the audit trail: a call and what the gate made of it.
#[derive(Clone, Debug)]
pub struct Audit {
    pub call: CallId,
    pub tool: String,
    pub arguments: Json,
    /// The stages it passed, and the one that refused it.
    pub decision: String,
    pub outcome: &'static str,
    pub took_ms: i64,
    pub bytes: i64,
}

#[derive(Debug, Default)]
pub struct Journalled {
    /// The rows of `entries`, in their order.
    pub rows: Vec<Message>,
    /// Messages that joined the turn.
    pub steered: Vec<Message>,
}

impl Run for Journal {
    type Out = Journalled;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        // A step forward: earlier leases without one no longer count.
        let update = "UPDATE turns SET active_ms = $2, changed_at = $3, steps = steps + $4, \
                      marks = marks + $5, lost = 0, \
                      attempts = CASE WHEN $5 > 0 THEN 0 ELSE attempts END WHERE id = $1";
        let (leased, found) = Leased::find(tx, &self.turn, self.token, self.now).await?;
        let steps = self.count(|entry| matches!(entry, Entry::Assistant { .. }));
        let marks = self.count(|entry| !entry.is_mark());
        let args = args![self.turn, self.active_ms, self.now, steps, marks];
        tx.conn.run(update, &args).await?;
        // A turn that is to end takes nothing with it: what waits is for the next one.
        let joins = self.steer && found.pending > 0 && !found.to_end;
        let rows = write_entries(tx, &leased, &self.entries).await?;
        let steered = match joins {
            true => steer(tx, &leased, rows.len()).await?,
            false => Vec::new(),
        };
        tell_rows(tx, &leased, rows.iter().chain(&steered));
        Ok(Journalled { rows, steered })
    }

    fn cost(&self) -> usize {
        cost_of(&self.entries)
    }
}

impl Journal {
    fn count(&self, counts: impl Fn(&Entry) -> bool) -> i64 {
        let entries = self.entries.iter().filter(|entry| counts(entry));
        i64::try_from(entries.count()).unwrap_or(i64::MAX)
    }
}

/// Bytes it puts on the disk, about.
pub fn cost_of(entries: &[Entry]) -> usize {
    let text = |message: &NewHistoryRow| {
        let body = &message.body;
        let files = body.files().filter_map(|file| file.data.as_ref());
        body.plain_text().len()
            + files.map(|data| data.0.len()).sum::<usize>()
            + body.tool_calls().map(|(_, _, args)| 64 + size(args)).sum::<usize>()
    };
    let costs = entries.iter().map(|entry| match entry {
        Entry::Assistant { message, .. }
        | Entry::Result { message, .. }
        | Entry::Seam { message } => 512 + text(message),
        Entry::Queued
        | Entry::Started { .. }
        | Entry::Unstarted { .. }
        | Entry::Approved { .. }
        | Entry::Expired { .. } => 64,
        Entry::Seen { .. } => 128,
        Entry::Asked { approval } => 1024 + size(&approval.arguments),
        Entry::Note { text } => 128 + text.len(),
    });
    costs.sum()
}

fn size(value: &Json) -> usize {
    match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(size).sum(),
        Json::Object(fields) => fields.iter().map(|(key, value)| key.len() + size(value)).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 8,
    }
}

/// The turn whose lease was checked in this command.
pub(crate) struct Leased<'a> {
    pub turn: &'a TurnId,
    pub lane: LaneId,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    /// Before this command.
    pub steps: i64,
    /// Of the newest row in the session, before this command.
    last_seq: i64,
    pub now: Millis,
}

/// What else is known of it.
pub(crate) struct LeaseState {
    /// Messages that wait in its lane.
    pub pending: i64,
    /// It was asked to end.
    pub to_end: bool,
    /// Its agent runs no other turn beside it.
    pub alone: bool,
}

record!(LeaseState { pending, to_end, alone });

impl<'a> Leased<'a> {
    /// The turn, where this lease of it is the newest and it runs. Read first and written by
    /// another statement: a `RETURNING` makes a table of its own for its rows.
    pub async fn find(
        tx: &mut Tx<'_>,
        turn: &'a TurnId,
        token: Token,
        now: Millis,
    ) -> Result<(Self, LeaseState), Refusal> {
        let select = "SELECT t.lane, t.agent, a.name, t.session, t.steps, s.last_seq, \
                      l.pending, t.cancel IS NOT NULL, a.busy IS NOT NULL FROM turns t \
                      JOIN agents a ON a.id = t.agent \
                      JOIN lanes l ON l.id = t.lane JOIN sessions s ON s.id = t.session \
                      WHERE t.id = $1 AND t.token = $2 AND t.state = 'running'";
        let found = tx.conn.find(select, &args![turn, token]).await?;
        let ((lane, agent, agent_name, session, steps), last_seq, state) =
            found.ok_or(Refusal::Stale)?;
        Ok((Self { turn, lane, agent, agent_name, session, steps, last_seq, now }, state))
    }

    /// For rows behind those that this command has written already.
    fn place(&self, written: usize) -> RowPlace<'_> {
        RowPlace {
            agent: self.agent,
            agent_name: &self.agent_name,
            session: &self.session,
            last_seq: self.last_seq + i64::try_from(written).unwrap_or(i64::MAX),
            turn: self.turn,
            now: self.now,
        }
    }

    pub fn asking(&self) -> Asking<'_> {
        Asking {
            turn: self.turn,
            agent: self.agent,
            agent_name: &self.agent_name,
            session: &self.session,
            now: self.now,
        }
    }

    pub fn event(&self, kind: EventKind) -> Event {
        self.asking().event(kind)
    }
}

/// The entries without the questions above the limit: their calls are answered with a refusal.
/// Counted in the commit that asks, because calls of one step are examined side by side.
async fn within_limit<'a>(
    tx: &mut Tx<'_>,
    agent: AgentId,
    entries: &'a [Entry],
) -> Result<Cow<'a, [Entry]>, Refusal> {
    let asked = entries.iter().filter(|entry| matches!(entry, Entry::Asked { .. })).count();
    if asked == 0 {
        return Ok(Cow::Borrowed(entries));
    }
    let open = approvals::open_shapes(tx.conn, agent, MOST_SHAPES as i64).await?;
    let mut room = MOST_SHAPES.saturating_sub(open);
    if asked <= room {
        return Ok(Cow::Borrowed(entries));
    }
    let mut over = Vec::new();
    let kept = entries.iter().filter_map(|entry| match entry {
        Entry::Asked { approval } if room == 0 => {
            over.push(&approval.call);
            None
        }
        Entry::Asked { .. } => {
            room -= 1;
            Some(entry.clone())
        }
        Entry::Result { message, call, state, audit } if over.contains(&call) => {
            let refused = |audit: &Audit| Audit { outcome: "refused", ..audit.clone() };
            let audit = audit.as_deref().map(refused).map(Box::new);
            let message = too_many(message, call);
            Some(Entry::Result { message, call: call.clone(), state: *state, audit })
        }
        _ => Some(entry.clone()),
    });
    Ok(Cow::Owned(kept.collect()))
}

fn too_many(message: &NewHistoryRow, call: &CallId) -> NewHistoryRow {
    let tool = message.body.tool_name.as_deref().unwrap_or_default();
    let text = format!(
        "too_many_open: the call of `{tool}` was not run: {MOST_SHAPES} changes that this agent \
         asked for wait for a person. Wait until some of them are decided."
    );
    let body = Body::tool_result(call.clone(), tool, text, true);
    NewHistoryRow::new(message.id.clone(), body)
}

pub(crate) async fn write_entries(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    entries: &[Entry],
) -> Result<Vec<Message>, Refusal> {
    let entries = &*within_limit(tx, leased.agent, entries).await?;
    let messages = entries.iter().filter_map(Entry::message).cloned().collect();
    let rows = history::append(tx, &leased.place(0), messages).await?;
    // Results carry no meta: what is counted here are model calls.
    spend::record(tx, leased, &rows).await?;
    let audited = |entry: &Entry| matches!(entry, Entry::Result { audit: Some(_), .. });
    let asked = match entries.iter().any(audited) {
        true => principal(tx, leased).await?,
        false => None,
    };
    let mut seqs = rows.iter().map(|row| row.seq);
    for entry in entries {
        match entry {
            Entry::Assistant { calls, .. } => {
                let seq = seqs.next().unwrap_or_default();
                plan(tx, leased, seq, calls).await?;
            }
            Entry::Queued => {}
            Entry::Started { call } => start(tx, leased, call).await?,
            Entry::Unstarted { call, approval } => {
                set_call(tx, leased, call, CallState::Planned).await?;
                if let Some(approval) = approval {
                    approvals::mark_unused(tx, approval).await?;
                }
            }
            Entry::Approved { approval } => {
                approvals::mark_used(tx, approval, leased.now).await?;
            }
            Entry::Expired { approval } => {
                approvals::mark_expired(tx, &leased.asking(), approval).await?;
            }
            Entry::Asked { approval } => {
                approvals::ask(tx, &leased.asking(), approval).await?;
                shape::open(tx, &leased.asking(), approval).await?;
            }
            Entry::Seen { session } => session.mark_seen(tx, &leased.session).await?,
            Entry::Seam { message } => {
                seqs.next();
                tell_seam(tx, leased, &message.body);
            }
            Entry::Note { text } => {
                tx.event(leased.event(EventKind::Note { text: text.clone() }));
            }
            Entry::Result { message, call, state, audit } => {
                seqs.next();
                let error = message.body.is_error.unwrap_or(false);
                finish(tx, leased, call, *state, error).await?;
                if let Some(audit) = audit {
                    tx.audit(audit_row(leased, audit, asked.as_ref())).await?;
                }
            }
        }
    }
    Ok(rows)
}

fn tell_seam(tx: &mut Tx<'_>, leased: &Leased<'_>, body: &Body) {
    if let Some((Seam { upto, messages, reason }, _)) = compaction::seam_of(body) {
        tx.event(leased.event(EventKind::Compacted { upto, messages, reason }));
    }
}

pub(crate) fn tell_rows<'m>(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    rows: impl Iterator<Item = &'m Message>,
) {
    let seqs: Vec<i64> = rows.map(|row| row.seq).collect();
    if let (Some(first), Some(last)) = (seqs.first(), seqs.last()) {
        let kind = EventKind::HistoryUpdated { first: *first, last: *last };
        tx.event(leased.event(kind));
    }
}

async fn plan(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    seq: i64,
    calls: &[NewCall],
) -> Result<(), SqlError> {
    for (position, call) in (0_i64..).zip(calls) {
        let insert = "INSERT INTO calls (turn, call_id, seq, position, tool, retry_safe, state, \
                      changed_at, decision, own) \
                      VALUES ($1, $2, $3, $4, $5, $6, 'planned', $7, $8, $9)";
        let decision = call.decision.as_ref().map(Decision::stored);
        let args = args![
            leased.turn,
            call.id,
            seq,
            position,
            call.tool,
            call.retry_safe,
            leased.now,
            decision,
            call.own
        ];
        tx.conn.run(insert, &args).await?;
    }
    Ok(())
}

async fn start(tx: &mut Tx<'_>, leased: &Leased<'_>, call: &CallId) -> Result<(), Refusal> {
    let tool = set_call(tx, leased, call, CallState::Started).await?;
    tx.event(leased.event(EventKind::ToolStart { call_id: call.clone(), tool }));
    Ok(())
}

async fn finish(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    call: &CallId,
    state: CallState,
    is_error: bool,
) -> Result<(), Refusal> {
    let tool = set_call(tx, leased, call, state).await?;
    if state == CallState::Unknown {
        let kind = EventKind::CallUnknown { call_id: call.clone(), tool: tool.clone() };
        tx.event(leased.event(kind));
    }
    let kind = EventKind::ToolEnd { call_id: call.clone(), tool, is_error, state };
    tx.event(leased.event(kind));
    Ok(())
}

async fn set_call(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    call: &CallId,
    state: CallState,
) -> Result<String, Refusal> {
    // A call that has its result keeps it: no second one is ever written.
    let open = "SELECT tool FROM calls WHERE turn = $1 AND call_id = $2 \
                AND state NOT IN ('done', 'unknown')";
    let tool = tx.conn.find(open, &args![leased.turn, call]).await?;
    let tool = tool.ok_or_else(|| Refusal::not_found(format!("open call {call}")))?;
    let update = "UPDATE calls SET state = $3, changed_at = $4, \
                  started_at = CASE $3 WHEN 'started' THEN COALESCE(started_at, $4) \
                  ELSE started_at END \
                  WHERE turn = $1 AND call_id = $2";
    tx.conn.run(update, &args![leased.turn, call, state, leased.now]).await?;
    Ok(tool)
}

/// Who began the turn; asked for once a write, and only where a row of the trail needs it.
async fn principal(tx: &mut Tx<'_>, leased: &Leased<'_>) -> Result<Option<String>, SqlError> {
    let select = "SELECT principal FROM items WHERE turn = $1 ORDER BY ord LIMIT 1";
    tx.conn.find(select, &args![leased.turn]).await
}

fn audit_row(leased: &Leased<'_>, audit: &Audit, principal: Option<&String>) -> AuditRow {
    AuditRow {
        principal: principal.cloned(),
        agent: Some(leased.agent_name.0.clone()),
        agent_id: Some(leased.agent),
        session: Some(leased.session.0.clone()),
        turn: Some(leased.turn.0.clone()),
        call_id: Some(audit.call.0.clone()),
        tool: Some(audit.tool.clone()),
        arguments: audit.arguments.to_string(),
        decision: audit.decision.clone(),
        took_ms: audit.took_ms,
        bytes: audit.bytes,
        ..AuditRow::new(AuditKind::Call, leased.now, audit.outcome)
    }
}

async fn steer(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    written: usize,
) -> Result<Vec<Message>, Refusal> {
    let items = PendingItem::joining(tx, leased.lane, STEERED_AT_ONCE).await?;
    let mut messages = Vec::with_capacity(items.len());
    for item in items {
        // It begins a session or a turn of its own, and what stands behind it belongs there.
        if item.fresh || !item.cause.joins() {
            break;
        }
        let join = "UPDATE items SET turn = $2, state = 'running', started_at = $3 WHERE id = $1";
        tx.conn.run(join, &args![item.id, leased.turn, leased.now]).await?;
        messages.push(NewHistoryRow::new(item.id.0.clone(), user_body(item.text(leased.now))));
    }
    let taken = i64::try_from(messages.len()).unwrap_or(0);
    let less = "UPDATE lanes SET pending = pending - $2 WHERE id = $1";
    tx.conn.run(less, &args![leased.lane, taken]).await?;
    let by = Tally { pending: -taken, running: taken, ..Tally::default() };
    tally(tx, leased.agent, by).await?;
    Ok(history::append(tx, &leased.place(written), messages).await?)
}
