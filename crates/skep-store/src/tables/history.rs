//! Sessions and their messages: the canonical history, and with `calls` the journal of a turn.

use std::fmt::Write as _;

use serde::Deserialize;
use skep_core::Millis;
use skep_core::decision::Decision;
use skep_core::event::CallState;
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::message::{Body, MOST_TOKENS, Message, Role, View, history_tag};
use skep_core::money::Money;
use skep_core::title;
use skep_db::{Conn, PAGE_ROWS, SqlError, Tx, args, record};

use crate::tables::compactions;
use crate::tables::files;

/// A message that has its id but no place yet.
#[derive(Clone, Debug)]
pub struct NewHistoryRow {
    pub id: String,
    pub body: Body,
    /// Of the model call whose message it is, where that was seen.
    pub times: Option<ModelTimes>,
}

impl NewHistoryRow {
    /// A row that no model call said.
    pub fn new(id: String, body: Body) -> Self {
        Self { id, body, times: None }
    }
}

/// When a model call began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelTimes {
    pub began: Millis,
    /// Its first word.
    pub first: Option<Millis>,
    pub ended: Millis,
    /// How often it was begun until its message came.
    pub tries: i64,
}

/// Where new rows go.
pub(crate) struct RowPlace<'a> {
    pub agent: AgentId,
    pub agent_name: &'a AgentName,
    pub session: &'a SessionId,
    /// Of the newest row in the session.
    pub last_seq: i64,
    pub turn: &'a TurnId,
    pub now: Millis,
}

/// Appends rows in order. What is said in an archived session brings it back.
pub(crate) async fn append(
    tx: &mut Tx<'_>,
    place: &RowPlace<'_>,
    messages: Vec<NewHistoryRow>,
) -> Result<Vec<Message>, SqlError> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let count = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    let sum = Sum::of(messages.iter().map(|message| &message.body));
    let reserve = "UPDATE sessions SET last_seq = $2, tokens = tokens + $3, \
                   cost = cost + $4, unpriced = unpriced + $5, last_at = $6, \
                   title = CASE title WHEN '' THEN $7 ELSE title END, archived_at = NULL \
                   WHERE id = $1";
    let newest = place.last_seq + count;
    let args =
        args![place.session, newest, sum.tokens, sum.cost, sum.unpriced, place.now, sum.title];
    if tx.conn.run(reserve, &args).await? == 0 {
        return Err(SqlError::decode("the session of a turn is gone"));
    }
    let mut rows = Vec::with_capacity(messages.len());
    for (seq, message) in (place.last_seq + 1..).zip(messages) {
        let spoken = message.body.is_spoken();
        rows.push(insert(tx, place, seq, message).await?);
        if spoken {
            note_spoken(tx, place.agent, place.session, seq).await?;
        }
    }
    Ok(rows)
}

/// What rows add to the row of their session.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sum {
    pub tokens: i64,
    /// Billionths of a dollar.
    pub cost: i64,
    /// Model calls whose price is not known.
    pub unpriced: i64,
    /// Empty where nothing in them gives one.
    pub title: String,
}

impl Sum {
    pub fn of<'a>(bodies: impl Iterator<Item = &'a Body>) -> Self {
        let mut sum = Self::default();
        for body in bodies {
            if sum.title.is_empty() {
                sum.title = title::of(body);
            }
            if let Some(meta) = &body.meta {
                // Also what was imported: a sum that ran over could not be read any more.
                let tokens = meta.usage.total_tokens.min(4 * MOST_TOKENS);
                sum.tokens += i64::try_from(tokens).unwrap_or(0);
                match meta.usage.cost {
                    Some(cost) => sum.cost = sum.cost.saturating_add(cost.min(Money::MOST).0),
                    None => sum.unpriced += 1,
                }
            }
        }
        sum
    }
}

/// A row as it was in another hive; its turn and its session are there.
pub(crate) async fn restore(
    tx: &mut Tx<'_>,
    agent: AgentId,
    message: &Message,
) -> Result<(), SqlError> {
    let place = RowPlace {
        agent,
        agent_name: &message.agent_id,
        session: &message.session_id,
        last_seq: message.seq - 1,
        turn: &message.turn,
        now: message.timestamp,
    };
    let new = NewHistoryRow::new(message.id.clone(), message.body.clone());
    insert(tx, &place, message.seq, new).await?;
    if message.body.is_spoken() {
        note_spoken(tx, agent, &message.session_id, message.seq).await?;
    }
    Ok(())
}

