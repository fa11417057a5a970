//! What watchers read: items, open turns, events.

use std::ops::RangeInclusive;

use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::cause::Cause;
use skep_core::engine::RetryCode;
use skep_core::event::{Event, EventKind, ItemState};
use skep_core::ids::{
    AgentId, AgentName, ChannelId, ItemId, MessageId, Principal, SessionId, SessionKey, TurnId,
};
use skep_core::message::{StopReason, View};
use skep_core::settings::Think;
use skep_db::{Conn, PAGE_ROWS, Refusal, Run, SqlError, Tx, args, record};

/// Writes down an event that is about the hive as a whole, and tells it; in the audit trail too.
pub struct NoteEvent {
    pub kind: EventKind,
    pub audit: AuditRow,
    pub now: Millis,
}

impl Run for NoteEvent {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        tx.event(Event::of_hive(self.now, self.kind.clone()));
        Ok(tx.audit(self.audit.clone()).await?)
    }
}

/// An item as its sender or an operator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemRow {
    pub id: ItemId,
    pub message_id: MessageId,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session_key: SessionKey,
    pub principal: Principal,
    pub channel: Option<ChannelId>,
    pub cause: Cause,
    pub priority: i64,
    pub state: ItemState,
    pub attempts: i64,
    pub body: String,
    /// How hard its turn was to think, where the sender said so.
    pub think: Option<Think>,
    pub turn: Option<TurnId>,
    /// A command's own answer, else the turn's.
    pub answer: Option<String>,
    /// Why the model stopped, of a turn that was answered.
    pub stop_reason: Option<StopReason>,
    pub error: Option<(String, String)>,
    pub created_at: Millis,
    pub finished_at: Option<Millis>,
    pub ord: i64,
}

record! { ItemRow {
    id, message_id, agent, agent_name, session_key, principal, channel, cause, priority, state,
    attempts, body, think, turn, answer, stop_reason, error, created_at, finished_at, ord,
} }

macro_rules! select_items {
    ($from:literal) => {
        concat!(
            "SELECT i.id, i.message_id, i.agent, a.name, l.key, i.principal, i.channel, i.kind, ",
            "i.cause, i.priority, i.state, COALESCE(t.attempts, 0), i.body, i.think, i.turn, ",
            "COALESCE(i.result, t.answer), t.stop_reason, i.error_code, i.error, i.created_at, ",
            "i.finished_at, i.ord FROM items i ",
            "JOIN agents a ON a.id = i.agent ",
            "JOIN lanes l ON l.id = i.lane LEFT JOIN turns t ON t.id = i.turn ",
            $from
        )
    };
}

/// By item id, or by the message id the principal gave (its newest use).
pub async fn item(
    conn: &mut Conn,
    agent: AgentId,
    id: &str,
    principal: &Principal,
) -> Result<Option<ItemRow>, SqlError> {
    let by_item = select_items!("WHERE i.id = $1 AND i.agent = $2");
    if let Some(row) = conn.find(by_item, &args![id, agent]).await? {
        return Ok(Some(row));
    }
    let by_message = select_items!(
        "WHERE i.message_id = $1 AND i.agent = $2 AND i.principal = $3 \
         ORDER BY i.ord DESC LIMIT 1"
    );
    conn.find(by_message, &args![id, agent, principal]).await
}

pub async fn item_by_id(conn: &mut Conn, id: &ItemId) -> Result<Option<ItemRow>, SqlError> {
    let select = select_items!("WHERE i.id = $1");
    conn.find(select, &args![id]).await
}

/// A call of a door whose clients wait for the answer, by the message id the door gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    pub message_id: MessageId,
    pub agent: AgentName,
    pub principal: Principal,
    pub ended: bool,
}

record!(CallRow { message_id, agent, principal, ended });

/// How many of the newest items are looked at for calls that have ended.
const NEWEST: i64 = 1000;

macro_rules! select_calls {
    ($which:literal) => {
        concat!(
            "SELECT i.message_id, a.name, i.principal, i.finished_at IS NOT NULL FROM items i ",
            "JOIN agents a ON a.id = i.agent WHERE i.channel IS NULL ",
            // Not by the index of message ids, which holds every call there ever was.
            "AND i.message_id || '' >= $1 AND i.message_id || '' < $2 AND ",
            $which
        )
    };
}

/// Calls that have not ended, or not before `since`. Their message ids begin with `prefix`, which
/// ends with a colon.
pub async fn calls(conn: &mut Conn, prefix: &str, since: Millis) -> Result<Vec<CallRow>, SqlError> {
    let beyond = format!("{};", prefix.trim_end_matches(':'));
    let mut rows = Vec::new();
    for agent in conn.list::<AgentId>("SELECT id FROM agents", &[]).await? {
        for state in [ItemState::Pending, ItemState::Waiting] {
            let open = select_calls!("i.agent = $3 AND i.state = $4 AND i.state <> 'running'");
            rows.extend(conn.list(open, &args![prefix, beyond, agent, state]).await?);
        }
    }
    let running = select_calls!(
        "i.state = 'running' AND i.turn IN (SELECT o.id FROM turns o WHERE o.ended_at IS NULL)"
    );
    rows.extend(conn.list(running, &args![prefix, beyond]).await?);
    let ended = select_calls!(
        "i.ord > (SELECT COALESCE(max(ord), 0) FROM items) - $3 AND i.finished_at >= $4"
    );
    rows.extend(conn.list(ended, &args![prefix, beyond, NEWEST, since]).await?);
    Ok(rows)
}

