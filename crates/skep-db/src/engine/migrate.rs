//! Brings a database up to the newest migration, each in a transaction with its record.

use sha2::{Digest, Sha384};

use crate::engine::command::MigrationFile;
use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::{SqlError, SqlKind};
use crate::engine::record::args;

pub(crate) async fn run(
    conn: &mut Conn,
    migrations: &'static [MigrationFile],
) -> Result<(), SqlError> {
    conn.run_once(dialect::MAKE_RECORD).await?;
    let mut done = Vec::new();
    for row in conn.rows(dialect::RECORDED, &[]).await? {
        let version = row.int(0)?;
        let known = migrations.iter().find(|file| file.version == version);
        let as_known =
            known.is_some_and(|file| row.get(1).is_ok_and(|sum: Vec<u8>| sum == sum_of(file)));
        if !as_known || !row.get::<bool>(2)? {
            let text = format!("migration {version} on record is not the one of this program");
            return Err(SqlError::new(SqlKind::Other, text));
        }
        done.push(version);
    }
    for file in migrations.iter().filter(|file| !done.contains(&file.version)) {
        conn.run(dialect::BEGIN, &[]).await?;
        if let Err(error) = apply(conn, file).await {
            let _ = conn.run(dialect::ROLLBACK, &[]).await;
            return Err(error);
        }
    }
    Ok(())
}

async fn apply(conn: &mut Conn, file: &MigrationFile) -> Result<(), SqlError> {
    conn.run_once(file.sql).await?;
    let sum = sum_of(file);
    conn.run(dialect::RECORD, &args![file.version, file.name, sum]).await?;
    conn.run(dialect::COMMIT, &[]).await?;
    Ok(())
}

fn sum_of(file: &MigrationFile) -> Vec<u8> {
    Sha384::digest(file.sql).to_vec()
}