/// The row can be searched once the index has come to it.
async fn note_spoken(
    tx: &mut Tx<'_>,
    agent: AgentId,
    session: &SessionId,
    seq: i64,
) -> Result<(), SqlError> {
    let insert = "INSERT INTO spoken (agent, session, seq) VALUES ($1, $2, $3)";
    tx.conn.run(insert, &args![agent, session, seq]).await?;
    Ok(())
}

async fn insert(
    tx: &mut Tx<'_>,
    place: &RowPlace<'_>,
    seq: i64,
    message: NewHistoryRow,
) -> Result<Message, SqlError> {
    files::keep(tx, message.body.files(), place.now).await?;
    let body = stored(&message.body)
        .map_err(|error| SqlError::decode(format!("message as JSON: {error}")))?;
    let insert = "INSERT INTO history (session, seq, id, turn, at, spoken, body, model_began, \
                  model_first, model_ended, model_tries) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let spoken = message.body.is_spoken();
    let times = message.times;
    let (began, ended) = times.map(|times| (times.began, times.ended)).unzip();
    let (first, tries) = (times.and_then(|times| times.first), times.map(|times| times.tries));
    let args = args![
        place.session,
        seq,
        message.id,
        place.turn,
        place.now,
        spoken,
        body,
        began,
        first,
        ended,
        tries,
    ];
    tx.conn.run(insert, &args).await?;
    files::refer(tx, place.session, seq, message.body.files()).await?;
    compactions::note(tx, place, seq, &message.body).await?;
    Ok(Message {
        tag: history_tag(),
        id: message.id,
        agent_id: place.agent_name.clone(),
        session_id: place.session.clone(),
        turn: place.turn.clone(),
        seq,
        timestamp: place.now,
        body: message.body,
    })
}

/// The row as it is kept: without the bytes of its files.
fn stored(body: &Body) -> serde_json::Result<String> {
    if body.files().all(|file| file.data.is_none()) {
        return serde_json::to_string(body);
    }
    let mut bare = body.clone();
    bare.files_mut().for_each(|file| file.data = None);
    serde_json::to_string(&bare)
}

/// The session a new turn of a lane runs in, and its newest row: the lane's own while it is fresh
/// enough, else `wanted`.
pub(crate) async fn resolve(
    tx: &mut Tx<'_>,
    lane: &crate::tables::lanes::Lane,
    agent: AgentId,
    wanted: &NewSession<'_>,
) -> Result<(SessionId, i64), SqlError> {
    if let Some(session) = &lane.session
        && session.last_at.saturating_add(wanted.idle_ms) > wanted.now
    {
        return Ok((session.id.clone(), session.last_seq));
    }
    let insert = "INSERT INTO sessions (id, agent, key, created_at, last_at, apart) \
                  VALUES ($1, $2, $3, $4, $4, $5)";
    let args = args![wanted.id, agent, wanted.key, wanted.now, lane.apart];
    tx.conn.run(insert, &args).await?;
    let point = "UPDATE lanes SET session = $2 WHERE id = $1";
    tx.conn.run(point, &args![lane.id, wanted.id]).await?;
    Ok((wanted.id.clone(), 0))
}

pub(crate) struct NewSession<'a> {
    pub id: &'a SessionId,
    pub key: &'a str,
    pub now: Millis,
    pub idle_ms: i64,
}

