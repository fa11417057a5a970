//! SQL stands in skep-store and skep-db alone, and what only one database understands in their
//! dialect files.

use crate::finding::Finding;
use crate::source::{Kind, LexToken, SourceFile};
use crate::tree::Tree;

const RULE: &str = "sql";
/// Who may speak SQL, each with its file for what only one database understands.
const SPEAKERS: [(&str, &str); 2] = [
    ("crates/skep-db/", "crates/skep-db/src/engine/dialect.rs"),
    ("crates/skep-store/", "crates/skep-store/src/dialect.rs"),
];
/// The benchmark's floor: a database without the store in front of it, to measure that against.
const FLOOR: &str = "bench/Cargo.toml";
const FLOOR_FILE: &str = "bench/src/floor_store.rs";

/// How a statement begins, in capitals as we write SQL.
const STATEMENTS: [&str; 13] = [
    "SELECT ",
    "INSERT INTO ",
    "INSERT OR ",
    "UPDATE ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "CREATE INDEX ",
    "CREATE UNIQUE INDEX ",
    "ALTER TABLE ",
    "DROP TABLE ",
    "SAVEPOINT ",
    "BEGIN IMMEDIATE",
    "PRAGMA ",
];

const DIALECT_WORDS: [&str; 20] = [
    "PRAGMA",
    "AUTOINCREMENT",
    "WITHOUT ROWID",
    "BEGIN IMMEDIATE",
    "INSERT OR ",
    "FOR UPDATE",
    "SKIP LOCKED",
    "EXPLAIN",
    "VACUUM",
    "BIGSERIAL",
    "BYTEA",
    "INDEXED BY",
    "sqlite_master",
    "sqlite_schema",
    "sqlite_sequence",
    "last_insert_rowid",
    "wal_checkpoint",
    "strftime",
    "unixepoch",
    "pg_",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        // The words themselves are listed in xtask.
        if dialect_file(&source.path) == Some(source.path.as_str())
            || source.path == FLOOR_FILE
            || source.path.starts_with("xtask/")
        {
            continue;
        }
        for (_, token) in source.product_tokens() {
            if let Some(text) = judge(source, token) {
                let path = source.path.clone();
                findings.push(Finding { path, line: token.line, rule: RULE, text });
            }
        }
    }
    findings.extend(tree.manifests.iter().flat_map(|manifest| {
        let may = dialect_file(&manifest.path).is_some() || manifest.path == FLOOR;
        let strange = move |name: &str| name == "rusqlite" && !may;
        manifest.dependencies.iter().filter(move |it| !it.is_dev && strange(&it.name)).map(|it| {
            Finding {
                path: manifest.path.clone(),
                line: it.line,
                rule: RULE,
                text: "rusqlite outside skep-store: ask the store by a command or a read"
                    .to_owned(),
            }
        })
    }));
    findings
}

fn judge(source: &SourceFile, token: &LexToken) -> Option<String> {
    let dialect_file = dialect_file(&source.path);
    match token.kind {
        Kind::Word if dialect_file.is_none() && token.text == "rusqlite" => {
            Some("rusqlite outside skep-store: ask the store by a command or a read".to_owned())
        }
        Kind::Text if let Some(dialect_file) = dialect_file => {
            let word = DIALECT_WORDS.iter().find(|word| contains_word(&token.text, word))?;
            Some(format!("dialect word `{word}`: move it to {dialect_file}"))
        }
        Kind::Text => {
            let text = token.text.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
            let start = STATEMENTS.iter().find(|start| text.starts_with(**start))?;
            let start = start.trim();
            Some(format!("`{start}` outside skep-store: make it a command or a read of the store"))
        }
        _ => None,
    }
}

/// Of the crate this file belongs to, where that may speak SQL.
fn dialect_file(path: &str) -> Option<&'static str> {
    SPEAKERS.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, file)| *file)
}

/// `word` begins where no other word is going on, and ends so unless it is a prefix like `pg_`.
fn contains_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let open_end = !word.ends_with(char::is_alphanumeric);
        !before.is_some_and(is_word) && (open_end || !after.is_some_and(is_word))
    })
}
