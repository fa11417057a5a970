//! Leases: taking the work of a lane, giving it back, ending it and waking it.
//! Every lease takes the lane's next token; a write that carries an older one is refused.

use std::sync::Arc;

use skep_core::Millis;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::engine::RetryCode;
use skep_core::event::{
    CancelReason, Event, EventKind, ItemState, TURN_START_CHARACTERS, TurnState,
};
use skep_core::ids::{
    AgentId, AgentName, LaneId, NodeName, Principal, SessionId, SessionKey, Token, TurnId,
};
use skep_core::message::Message;
use skep_core::settings::Think;
use skep_core::tool::{ChainOrigin, Requester};
use skep_db::{Columns, Conn, Refusal, Row, Run, SqlError, Tx, args};

use crate::tables::agents::{Tally, occupy, tally};
use crate::tables::history::{self, NewHistoryRow, NewSession, RowPlace};
use crate::tables::inbox::{NewTurn, UserText, user_body};
use crate::tables::lanes::{self, Chosen, Lane};
use crate::tables::pending::{self, PendingItem};

/// How long a turn belongs to its node after the node was last heard of, in milliseconds.
pub const LEASE_MS: Millis = 30_000;

/// A turn in hand.
#[derive(Clone, Debug)]
pub struct Lease {
    pub turn: TurnId,
    pub token: Token,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    /// What the item it began with is there for, and what it asked for besides.
    pub cause: Cause,
    pub options: ItemOptions,
    pub requester: Arc<Requester>,
    /// The turn goes on after its last journalled step.
    pub resumed: bool,
    /// It was asked to end: close it, ask no model.
    pub cancel: Option<CancelReason>,
    /// Leases that ended without a new step.
    pub attempts: i64,
    pub steps: i64,
    pub active_ms: i64,
    /// What held when the turn began.
    pub chosen: Chosen,
    /// The first row of this turn in its session.
    pub first_seq: i64,
    /// Messages may wait behind it in its lane.
    pub more: bool,
    /// The user message, when this lease wrote it.
    pub first: Option<Message>,
    /// It was taken from among work that was ready, and some is left.
    pub others: bool,
}

/// A turn about to begin.
pub(crate) struct Opening<'a> {
    pub lane: Lane,
    pub agent: AgentId,
    pub agent_name: &'a AgentName,
    pub session_key: &'a SessionKey,
    pub priority: i64,
    pub ord: i64,
    /// What the message itself asked for.
    pub think: Option<Think>,
    pub options: ItemOptions,
    pub slot: &'a NewTurn,
    /// Its item waited in the lane.
    pub queued: bool,
    pub now: Millis,
}

/// A turn that has its row and nothing else yet.
pub(crate) struct Placed {
    session: SessionId,
    /// Of the newest row in it.
    last_seq: i64,
    token: Token,
    chosen: Chosen,
}

/// Gives a turn on a free lane its row, for the item it begins with to point to.
pub(crate) async fn place(tx: &mut Tx<'_>, opening: &Opening<'_>) -> Result<Placed, Refusal> {
    let Opening { lane, agent, session_key, slot, now, queued, .. } = opening;
    let wanted = NewSession {
        id: &slot.session,
        key: session_key.as_str(),
        now: *now,
        idle_ms: slot.idle_ms,
    };
    let (session, last_seq) = history::resolve(tx, lane, *agent, &wanted).await?;
    let token = Token(lane.token.0 + 1);
    if *queued {
        let take = "UPDATE lanes SET token = $2, pending = pending - 1, ready_priority = NULL, \
                    ready_ord = NULL, due_at = NULL, held_by = NULL WHERE id = $1";
        tx.conn.run(take, &args![lane.id, token]).await?;
        lanes::refresh_agent(tx, *agent).await?;
    } else {
        set_token(tx, lane, token).await?;
    }
    let Chosen { profile, think } = lane.chosen.clone();
    let chosen = Chosen { profile, think: opening.think.or(think) };
    let insert = "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, \
                  first_seq, started_at, changed_at, profile, think, node, lease_until) VALUES \
                  ($1, $2, $3, $4, $5, $6, $7, 'running', $8, $9, $9, $10, $11, $12, $13)";
    let (first_seq, until) = (last_seq + 1, now + LEASE_MS);
    let args = args![
        slot.turn,
        lane.id,
        agent,
        session,
        opening.priority,
        opening.ord,
        token,
        first_seq,
        now,
        chosen.profile,
        chosen.think,
        slot.node,
        until,
    ];
    tx.conn.run(insert, &args).await?;
    if lane.one {
        occupy(tx, *agent, &slot.turn).await?;
    }
    Ok(Placed { session, last_seq, token, chosen })
}