/// Newest rows below `before`, oldest first.
pub async fn page(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    view: View,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Message>, SqlError> {
    decode(agent, session, &page_text(conn, session, view, before, limit).await?)
}

/// The page as one text: rows cost a driver far more each than their bytes do.
async fn page_text(
    conn: &mut Conn,
    session: &SessionId,
    view: View,
    before: Option<i64>,
    limit: u32,
) -> Result<String, SqlError> {
    let sql = match view {
        View::Full => PAGE,
        View::Simple => SPOKEN_PAGE,
    };
    let before = before.unwrap_or(i64::MAX);
    let text: Option<Option<String>> = conn.find(sql, &args![session, before, limit]).await?;
    Ok(text.flatten().unwrap_or_default())
}

/// Rows as JSON objects with commas between them. Ids are ours and need no escape; the body is
/// JSON already.
macro_rules! packed {
    ($rows:literal) => {
        concat!(
            "SELECT string_agg('{\"seq\":' || seq || ',\"id\":\"' || id ",
            "|| '\",\"turn\":\"' || turn || '\",\"at\":' || at ",
            "|| ',\"body\":' || body || '}', ',') ",
            "FROM (SELECT seq, id, turn, at, body FROM history WHERE ",
            $rows,
            ")"
        )
    };
}

/// Oldest rows above `after`, oldest first.
pub async fn after(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    view: View,
    after: i64,
    limit: u32,
) -> Result<Vec<Message>, SqlError> {
    let sql = match view {
        View::Full => NEXT_PAGE,
        View::Simple => NEXT_SPOKEN_PAGE,
    };
    let text: Option<Option<String>> = conn.find(sql, &args![session, after, limit]).await?;
    decode(agent, session, &text.flatten().unwrap_or_default())
}

/// A page of rows above `after`, oldest first and in full.
pub async fn page_after(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    after: i64,
) -> Result<Vec<Message>, SqlError> {
    let rows: Vec<StoredMessage> = conn.page(NEXT_LINES, &args![session, after, PAGE_ROWS]).await?;
    Ok(rows.into_iter().map(|row| row.placed(agent, session)).collect())
}

/// What was said in a turn, oldest first.
pub async fn spoken_in(
    conn: &mut Conn,
    agent: &AgentName,
    turn: &TurnId,
) -> Result<Vec<Message>, SqlError> {
    let select = "SELECT session, first_seq FROM turns WHERE id = $1";
    let found: Option<(SessionId, i64)> = conn.find(select, &args![turn]).await?;
    let Some((session, first)) = found else { return Ok(Vec::new()) };
    let mut said = after(conn, agent, &session, View::Simple, first - 1, u32::MAX).await?;
    said.retain(|message| message.turn == *turn);
    Ok(said)
}

/// The newest message of a person in a session: its place, and the item that brought it.
pub async fn last_asked(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
) -> Result<Option<(i64, ItemId)>, SqlError> {
    let mut before = None;
    loop {
        let rows = page(conn, agent, session, View::Simple, before, 50).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        before = Some(first.seq);
        if let Some(row) = rows.iter().rfind(|row| row.body.role == Role::User) {
            return Ok(row.body.origin.as_ref().map(|origin| (row.seq, origin.item.clone())));
        }
    }
}

/// What the agent said in the message in which a call stands; nothing where it said nothing, and
/// where that message is not kept any more.
pub async fn said_with(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    (turn, call): (&TurnId, &CallId),
) -> Result<Option<String>, SqlError> {
    let select = "SELECT seq FROM calls WHERE turn = $1 AND call_id = $2";
    let seq: Option<i64> = conn.find(select, &args![turn, call]).await?;
    let Some(seq) = seq else { return Ok(None) };
    let spoken = page(conn, agent, session, View::Simple, Some(seq + 1), 1).await?;
    let own = |message: &Message| message.seq == seq && message.body.role == Role::Assistant;
    let said = spoken.into_iter().find(own).map(|message| message.body.plain_text());
    Ok(said.filter(|said| !said.trim().is_empty()))
}

pub(crate) const PAGE: &str = packed!("session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3");
pub(crate) const SPOKEN_PAGE: &str =
    packed!("session = $1 AND spoken = 1 AND seq < $2 ORDER BY seq DESC LIMIT $3");
const NEXT_PAGE: &str = packed!("session = $1 AND seq > $2 ORDER BY seq LIMIT $3");
const NEXT_SPOKEN_PAGE: &str =
    packed!("session = $1 AND spoken = 1 AND seq > $2 ORDER BY seq LIMIT $3");

/// Rows as they leave: the JSON of their messages with commas between them, oldest first.
#[derive(Debug, Default)]
pub struct Lines {
    pub json: String,
    /// The place of each, and where in `json` it stands.
    rows: Vec<(i64, std::ops::Range<usize>)>,
}

impl Lines {
    pub fn seqs(&self) -> impl DoubleEndedIterator<Item = i64> {
        self.rows.iter().map(|(seq, _)| *seq)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, &str)> {
        self.rows.iter().map(|(seq, range)| (*seq, &self.json[range.clone()]))
    }

    /// Newest first as they are read, so that the page can be cut short.
    fn reversed(self) -> Self {
        let mut lines = Self { json: String::with_capacity(self.json.len()), rows: Vec::new() };
        for (seq, range) in self.rows.into_iter().rev() {
            lines.push(seq, |json| json.push_str(&self.json[range]));
        }
        lines
    }

    fn push(&mut self, seq: i64, write: impl FnOnce(&mut String)) {
        if !self.rows.is_empty() {
            self.json.push(',');
        }
        let start = self.json.len();
        write(&mut self.json);
        self.rows.push((seq, start..self.json.len()));
    }
}

/// Which rows of a session.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// The newest below this.
    Before(i64),
    /// The oldest above this.
    After(i64),
}

