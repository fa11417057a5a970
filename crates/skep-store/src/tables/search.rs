//! Full-text search over what was said. The rows of `spoken` are written with their messages; the
//! index takes them over in pieces, by a command of its own: one row a commit made the log grow by
//! 69 kB for each message instead of 12 (with 200 000 messages in it).

use std::collections::HashSet;

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName, SessionId, SessionKey};
use skep_core::message::Role;
use skep_db::{Conn, Refusal, Run, SqlError, SqlKind, Tx, args, record};

use crate::dialect;

/// Takes the next rows into the index.
#[derive(Clone, Copy)]
pub struct IndexSpoken {
    pub rows: u32,
}

impl Run for IndexSpoken {
    /// How many rows are not in the index yet.
    type Out = i64;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<i64, Refusal> {
        let (upto, newest) = reach(tx.conn).await?;
        let next = newest.min(upto + i64::from(self.rows));
        if next > upto {
            tx.conn.run(dialect::INDEX_SPOKEN, &args![upto, next]).await?;
            tx.conn.run("UPDATE search_upto SET upto = $1", &args![next]).await?;
        }
        Ok(newest - next)
    }
}

/// The last row in the index, and the last there is.
async fn reach(conn: &mut Conn) -> Result<(i64, i64), SqlError> {
    let select = "SELECT (SELECT upto FROM search_upto), (SELECT max(id) FROM spoken)";
    let (upto, newest): (i64, Option<i64>) =
        conn.one(select, &[], "the reach of the index has no row").await?;
    Ok((upto, newest.unwrap_or(0)))
}

/// The rows of a session, and their messages. Walks the table: for a reader, never for the writer.
pub async fn rows_of(conn: &mut Conn, session: &SessionId) -> Result<Vec<(i64, i64)>, SqlError> {
    conn.list("SELECT id, seq FROM spoken WHERE session = $1", &args![session]).await
}

/// The sessions that may have messages of this one, by way of forks: those that are not archived
/// first. Walks a table, too.
pub async fn relatives(conn: &mut Conn, session: &SessionId) -> Result<Vec<SessionId>, SqlError> {
    let forks = "SELECT id, forked_from FROM sessions WHERE forked_from IS NOT NULL";
    let forks: Vec<(SessionId, SessionId)> = conn.list(forks, &[]).await?;
    let mut family = HashSet::from([session]);
    let mut known = 0;
    while known < family.len() {
        known = family.len();
        for (one, other) in &forks {
            if family.contains(one) || family.contains(other) {
                family.extend([one, other]);
            }
        }
    }
    family.remove(session);
    let mut found = Vec::new();
    for one in family {
        let select = "SELECT archived_at IS NOT NULL FROM sessions WHERE id = $1 \
                      AND deleted_at IS NULL \
                      AND agent = (SELECT agent FROM sessions WHERE id = $2)";
        let archived: Option<bool> = conn.find(select, &args![one, session]).await?;
        found.extend(archived.map(|archived| (archived, one)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, one)| one.clone()).collect())
}

/// The rows whose message `heir` has as well are found there from now on; gives the others.
pub(crate) async fn hand_over(
    tx: &mut Tx<'_>,
    rows: Vec<(i64, i64)>,
    from: &SessionId,
    heir: &SessionId,
) -> Result<Vec<(i64, i64)>, SqlError> {
    let update = "UPDATE spoken SET session = $4 WHERE id = $1 AND EXISTS (SELECT 1 \
                  FROM history o JOIN history c ON c.session = $4 AND c.seq = o.seq \
                  AND c.id = o.id WHERE o.session = $3 AND o.seq = $2)";
    let mut left = Vec::new();
    for (row, seq) in rows {
        if tx.conn.run(update, &args![row, seq, from, heir]).await? == 0 {
            left.push((row, seq));
        }
    }
    Ok(left)
}

/// What to look for.
pub struct Search<'a> {
    /// In the index's own language: see [`crate::tables::search::expression`].
    pub expression: &'a str,
    /// Only sessions whose key begins so.
    pub prefix: &'a str,
    /// Only rows older than this one.
    pub before: Option<i64>,
    pub limit: u32,
}

/// A message that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Give it as `before` for the next page.
    pub place: i64,
    pub agent: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub title: String,
    pub archived: bool,
    pub seq: i64,
    pub at: Millis,
    pub role: Role,
    pub principal: Option<String>,
    pub text: String,
    /// The same with [`MARK`] around each match.
    pub marked: String,
}

record! { Hit {
    place, agent, session, session_key, title, archived, seq, at, role, principal, text, marked,
} }

/// What opens and closes a match: code points that never mean anything.
pub const MARK: (char, char) = ('\u{fdd0}', '\u{fdd1}');

/// How many rows of what was said the index does not know yet.
pub async fn behind(conn: &mut Conn) -> Result<i64, SqlError> {
    let (upto, newest) = reach(conn).await?;
    Ok(newest - upto)
}

/// Newest first: the order in which messages came into the hive. `None`: it took longer than
/// `proceed` allowed.
pub async fn search(
    conn: &mut Conn,
    search: Search<'_>,
    proceed: impl FnMut() -> bool + Send + 'static,
) -> Result<Option<Vec<Hit>>, SqlError> {
    let before = search.before.unwrap_or(i64::MAX);
    let args = args![search.expression, before, search.limit, search.prefix];
    skep_db::watch(conn, proceed).await?;
    let hits = conn.list(dialect::SEARCH, &args).await;
    skep_db::unwatch(conn).await?;
    match hits {
        Ok(hits) => Ok(Some(hits)),
        Err(error) if error.kind == SqlKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// A query in the index's own language. `terms` come from [`skep_core::query`]; every word of a
/// person is quoted, so that none of them can be an operator.
pub fn expression(terms: &str, agent: Option<AgentId>) -> String {
    match agent {
        None => format!("text : ({terms})"),
        Some(AgentId(agent)) => format!("(scope : \"agent{agent}\") AND (text : ({terms}))"),
    }
}