/// Begins it: user message and events. Its item points to it, and counters are the caller's.
pub(crate) async fn begin(
    tx: &mut Tx<'_>,
    opening: Opening<'_>,
    placed: Placed,
    first: UserText<'_>,
) -> Result<Lease, Refusal> {
    let Opening { lane, agent, agent_name, session_key, options, slot, now, .. } = opening;
    let Placed { session, last_seq, token, chosen } = placed;
    let more = lane.pending > 0;
    let (turn, name) = (&slot.turn, agent_name);
    let place = RowPlace { agent, agent_name: name, session: &session, last_seq, turn, now };
    let (cause, from, text) = (first.cause.clone(), first.principal, first.text);
    let requester = Requester {
        session: session.clone(),
        principal: Principal::new(from),
        origin: first.origin.clone(),
    };
    let message = NewHistoryRow::new(first.item.0.clone(), user_body(first));
    let rows = history::append(tx, &place, vec![message]).await?;
    let lease = Lease {
        turn: slot.turn.clone(),
        token,
        agent,
        agent_name: agent_name.clone(),
        session,
        session_key: session_key.clone(),
        cause,
        options,
        requester: Arc::new(requester),
        resumed: false,
        cancel: None,
        attempts: 0,
        steps: 0,
        active_ms: 0,
        chosen,
        first_seq: rows.first().map_or(0, |row| row.seq),
        more,
        first: rows.into_iter().next(),
        others: false,
    };
    tell_start(tx, &lease, from, text, now);
    let seq = lease.first_seq;
    tx.event(lease.event(now, EventKind::HistoryUpdated { first: seq, last: seq }));
    Ok(lease)
}

fn tell_start(tx: &mut Tx<'_>, lease: &Lease, from: &str, body: &str, now: Millis) {
    let preview: String = body.chars().take(TURN_START_CHARACTERS).collect();
    let kind = EventKind::TurnStart {
        session_key: lease.session_key.clone(),
        token: lease.token,
        from: from.to_owned(),
        body: preview,
        resumed: lease.resumed,
    };
    tx.event(lease.event(now, kind));
}

impl Lease {
    pub fn event(&self, at: Millis, kind: EventKind) -> Event {
        let event = Event::of(self.agent, &self.agent_name, at, kind);
        event.within(&self.session, Some(&self.turn))
    }
}

async fn set_token(tx: &mut Tx<'_>, lane: &Lane, token: Token) -> Result<(), SqlError> {
    let set = "UPDATE lanes SET token = $2 WHERE id = $1";
    tx.conn.run(set, &args![lane.id, token]).await.map(drop)
}

/// Takes the best ready work there is, or one open turn that nobody runs.
#[derive(Clone)]
pub struct Take {
    pub slot: NewTurn,
    /// This turn and no other.
    pub only: Option<TurnId>,
    /// Asked for whoever a lane's work is for; the lanes of those who may not begin a turn now are
    /// held. Nothing: everybody may.
    pub admits: Option<Admits>,
    pub now: Millis,
}

pub type Admits = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Run for Take {
    type Out = Option<Box<Lease>>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        // Agents take turns by when they were served last.
        tx.settle().await?;
        let place = match &self.only {
            Some(turn) => idle_turn(tx, turn).await?,
            None => self.best_admitted(tx).await?,
        };
        let Some((lane, agent)) = place else { return Ok(None) };
        let served = Some(tx.next_ord().await?);
        tally(tx, agent, Tally { served, ..Tally::default() }).await?;
        let (found, key, agent_name) = lanes::known(tx.conn, lane).await?;
        let mut lease = match &found.open {
            Some(open) => self.resume(tx, &found, agent, agent_name, key, &open.id).await?,
            None => self.begin(tx, found, agent, agent_name, key).await?,
        };
        lease.others = lanes::is_any_ready(tx.conn).await?;
        Ok(Some(Box::new(lease)))
    }
}