/// As [`page`] and [`after`], in the full view. Nothing is taken apart and put together again: a
/// body is an object already, and the fields of `Message` go before its own.
pub async fn lines(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    rows: Rows,
    limit: u32,
) -> Result<Lines, SqlError> {
    let (sql, bound) = match rows {
        Rows::Before(seq) => (LINES, seq),
        Rows::After(seq) => (NEXT_LINES, seq),
    };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let place = format!(
        ",\"agentId\":{},\"sessionId\":{}",
        quoted(agent.as_str()),
        quoted(session.as_str())
    );
    let args = args![session, bound, limit];
    let mut lines = Lines::default();
    conn.each_row(sql, &args, |row| {
        let (seq, id, turn, at, body) =
            (row.int(0)?, row.text(1)?, row.text(2)?, row.int(3)?, row.text(4)?);
        let fields = body.strip_prefix('{').ok_or_else(|| SqlError::decode("a body"))?;
        lines.push(seq, |json| {
            // Ids are ours and need no escape.
            for piece in ["{\"type\":\"history\",\"id\":\"", id, "\"", &place, ",\"turn\":\"", turn]
            {
                json.push_str(piece);
            }
            let _ = write!(json, "\",\"seq\":{seq},\"timestamp\":{at},");
            json.push_str(fields);
        });
        Ok(())
    })
    .await?;
    Ok(match rows {
        Rows::Before(_) => lines.reversed(),
        Rows::After(_) => lines,
    })
}

const LINES: &str = "SELECT seq, id, turn, at, body FROM history \
                     WHERE session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3";
const NEXT_LINES: &str = "SELECT seq, id, turn, at, body FROM history \
                          WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// All rows of a session after this one.
pub async fn whole(
    conn: &mut Conn,
    agent: &AgentName,
    session: &SessionId,
    newer_than: i64,
) -> Result<Vec<Message>, SqlError> {
    // In pieces: one text has a limit.
    const PIECE: u32 = 2000;
    let mut messages: Vec<Message> = Vec::new();
    loop {
        let seen = messages.last().map_or(newer_than, |message| message.seq);
        let piece = after(conn, agent, session, View::Full, seen, PIECE).await?;
        let last = u32::try_from(piece.len()).unwrap_or(0) < PIECE;
        messages.extend(piece);
        if last {
            return Ok(messages);
        }
    }
}

/// A row, also as [`packed!`] writes it.
#[derive(Deserialize)]
struct StoredMessage {
    seq: i64,
    id: String,
    turn: TurnId,
    at: Millis,
    body: Body,
}

record!(StoredMessage { seq, id, turn, at, body });

impl StoredMessage {
    fn placed(self, agent: &AgentName, session: &SessionId) -> Message {
        Message {
            tag: history_tag(),
            id: self.id,
            agent_id: agent.clone(),
            session_id: session.clone(),
            turn: self.turn,
            seq: self.seq,
            timestamp: self.at,
            body: self.body,
        }
    }
}

fn decode(agent: &AgentName, session: &SessionId, text: &str) -> Result<Vec<Message>, SqlError> {
    let mut rows: Vec<StoredMessage> = serde_json::from_str(&format!("[{text}]"))
        .map_err(|error| SqlError::decode(format!("messages of {session}: {error}")))?;
    rows.sort_by_key(|row| row.seq);
    Ok(rows.into_iter().map(|row| row.placed(agent, session)).collect())
}

/// The session a key leads to now.
pub async fn session_of_key(
    conn: &mut Conn,
    agent: AgentId,
    key: &SessionKey,
) -> Result<Option<SessionId>, SqlError> {
    let select = "SELECT session FROM lanes WHERE agent = $1 AND key = $2";
    Ok(conn.find(select, &args![agent, key]).await?.flatten())
}

/// The key under which a session of this agent was opened.
pub async fn key_of_session(
    conn: &mut Conn,
    agent: AgentId,
    session: &SessionId,
) -> Result<Option<SessionKey>, SqlError> {
    let select = "SELECT key FROM sessions WHERE id = $1 AND agent = $2 AND deleted_at IS NULL";
    conn.find(select, &args![session, agent]).await
}

/// A journalled call of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub call_id: CallId,
    /// The assistant message it stands in.
    pub seq: i64,
    pub position: i64,
    pub tool: String,
    pub retry_safe: bool,
    pub state: CallState,
    pub reason: Option<String>,
    pub decision: Option<Decision>,
    /// An engine with a loop of its own asked for it.
    pub own: bool,
}

record!(Call { call_id, seq, position, tool, retry_safe, state, reason, decision, own });

pub async fn calls(conn: &mut Conn, turn: &TurnId) -> Result<Vec<Call>, SqlError> {
    let select = "SELECT call_id, seq, position, tool, retry_safe, state, reason, decision, own \
                  FROM calls WHERE turn = $1 ORDER BY seq, position";
    conn.list(select, &args![turn]).await
}
