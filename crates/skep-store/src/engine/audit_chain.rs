//! The chain of the audit trail: the writer seals each row with the one before it, in the commit
//! that holds what the row tells of.

use skep_core::audit::{AuditKind, AuditRow, AuditVerdict, ChainReader, Head, Seal, StoredRow};
use skep_core::ids::AgentId;

use crate::engine::conn::{Conn, PAGE_BYTES, PAGE_ROWS, Row};
use crate::engine::error::{SqlError, SqlKind};
use crate::engine::tx::Tx;

const INSERT: &str = "INSERT INTO audit (id, at, kind, principal, agent, session, turn, call_id, \
                      tool, arguments, decision, outcome, took_ms, bytes, hash, agent_id) VALUES \
                      ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

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
        let before = self.next_trail().await?;
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
            row.agent_id.map(|agent| agent.0).into(),
        ];
        self.conn.run(INSERT, &args).await?;
        self.set_trail(Head { id: row.id, seal });
        Ok(())
    }
}

const NEWEST: &str = "SELECT id, hash FROM audit WHERE id = (SELECT max(id) FROM audit)";

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

pub(crate) fn seal(row: &Row, column: usize) -> Option<Seal> {
    Some(Seal(row.blob(column).ok()?.try_into().ok()?))
}

const COLUMNS_OF: &str = "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, \
                          arguments, decision, outcome, took_ms, bytes, hash, agent_id FROM audit \
                          WHERE id > $1 ORDER BY id LIMIT $2";

pub(crate) fn decode(row: &Row) -> Result<AuditRow, SqlError> {
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
        agent_id: row.int_opt(15)?.map(AgentId),
    })
}

/// Rows after `after`, oldest first, unreadable ones included.
pub async fn found_after(conn: &mut Conn, after: i64) -> Result<Vec<StoredRow>, SqlError> {
    let rows = conn.page(COLUMNS_OF, &[after.into(), PAGE_ROWS.into()], PAGE_BYTES).await?;
    let found = rows.iter().map(|row| {
        let (id, found, seal) = (row.int(0)?, decode(row).ok(), seal(row, 14));
        Ok(StoredRow { id, row: found, seal, redacted: false })
    });
    found.collect()
}

/// Reads the whole trail. `head` was read before this transaction began.
pub(crate) async fn verify(conn: &mut Conn, head: Option<Head>) -> Result<AuditVerdict, SqlError> {
    let mut reading = ChainReader::new(head, last_let_go(conn).await?);
    // Rows with forged numbers below the first one are read, too.
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
    Ok(told.and_then(|text| Head::let_go(&text)).unwrap_or_default())
}
