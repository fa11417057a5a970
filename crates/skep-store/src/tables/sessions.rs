//! Sessions as a list, and forks: a session that begins as a copy of another one's first part.

use std::collections::HashSet;

use skep_core::Millis;
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, CallId, SessionId, SessionKey};
use skep_core::message::{Body, Role, View};
use skep_core::money::Money;

use crate::engine::{Conn, Refusal, Run, SqlError, Tx, args, record};
use crate::tables::history;
use crate::tables::lanes::{self, Chosen};

/// A session as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub id: SessionId,
    pub key: SessionKey,
    /// Its first words.
    pub title: String,
    pub created_at: Millis,
    pub last_at: Millis,
    pub messages: i64,
    pub tokens: i64,
    /// `None` if the price of a call is unknown.
    pub cost: Option<Money>,
    /// The session it was copied from, and the last message that was.
    pub forked_from: Option<(SessionId, i64)>,
    /// Its key leads to it now.
    pub current: bool,
    /// What was chosen for its key.
    pub chosen: Chosen,
}

record! { SessionRow {
    id, key, title, created_at, last_at, messages, tokens, cost, forked_from, current, chosen,
} }

/// Where a page of the list begins: below this time and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub last_at: Millis,
    pub id: String,
}

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.key, s.title, s.created_at, s.last_at, s.last_seq, s.tokens, ",
            "CASE WHEN s.unpriced = 0 THEN s.cost END, s.forked_from, s.forked_at, ",
            "coalesce(l.session = s.id, FALSE), l.profile, l.think ",
            "FROM sessions s LEFT JOIN lanes l ON l.agent = s.agent AND l.key = s.key ",
            $rest
        )
    };
}