/// The message ids a turn answered, in order.
pub async fn answered_with(conn: &mut Conn, turn: &TurnId) -> Result<Vec<MessageId>, SqlError> {
    let select = "SELECT message_id FROM items WHERE turn = $1 ORDER BY ord";
    conn.list(select, &args![turn]).await
}

/// The key of the conversation a session belongs to.
pub async fn key_of_session(
    conn: &mut Conn,
    session: &SessionId,
) -> Result<Option<SessionKey>, SqlError> {
    let select = "SELECT key FROM sessions WHERE id = $1";
    conn.find(select, &args![session]).await
}

/// The key of the conversation an item belongs to.
pub async fn key_of_item(conn: &mut Conn, item: &ItemId) -> Result<Option<SessionKey>, SqlError> {
    let select = "SELECT l.key FROM items i JOIN lanes l ON l.id = i.lane WHERE i.id = $1";
    conn.find(select, &args![item]).await
}

/// A page of what a principal sent, newest first, below `after`. Nothing for the operator, who sees
/// [`items`].
pub async fn items_of(
    conn: &mut Conn,
    principal: &Principal,
    agent: Option<AgentId>,
    state: Option<ItemState>,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<ItemRow>, SqlError> {
    let select = select_items!(
        "WHERE i.principal = $1 AND i.principal <> 'operator' AND i.ord < $2 \
         AND ($4 IS NULL OR i.agent = $4) \
         AND ($5 IS NULL OR i.state = $5) ORDER BY i.ord DESC LIMIT $3"
    );
    let after = after.unwrap_or(i64::MAX);
    conn.list(select, &args![principal, after, limit, agent, state]).await
}

/// A page of the inbox, newest first, below `after`.
pub async fn items(
    conn: &mut Conn,
    agent: Option<AgentId>,
    state: Option<ItemState>,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<ItemRow>, SqlError> {
    let after = after.unwrap_or(i64::MAX);
    match (agent, state) {
        (None, None) => {
            let sql = select_items!("WHERE i.ord < $1 ORDER BY i.ord DESC LIMIT $2");
            conn.list(sql, &args![after, limit]).await
        }
        (agent, state) => {
            let agents = match agent {
                Some(agent) => vec![agent],
                None => conn.list("SELECT id FROM agents", &[]).await?,
            };
            let states = state.map_or(ItemState::ALL.to_vec(), |state| vec![state]);
            items_of_agents(conn, &agents, &states, after, limit).await
        }
    }
}

/// Agents and states are few: the page is the best of one page of each, and every item is in one
/// index instead of two.
async fn items_of_agents(
    conn: &mut Conn,
    agents: &[AgentId],
    states: &[ItemState],
    after: i64,
    limit: u32,
) -> Result<Vec<ItemRow>, SqlError> {
    let mut found: Vec<ItemRow> = Vec::new();
    for agent in agents {
        for state in states {
            let sql = match state {
                ItemState::Running => RUNNING_ITEMS,
                _ => AGENT_ITEMS_IN_STATE,
            };
            found.extend(conn.list(sql, &args![after, limit, agent, state]).await?);
        }
    }
    found.sort_by_key(|item| std::cmp::Reverse(item.ord));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

const AGENT_ITEMS_IN_STATE: &str = select_items!(
    "WHERE i.agent = $3 AND i.state = $4 AND i.state <> 'running' AND i.ord < $1 \
     ORDER BY i.ord DESC LIMIT $2"
);
/// All of them: they are as few as turns that run at once.
const RUNNING_ITEMS: &str = select_items!(
    "WHERE i.agent = $3 AND i.state = $4 AND i.ord < $1 AND i.turn IN \
     (SELECT o.id FROM turns o WHERE o.ended_at IS NULL AND o.agent = $3)"
);

/// A turn that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRow {
    pub turn: TurnId,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub state: String,
    pub since: Millis,
    pub steps: i64,
    pub waiting_for: Option<String>,
    pub retries: RetryRow,
}

record! { TurnRow {
    turn, agent, agent_name, session, session_key, state, since, steps, waiting_for, retries,
} }

/// How a turn stands to being tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryRow {
    /// Leases that ended without a new step.
    pub attempts: i64,
    /// When it is ready again.
    pub at: Option<Millis>,
    /// Why it is tried again then.
    pub code: Option<RetryCode>,
}

record!(RetryRow { attempts, at, code });

pub async fn open_turns(conn: &mut Conn, limit: u32) -> Result<Vec<TurnRow>, SqlError> {
    let select = "SELECT t.id, t.agent, a.name, t.session, l.key, t.state, t.started_at, \
                  t.steps, t.waiting_for, t.attempts, t.available_at, t.outcome FROM turns t \
                  JOIN agents a ON a.id = t.agent \
                  JOIN lanes l ON l.id = t.lane WHERE t.ended_at IS NULL LIMIT $1";
    conn.list(select, &args![limit]).await
}

/// The conversation a turn belongs to.
pub async fn turn_place(
    conn: &mut Conn,
    turn: &TurnId,
) -> Result<Option<(AgentId, SessionKey)>, SqlError> {
    let select = "SELECT t.agent, l.key FROM turns t JOIN lanes l ON l.id = t.lane WHERE t.id = $1";
    conn.find(select, &args![turn]).await
}

/// A turn that has not ended, or has without an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcomeRow {
    pub turn: TurnId,
    /// The message it began with, and the newest try of that.
    pub item: Option<ItemId>,
    pub retried_as: Option<ItemId>,
    /// Its last row on the page.
    pub seq: i64,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    pub steps: i64,
    /// Calls that ran.
    pub tools_run: i64,
    /// Why it ended; nothing where it is open or was answered with nothing.
    pub code: Option<String>,
    pub error: Option<String>,
    /// Of an open one.
    pub retries: RetryRow,
}

