//! Sessions as a list, what a person does with one, and forks: a session that begins as a copy of
//! another one's first part.

use std::collections::HashSet;

use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::event::{Event, EventKind, TurnState};
use skep_core::ids::{
    AgentId, AgentName, CallId, ItemId, Principal, SessionId, SessionKey, TurnId,
};
use skep_core::message::{Body, Role, View};
use skep_core::money::Money;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

use crate::dialect;

use crate::tables::history::{self, Sum};
use crate::tables::lanes::{self, Chosen};
use crate::tables::people::storage;
use crate::tables::search;

/// A session as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub id: SessionId,
    pub key: SessionKey,
    /// Empty where nothing in it gives one and nobody did.
    pub title: String,
    pub pinned: bool,
    pub archived: bool,
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
    pub work: SessionWork,
    /// The newest message of a person or the agent.
    pub last_said: Option<Body>,
}

record! { SessionRow {
    id, key, title, pinned, archived, created_at, last_at, messages, tokens, cost, forked_from,
    current, chosen, work, last_said,
} }

impl SessionRow {
    fn is_busy(&self) -> bool {
        self.work.open.is_some() || self.work.queued > 0
    }
}

/// What goes on in a session, and how its newest turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionWork {
    /// Of its turn that has not ended.
    pub open: Option<TurnState>,
    /// Items that wait for its key.
    pub queued: i64,
    pub outcome: Option<String>,
    pub error: Option<String>,
}

record!(SessionWork { open, queued, outcome, error });

/// Where a page of the list begins: below this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub pinned: bool,
    pub last_at: Millis,
    pub id: String,
}

static FIRST: Cursor = Cursor { pinned: true, last_at: Millis::MAX, id: String::new() };

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.key, s.title, s.pinned_at IS NOT NULL, s.archived_at IS NOT NULL, ",
            "s.created_at, s.last_at, s.last_seq, s.tokens, ",
            "CASE WHEN s.unpriced = 0 THEN s.cost END, f.id, s.forked_at, ",
            "coalesce(l.session = s.id, FALSE), l.profile, l.think, o.state, ",
            "CASE WHEN l.session = s.id THEN l.pending ELSE 0 END, e.outcome, e.error, h.body ",
            "FROM sessions s LEFT JOIN lanes l ON l.agent = s.agent AND l.key = s.key ",
            "LEFT JOIN sessions f ON f.id = s.forked_from AND f.deleted_at IS NULL ",
            "LEFT JOIN turns o ON o.lane = l.id AND o.ended_at IS NULL AND o.session = s.id ",
            "LEFT JOIN history n ON n.session = s.id AND n.seq = s.last_seq ",
            "LEFT JOIN turns e ON e.id = n.turn AND e.session = s.id ",
            "LEFT JOIN history h ON h.session = s.id AND h.seq = (SELECT max(z.seq) ",
            "FROM history z WHERE z.session = s.id AND z.spoken = 1) ",
            "WHERE s.deleted_at IS NULL AND ",
            $rest
        )
    };
}