/// Those of an agent, the latest first.
pub async fn page(
    conn: &mut Conn,
    agent: AgentId,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<SessionRow>, SqlError> {
    let sql = select_sessions!(
        "WHERE s.agent = $1 AND (s.last_at, s.id) < ($2, $3) \
         ORDER BY s.last_at DESC, s.id DESC LIMIT $4"
    );
    let (last_at, id) = after.map_or((i64::MAX, ""), |after| (after.last_at, &after.id));
    let args = args![agent, last_at, id, limit];
    conn.list(sql, &args).await
}

/// Those under keys that begin with `prefix`.
pub async fn page_of_keys(
    conn: &mut Conn,
    agent: AgentId,
    prefix: &str,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<SessionRow>, SqlError> {
    // By their key, and sorted then: an owner's sessions are few, those of the agent are not.
    let sql = select_sessions!(
        "WHERE s.agent = $1 AND s.key >= $5 AND s.key < $6 AND (+s.last_at, s.id) < ($2, $3) \
         ORDER BY +s.last_at DESC, s.id DESC LIMIT $4"
    );
    let (last_at, id) = after.map_or((i64::MAX, ""), |after| (after.last_at, &after.id));
    let end = format!("{prefix}{}", char::MAX);
    let args = args![agent, last_at, id, limit, prefix, end];
    conn.list(sql, &args).await
}

pub async fn one(
    conn: &mut Conn,
    agent: AgentId,
    session: &SessionId,
) -> Result<Option<SessionRow>, SqlError> {
    let sql = select_sessions!("WHERE s.id = $1 AND s.agent = $2");
    conn.find(sql, &args![session, agent]).await
}

/// Copies a session's messages up to `at` into a new one, to which `key` leads from then on.
/// The copy costs what its messages weigh; the index of the search is not written again.
pub struct ForkSession {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub from: SessionId,
    /// The last message that is copied; nothing for all of them.
    pub at: Option<i64>,
    /// The new one.
    pub session: SessionId,
    pub key: SessionKey,
    pub now: Millis,
}

impl Run for ForkSession {
    /// The last message that was copied.
    type Out = i64;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<i64, Refusal> {
        let found = one(tx.conn, self.agent, &self.from).await?;
        let from = found.ok_or_else(|| Refusal::not_found(format!("session {}", self.from)))?;
        let at = self.at.unwrap_or(from.messages);
        if at < 1 || at > from.messages {
            let detail = format!("the session has the messages 1 to {}, not {at}", from.messages);
            return Err(Refusal::conflict("no_such_message", detail));
        }
        if let Some(open) = open_call(tx.conn, &self.agent_name, &self.from, at).await? {
            let detail = format!("message {at} stands between a call and its result; {open}");
            return Err(Refusal::conflict("inside_a_call", detail));
        }
        let lane = lanes::find_or_make(tx, self.agent, self.key.as_str()).await?;
        if lane.open.is_some() || lane.pending > 0 {
            let detail = format!(
                "work is under way under the key {}; wait for it, or give another session_key",
                self.key
            );
            return Err(Refusal::conflict("session_busy", detail));
        }
        self.copy(tx, &from, at).await?;
        let chosen = if lane.chosen == Chosen::default() { from.chosen } else { lane.chosen };
        let point = "UPDATE lanes SET session = $2, fresh = 0, profile = $3, think = $4 \
                     WHERE id = $1";
        tx.conn.run(point, &args![lane.id, self.session, chosen.profile, chosen.think]).await?;
        let kind = EventKind::HistoryUpdated { first: 1, last: at };
        let event = Event::of(self.agent, &self.agent_name, self.now, kind);
        tx.event(event.within(&self.session, None));
        Ok(at)
    }
}

impl ForkSession {
    async fn copy(&self, tx: &mut Tx<'_>, from: &SessionRow, at: i64) -> Result<(), SqlError> {
        let insert = "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq, title, \
                      forked_from, forked_at) VALUES ($1, $2, $3, $4, $4, $6, $7, $5, $6)";
        let args = args![self.session, self.agent, self.key, self.now, self.from, at, from.title];
        tx.conn.run(insert, &args).await?;
        let copy = "INSERT INTO history (session, seq, id, turn, at, spoken, body) \
                    SELECT $1, seq, id, turn, at, spoken, body FROM history \
                    WHERE session = $2 AND seq <= $3";
        let args = args![self.session, self.from, at];
        tx.conn.run(copy, &args).await?;
        let files = "INSERT INTO history_files (session, seq, hash) \
                     SELECT $1, seq, hash FROM history_files WHERE session = $2 AND seq <= $3";
        tx.conn.run(files, &args).await?;
        // What a model is shown of it is the same, too.
        let notes = "INSERT INTO compactions (session, seam, upto, turn, at, reason, notes) \
                     SELECT $1, seam, upto, turn, at, reason, notes FROM compactions \
                     WHERE session = $2 AND seam <= $3";
        tx.conn.run(notes, &args).await?;
        Ok(())
    }
}

/// Where one may cut instead, when a call before `at` has its result only after it.
async fn open_call(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    at: i64,
) -> Result<Option<String>, SqlError> {
    const PIECE: u32 = 64;
    let mut answered = HashSet::new();
    let mut before = at + 1;
    loop {
        let rows = history::page(conn, agent, session, View::Full, Some(before), PIECE).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        before = first.seq;
        for row in rows.into_iter().rev() {
            answered.extend(row.body.tool_call_id.clone());
            if row.body.role != Role::Assistant {
                continue;
            }
            let missing = without_result(&row.body, &answered);
            if missing.is_empty() {
                return Ok(None);
            }
            let whole = result_of(conn, agent, session, at, missing).await?;
            return Ok(Some(match (row.seq - 1, whole) {
                (0, None) => "nothing before it can be kept either".to_owned(),
                (0, Some(after)) => format!("fork at {after}"),
                (before, None) => format!("fork at {before}"),
                (before, Some(after)) => format!("fork at {before} or at {after}"),
            }));
        }
    }
}

fn without_result(said: &Body, answered: &HashSet<CallId>) -> HashSet<CallId> {
    let calls = said.tool_calls().map(|(id, ..)| id);
    calls.filter(|id| !answered.contains(*id)).cloned().collect()
}

/// The message after which none of these calls is open any more.
async fn result_of(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    at: i64,
    mut missing: HashSet<CallId>,
) -> Result<Option<i64>, SqlError> {
    // The results of a step follow it at once; no model asks for more calls than this.
    for row in history::after(conn, agent, session, View::Full, at, 500).await? {
        if let Some(call) = &row.body.tool_call_id {
            missing.remove(call);
        }
        if missing.is_empty() {
            return Ok(Some(row.seq));
        }
    }
    Ok(None)
}
