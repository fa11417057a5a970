//! The newest seal of the audit trail, kept beside the database in `run/audit.head`, so that rows
//! cut off at the end are missed.
//!
//! One line of fixed length, written over itself after each commit that added rows: no sync, no
//! space, no second name. A process that ends between a commit and this leaves the line behind the
//! rows, never before them; so does a power cut. A line that names a row which is not there is
//! therefore always somebody's doing.

use std::io;
use std::path::Path;

use skep_core::audit::{AuditFinding, AuditVerdict, FindingKind, Head, Seal};

use crate::disk::line_file::{self, LineFile, LineState};
use crate::engine::audit_chain::{self, newest, seal_of};
use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::SqlError;
use crate::engine::record::args;

pub(crate) fn read(path: &Path) -> LineState<Head> {
    line_file::read(path, parse)
}

fn parse(text: &str) -> Option<Head> {
    let (id, seal) = text.strip_suffix('\n')?.split_once(' ')?;
    Some(Head { id: id.parse().ok().filter(|id| *id >= 0)?, seal: Seal::parse(seal)? })
}

/// `00000000000000000042 <64 digits>\n`.
pub(crate) fn line(head: Head) -> String {
    format!("{:020} {}\n", head.id, head.seal)
}

/// A trail at a start.
pub(crate) struct Trail {
    /// The row behind which the next one goes.
    pub head: Head,
    /// `None` if it cannot be written: rows are added anyway.
    pub file: Option<LineFile>,
    /// What is not as it was left; the file keeps its line until a row tells of it.
    pub finding: Option<AuditFinding>,
}

/// Seals what came before there was a chain, and compares the trail with its head.
pub(crate) async fn open(conn: &mut Conn, path: &Path) -> Result<Trail, SqlError> {
    seal_old_rows(conn, path).await?;
    let found = newest(conn).await?;
    let kept = read(path);
    let finding = compare(conn, found, kept).await?;
    let head = match kept {
        // The next row goes where it would have gone: what is missing stays missing.
        LineState::At(head) if head.id > found.id => head,
        _ => found,
    };
    let ready = LineFile::open(path).and_then(|file| {
        if finding.is_none() && kept != LineState::At(head) {
            file.write_first(line(head).as_bytes(), path)?;
        }
        Ok(file)
    });
    let warn = |error: &io::Error| {
        tracing::error!(%error, file = %path.display(), "the audit trail's head is not kept");
    };
    Ok(Trail { head, file: ready.inspect_err(warn).ok(), finding })
}

async fn compare(
    conn: &mut Conn,
    found: Head,
    kept: LineState<Head>,
) -> Result<Option<AuditFinding>, SqlError> {
    let head = match kept {
        LineState::At(head) => head,
        LineState::Missing if found.id == 0 => return Ok(None),
        LineState::Missing | LineState::Unreadable => return Ok(Some(no_head(kept, found.id))),
    };
    if head.id > found.id {
        let text = format!(
            "the trail ended with row {}, and run/audit.head names row {}",
            found.id, head.id
        );
        return Ok(Some(AuditFinding::new(FindingKind::CutOff, found.id + 1, text)));
    }
    match seal_of(conn, head.id).await? {
        Some(seal) if seal != head.seal => {
            let text = format!("row {} does not have the hash run/audit.head names", head.id);
            Ok(Some(AuditFinding::new(FindingKind::Rewritten, head.id, text)))
        }
        _ => Ok(None),
    }
}

fn no_head(kept: LineState<Head>, row: i64) -> AuditFinding {
    let how = if kept == LineState::Missing { "is gone" } else { "cannot be read" };
    let text = format!("run/audit.head {how}: rows cut off behind row {row} would not be missed");
    AuditFinding::new(FindingKind::Head, row, text)
}

/// Rows that were there before the chain, in one transaction. The head is on the disk before the
/// mark goes that lets this run: it can be ended anywhere and is then done again.
async fn seal_old_rows(conn: &mut Conn, path: &Path) -> Result<(), SqlError> {
    let Some(upto) = conn.find::<i64>("SELECT upto FROM audit_unsealed", &[]).await? else {
        return Ok(());
    };
    conn.run(dialect::BEGIN, &[]).await?;
    let mut head = Head::default();
    loop {
        let rows = audit_chain::found_after(conn, head.id).await?;
        for found in rows.iter().filter(|found| found.id <= upto) {
            // What old rows had between them is lost: they are numbered as they are.
            let row = found.row.as_ref().ok_or_else(|| SqlError::decode("an audit row"))?;
            head = Head { id: row.id, seal: head.seal.next(row) };
            let seal = "UPDATE audit SET hash = $2 WHERE id = $1";
            conn.run(seal, &args![row.id, head.seal]).await?;
        }
        if rows.is_empty() || head.id >= upto {
            break;
        }
    }
    conn.run(dialect::COMMIT, &[]).await?;
    let kept = LineFile::open(path);
    let kept = kept.and_then(|file| file.write_first(line(head).as_bytes(), path));
    if let Err(error) = kept {
        tracing::error!(%error, file = %path.display(), "the audit trail's head is not kept");
    }
    conn.run("DELETE FROM audit_unsealed", &[]).await?;
    Ok(())
}

/// Reads the whole trail and compares its end with the head, which was read before `conn` began to
/// look: rows that are added meanwhile are not missed.
pub(crate) async fn verify(
    conn: &mut Conn,
    kept: LineState<Head>,
) -> Result<AuditVerdict, SqlError> {
    let head = match kept {
        LineState::At(head) => Some(head),
        LineState::Missing | LineState::Unreadable => None,
    };
    let mut verdict = audit_chain::verify(conn, head).await?;
    if head.is_none() && (verdict.rows > 0 || kept == LineState::Unreadable) {
        verdict.ok = false;
        verdict.findings.push(no_head(kept, verdict.last));
    }
    Ok(verdict)
}
