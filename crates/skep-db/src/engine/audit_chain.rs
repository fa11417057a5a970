//! The chain of the audit trail: the writer seals each row with the one before it, in the commit
//! that holds what the row tells of.

use skep_core::audit::{AuditRow, AuditVerdict, ChainReader, Head, Seal, StoredRow};

use crate::engine::conn::{Conn, PAGE_ROWS, Row};
use crate::engine::error::{SqlError, SqlKind};
use crate::engine::record::{Record, args, record};
use crate::engine::tx::Tx;

const INSERT: &str = "INSERT INTO audit (id, at, kind, principal, agent, session, turn, call_id, \
                      tool, arguments, decision, outcome, took_ms, bytes, agent_id, hash) VALUES \
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
        let args = args![
            row.id,
            row.at,
            row.kind,
            row.principal,
            row.agent,
            row.session,
            row.turn,
            row.call_id,
            row.tool,
            row.arguments,
            row.decision,
            row.outcome,
            row.took_ms,
            row.bytes,
            row.agent_id,
            seal
        ];
        self.conn.run(INSERT, &args).await?;
        self.set_trail(Head { id: row.id, seal });
        Ok(())
    }
}

const NEWEST: &str = "SELECT id, hash FROM audit WHERE id = (SELECT max(id) FROM audit)";

pub async fn newest(conn: &mut Conn) -> Result<Head, SqlError> {
    let row = conn.row(NEWEST, &[]).await?;
    row.map_or(Ok(Head::default()), |row| {
        Ok(Head { id: row.int(0)?, seal: seal(&row, 1).unwrap_or_default() })
    })
}

/// The seal of a row, where there is one.
pub async fn seal_of(conn: &mut Conn, id: i64) -> Result<Option<Seal>, SqlError> {
    let row = conn.row("SELECT hash FROM audit WHERE id = $1", &args![id]).await?;
    Ok(row.and_then(|row| seal(&row, 0)))
}

pub fn seal(row: &Row, column: usize) -> Option<Seal> {
    row.get(column).ok().map(Seal)
}

const COLUMNS_OF: &str = "SELECT id, at, kind, principal, agent, session, turn, call_id, tool, \
                          arguments, decision, outcome, took_ms, bytes, agent_id, hash FROM audit \
                          WHERE id > $1 ORDER BY id LIMIT $2";

/// The column of the seal in it.
pub const SEAL: usize = 15;

record! { AuditRow {
    id, at, kind, principal, agent, session, turn, call_id, tool, arguments, decision, outcome,
    took_ms, bytes, agent_id,
} }

/// Rows after `after`, oldest first, unreadable ones included.
pub async fn found_after(conn: &mut Conn, after: i64) -> Result<Vec<StoredRow>, SqlError> {
    let rows: Vec<Row> = conn.page(COLUMNS_OF, &args![after, PAGE_ROWS]).await?;
    let found = rows.into_iter().map(|row| {
        let (id, seal) = (row.int(0)?, seal(&row, SEAL));
        Ok(StoredRow { id, row: AuditRow::of(row).ok(), seal, redacted: false })
    });
    found.collect()
}

/// Reads the whole trail. `head` was read before this transaction began.
pub async fn verify(conn: &mut Conn, head: Option<Head>) -> Result<AuditVerdict, SqlError> {
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
