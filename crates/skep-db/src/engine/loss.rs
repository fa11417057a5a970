//! A start on a log in which answered commits are missing, because somebody said so: the files are
//! kept as they were found, and what is missing is named.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::disk::file;
use crate::disk::open_error::OpenError;
use crate::engine::command::Schema;
use crate::engine::dialect;
use crate::engine::error::SqlError;
use crate::engine::head::StoreHead;
use crate::engine::integrity::{self, Integrity};
use crate::engine::open::{OpenOptions, io_error};
use crate::engine::tx::Counters;

/// What was lost with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub reason: String,
    /// The files as they were found.
    pub copies: PathBuf,
    /// `None` if the head was unreadable: it alone knows how far the numbers went.
    pub missing: Option<Missing>,
}

/// Numbers that were given and are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Of events.
    pub seq: RangeInclusive<i64>,
    /// Of messages.
    pub ord: RangeInclusive<i64>,
}

impl Loss {
    pub(crate) fn new(
        reason: String,
        copies: PathBuf,
        head: Option<StoreHead>,
        found: Counters,
    ) -> Self {
        let missing = head
            .map(|head| Missing { seq: found.seq + 1..=head.seq, ord: found.ord + 1..=head.ord });
        Self { reason, copies, missing }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log of the store was damaged ({}); ", self.reason)?;
        let range = |name: &str, numbers: &RangeInclusive<i64>| match numbers.is_empty() {
            true => format!("no {name}"),
            false => format!("{name} {} to {}", numbers.start(), numbers.end()),
        };
        match &self.missing {
            Some(Missing { seq, ord }) => {
                let (events, messages) = (range("events (seq)", seq), range("messages (ord)", ord));
                write!(f, "missing: {events}, {messages}")?;
            }
            None => write!(f, "how much is missing is not known, as store.head cannot be read")?,
        }
        write!(f, "; the files as they were found are in {}", self.copies.display())
    }
}

/// Copies the files, then leaves in their place what is sound: the database with what can be read
/// of its log or, where a checkpoint had gone further than that, the database alone.
pub(crate) async fn prepare(
    options: &OpenOptions,
    folder: &Path,
    schema: &Schema,
) -> Result<(), OpenError> {
    let log = file::log_of(&options.database);
    keep_copies(options, &log, folder)?;
    let with_log = Trial::run(options, Some(&log), folder, schema).await?;
    let alone = Trial::run(options, None, folder, schema).await?;
    if with_log.damage.is_some() && alone.damage.is_some() {
        let copies = folder.display();
        let reason = format!(
            "its log is damaged, and a part of that was copied into it already: {}; the files are \
             copied to {copies}",
            with_log.damage.or(alone.damage).unwrap_or_default()
        );
        return Err(OpenError::Corrupt { path: options.database.clone(), reason });
    }
    let better =
        (alone.damage.is_none(), alone.numbers) > (with_log.damage.is_none(), with_log.numbers);
    if better && log.exists() {
        let emptied = File::options().write(true).open(&log).and_then(|file| {
            file.set_len(0)?;
            file.sync_all()
        });
        emptied.map_err(|source| io_error("could not empty", &log, source))?;
    }
    Ok(())
}

fn keep_copies(options: &OpenOptions, log: &Path, folder: &Path) -> Result<(), OpenError> {
    let failed = |source| io_error("could not keep a copy of the damaged files in", folder, source);
    DirBuilder::new().mode(0o700).create(folder).map_err(failed)?;
    for path in [options.database.as_path(), log, options.store_head.as_path()] {
        if let Some(name) = path.file_name().filter(|_| path.exists()) {
            copy(path, &folder.join(name)).map_err(failed)?;
        }
    }
    let above = folder.parent().unwrap_or(folder);
    file::sync_folder(folder).and_then(|()| file::sync_folder(above)).map_err(failed)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

/// What a copy turns out to be.
struct Trial {
    damage: Option<String>,
    /// The highest `seq` and `ord` in it.
    numbers: (i64, i64),
}

impl Trial {
    async fn run(
        options: &OpenOptions,
        log: Option<&Path>,
        folder: &Path,
        schema: &Schema,
    ) -> Result<Self, OpenError> {
        let place = folder.join("trial");
        let database = place.join("skep.db");
        let failed = |source| io_error("could not try a copy of the database in", &place, source);
        DirBuilder::new().mode(0o700).create(&place).map_err(failed)?;
        fs::copy(&options.database, &database).map_err(failed)?;
        if let Some(log) = log.filter(|log| log.exists()) {
            fs::copy(log, file::beside(&database, "-wal")).map_err(failed)?;
        }
        let trial = Self::look(&database, schema).await;
        fs::remove_dir_all(&place).map_err(failed)?;
        Ok(trial.unwrap_or_else(|error| Self { damage: Some(error.message), numbers: (0, 0) }))
    }

    async fn look(database: &Path, schema: &Schema) -> Result<Self, SqlError> {
        let damage = match integrity::check(database.to_owned(), || true).await? {
            Integrity::Damaged(found) => Some(found.join("; ")),
            Integrity::Whole | Integrity::Interrupted => None,
        };
        let mut conn = dialect::connect_reader(database).await?;
        let numbers: Option<(Option<i64>, Option<i64>)> = conn.find(schema.counters, &[]).await?;
        conn.close().await?;
        let (seq, ord) = numbers.unwrap_or_default();
        Ok(Self { damage, numbers: (seq.unwrap_or(0), ord.unwrap_or(0)) })
    }
}