record! { TurnOutcomeRow {
    turn, item, retried_as, seq, started_at, ended_at, steps, tools_run, code, error, retries,
} }

macro_rules! select_outcomes {
    ($rows:literal) => {
        concat!(
            "SELECT t.id, CASE WHEN i.kind = 'message' THEN i.id END, i.retried_by, h.seq, ",
            "t.started_at, t.ended_at, t.steps, ",
            "(SELECT count(*) FROM audit u WHERE u.turn = t.id AND u.kind = 'call' ",
            "AND u.outcome NOT IN ('refused', 'cancelled')), ",
            "CASE WHEN t.ended_at IS NOT NULL AND t.outcome <> 'done' THEN t.outcome END, ",
            "COALESCE(t.error, t.waiting_for), t.attempts, t.available_at, ",
            "CASE WHEN t.ended_at IS NULL THEN t.outcome END ",
            "FROM (SELECT turn, max(seq) AS seq FROM history WHERE session = $1 AND ",
            $rows,
            " AND seq >= $2 AND seq <= $3 GROUP BY turn) h CROSS JOIN turns t LEFT JOIN items i ",
            "ON i.id = (SELECT f.id FROM items f WHERE f.turn = t.id ORDER BY f.ord LIMIT 1) ",
            "WHERE t.id = h.turn AND t.session = $1 ",
            "AND COALESCE(t.outcome, '') <> 'imported' ",
            "AND (t.ended_at IS NULL OR t.outcome <> 'done' OR t.answer = '')"
        )
    };
}

/// The turns with rows in a part of a session that were not simply answered, oldest first. A
/// fork's copies belong to the session they came from.
pub async fn turn_outcomes(
    conn: &mut Conn,
    session: &SessionId,
    view: View,
    rows: RangeInclusive<i64>,
) -> Result<Vec<TurnOutcomeRow>, SqlError> {
    let select = match view {
        View::Full => select_outcomes!("1 = 1"),
        View::Simple => select_outcomes!("spoken = 1"),
    };
    let (first, last) = (rows.start(), rows.end());
    let args = args![session, first, last];
    let mut found: Vec<TurnOutcomeRow> = conn.list(select, &args).await?;
    found.sort_by_key(|row| row.seq);
    Ok(found)
}

/// How many items wait in a lane, and what its open turn waits for.
pub async fn lane_depth(
    conn: &mut Conn,
    agent: AgentId,
    key: &SessionKey,
) -> Result<Option<(i64, Option<String>, Option<String>)>, SqlError> {
    let select = "SELECT l.pending, t.state, t.waiting_for FROM lanes l LEFT JOIN turns t \
                  ON t.lane = l.id AND t.ended_at IS NULL WHERE l.agent = $1 AND l.key = $2";
    conn.find(select, &args![agent, key]).await
}

/// A page of durable events after `since`, in order.
pub async fn events_since(conn: &mut Conn, since: i64) -> Result<Vec<Event>, SqlError> {
    let select = "SELECT body, agent FROM events WHERE seq > $1 ORDER BY seq LIMIT $2";
    let rows: Vec<(Event, Option<AgentId>)> = conn.page(select, &args![since, PAGE_ROWS]).await?;
    Ok(rows.into_iter().map(|(event, agent_id)| Event { agent_id, ..event }).collect())
}

/// The oldest and the newest durable event there is.
pub async fn event_range(conn: &mut Conn) -> Result<(i64, i64), SqlError> {
    let select = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)";
    let (oldest, newest): (Option<i64>, Option<i64>) =
        conn.one(select, &[], "the events have no ends").await?;
    Ok((oldest.unwrap_or(0), newest.unwrap_or(0)))
}
