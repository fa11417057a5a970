//! The audit trail: rows are only ever added, each sealed with the one before it by the writer, in
//! the commit that holds what they tell of. Retention alone takes rows away, the oldest first, and
//! a checkpoint row says so.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow, Found, Head, Reading, Seal, Verdict};

use crate::command::Run;
use crate::conn::{Conn, PAGE_BYTES, PAGE_ROWS, Row};
use crate::error::{Refusal, SqlError, SqlKind};
use crate::tx::Tx;

const INSERT: &str = "INSERT INTO audit (id, at, kind, principal, agent, session, turn, call_id, \
                      tool, arguments, decision, outcome, took_ms, bytes, hash) VALUES ($1, $2, \
                      $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
/// Rows looked at by one statement for those that are asked for.
const LOOK: i64 = 2000;
/// Statements of one page: what is rarer is found by following the cursor.
const LOOKS: usize = 25;

impl Tx<'_> {
    /// Adds a row at the end of the trail; its number is given here. Stands and falls with the
    /// command that adds it.
    pub async fn audit(&mut self, row: AuditRow) -> Result<(), SqlError> {
        match self.add_sealed(&row).await {
            // Somebody wrote into the running hive's database: go on behind that, and let
            // `verify` name it.
            Err(error) if error.kind == SqlKind::Unique => {
                let newest = newest(self.conn).await?;
                tracing::error!(row = newest.id, "a foreign row stands in the audit trail");
                self.set_trail(newest);
                self.add_sealed(&row).await
            }
            added => added,
        }
    }

    async fn add_sealed(&mut self, row: &AuditRow) -> Result<(), SqlError> {
        let before = self.trail();
        let row = AuditRow { id: before.id + 1, ..row.clone() };
        let seal = before.seal.next(&row);
        let args = [
            row.id.into(),
            row.at.into(),
            row.kind.as_str().into(),
            (&row.principal).into(),
            (&row.agent).into(),
            (&row.session).into(),
            (&row.turn).into(),
            (&row.call_id).into(),
            (&row.tool).into(),
            (&row.arguments).into(),
            (&row.decision).into(),
            (&row.outcome).into(),
            row.took_ms.into(),
            row.bytes.into(),
            seal.0.as_slice().into(),
        ];
        self.conn.run(INSERT, &args).await?;
        self.set_trail(Head { id: row.id, seal });
        Ok(())
    }
}

/// Adds a row that belongs to nothing else.
pub struct AddAudit {
    pub row: AuditRow,
}

impl Run for AddAudit {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        Ok(tx.audit(self.row.clone()).await?)
    }

    fn cost(&self) -> usize {
        256 + self.row.arguments.len() + self.row.decision.len()
    }
}

pub(crate) const NEWEST: &str = "SELECT id, hash FROM audit WHERE id = (SELECT max(id) FROM audit)";

pub(crate) async fn newest(conn: &mut Conn) -> Result<Head, SqlError> {
    let row = conn.row(NEWEST, &[]).await?;
    row.map_or(Ok(Head::default()), |row| {
        Ok(Head { id: row.int(0)?, seal: seal(&row, 1).unwrap_or_default() })
    })
}

/// The seal of a row, where there is one.
pub(crate) async fn seal_of(conn: &mut Conn, id: i64) -> Result<Option<Seal>, SqlError> {
    let row = conn.row("SELECT hash FROM audit WHERE id = $1", &[id.into()]).await?;
    Ok(row.and_then(|row| seal(&row, 0)))
}

fn seal(row: &Row, column: usize) -> Option<Seal> {
    Some(Seal(row.blob(column).ok()?.try_into().ok()?))
}

/// Lets go of the oldest rows up to `limit`, and says so in a row of its own. True: there are more.
pub(crate) async fn expire(
    tx: &mut Tx<'_>,
    before: Millis,
    limit: i64,
    now: Millis,
) -> Result<bool, SqlError> {
    let oldest = "SELECT id, at, hash FROM audit WHERE id > 0 ORDER BY id LIMIT $1";
    let rows = tx.conn.rows(oldest, &[limit.into()]).await?;
    let mut last = None;
    let mut count = 0;
    for row in &rows {
        if row.int(1)? >= before {
            break;
        }
        count += 1;
        last = Some((row.int(0)?, seal(row, 2).unwrap_or_default()));
    }
    let Some((upto, seal)) = last else { return Ok(false) };
    // The newest row is never the checkpoint's own: it comes after.
    let told = json!({ "upto": upto, "hash": seal.to_string(), "rows": count, "before": before });
    let arguments = told.to_string();
    tx.audit(AuditRow { arguments, ..AuditRow::new(AuditKind::Checkpoint, now, "let_go") }).await?;
    tx.conn.run("DELETE FROM audit WHERE id <= $1", &[upto.into()]).await?;
    Ok(count == limit)
}

const COLUMNS_OF: &str = "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, \
                          arguments, decision, outcome, took_ms, bytes, hash FROM audit \
                          WHERE id > $1 ORDER BY id LIMIT $2";

fn decode(row: &Row) -> Result<AuditRow, SqlError> {
    let kind = row.text(2)?;
    let kind = AuditKind::parse(&kind).ok_or_else(|| SqlError::decode(format!("kind {kind}")))?;
    Ok(AuditRow {
        id: row.int(0)?,
        at: row.int(1)?,
        kind,
        principal: row.text_opt(3)?,
        agent: row.text_opt(4)?,
        session: row.text_opt(5)?,
        turn: row.text_opt(6)?,
        call_id: row.text_opt(7)?,
        tool: row.text_opt(8)?,
        arguments: row.text(9)?,
        decision: row.text(10)?,
        outcome: row.text(11)?,
        took_ms: row.int(12)?,
        bytes: row.int(13)?,
    })
}

