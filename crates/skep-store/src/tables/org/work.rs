//! Work as a board and a table show it: the items of all agents, newest first, a page at a time.
//! However long the inbox is, a page looks at a bounded part of it.

use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::event::ItemState;
use skep_core::ids::{AgentId, AgentName, ItemId, Principal, SessionKey, TurnId};
use skep_core::task::{TaskKind, WorkKind};
use skep_db::{Columns, Conn, Record, SqlError, args, record};

use super::results::kind_of;

/// Items that one page looks at, where it cannot go to those it is asked for.
pub const WINDOW: i64 = 5000;

/// An item with what belongs to it as work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkRow {
    pub item: ItemId,
    pub ord: i64,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session_key: SessionKey,
    pub cause: Cause,
    /// Of a task: how it was given, and by whom.
    pub task: Option<(TaskKind, AgentName)>,
    pub principal: Principal,
    pub priority: i64,
    pub body: String,
    pub state: ItemState,
    /// What its turn waits for.
    pub waiting_for: Option<String>,
    pub turn: Option<TurnId>,
    pub attempts: i64,
    pub code: Option<String>,
    pub error: Option<String>,
    pub created_at: Millis,
    pub started_at: Option<Millis>,
    pub finished_at: Option<Millis>,
    pub root: ItemId,
    pub parent: Option<ItemId>,
    /// What was given in its course and has not ended.
    pub open: i64,
    pub retried_as: Option<ItemId>,
}

impl Record for WorkRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            item: row.take()?,
            ord: row.take()?,
            agent: row.take()?,
            agent_name: row.take()?,
            session_key: row.take()?,
            cause: row.take()?,
            task: match row.take::<Option<(String, AgentName)>>()? {
                Some((kind, from)) => Some((kind_of(&kind)?, from)),
                None => None,
            },
            principal: row.take()?,
            priority: row.take()?,
            body: row.take()?,
            state: row.take()?,
            waiting_for: row.take()?,
            turn: row.take()?,
            attempts: row.take()?,
            code: row.take()?,
            error: row.take()?,
            created_at: row.take()?,
            started_at: row.take()?,
            finished_at: row.take()?,
            root: row.take()?,
            parent: row.take()?,
            open: row.take()?,
            retried_as: row.take()?,
        })
    }
}

macro_rules! select_work {
    ($which:literal) => {
        concat!(
            "SELECT i.id, i.ord, i.agent, a.name, l.key, i.kind, i.cause, k.kind, f.name, ",
            "i.principal, i.priority, i.body, i.state, ",
            "CASE WHEN t.ended_at IS NULL THEN t.waiting_for END, i.turn, ",
            "COALESCE(t.attempts, 0), i.error_code, i.error, i.created_at, i.started_at, ",
            "i.finished_at, COALESCE(i.chain_root, i.id), i.parent_item, COALESCE(k.open, 0), ",
            "i.retried_by FROM items i JOIN agents a ON a.id = i.agent ",
            "JOIN lanes l ON l.id = i.lane LEFT JOIN turns t ON t.id = i.turn ",
            "LEFT JOIN tasks k ON k.item = i.id LEFT JOIN agents f ON f.id = k.from_agent ",
            $which
        )
    };
}

/// What somebody wants to see. What is not said is not looked at.
#[derive(Clone, Debug, Default)]
pub struct WorkFilter {
    pub agent: Option<AgentId>,
    /// Empty: all of them.
    pub states: Vec<ItemState>,
    pub kind: Option<WorkKind>,
    /// Who sent it.
    pub from: Option<Principal>,
    /// A text that it holds.
    pub text: Option<String>,
}

/// Kinds of items as a pattern of words between bars: a list of words would be a table of its own
/// for each row that is looked at. Empty: all of them.
fn words(kind: Option<WorkKind>) -> &'static str {
    match kind {
        None => "|message|again|task|question|escalation|bootstrap|peer|reminder|trigger|",
        Some(WorkKind::Message) => "|message|again|",
        Some(WorkKind::Task) => "|task|question|escalation|bootstrap|",
        Some(WorkKind::Peer) => "|peer|",
        Some(WorkKind::Reminder) => "|reminder|",
        Some(WorkKind::Trigger) => "|trigger|",
        Some(WorkKind::Any) => "",
    }
}

