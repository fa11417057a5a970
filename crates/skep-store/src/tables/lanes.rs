//! Lanes: which work may be taken next. Readiness is kept on the lane's and the agent's row by
//! every command that changes it, so that taking work reads two index heads whatever waits.

use skep_core::Millis;
use skep_core::event::TurnState;
use skep_core::ids::{AgentId, AgentName, LaneId, SessionId, SessionKey, Token, TurnId};
use skep_core::settings::{Think, Wanted};
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args, record};

/// A lane as a command finds it.
pub(crate) struct Lane {
    pub id: LaneId,
    /// Of its newest lease.
    pub token: Token,
    pub pending: i64,
    /// The priority it is ready at, when it is.
    pub ready: Option<i64>,
    /// The next message accepted begins a new session.
    pub fresh: bool,
    pub session: Option<LaneSession>,
    pub chosen: Chosen,
    pub open: Option<OpenTurn>,
    /// Its agent runs one turn at a time.
    pub one: bool,
    /// And runs one.
    pub busy: bool,
    /// Of its agent.
    pub wanted: Wanted,
    /// It is there for one task of a subagent: no conversation, and not counted among the turns
    /// of an agent that runs one at a time.
    pub apart: bool,
}

impl Record for Lane {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (id, token, pending, ready, fresh) = row.take()?;
        let session: (Option<(SessionId, Millis)>, Option<i64>) = row.take()?;
        let session = session.0.zip(session.1);
        let session =
            session.map(|((id, last_at), last_seq)| LaneSession { id, last_at, last_seq });
        let chosen = row.take()?;
        let turn: Option<(TurnId, TurnState)> = row.take()?;
        let waiting_for = row.take()?;
        let open = turn.map(|(id, state)| OpenTurn { id, state, waiting_for });
        let (one, busy, wanted, apart): (bool, bool, Wanted, bool) = row.take()?;
        let (one, busy) = (one && !apart, busy && !apart);
        Ok(Self {
            id,
            token,
            pending,
            ready,
            fresh,
            session,
            chosen,
            open,
            one,
            busy,
            wanted,
            apart,
        })
    }
}

impl Lane {
    /// A message that comes now can begin its turn at once.
    pub fn is_free(&self) -> bool {
        let idle = self.open.is_none() && self.pending == 0 && !self.busy;
        idle && self.wanted == Wanted::Active
    }

    /// What is said in the lane of a subagent is its task alone.
    pub fn refuse_apart(&self) -> Result<(), Refusal> {
        if !self.apart {
            return Ok(());
        }
        let detail = "this session belongs to one task of a subagent, and nobody else writes \
                      into it; write to the agent in another one";
        Err(Refusal::conflict("subagent_session", detail))
    }
}

/// What `/model` and `/think` chose; nothing where the agent's own settings hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// A profile's name, or `provider:model`.
    pub profile: Option<String>,
    pub think: Option<Think>,
}

record!(Chosen { profile, think });

pub(crate) struct LaneSession {
    pub id: SessionId,
    pub last_at: Millis,
    pub last_seq: i64,
}

pub(crate) struct OpenTurn {
    pub id: TurnId,
    pub state: TurnState,
    pub waiting_for: Option<String>,
}

/// What is read of a lane.
macro_rules! select_lane {
    ($more:literal, $which:literal) => {
        concat!(
            "SELECT l.id, l.token, l.pending, l.ready_priority, l.fresh, l.session, s.last_at, ",
            "s.last_seq, l.profile, l.think, t.id, t.state, t.waiting_for, a.parallel_one, ",
            "a.busy IS NOT NULL, a.wanted, l.apart",
            $more,
            " FROM lanes l JOIN agents a ON a.id = l.agent ",
            "LEFT JOIN sessions s ON s.id = l.session ",
            "LEFT JOIN turns t ON t.lane = l.id AND t.ended_at IS NULL WHERE ",
            $which
        )
    };
}