/// Those of an agent: the pinned ones first, then the latest.
pub async fn page(
    conn: &mut Conn,
    agent: AgentId,
    archived: Option<bool>,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<SessionRow>, SqlError> {
    let sql = select_sessions!(
        "s.apart = 0 AND s.agent = $1 \
         AND ((s.pinned_at IS NOT NULL), s.last_at, s.id) < ($2, $3, $4) \
         AND ($6 IS NULL OR (s.archived_at IS NOT NULL) = $6) \
         ORDER BY (s.pinned_at IS NOT NULL) DESC, s.last_at DESC, s.id DESC LIMIT $5"
    );
    let after = after.unwrap_or(&FIRST);
    let args = args![agent, after.pinned, after.last_at, after.id, limit, archived];
    conn.list(sql, &args).await
}

/// Those under keys that begin with `prefix`.
pub async fn page_of_keys(
    conn: &mut Conn,
    agent: AgentId,
    prefix: &str,
    archived: Option<bool>,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<SessionRow>, SqlError> {
    // By their key, and sorted then: an owner's sessions are few, those of the agent are not.
    let sql = select_sessions!(
        "s.apart = 0 AND s.agent = $1 AND s.key >= $7 AND s.key < $8 \
         AND (+(s.pinned_at IS NOT NULL), s.last_at, s.id) < ($2, $3, $4) \
         AND ($6 IS NULL OR (s.archived_at IS NOT NULL) = $6) \
         ORDER BY +(s.pinned_at IS NOT NULL) DESC, s.last_at DESC, s.id DESC LIMIT $5"
    );
    let after = after.unwrap_or(&FIRST);
    let end = format!("{prefix}{}", char::MAX);
    let args = args![agent, after.pinned, after.last_at, after.id, limit, archived, prefix, end];
    conn.list(sql, &args).await
}

pub async fn one(
    conn: &mut Conn,
    agent: AgentId,
    session: &SessionId,
) -> Result<Option<SessionRow>, SqlError> {
    let sql = select_sessions!("s.id = $1 AND s.agent = $2");
    conn.find(sql, &args![session, agent]).await
}

/// Sessions whose titles `fits`, the latest first; of one agent or all, under keys that begin with
/// `prefix`.
pub async fn titled(
    conn: &mut Conn,
    agent: Option<AgentId>,
    prefix: &str,
    most: usize,
    fits: impl Fn(&str) -> bool,
) -> Result<Vec<(AgentName, SessionRow)>, SqlError> {
    let mut found: Vec<(Millis, SessionId, AgentId)> = Vec::new();
    conn.each_row(TITLES, &args![agent, prefix], |row| {
        if fits(row.text(3)?) {
            found.push((row.int(0)?, SessionId::new(row.text(1)?), AgentId(row.int(2)?)));
        }
        Ok(())
    })
    .await?;
    found.sort_by_key(|(last_at, ..)| std::cmp::Reverse(*last_at));
    let mut rows = Vec::new();
    for (_, session, agent) in found.into_iter().take(most) {
        let name = "SELECT name FROM agents WHERE id = $1";
        let name: Option<AgentName> = conn.find(name, &args![agent]).await?;
        rows.extend(name.zip(one(conn, agent, &session).await?));
    }
    Ok(rows)
}

const TITLES: &str = "SELECT last_at, id, agent, title FROM sessions WHERE deleted_at IS NULL \
                      AND apart = 0 AND title <> '' AND ($1 IS NULL OR agent = $1) \
                      AND substr(key, 1, length($2)) = $2";

/// Files that messages of a session have, and their bytes.
pub async fn attachments(conn: &mut Conn, session: &SessionId) -> Result<(i64, i64), SqlError> {
    let select = "SELECT count(*), coalesce(sum(length(b.bytes)), 0) FROM \
                  (SELECT DISTINCT hash FROM history_files WHERE session = $1) f \
                  JOIN files b ON b.hash = f.hash";
    conn.one(select, &args![session], "a sum has no row").await
}

/// Names, pins or archives a session, or takes that back. What is left out stays.
pub struct EditSession {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    /// Empty: the one its messages give.
    pub title: Option<String>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    pub now: Millis,
}

impl Run for EditSession {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let title = match &self.title {
            Some(title) if title.is_empty() => Some(self.derived(tx).await?),
            title => title.clone(),
        };
        let update = "UPDATE sessions SET title = coalesce($3, title), \
                      pinned_at = CASE $4 WHEN TRUE THEN coalesce(pinned_at, $6) \
                      WHEN FALSE THEN NULL ELSE pinned_at END, \
                      archived_at = CASE $5 WHEN TRUE THEN coalesce(archived_at, $6) \
                      WHEN FALSE THEN NULL ELSE archived_at END \
                      WHERE id = $1 AND agent = $2 AND deleted_at IS NULL AND apart = 0 \
                      RETURNING key, title, pinned_at IS NOT NULL, archived_at IS NOT NULL";
        let args = args![self.session, self.agent, title, self.pinned, self.archived, self.now];
        let changed = tx.conn.find(update, &args).await?;
        let (session_key, title, pinned, archived) =
            changed.ok_or_else(|| Refusal::not_found(format!("session {}", self.session)))?;
        let kind = EventKind::SessionChanged { session_key, title, pinned, archived };
        let event = Event::of(self.agent, &self.agent_name, self.now, kind);
        tx.event(event.within(&self.session, None));
        Ok(())
    }
}

impl EditSession {
    async fn derived(&self, tx: &mut Tx<'_>) -> Result<String, SqlError> {
        // Whoever has not said what it is about by then never will.
        const FIRST: u32 = 50;
        let (agent, session) = (&self.agent_name, &self.session);
        let first = history::after(tx.conn, agent, session, View::Simple, 0, FIRST).await?;
        Ok(Sum::of(first.iter().map(|message| &message.body)).title)
    }
}

/// What belongs to a session and has no index by it.
#[derive(Clone, Debug)]
pub struct SessionParts {
    /// What was read holds as long as this is its last message.
    pub last_seq: i64,
    spoken: Vec<(i64, i64)>,
    /// Where its messages may be found instead.
    relatives: Vec<SessionId>,
    events: Vec<i64>,
}

/// Walks tables: for a reader, never for the writer.
pub async fn parts(conn: &mut Conn, session: &SessionId) -> Result<SessionParts, SqlError> {
    let last = "SELECT last_seq FROM sessions WHERE id = $1";
    let last_seq: Option<i64> = conn.find(last, &args![session]).await?;
    let spoken = search::rows_of(conn, session).await?;
    let relatives = search::relatives(conn, session).await?;
    let named = format!("\"session\":\"{session}\"");
    let mut events = Vec::new();
    conn.each_row("SELECT seq, body FROM events WHERE agent IS NOT NULL", &[], |row| {
        if row.text(1)?.contains(&named) {
            events.push(row.int(0)?);
        }
        Ok(())
    })
    .await?;
    Ok(SessionParts { last_seq: last_seq.unwrap_or(0), spoken, relatives, events })
}

/// Deletes what was said in a session, all of it in one commit. The audit trail, what was spent and
/// the bare rows that these name stay.
pub struct DeleteSession {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub parts: SessionParts,
    pub principal: Principal,
    pub now: Millis,
}

impl Run for DeleteSession {
    /// Its key led to it.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let found = one(tx.conn, self.agent, &self.session).await?;
        let row = found.ok_or_else(|| Refusal::not_found(format!("session {}", self.session)))?;
        if row.is_busy() || row.messages != self.parts.last_seq {
            let detail = "work is under way in this conversation; wait for it or stop it, then \
                          delete the conversation";
            return Err(Refusal::conflict("session_busy", detail));
        }
        let hashes = "SELECT hash FROM history_files WHERE session = $1";
        let mut hashes: Vec<String> = tx.conn.list(hashes, &args![self.session]).await?;
        let turns = "SELECT t.id FROM (SELECT DISTINCT turn FROM history WHERE session = $1) h \
                     CROSS JOIN turns t WHERE t.id = h.turn AND t.session = $1";
        let turns: Vec<TurnId> = tx.conn.list(turns, &args![self.session]).await?;
        let mut spoken = self.parts.spoken.clone();
        for heir in &self.parts.relatives {
            spoken = search::hand_over(tx, spoken, &self.session, heir).await?;
        }
        let spoken: Vec<i64> = spoken.into_iter().map(|(id, _)| id).collect();
        for id in &spoken {
            tx.conn.run(dialect::UNINDEX_SPOKEN, &args![*id]).await?;
        }
        for turn in &turns {
            hashes.extend(empty_turn(tx, turn).await?);
        }
        for (all, ids) in [
            ("DELETE FROM spoken WHERE id = $1", &spoken),
            ("DELETE FROM events WHERE seq = $1", &self.parts.events),
        ] {
            for id in ids {
                tx.conn.run(all, &args![*id]).await?;
            }
        }
        for rows in [
            // Numbers of rows that are gone are given again.
            "UPDATE search_upto SET upto = (SELECT coalesce(max(id), 0) FROM spoken) \
             WHERE upto > (SELECT coalesce(max(id), 0) FROM spoken)",
            "DELETE FROM compactions WHERE session = $1",
            "DELETE FROM history WHERE session = $1",
        ] {
            tx.conn.run(rows, &args![self.session]).await?;
        }
        for hash in hashes {
            tx.conn.run("DELETE FROM files WHERE hash = $1 AND uses = 0", &args![hash]).await?;
        }
        self.close(tx, row).await
    }

    fn cost(&self) -> usize {
        1024 + 64 * (self.parts.spoken.len() + self.parts.events.len())
    }
}

