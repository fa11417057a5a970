//! Every statement the tests of this crate ran, and on which file: one looks at their plans.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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