/// The lane of (agent, key), made when it is missing.
pub(crate) async fn find_or_make(
    tx: &mut Tx<'_>,
    agent: AgentId,
    key: &str,
) -> Result<Lane, SqlError> {
    if let Some(lane) = find(tx.conn, agent, key).await? {
        return Ok(lane);
    }
    let insert = "INSERT INTO lanes (agent, key) VALUES ($1, $2)";
    tx.conn.run(insert, &args![agent, key]).await?;
    let made = find(tx.conn, agent, key).await?;
    made.ok_or_else(|| SqlError::decode("a lane is gone right after it was made"))
}

/// A lane for one task of a subagent: nothing was ever said under its key.
pub(crate) async fn make_apart(
    tx: &mut Tx<'_>,
    agent: AgentId,
    key: &SessionKey,
) -> Result<Lane, SqlError> {
    let insert = "INSERT INTO lanes (agent, key, apart) VALUES ($1, $2, 1)";
    tx.conn.run(insert, &args![agent, key]).await?;
    let made = find(tx.conn, agent, key.as_str()).await?;
    made.ok_or_else(|| SqlError::decode("a lane is gone right after it was made"))
}

pub(crate) async fn find(
    conn: &mut Conn,
    agent: AgentId,
    key: &str,
) -> Result<Option<Lane>, SqlError> {
    conn.find(select_lane!("", "l.agent = $1 AND l.key = $2"), &args![agent, key]).await
}

/// A lane that is known to be there, with its key and the name of its agent.
pub(crate) async fn known(
    conn: &mut Conn,
    lane: LaneId,
) -> Result<(Lane, SessionKey, AgentName), SqlError> {
    let select = select_lane!(", l.key, a.name", "l.id = $1");
    conn.one(select, &args![lane], "a lane is gone").await
}

/// An item more waits in the lane.
pub(crate) async fn add_pending(
    tx: &mut Tx<'_>,
    lane: &Lane,
    agent: AgentId,
    (priority, ord): (i64, i64),
    now: Millis,
) -> Result<(), SqlError> {
    // Behind an open turn nothing becomes ready; behind its better or equal the head stays.
    let is_better = lane.open.is_none() && lane.ready.is_none_or(|ready| ready > priority);
    if is_better && (lane.pending == 0 || lane.ready.is_some()) {
        let first = "UPDATE lanes SET pending = pending + 1, ready_priority = $2, \
                     ready_ord = $3, due_at = NULL, held_by = NULL WHERE id = $1";
        tx.conn.run(first, &args![lane.id, priority, ord]).await?;
        return refresh_agent(tx, agent).await;
    }
    let more = "UPDATE lanes SET pending = pending + 1 WHERE id = $1";
    tx.conn.run(more, &args![lane.id]).await?;
    // It may be better than what is held.
    if is_better { refresh(tx, lane.id, agent, now).await } else { Ok(()) }
}

/// Brings the readiness of a lane and of its agent up to date.
/// An open turn holds the lane: ready itself when it may go on, at its time when it waits for one.
pub(crate) async fn refresh(
    tx: &mut Tx<'_>,
    lane: LaneId,
    agent: AgentId,
    now: Millis,
) -> Result<(), SqlError> {
    let open = "SELECT state, priority, ord, available_at FROM turns \
                WHERE lane = $1 AND ended_at IS NULL";
    let (ready, due) = match tx.conn.find(open, &args![lane]).await? {
        Some((state, place, until)) => match (state, until) {
            (TurnState::Ready, None) => (Some(place), None),
            (TurnState::Ready | TurnState::Waiting, Some(at)) if at <= now => (Some(place), None),
            (TurnState::Ready | TurnState::Waiting, at) => (None, at),
            (TurnState::Running | TurnState::Ended, _) => (None, None),
        },
        None => {
            let head = "SELECT priority, ord FROM items \
                        WHERE lane = $1 AND state = 'pending' AND turn IS NULL \
                        ORDER BY priority, ord LIMIT 1";
            (tx.conn.find(head, &args![lane]).await?, None)
        }
    };
    set_ready(tx, lane, agent, ready, due).await
}

