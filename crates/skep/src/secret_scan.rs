//! Which files and rows of a home hold a key or token in the clear. Never shows one.

use std::borrow::Cow;
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

/// How files begin in which nothing can be read.
const COMPRESSED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
];

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
        scan.found
            .extend(LooseSecret::in_row((stored.table, stored.row, stored.column), stored.text));
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
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for (_, secret) in skep_scrub::known().names(&name) {
            scan.found.push(LooseSecret::new(within(home, &path), "its name".to_owned(), secret));
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
    if let Some((_, kind)) = COMPRESSED.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return skip(scan, home, path, &format!("compressed ({kind})"));
    }
    scan.files += 1;
    let text = text(bytes);
    let (mut line, mut counted) = (1, 0);
    for (at, secret) in skep_scrub::known().names(&text) {
        line += text[counted..at].matches('\n').count();
        counted = at;
        scan.found.push(LooseSecret::new(within(home, path), line.to_string(), secret));
    }
}

/// Also what other systems write with two bytes for each letter, with or without a mark.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xFE, 0xFF, ..] | [0, 1..=127, 0, 1..=127, ..] => u16::from_be_bytes,
        [0xFF, 0xFE, ..] | [1..=127, 0, 1..=127, 0, ..] => u16::from_le_bytes,
        _ => return String::from_utf8_lossy(bytes),
    };
    let (pairs, _) = bytes.as_chunks();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    Cow::Owned(String::from_utf16_lossy(&units))
}

fn skip(scan: &mut SecretScan, home: &Home, path: &Path, why: &str) {
    scan.skipped.push(format!("{}: {why}", within(home, path)));
}

/// The path from the home on, without a secret in a name.
fn within(home: &Home, path: &Path) -> String {
    let path = path.strip_prefix(home.root()).unwrap_or(path).to_string_lossy();
    skep_scrub::known().clean(&path).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_wide_letters_are_read_and_what_is_compressed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAcD1e");
        let wide = |unit: fn(u16) -> [u8; 2], mark: &str| {
            let text = format!("{mark}one\ntwo {token}\n");
            text.encode_utf16().flat_map(unit).collect::<Vec<u8>>()
        };
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a-be"), wide(u16::to_be_bytes, "\u{feff}")).unwrap();
        fs::write(path("b-le"), wide(u16::to_le_bytes, "\u{feff}")).unwrap();
        fs::write(path("c-be"), wide(u16::to_be_bytes, "")).unwrap();
        fs::write(path("d-le"), wide(u16::to_le_bytes, "")).unwrap();
        fs::write(path("e.gz"), b"\x1f\x8b\x08rest").unwrap();
        fs::create_dir(path(&format!("f {token}"))).unwrap();
        fs::write(path(&format!("f {token}/g")), "nothing").unwrap();
        let scan = files(&Home::new(folder.path()));
        let found: Vec<_> = scan.found.iter().map(|it| (it.file.as_str(), &*it.place)).collect();
        let named = "f [secret:format.github-token]";
        let expected =
            [("a-be", "2"), ("b-le", "2"), ("c-be", "2"), ("d-le", "2"), (named, "its name")];
        assert_eq!(found, expected);
        assert_eq!((scan.files, scan.skipped), (5, vec!["e.gz: compressed (gzip)".to_owned()]));
    }
}