/// A page of work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkRows {
    /// Newest first.
    pub rows: Vec<WorkRow>,
    /// Where the next page begins; nothing on the last.
    pub next: Option<i64>,
}

/// A page of work below `after`. What is open is found however old it is; of what has ended a
/// page looks at [`WINDOW`] items, and `next` is where the following one goes on.
pub async fn page(
    conn: &mut Conn,
    filter: &WorkFilter,
    after: Option<i64>,
    limit: u32,
) -> Result<WorkRows, SqlError> {
    let newest = newest(conn).await?;
    let after = after.unwrap_or(i64::MAX).min(newest.saturating_add(1));
    let is_open = |state: &ItemState| {
        matches!(state, ItemState::Pending | ItemState::Running | ItemState::Waiting)
    };
    let (open, ended): (Vec<_>, Vec<_>) = filter.states.iter().copied().partition(is_open);
    let mut page = match filter.states.is_empty() || !ended.is_empty() {
        true => within_window(conn, filter, &ended, after, limit).await?,
        false => WorkRows::default(),
    };
    if !open.is_empty() {
        // Those below the end of the others are for a later page.
        let floor = page.next.unwrap_or(0);
        page.rows.extend(still_open(conn, filter, &open, (floor, after), limit).await?);
        page.rows.sort_by_key(|row| std::cmp::Reverse(row.ord));
    }
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    if page.rows.len() >= most {
        page.rows.truncate(most);
        page.next = page.rows.last().map(|row| row.ord);
    }
    Ok(page)
}

async fn newest(conn: &mut Conn) -> Result<i64, SqlError> {
    let select = "SELECT max(ord) FROM items";
    let newest: Option<i64> = conn.one(select, &[], "the items have no end").await?;
    Ok(newest.unwrap_or(0))
}

async fn within_window(
    conn: &mut Conn,
    filter: &WorkFilter,
    states: &[ItemState],
    after: i64,
    limit: u32,
) -> Result<WorkRows, SqlError> {
    const NEWEST: &str = select_work!(
        "WHERE i.ord < $1 AND i.ord >= $2 AND ($4 = '' OR instr($4, '|' || i.state || '|') > 0) \
         AND ($5 IS NULL OR i.agent = $5) AND ($6 = '' OR instr($6, '|' || i.kind || '|') > 0) \
         AND ($7 IS NULL OR i.principal = $7) AND ($8 IS NULL OR instr(lower(i.body), $8) > 0) \
         ORDER BY i.ord DESC LIMIT $3"
    );
    let floor = after.saturating_sub(WINDOW).max(0);
    let (states, kinds) = (bars(states), words(filter.kind));
    let text = filter.text.as_ref().map(|text| text.to_ascii_lowercase());
    let args = args![after, floor, limit, states, filter.agent, kinds, filter.from, text];
    let rows: Vec<WorkRow> = conn.list(NEWEST, &args).await?;
    Ok(WorkRows { rows, next: Some(floor).filter(|floor| *floor > 0) })
}

