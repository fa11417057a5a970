//! The start check is bounded in time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use super::{OpenOptions, check, create};
use crate::engine::command::{MigrationFile, Schema};

const FILL: &str = "
    CREATE TABLE many (n INTEGER PRIMARY KEY, text TEXT);
    WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 20000)
    INSERT INTO many SELECT n, hex(randomblob(100)) FROM count;
    CREATE INDEX many_text ON many (text);
";

const SCHEMA: Schema = Schema {
    migrations: &[MigrationFile { version: 1, name: "fill", sql: FILL }],
    counters: "SELECT 0, 0",
    audited: false,
};

#[tokio::test]
async fn a_check_that_takes_too_long_counts_as_passed() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::in_run_folder(folder.path());
    create(&options, &SCHEMA).await.unwrap();
    let mut bytes = std::fs::read(&options.database).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0x5a);
    std::fs::write(&options.database, &bytes).unwrap();

    let whole = check(&options.database, &SCHEMA, Duration::from_secs(60)).await;
    assert!(whole.is_err(), "given time, it finds the damage");
    let mut reader = check(&options.database, &SCHEMA, Duration::ZERO).await.unwrap();
    let read = reader.run_once("SELECT text FROM many WHERE n = 1").await;
    assert_eq!(read, Ok(()), "the reader is of use afterwards");
}