impl Take {
    /// The best ready lane whose work may begin.
    async fn best_admitted(&self, tx: &mut Tx<'_>) -> Result<Option<(LaneId, AgentId)>, Refusal> {
        loop {
            let best = lanes::best_ready(tx.conn).await?;
            let (Some((lane, agent)), Some(admits)) = (best, &self.admits) else { return Ok(best) };
            match lanes::next_of(tx.conn, lane).await? {
                Some(by) if !admits(&by) => lanes::hold(tx, lane, agent, &by).await?,
                _ => return Ok(best),
            }
        }
    }

    async fn resume(
        &self,
        tx: &mut Tx<'_>,
        lane: &Lane,
        agent: AgentId,
        agent_name: AgentName,
        session_key: SessionKey,
        turn: &TurnId,
    ) -> Result<Lease, Refusal> {
        let token = Token(lane.token.0 + 1);
        set_token(tx, lane, token).await?;
        let was = "SELECT state FROM turns WHERE id = $1";
        let was: TurnState = tx.conn.one(was, &args![turn], "a turn is gone").await?;
        let update = "UPDATE turns SET token = $2, state = 'running', marks_leased = marks, \
                      available_at = NULL, waiting_for = NULL, outcome = NULL, error = NULL, \
                      changed_at = $3, node = $4, lease_until = $5 WHERE id = $1 \
                      RETURNING session, cancel, client_gone, attempts, steps, active_ms, \
                      profile, think, first_seq";
        let until = self.now + LEASE_MS;
        let args = args![turn, token, self.now, self.slot.node, until];
        let row: Row = tx.conn.one(update, &args, "a turn is gone").await?;
        if lane.one {
            occupy(tx, agent, turn).await?;
        }
        let mut row = Columns::of(row);
        let head = "SELECT principal, body, kind, cause, options, \
                    coalesce(origin_channel, channel), origin_topic, \
                    coalesce(origin_principal, principal) FROM items \
                    WHERE turn = $1 ORDER BY ord LIMIT 1";
        type Head = (Principal, String, Cause, ItemOptions, ChainOrigin);
        let (principal, body, cause, options, origin): Head =
            tx.conn.one(head, &args![turn], "a turn has no item").await?;
        let session: SessionId = row.take()?;
        let requester =
            Requester { session: session.clone(), principal: principal.clone(), origin };
        let lease = Lease {
            turn: turn.clone(),
            token,
            agent,
            agent_name,
            session,
            session_key,
            cause,
            options,
            requester: Arc::new(requester),
            resumed: true,
            cancel: cancel_reason(row.take()?, row.take()?),
            attempts: row.take()?,
            steps: row.take()?,
            active_ms: row.take()?,
            chosen: row.take()?,
            first_seq: row.take()?,
            more: true,
            first: None,
            others: false,
        };
        let from = if was == TurnState::Waiting { ItemState::Waiting } else { ItemState::Pending };
        move_items(tx, turn, agent, from, ItemState::Running).await?;
        lanes::refresh(tx, lane.id, agent, self.now).await?;
        tell_start(tx, &lease, principal.as_str(), &body, self.now);
        Ok(lease)
    }