async fn set_ready(
    tx: &mut Tx<'_>,
    lane: LaneId,
    agent: AgentId,
    ready: Option<(i64, i64)>,
    due: Option<Millis>,
) -> Result<(), SqlError> {
    let (priority, ord) = ready.unzip();
    let update = "UPDATE lanes SET ready_priority = $2, ready_ord = $3, due_at = $4, \
                  held_by = NULL WHERE id = $1 AND (ready_priority IS DISTINCT FROM $2 \
                  OR ready_ord IS DISTINCT FROM $3 OR due_at IS DISTINCT FROM $4)";
    let changed = tx.conn.run(update, &args![lane, priority, ord, due]).await?;
    if changed > 0 {
        refresh_agent(tx, agent).await?;
    }
    Ok(())
}

/// An agent that is paused or stopped is never ready, whatever its lanes are. One that runs one
/// turn at a time has its subagents alone ready while it does.
pub(crate) async fn refresh_agent(tx: &mut Tx<'_>, agent: AgentId) -> Result<(), SqlError> {
    let best = "UPDATE agents SET ready_priority = CASE WHEN wanted <> 'active' THEN NULL \
                WHEN busy IS NULL THEN (SELECT ready_priority FROM lanes \
                WHERE agent = $1 AND ready_priority IS NOT NULL \
                ORDER BY ready_priority, ready_ord LIMIT 1) \
                ELSE (SELECT ready_priority FROM lanes \
                WHERE agent = $1 AND apart = 1 AND ready_priority IS NOT NULL \
                ORDER BY ready_priority, ready_ord LIMIT 1) END WHERE id = $1";
    tx.conn.run(best, &args![agent]).await?;
    Ok(())
}

/// The turn runs no longer: an agent that runs one at a time may run another. True: it can.
pub(crate) async fn vacate(
    tx: &mut Tx<'_>,
    agent: AgentId,
    turn: &TurnId,
) -> Result<bool, SqlError> {
    let vacate = "UPDATE agents SET busy = NULL WHERE id = $1 AND busy = $2";
    if tx.conn.run(vacate, &args![agent, turn]).await? == 0 {
        return Ok(false);
    }
    refresh_agent(tx, agent).await?;
    Ok(true)
}

/// On whose behalf the next turn of a lane works: whoever sent the message it begins or began
/// with, and of an approved call whoever had asked for it.
pub(crate) async fn next_of(conn: &mut Conn, lane: LaneId) -> Result<Option<String>, SqlError> {
    conn.find(NEXT_SENDER, &args![lane]).await
}

const NEXT_SENDER: &str = "SELECT coalesce(i.origin_principal, i.principal) FROM items i \
                           WHERE i.id = coalesce((SELECT o.id FROM turns t \
                           JOIN items o ON o.turn = t.id \
                           WHERE t.lane = $1 AND t.ended_at IS NULL ORDER BY o.ord LIMIT 1), \
                           (SELECT p.id FROM items p \
                           WHERE p.lane = $1 AND p.state = 'pending' AND p.turn IS NULL \
                           ORDER BY p.priority, p.ord LIMIT 1))";

/// The lane has work for somebody who runs as many turns as one may: it is not ready until
/// [`Unhold`], or until something else about it changes.
pub(crate) async fn hold(
    tx: &mut Tx<'_>,
    lane: LaneId,
    agent: AgentId,
    by: &str,
) -> Result<(), SqlError> {
    let hold = "UPDATE lanes SET ready_priority = NULL, held_by = $2 WHERE id = $1";
    tx.conn.run(hold, &args![lane, by]).await?;
    refresh_agent(tx, agent).await
}

/// Makes the oldest lanes ready again that a principal's limit holds back.
pub struct Unhold {
    pub by: String,
    pub most: u32,
    pub now: Millis,
}

impl Run for Unhold {
    /// How many were made ready, and whether more of them are held.
    type Out = (usize, bool);

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let most = i64::from(self.most);
        let held: Vec<(LaneId, AgentId)> =
            tx.conn.list(HELD_LANES, &args![self.by, most + 1]).await?;
        let most = held.len().min(self.most as usize);
        for (lane, agent) in &held[..most] {
            refresh(tx, *lane, *agent, self.now).await?;
        }
        Ok((most, held.len() > most))
    }
}

pub(crate) const HELD_LANES: &str =
    "SELECT id, agent FROM lanes WHERE held_by = $1 ORDER BY ready_ord LIMIT $2";

