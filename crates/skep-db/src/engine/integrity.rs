//! Looking at the whole database, for a hive that did not stop in order. It takes as long as the
//! database is large, on a connection of its own.

use std::path::PathBuf;

use crate::engine::dialect;
use crate::engine::error::{SqlError, SqlKind};

/// What a look at every page and index found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrity {
    Whole,
    /// What is wrong, in the database's words.
    Damaged(Vec<String>),
    /// The caller stopped it.
    Interrupted,
}

/// `proceed` is asked again and again, on the thread that does the work.
pub(crate) async fn check(
    database: PathBuf,
    proceed: impl FnMut() -> bool + Send + 'static,
) -> Result<Integrity, SqlError> {
    let mut conn = dialect::connect_reader(&database).await?;
    dialect::watch(&mut conn, proceed).await?;
    let checked = conn.rows(dialect::INTEGRITY_CHECK, &[]).await;
    let found = match checked {
        Ok(rows) => rows.iter().map(|row| row.text(0)).collect::<Result<Vec<String>, _>>(),
        Err(error) => Err(error),
    };
    let _ = conn.close().await;
    match found {
        Ok(found) if found.iter().all(|finding| finding == "ok") => Ok(Integrity::Whole),
        Ok(found) => Ok(Integrity::Damaged(found)),
        Err(error) if error.kind == SqlKind::Interrupted => Ok(Integrity::Interrupted),
        Err(error) if error.kind == SqlKind::Corrupt => Ok(Integrity::Damaged(vec![error.message])),
        Err(error) => Err(error),
    }
}