impl DeleteSession {
    /// What is left of the session leads nowhere; everybody hears of it.
    async fn close(&self, tx: &mut Tx<'_>, row: SessionRow) -> Result<bool, Refusal> {
        // `forked_from` stays: by way of it other copies are found.
        let bare = "UPDATE sessions SET deleted_at = $2, title = '', last_seq = 0, tokens = 0, \
                    cost = 0, unpriced = 0, pinned_at = NULL, archived_at = NULL, \
                    engine = NULL, engine_session = NULL, \
                    launch_hash = NULL, seen_seq = NULL WHERE id = $1";
        tx.conn.run(bare, &args![self.session, self.now]).await?;
        let lane = "UPDATE lanes SET session = NULL WHERE agent = $1 AND key = $2 AND session = $3";
        tx.conn.run(lane, &args![self.agent, row.key, self.session]).await?;
        let grants = "UPDATE grants SET revoked_at = $3 WHERE agent = $1 AND session = $2 \
                      AND revoked_at IS NULL";
        tx.conn.run(grants, &args![self.agent, self.session, self.now]).await?;
        let what = serde_json::json!({ "session_key": row.key, "messages": row.messages });
        tx.audit(AuditRow {
            agent: Some(self.agent_name.0.clone()),
            agent_id: Some(self.agent),
            session: Some(self.session.0.clone()),
            ..AuditRow::change("session_deleted", Some(&self.principal.0), &what, self.now)
        })
        .await?;
        let kind = EventKind::SessionDeleted { session_key: row.key };
        let event = Event::of(self.agent, &self.agent_name, self.now, kind);
        tx.event(event.within(&self.session, None));
        Ok(row.current)
    }
}

