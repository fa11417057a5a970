//! The audit trail: rows are only ever added. Retention alone takes rows away, the oldest first,
//! and a checkpoint row says so.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow, Seal};
use skep_core::ids::AgentId;
pub use skep_db::audit_chain::found_after;
use skep_db::audit_chain::{SEAL, newest, seal};
use skep_db::{Conn, Record, Refusal, Row, Run, SqlError, Tx, args};

/// Rows looked at by one statement for those that are asked for.
const LOOK: i64 = 2000;
/// Statements of one page: what is rarer is found by following the cursor.
const LOOKS: usize = 25;

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

/// Deletes the oldest rows, up to `limit`, and adds a checkpoint row. True if there are more.
pub(crate) async fn expire(
    tx: &mut Tx<'_>,
    before: Millis,
    limit: i64,
    now: Millis,
) -> Result<bool, SqlError> {
    let oldest = "SELECT id, at, hash FROM audit WHERE id > 0 ORDER BY id LIMIT $1";
    let rows = tx.conn.rows(oldest, &args![limit]).await?;
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
    tx.conn.run("DELETE FROM audit WHERE id <= $1", &args![upto]).await?;
    Ok(count == limit)
}

/// Which rows are asked for; what is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub agent: Option<AgentId>,
    pub tool: Option<String>,
    pub outcome: Option<String>,
    pub turn: Option<String>,
    pub kind: Option<AuditKind>,
}

pub struct AuditRows {
    /// Newest first.
    pub rows: Vec<(AuditRow, Seal)>,
    /// Where the next page begins, when there may be more.
    pub next: Option<i64>,
}

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, arguments, ",
            "decision, outcome, took_ms, bytes, agent_id, hash FROM audit WHERE ",
            $which,
            " AND ($3 IS NULL OR agent_id = $3 OR (agent_id IS NULL AND agent = $4)) ",
            "AND ($5 IS NULL OR tool = $5) AND ($6 IS NULL OR outcome = $6) ",
            "AND ($7 IS NULL OR kind = $7) ORDER BY id DESC LIMIT $8"
        )
    };
}

/// Rows before `before`, newest first. A page can be short although there is more: only so many
/// rows are looked at for it.
pub async fn page(
    conn: &mut Conn,
    wanted: &Wanted,
    before: Option<i64>,
    limit: usize,
) -> Result<AuditRows, SqlError> {
    let named = match wanted.agent {
        Some(agent) => name_before_ids(conn, agent).await?,
        None => None,
    };
    let Wanted { agent, tool, outcome, kind, turn } = wanted;
    if let Some(turn) = turn {
        // A turn's rows lie together.
        let select = select!("turn = $1 AND id > 0 AND id < $2");
        let before = before.unwrap_or(i64::MAX);
        let rows = conn
            .rows(select, &args![turn, before, agent, named, tool, outcome, kind, limit])
            .await?;
        let more = rows.len() == limit;
        let next = rows.last().filter(|_| more).map(|row| row.int(0)).transpose()?;
        return Ok(AuditRows { rows: rows.into_iter().filter_map(readable).collect(), next });
    }
    let end = newest(conn).await?.id.saturating_add(1);
    let mut below = before.map_or(end, |before| before.min(end));
    let mut rows = Vec::new();
    for _ in 0..LOOKS {
        let left = limit.saturating_sub(rows.len());
        let least = below.saturating_sub(LOOK).max(1);
        let found = conn
            .rows(
                select!("id < $1 AND id >= $2"),
                &args![below, least, agent, named, tool, outcome, kind, left],
            )
            .await?;
        let full = found.len() == left;
        below = match found.last() {
            Some(last) if full => last.int(0)?,
            _ => below.saturating_sub(LOOK),
        };
        rows.extend(found.into_iter().filter_map(readable));
        if full || below <= 1 {
            break;
        }
    }
    Ok(AuditRows { rows, next: (below > 1).then_some(below) })
}

/// The name under which an agent's rows stand that have no id: they are older than the second
/// agent of any name.
async fn name_before_ids(conn: &mut Conn, agent: AgentId) -> Result<Option<String>, SqlError> {
    let first = "SELECT id, name FROM agents \
                 WHERE name = (SELECT name FROM agents WHERE id = $1) ORDER BY id LIMIT 1";
    let found: Option<(AgentId, String)> = conn.find(first, &args![agent]).await?;
    Ok(found.filter(|(id, _)| *id == agent).map(|(_, name)| name))
}

/// What cannot be read is for `verify` to name.
fn readable(row: Row) -> Option<(AuditRow, Seal)> {
    let seal = seal(&row, SEAL).unwrap_or_default();
    Some((AuditRow::of(row).ok()?, seal))
}