    async fn begin(
        &self,
        tx: &mut Tx<'_>,
        mut lane: Lane,
        agent: AgentId,
        agent_name: AgentName,
        session_key: SessionKey,
    ) -> Result<Lease, Refusal> {
        let item = PendingItem::next(tx, lane.id, 1).await?.pop();
        let item = item.ok_or_else(|| SqlError::decode("a ready lane has no item"))?;
        if item.fresh {
            lane.session = None;
        }
        lane.pending -= 1;
        let by = Tally { pending: -1, running: 1, turns: 1, ..Tally::default() };
        tally(tx, agent, by).await?;
        let waits_in = lane.id;
        let opening = Opening {
            lane,
            agent,
            agent_name: &agent_name,
            session_key: &session_key,
            priority: item.priority,
            ord: item.ord,
            think: item.think,
            options: item.options.clone(),
            slot: &self.slot,
            queued: true,
            now: self.now,
        };
        let placed = place(tx, &opening).await?;
        let point = "UPDATE items SET turn = $2, state = 'running', started_at = $3 WHERE id = $1";
        tx.conn.run(point, &args![item.id, self.slot.turn, self.now]).await?;
        let peers = match item.cause {
            Cause::Peer => pending::peers(tx.conn, waits_in).await?,
            _ => 0,
        };
        begin(tx, opening, placed, UserText { peers, ..item.text(self.now) }).await
    }
}

async fn idle_turn(tx: &mut Tx<'_>, turn: &TurnId) -> Result<Option<(LaneId, AgentId)>, SqlError> {
    let select = "SELECT lane, agent FROM turns WHERE id = $1 AND state IN ('ready', 'waiting')";
    tx.conn.find(select, &args![turn]).await
}

fn cancel_reason(reason: Option<CancelReason>, gone: bool) -> Option<CancelReason> {
    reason.map(|reason| if gone { CancelReason::ClientGone } else { reason })
}

/// Moves the items of a turn between states that count the same for the sender.
pub(crate) async fn move_items(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    agent: AgentId,
    from: ItemState,
    to: ItemState,
) -> Result<(), SqlError> {
    let update = "UPDATE items SET state = $3 WHERE turn = $1 AND state = $2";
    let moved = i64::try_from(tx.conn.run(update, &args![turn, from, to]).await?).unwrap_or(0);
    let mut by = Tally::default();
    count(&mut by, from, -moved);
    count(&mut by, to, moved);
    tally(tx, agent, by).await
}

fn count(by: &mut Tally, state: ItemState, items: i64) {
    match state {
        ItemState::Pending => by.pending += items,
        ItemState::Running => by.running += items,
        ItemState::Waiting => by.waiting += items,
        ItemState::Done | ItemState::Failed | ItemState::Cancelled | ItemState::Dead => {}
    }
}

/// Marks a turn as to be ended. One that nobody runs becomes ready, to be closed by whoever
/// takes it; a mark that stands already stays.
pub(crate) async fn request_cancel(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    reason: CancelReason,
    now: Millis,
) -> Result<(), Refusal> {
    let (word, gone) = match reason {
        CancelReason::ClientGone => (CancelReason::Stop, true),
        other => (other, false),
    };
    let mark = "UPDATE turns SET cancel = COALESCE(cancel, $2), \
                client_gone = CASE WHEN cancel IS NULL THEN $3 ELSE client_gone END \
                WHERE id = $1 AND ended_at IS NULL RETURNING lane, agent, state";
    let args = args![turn, word, gone];
    let found: Option<(LaneId, AgentId, TurnState)> = tx.conn.find(mark, &args).await?;
    let (lane, agent, state) =
        found.ok_or_else(|| Refusal::not_found(format!("open turn {turn}")))?;
    if state != TurnState::Running {
        make_ready(tx, turn, lane, agent, None, now).await?;
    }
    Ok(())
}

pub(crate) async fn make_ready(
    tx: &mut Tx<'_>,
    turn: &TurnId,
    lane: LaneId,
    agent: AgentId,
    at: Option<Millis>,
    now: Millis,
) -> Result<(), Refusal> {
    // `outcome` of an open turn is why it is tried again, as long as it waits for that.
    let ready = "UPDATE turns SET state = 'ready', available_at = $2, waiting_for = NULL, \
                 outcome = CASE WHEN $2 IS NULL THEN NULL ELSE outcome END, \
                 changed_at = $3 WHERE id = $1";
    tx.conn.run(ready, &args![turn, at, now]).await?;
    lanes::vacate(tx, agent, turn).await?;
    move_items(tx, turn, agent, ItemState::Waiting, ItemState::Pending).await?;
    move_items(tx, turn, agent, ItemState::Running, ItemState::Pending).await?;
    lanes::refresh(tx, lane, agent, now).await?;
    Ok(())
}

