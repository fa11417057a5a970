//! Every statement the tests of this crate ran, and on which file: one looks at their plans.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::allowed_tests::ALLOWED;
use crate::{Store, Value};

static STATEMENTS: Mutex<BTreeSet<(String, &'static str)>> = Mutex::new(BTreeSet::new());

fn note(file: Option<&str>, sql: &'static str) {
    let file = file.unwrap_or_default().to_owned();
    STATEMENTS.lock().unwrap_or_else(PoisonError::into_inner).insert((file, sql));
}

/// From now on.
pub(crate) fn watch() {
    skep_db::observe_statements(note);
}

pub(crate) fn statements(folder: &Path) -> BTreeSet<&'static str> {
    let all = STATEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|(file, _)| Path::new(file).starts_with(folder)).map(|of| of.1).collect()
}

/// At least so many statements were seen, and none of them walks a table or sorts.
pub async fn explain_all(folder: &Path, store: &Store, least: usize) {
    let words = ["SELECT", "INSERT", "UPDATE", "DELETE"];
    let all = statements(folder);
    let ours: Vec<_> =
        all.iter().filter(|sql| words.iter().any(|word| sql.starts_with(word))).collect();
    assert!(ours.len() > least, "only {} statements were seen", ours.len());
    let mut bad = Vec::new();
    for sql in ours {
        let explain: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
        let plan = store.read(async |conn| {
            let rows = conn.rows(explain, &[Value::Null; 256]).await?;
            rows.iter().map(|row| row.text(3)).collect::<Result<Vec<_>, _>>()
        });
        for line in plan.await.unwrap() {
            let walks = line.starts_with("SCAN") && line != "SCAN CONSTANT ROW";
            let fine = ALLOWED.iter().any(|(of, part, _)| sql.contains(of) && line.contains(part));
            if (walks || line.contains("TEMP B-TREE") || line.contains("AUTOMATIC")) && !fine {
                bad.push(format!("{line}\n    {sql}"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