/// By the agents that have some, which are few.
async fn still_open(
    conn: &mut Conn,
    filter: &WorkFilter,
    states: &[ItemState],
    (floor, after): (i64, i64),
    limit: u32,
) -> Result<Vec<WorkRow>, SqlError> {
    const BUSY: &str = "SELECT id FROM agents WHERE pending > 0 OR waiting > 0 OR running > 0";
    const IN_STATE: &str = select_work!(
        "WHERE i.agent = $4 AND i.state = $5 AND i.state <> 'running' AND i.ord < $1 \
         AND i.ord >= $2 AND ($6 = '' OR instr($6, '|' || i.kind || '|') > 0) \
         AND ($7 IS NULL OR i.principal = $7) AND ($8 IS NULL OR instr(lower(i.body), $8) > 0) \
         ORDER BY i.ord DESC LIMIT $3"
    );
    // As few as turns that run at once.
    const RUNNING: &str = select_work!(
        "WHERE i.ord < $1 AND i.ord >= $2 AND i.agent = $3 AND i.state = $4 \
         AND ($5 = '' OR instr($5, '|' || i.kind || '|') > 0) \
         AND ($6 IS NULL OR i.principal = $6) AND ($7 IS NULL OR instr(lower(i.body), $7) > 0) \
         AND i.turn IN (SELECT o.id FROM turns o WHERE o.ended_at IS NULL AND o.agent = $3)"
    );
    let kinds = words(filter.kind);
    let text = filter.text.as_ref().map(|text| text.to_ascii_lowercase());
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut rows, mut floor): (Vec<WorkRow>, i64) = (Vec::new(), floor);
    for agent in conn.list::<AgentId>(BUSY, &[]).await? {
        if filter.agent.is_some_and(|only| only != agent) {
            continue;
        }
        for state in states {
            let from = &filter.from;
            let found = match state {
                ItemState::Running => {
                    let args = args![after, floor, agent, state, kinds, from, text];
                    conn.list(RUNNING, &args).await?
                }
                _ => {
                    let args = args![after, floor, limit, agent, state, kinds, from, text];
                    conn.list(IN_STATE, &args).await?
                }
            };
            rows.extend(found);
        }
        // However many agents have some, no more is kept than a page holds.
        if rows.len() > most {
            rows.sort_by_key(|row| std::cmp::Reverse(row.ord));
            rows.truncate(most);
            floor = rows.last().map_or(floor, |row| row.ord);
        }
    }
    Ok(rows)
}

/// How much work there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTally {
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    /// Of the newest [`WINDOW`] items, what has ended since a time.
    pub ended: EndedCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedCounts {
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
}

record!(EndedCounts { done, failed, cancelled });

/// What is open of each kind, and what fits the filter, whatever its states, and ended since then.
/// Of one sender what is open is counted as what has ended: what others have open is not theirs.
pub async fn counts(
    conn: &mut Conn,
    filter: &WorkFilter,
    since: Millis,
) -> Result<WorkTally, SqlError> {
    let recent = "SELECT count(CASE WHEN i.state = 'pending' THEN 1 END), \
                  count(CASE WHEN i.state = 'running' THEN 1 END), \
                  count(CASE WHEN i.state = 'waiting' THEN 1 END), \
                  count(CASE WHEN i.state = 'done' THEN 1 END), \
                  count(CASE WHEN i.state = 'failed' OR i.state = 'dead' THEN 1 END), \
                  count(CASE WHEN i.state = 'cancelled' THEN 1 END) FROM items i \
                  WHERE i.ord >= $1 AND (i.finished_at IS NULL OR i.finished_at >= $2) \
                  AND ($3 IS NULL OR i.agent = $3) \
                  AND ($4 = '' OR instr($4, '|' || i.kind || '|') > 0) \
                  AND ($5 IS NULL OR i.principal = $5) \
                  AND ($6 IS NULL OR instr(lower(i.body), $6) > 0)";
    let floor = newest(conn).await?.saturating_sub(WINDOW);
    let text = filter.text.as_ref().map(|text| text.to_ascii_lowercase());
    let kinds = words(filter.kind);
    let args = args![floor, since, filter.agent, kinds, filter.from, text];
    let ((pending, running, waiting), ended): ((i64, i64, i64), EndedCounts) =
        conn.one(recent, &args, "work cannot be counted").await?;
    if filter.from.is_some() {
        return Ok(WorkTally { pending, running, waiting, ended });
    }
    let open = "SELECT pending, running, waiting FROM agents \
                WHERE (pending > 0 OR running > 0 OR waiting > 0) AND ($1 IS NULL OR id = $1)";
    let open: Vec<(i64, i64, i64)> = conn.list(open, &args![filter.agent]).await?;
    Ok(open.into_iter().fold(WorkTally { ended, ..WorkTally::default() }, |sum, one| {
        let (pending, running, waiting) = one;
        WorkTally {
            pending: sum.pending + pending,
            running: sum.running + running,
            waiting: sum.waiting + waiting,
            ..sum
        }
    }))
}

/// States as a pattern of words between bars.
fn bars(states: &[ItemState]) -> String {
    if states.is_empty() {
        return String::new();
    }
    states.iter().fold(String::from("|"), |bars, state| format!("{bars}{}|", state.as_str()))
}