/// Takes the words out of a turn and of what it answered; gives the files they had.
async fn empty_turn(tx: &mut Tx<'_>, turn: &TurnId) -> Result<Vec<String>, SqlError> {
    let items = "SELECT id, principal FROM items WHERE turn = $1";
    let items: Vec<(ItemId, Principal)> = tx.conn.list(items, &args![turn]).await?;
    let mut hashes = Vec::new();
    for (item, principal) in &items {
        storage::release(tx, principal, item).await?;
        let files = "DELETE FROM item_files WHERE item = $1 RETURNING hash";
        hashes.extend(tx.conn.list::<String>(files, &args![item]).await?);
        tx.conn.run("DELETE FROM outbox WHERE item = $1", &args![item]).await?;
        tx.conn.run("UPDATE tasks SET result = NULL WHERE item = $1", &args![item]).await?;
        tx.conn.run("UPDATE letters SET body = '' WHERE id = $1", &args![item]).await?;
    }
    for words in [
        "UPDATE items SET body = '', note = NULL, result = NULL, error = NULL, files = 0, \
         skill_text = NULL WHERE turn = $1",
        "UPDATE turns SET answer = NULL, error = NULL, waiting_for = NULL WHERE id = $1",
        "DELETE FROM calls WHERE turn = $1",
        "UPDATE letters SET body = '' WHERE from_turn = $1",
        "DELETE FROM reminders WHERE turn = $1",
        "UPDATE letters SET body = '' WHERE claim > $1 || '/' AND claim < $1 || '0'",
        "DELETE FROM questions WHERE task IN (SELECT item FROM tasks WHERE from_turn = $1)",
        "UPDATE tasks SET result = NULL, body = CASE WHEN agent = 0 THEN '' END \
         WHERE from_turn = $1",
    ] {
        tx.conn.run(words, &args![turn]).await?;
    }
    Ok(hashes)
}

