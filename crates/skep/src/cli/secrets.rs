//! `skep secrets scan`: which files and rows of a home hold a key or token in the clear, and who
//! can make it void. Never shows one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};
use skep_cli::hive::{Globals, Home};
use skep_cli::print::{output, table};
use skep_cli::{Exit, Failure};
use skep_guard::{environment, lock, scrub};
use skep_store::{OpenOptions, Store};

use crate::home::{KnownNames, load};

const ATTEMPTED: &str = "look for secrets";
/// Longer files are named and not read: they are read whole.
const LONGEST: u64 = 64 << 20;

#[derive(Subcommand)]
pub enum SecretsCommand {
    /// List what looks like a secret, or is one of this hive, in files and rows of the home
    #[command(after_help = "Examples:
  skep secrets scan
  skep secrets scan --home /srv/hive --json

Whatever it lists was readable for whoever can read the home, its copies and backups: have it
replaced where the last column says, then remove it. The values are not shown. Rows are read only
while no hive serves the home. keys.env is not looked at: keys belong there.
The exit code is 0 when nothing was found, else 1.")]
    Scan,
}

/// One secret in the clear.
struct LooseSecret {
    /// The file from the home on, or the database.
    file: String,
    /// The line in a file, or the row and column.
    place: String,
    name: String,
}

impl LooseSecret {
    fn rotate(&self) -> String {
        let kind = self.name.strip_prefix("format.");
        match kind.and_then(|kind| scrub::issuers().get(kind).copied()) {
            Some(issuer) => issuer.to_owned(),
            None => format!("whoever gave {}, then in the configuration", self.name),
        }
    }
}

#[derive(Default)]
struct Search {
    found: Vec<LooseSecret>,
    /// What was not read, and why.
    skipped: Vec<String>,
    files: usize,
}

pub async fn run(_: &SecretsCommand, globals: &Globals, known: &KnownNames) -> Result<(), Failure> {
    if globals.url.is_some() {
        let why = "it looks at a home folder, and --url names a hive elsewhere";
        return Err(Failure::new(Exit::Usage, ATTEMPTED, why).next("run it on that machine"));
    }
    let home = globals.home()?;
    if !home.root().is_dir() {
        let why = format!("{} is not there", home.root().display());
        return Err(Failure::new(Exit::Failed, ATTEMPTED, why).next("skep up"));
    }
    // For the values that the configuration names; without them formats are still found.
    if let Err(error) = load(&home, known, &environment::var) {
        output::note(format!("the configuration does not load; its values are unknown: {error}"));
    }
    let mut search = Search::default();
    search.folder(&home, home.root());
    search.rows(&home).await;
    show(&search, globals)
}

impl Search {
    fn folder(&mut self, home: &Home, folder: &Path) {
        let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.skip(home, folder, &error.to_string()),
        };
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            // The database is read row by row.
            let is_database = path.parent() == Some(&home.run())
                && path
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("skep.db"));
            if is_database || path == home.keys_env() {
                continue;
            }
            match fs::symlink_metadata(&path) {
                Ok(facts) if facts.is_dir() => self.folder(home, &path),
                Ok(facts) if !facts.is_file() => {}
                Ok(facts) if facts.len() > LONGEST => self.skip(home, &path, "more than 64 MiB"),
                Ok(_) => match fs::read(&path) {
                    Ok(bytes) => self.file(home, &path, &bytes),
                    Err(error) => self.skip(home, &path, &error.to_string()),
                },
                Err(error) => self.skip(home, &path, &error.to_string()),
            }
        }
    }

    fn skip(&mut self, home: &Home, path: &Path, why: &str) {
        self.skipped.push(format!("{}: {why}", within(home, path)));
    }

    fn file(&mut self, home: &Home, path: &Path, bytes: &[u8]) {
        self.files += 1;
        let text = String::from_utf8_lossy(bytes);
        let (mut line, mut counted) = (1, 0);
        for (at, name) in scrub::known().names(&text) {
            line += text[counted..at].matches('\n').count();
            counted = at;
            let (file, place) = (within(home, path), line.to_string());
            self.found.push(LooseSecret { file, place, name });
        }
    }

    async fn rows(&mut self, home: &Home) {
        let _look = match lock::Look::take(home.root(), &home.lock()) {
            Ok(look) => look,
            Err(error) => return self.skip(home, &home.database(), &error.to_string()),
        };
        let file = within(home, &home.database());
        let options = OpenOptions::in_run_folder(&home.run());
        let read = Store::each_closed_text(&options, |stored| {
            for (_, name) in scrub::known().names(stored.text) {
                let row = scrub::known().clean(stored.row);
                let place = format!("{} {row} {}", stored.table, stored.column);
                self.found.push(LooseSecret { file: file.clone(), place, name });
            }
        });
        if let Err(error) = read.await {
            self.skip(home, &home.database(), &error.to_string());
        }
    }
}

/// The path from the home on, without a secret in a name.
fn within(home: &Home, path: &Path) -> String {
    let path = path.strip_prefix(home.root()).unwrap_or(path).to_string_lossy();
    scrub::known().clean(&path).into_owned()
}

fn show(search: &Search, globals: &Globals) -> Result<(), Failure> {
    let Search { found, skipped, files } = search;
    if globals.json {
        let found: Vec<Value> = found
            .iter()
            .map(|secret| {
                json!({
                    "file": secret.file, "place": secret.place, "secret": secret.name,
                    "rotate": secret.rotate(),
                })
            })
            .collect();
        output::json(&json!({ "files": files, "found": found, "skipped": skipped }));
    } else {
        let row = |secret: &LooseSecret| {
            let LooseSecret { file, place, name } = secret;
            [file.clone(), place.clone(), name.clone(), secret.rotate()]
        };
        let rows: Vec<[String; 4]> = found.iter().map(row).collect();
        if !rows.is_empty() {
            let heads = ["FILE", "LINE OR ROW", "SECRET", "HAVE IT REPLACED BY"];
            table(heads, rows).into_iter().for_each(output::line);
        }
        skipped.iter().for_each(|why| output::note(format!("not read: {why}")));
    }
    match found.len() {
        0 => {
            if !globals.json {
                output::line(format!("no secrets in {files} files"));
            }
            Ok(())
        }
        count => Err(Failure::new(Exit::Failed, ATTEMPTED, "each is listed above")
            .headline(format!("{count} secrets lie in the clear"))
            .next("have each replaced by who gave it, then remove it")),
    }
}