/// Rows after `after`, oldest first, as they stand there: a row somebody made unreadable too.
pub async fn found_after(conn: &mut Conn, after: i64) -> Result<Vec<Found>, SqlError> {
    let rows = conn.page(COLUMNS_OF, &[after.into(), PAGE_ROWS.into()], PAGE_BYTES).await?;
    let found = rows
        .iter()
        .map(|row| Ok(Found { id: row.int(0)?, row: decode(row).ok(), seal: seal(row, 14) }));
    found.collect()
}

/// Reads the whole trail. `head` was read before this transaction began.
pub async fn verify(conn: &mut Conn, head: Option<Head>) -> Result<Verdict, SqlError> {
    let mut reading = Reading::new(head, last_let_go(conn).await?);
    // Also what somebody put before the first row.
    let mut after = i64::MIN;
    loop {
        let page = found_after(conn, after).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        page.into_iter().for_each(|found| reading.take(found));
    }
    Ok(reading.end())
}

/// What the newest checkpoint says of the rows before the first.
async fn last_let_go(conn: &mut Conn) -> Result<Head, SqlError> {
    let select = "SELECT arguments FROM audit WHERE kind = 'checkpoint' AND id > 0 \
                  ORDER BY id DESC LIMIT 1";
    let row = conn.row(select, &[]).await?;
    let told = row.and_then(|row| row.text(0).ok());
    let told: Option<serde_json::Value> = told.and_then(|text| serde_json::from_str(&text).ok());
    let head = told.and_then(|told| {
        Some(Head { id: told["upto"].as_i64()?, seal: Seal::parse(told["hash"].as_str()?)? })
    });
    Ok(head.unwrap_or_default())
}

/// Which rows are asked for; what is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub agent: Option<String>,
    pub tool: Option<String>,
    pub outcome: Option<String>,
    pub turn: Option<String>,
    pub kind: Option<AuditKind>,
}

pub struct Page {
    /// Newest first.
    pub rows: Vec<(AuditRow, Seal)>,
    /// Where the next page begins, when there may be more.
    pub next: Option<i64>,
}

/// Rows before `before`, newest first. A page can be short although there is more: only so many
/// rows are looked at for it.
pub async fn page(
    conn: &mut Conn,
    wanted: &Wanted,
    before: Option<i64>,
    limit: usize,
) -> Result<Page, SqlError> {
    let select = "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, arguments, \
                  decision, outcome, took_ms, bytes, hash FROM audit WHERE id < $1 AND id >= $2 \
                  AND ($3 IS NULL OR agent = $3) AND ($4 IS NULL OR tool = $4) \
                  AND ($5 IS NULL OR outcome = $5) AND ($6 IS NULL OR kind = $6) \
                  ORDER BY id DESC LIMIT $7";
    if wanted.turn.is_some() {
        return of_turn(conn, wanted, before, limit).await;
    }
    let end = newest(conn).await?.id.saturating_add(1);
    let mut below = before.map_or(end, |before| before.min(end));
    let mut rows = Vec::new();
    for _ in 0..LOOKS {
        let left = limit.saturating_sub(rows.len());
        let args = [
            below.into(),
            below.saturating_sub(LOOK).max(1).into(),
            (&wanted.agent).into(),
            (&wanted.tool).into(),
            (&wanted.outcome).into(),
            wanted.kind.map(AuditKind::as_str).into(),
            i64::try_from(left).unwrap_or(i64::MAX).into(),
        ];
        let found = conn.rows(select, &args).await?;
        rows.extend(found.iter().filter_map(readable));
        let full = found.len() == left;
        below = match found.last() {
            Some(last) if full => last.int(0)?,
            _ => below.saturating_sub(LOOK),
        };
        if full || below <= 1 {
            break;
        }
    }
    Ok(Page { rows, next: (below > 1).then_some(below) })
}

/// What cannot be read is for `verify` to name.
fn readable(row: &Row) -> Option<(AuditRow, Seal)> {
    Some((decode(row).ok()?, seal(row, 14).unwrap_or_default()))
}

/// A turn's rows lie together.
async fn of_turn(
    conn: &mut Conn,
    wanted: &Wanted,
    before: Option<i64>,
    limit: usize,
) -> Result<Page, SqlError> {
    let select = "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, arguments, \
                  decision, outcome, took_ms, bytes, hash FROM audit WHERE turn = $1 AND id > 0 \
                  AND id < $2 AND ($3 IS NULL OR agent = $3) AND ($4 IS NULL OR tool = $4) \
                  AND ($5 IS NULL OR outcome = $5) AND ($6 IS NULL OR kind = $6) \
                  ORDER BY id DESC LIMIT $7";
    let args = [
        (&wanted.turn).into(),
        before.unwrap_or(i64::MAX).into(),
        (&wanted.agent).into(),
        (&wanted.tool).into(),
        (&wanted.outcome).into(),
        wanted.kind.map(AuditKind::as_str).into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ];
    let rows = conn.rows(select, &args).await?;
    let more = rows.len() == limit;
    let next = rows.last().filter(|_| more).map(|row| row.int(0)).transpose()?;
    Ok(Page { rows: rows.iter().filter_map(readable).collect(), next })
}
