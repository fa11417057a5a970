//! Which files and rows of a home hold a key or token in the clear. Never shows one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skep_cli::hive::Home;
use skep_guard::lock;
use skep_runtime::ScanFiles;
use skep_runtime::door::{LooseSecret, SecretScan};
use skep_store::{OpenOptions, Store};

/// Longer files are named and not read: they are read whole.
const LONGEST: u64 = 64 << 20;

/// The function that the hive calls; of many callers one after the other.
pub fn scanner(home: &Home) -> ScanFiles {
    let (home, turn) = (home.clone(), Arc::new(tokio::sync::Mutex::new(())));
    Arc::new(move || {
        let (home, turn) = (home.clone(), Arc::clone(&turn));
        Box::pin(async move {
            let _turn = turn.lock().await;
            let scan = tokio::task::spawn_blocking(move || files(&home)).await;
            scan.unwrap_or_else(|error| SecretScan {
                skipped: vec![format!("the files: {error}")],
                ..SecretScan::default()
            })
        })
    })
}

/// Files and rows of a home that no hive serves.
pub async fn at_rest(home: &Home) -> SecretScan {
    let mut scan = files(home);
    let _look = match lock::Look::take(home.root(), &home.lock()) {
        Ok(look) => look,
        Err(error) => {
            skip(&mut scan, home, &home.database(), &error.to_string());
            return scan;
        }
    };
    let options = OpenOptions::in_run_folder(&home.run());
    let read = Store::each_closed_text(&options, |stored| {
        scan.found.extend(LooseSecret::in_row(stored));
    });
    if let Err(error) = read.await {
        skip(&mut scan, home, &home.database(), &error.to_string());
    }
    scan
}

fn files(home: &Home) -> SecretScan {
    let mut scan = SecretScan::default();
    folder(&mut scan, home, home.root());
    scan
}

fn folder(scan: &mut SecretScan, home: &Home, path: &Path) {
    let entries = match fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => return skip(scan, home, path, &error.to_string()),
    };
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        // The database is read row by row.
        let is_database = path.parent() == Some(&home.run())
            && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("skep.db"));
        if is_database || path == home.keys_env() {
            continue;
        }
        match fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_dir() => folder(scan, home, &path),
            Ok(facts) if !facts.is_file() => {}
            Ok(facts) if facts.len() > LONGEST => skip(scan, home, &path, "more than 64 MiB"),
            Ok(_) => match fs::read(&path) {
                Ok(bytes) => file(scan, home, &path, &bytes),
                Err(error) => skip(scan, home, &path, &error.to_string()),
            },
            Err(error) => skip(scan, home, &path, &error.to_string()),
        }
    }
}

fn file(scan: &mut SecretScan, home: &Home, path: &Path, bytes: &[u8]) {
    scan.files += 1;
    let text = String::from_utf8_lossy(bytes);
    let (mut line, mut counted) = (1, 0);
    for (at, secret) in skep_scrub::known().names(&text) {
        line += text[counted..at].matches('\n').count();
        counted = at;
        scan.found.push(LooseSecret::new(within(home, path), line.to_string(), secret));
    }
}

fn skip(scan: &mut SecretScan, home: &Home, path: &Path, why: &str) {
    scan.skipped.push(format!("{}: {why}", within(home, path)));
}

/// The path from the home on, without a secret in a name.
fn within(home: &Home, path: &Path) -> String {
    let path = path.strip_prefix(home.root()).unwrap_or(path).to_string_lossy();
    skep_scrub::known().clean(&path).into_owned()
}