/// Copies a session's messages up to `at` into a new one, to which `key` leads from then on.
/// The copy costs what its messages weigh; the index of the search is not written again: the
/// messages are found in the session, or in the copy where that takes its place.
pub struct ForkSession {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub from: SessionId,
    /// The last message that is copied; nothing for all of them.
    pub at: Option<i64>,
    /// The new one.
    pub session: SessionId,
    pub key: SessionKey,
    /// The session's rows in the search, where the copy takes its place.
    pub spoken: Vec<(i64, i64)>,
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
            let detail =
                format!("the conversation has the messages 1 to {}, not {at}", from.messages);
            return Err(Refusal::conflict("no_such_message", detail));
        }
        self.make(tx, &from, at).await
    }
}

impl ForkSession {
    /// The copy takes the place of the session: its key leads to the copy, and the session is
    /// archived.
    pub(crate) async fn replace(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        let found = one(tx.conn, self.agent, &self.from).await?;
        let Some(from) = found.filter(|from| from.current) else {
            let detail =
                "its key leads to another conversation now; fork this one to go on with it";
            return Err(Refusal::conflict("not_current", detail));
        };
        if from.is_busy() {
            let detail = "work is under way in this conversation; wait for it or stop it, then \
                          regenerate the answer";
            return Err(Refusal::conflict("session_busy", detail));
        }
        let at = self.at.unwrap_or(from.messages);
        self.make(tx, &from, at).await?;
        search::hand_over(tx, self.spoken.clone(), &self.from, &self.session).await?;
        let edit = |session: &SessionId, pinned, archived| EditSession {
            agent: self.agent,
            agent_name: self.agent_name.clone(),
            session: session.clone(),
            title: None,
            pinned: Some(pinned),
            archived: Some(archived),
            now: self.now,
        };
        edit(&self.from, false, true).run(tx).await?;
        edit(&self.session, from.pinned, false).run(tx).await
    }

    /// With the messages up to `at`.
    async fn make(&self, tx: &mut Tx<'_>, from: &SessionRow, at: i64) -> Result<i64, Refusal> {
        if let Some(open) = open_call(tx.conn, &self.agent_name, &self.from, at).await? {
            let detail = format!("message {at} stands between a call and its result; {open}");
            return Err(Refusal::conflict("inside_a_call", detail));
        }
        if let Some(source) = lanes::find(tx.conn, self.agent, from.key.as_str()).await? {
            source.refuse_apart()?;
        }
        let lane = lanes::find_or_make(tx, self.agent, self.key.as_str()).await?;
        lane.refuse_apart()?;
        if lane.open.is_some() || lane.pending > 0 {
            let detail = format!(
                "work is under way under the key {}; wait for it, or give another session_key",
                self.key
            );
            return Err(Refusal::conflict("session_busy", detail));
        }
        self.copy(tx, from, at).await?;
        let chosen = if lane.chosen == Chosen::default() { &from.chosen } else { &lane.chosen };
        let point = "UPDATE lanes SET session = $2, fresh = 0, profile = $3, think = $4 \
                     WHERE id = $1";
        tx.conn.run(point, &args![lane.id, self.session, chosen.profile, chosen.think]).await?;
        if at > 0 {
            let kind = EventKind::HistoryUpdated { first: 1, last: at };
            let event = Event::of(self.agent, &self.agent_name, self.now, kind);
            tx.event(event.within(&self.session, None));
        }
        Ok(at)
    }

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