/// The lease is over and the turn is not: it goes on later, here or after a restart.
#[derive(Clone)]
pub struct Release {
    pub turn: TurnId,
    pub token: Token,
    /// The turn is not ready before this time.
    pub until: Option<Millis>,
    /// It is tried again then: why, as a word and for people.
    pub retries: Option<(RetryCode, String)>,
    /// The end was not planned: it is one more attempt.
    pub counts: bool,
    pub active_ms: i64,
    pub now: Millis,
}

impl Run for Release {
    /// Attempts so far.
    type Out = i64;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let update = "UPDATE turns SET active_ms = $4, attempts = attempts + $3, \
                      outcome = $5, error = $6 \
                      WHERE id = $1 AND token = $2 AND state = 'running' \
                      RETURNING lane, agent, attempts, cancel IS NOT NULL";
        let (code, error) = self.retries.as_ref().map(|(code, text)| (*code, text)).unzip();
        let args = args![self.turn, self.token, self.counts, self.active_ms, code, error];
        let found = tx.conn.find(update, &args).await?;
        let (lane, agent, attempts, to_end) = found.ok_or(Refusal::Stale)?;
        // A turn that was asked to end while it waited ends at once.
        let until = if to_end { None } else { self.until };
        make_ready(tx, &self.turn, lane, agent, until, self.now).await?;
        Ok(attempts)
    }
}

pub(crate) async fn agent_name(tx: &mut Tx<'_>, agent: AgentId) -> Result<AgentName, SqlError> {
    let select = "SELECT name FROM agents WHERE id = $1";
    tx.conn.one(select, &args![agent], "an agent is gone").await
}

/// The node is alive: its turns stay its own for [`LEASE_MS`] from now on.
#[derive(Clone)]
pub struct RenewLeases {
    pub node: NodeName,
    pub now: Millis,
}

impl Run for RenewLeases {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let renew = "UPDATE turns SET lease_until = $2 \
                     WHERE ended_at IS NULL AND state = 'running' AND node = $1";
        tx.conn.run(renew, &args![self.node, self.now + LEASE_MS]).await?;
        Ok(())
    }
}

/// Takes back turns that run no longer.
#[derive(Clone)]
pub struct Recover {
    pub node: NodeName,
    pub lost: LostTurns,
    pub now: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostTurns {
    /// Those of this node, which has only just started, and those of others whose lease is over.
    AtStart,
    /// Those of other nodes whose lease is over.
    OfOthers,
}

impl Run for Recover {
    /// How many turns were running.
    type Out = usize;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let lost = match self.lost {
            LostTurns::AtStart => {
                "SELECT id, lane, agent FROM turns WHERE ended_at IS NULL AND state = 'running' \
                 AND (node = $1 OR lease_until IS NULL OR lease_until <= $2)"
            }
            LostTurns::OfOthers => {
                "SELECT id, lane, agent FROM turns WHERE ended_at IS NULL AND state = 'running' \
                 AND node <> $1 AND lease_until <= $2"
            }
        };
        let turns: Vec<(TurnId, LaneId, AgentId)> =
            tx.conn.list(lost, &args![self.node, self.now]).await?;
        for (turn, lane, agent) in &turns {
            let count = "UPDATE turns SET attempts = CASE WHEN marks > marks_leased THEN 0 \
                         ELSE attempts + 1 END, lost = 1 WHERE id = $1";
            tx.conn.run(count, &args![turn]).await?;
            make_ready(tx, turn, *lane, *agent, None, self.now).await?;
        }
        Ok(turns.len())
    }
}

/// When the first lease of another node is over, if it is not renewed.
pub async fn next_over(conn: &mut Conn, node: &NodeName) -> Result<Option<Millis>, SqlError> {
    let select = "SELECT min(lease_until) FROM turns \
                  WHERE ended_at IS NULL AND state = 'running' AND node <> $1";
    Ok(conn.find(select, &args![node]).await?.flatten())
}