/// For whom lanes are held.
pub async fn held(conn: &mut Conn) -> Result<Vec<String>, SqlError> {
    conn.list(HELD_FOR, &[]).await
}

pub(crate) const HELD_FOR: &str =
    "SELECT DISTINCT held_by FROM lanes WHERE held_by IS NOT NULL ORDER BY held_by";

/// The best ready lane: agents take turns inside a priority, then the oldest item of that agent.
pub(crate) async fn best_ready(conn: &mut Conn) -> Result<Option<(LaneId, AgentId)>, SqlError> {
    let best: Option<(AgentId, bool)> = conn.find(BEST_AGENT, &[]).await?;
    let Some((agent, busy)) = best else { return Ok(None) };
    let best = if busy { BEST_APART } else { BEST_LANE };
    let lane: Option<LaneId> = conn.find(best, &args![agent]).await?;
    Ok(lane.map(|lane| (lane, agent)))
}

pub(crate) async fn is_any_ready(conn: &mut Conn) -> Result<bool, SqlError> {
    Ok(conn.find::<(AgentId, bool)>(BEST_AGENT, &[]).await?.is_some())
}

pub(crate) const BEST_AGENT: &str = "SELECT id, busy IS NOT NULL FROM agents \
                                     WHERE ready_priority IS NOT NULL \
                                     ORDER BY ready_priority, served LIMIT 1";
pub(crate) const BEST_APART: &str = "SELECT id FROM lanes \
                                     WHERE agent = $1 AND apart = 1 \
                                     AND ready_priority IS NOT NULL \
                                     ORDER BY ready_priority, ready_ord LIMIT 1";
pub(crate) const BEST_LANE: &str = "SELECT id FROM lanes \
                                    WHERE agent = $1 AND ready_priority IS NOT NULL \
                                    ORDER BY ready_priority, ready_ord LIMIT 1";

/// Makes lanes ready whose time has come.
pub struct WakeLanes {
    pub now: Millis,
}

impl Run for WakeLanes {
    /// How many were made ready.
    type Out = usize;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        // Bounded, so that one command never holds the writer long; the timer comes again.
        let due = "SELECT id, agent FROM lanes WHERE due_at IS NOT NULL AND due_at <= $1 \
                   ORDER BY due_at LIMIT 100";
        let due: Vec<(LaneId, AgentId)> = tx.conn.list(due, &args![self.now]).await?;
        for (lane, agent) in &due {
            refresh(tx, *lane, *agent, self.now).await?;
        }
        Ok(due.len())
    }
}

/// The clock was set back: what waits for a time waits from now on, as long as it was to wait. What
/// changed later than now tells of it.
pub struct ClockSetBack {
    pub now: Millis,
}

impl Run for ClockSetBack {
    /// How many turns would have waited longer.
    type Out = usize;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let open = "SELECT t.id, l.id, l.agent FROM lanes l \
                    JOIN turns t ON t.lane = l.id AND t.ended_at IS NULL \
                    WHERE l.due_at IS NOT NULL AND t.changed_at > $1";
        let late: Vec<(TurnId, LaneId, AgentId)> = tx.conn.list(open, &args![self.now]).await?;
        for (turn, lane, agent) in &late {
            let update = "UPDATE turns SET available_at = available_at - (changed_at - $2), \
                          changed_at = $2 WHERE id = $1";
            tx.conn.run(update, &args![turn, self.now]).await?;
            refresh(tx, *lane, *agent, self.now).await?;
        }
        Ok(late.len())
    }
}

/// What was chosen for a lane; nothing where the lane was never used.
pub async fn chosen(conn: &mut Conn, agent: AgentId, key: &SessionKey) -> Result<Chosen, SqlError> {
    let select = "SELECT profile, think FROM lanes WHERE agent = $1 AND key = $2";
    Ok(conn.find(select, &args![agent, key]).await?.unwrap_or_default())
}

/// When the next lane becomes ready by time alone.
pub async fn next_due(conn: &mut Conn) -> Result<Option<Millis>, SqlError> {
    let select = "SELECT due_at FROM lanes WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1";
    conn.find(select, &[]).await
}
