//! What can go wrong, in three steps: a statement (`SqlError`), a command (`Refusal`), a caller's
//! write or read (`StoreError`). Opening has its own error, `OpenError`.

/// Why a statement failed, as far as anybody branches on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlKind {
    Unique,
    /// Foreign key, not null, check.
    Constraint,
    DiskFull,
    /// Input or output failed, memory ran out, or the file can no longer be used.
    Broken,
    Corrupt,
    ReadOnly,
    Busy,
    Interrupted,
    /// A column did not hold what the code expects.
    Decode,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    pub kind: SqlKind,
    pub message: String,
}

impl SqlError {
    pub fn new(kind: SqlKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A row whose content the code cannot read.
    pub fn decode(message: impl Into<String>) -> Self {
        Self::new(SqlKind::Decode, message)
    }

    /// True where the failure says nothing about the command: it would hit the next one too, and
    /// the transaction around it may already be gone, so the whole batch fails.
    pub(crate) fn fails_batch(&self) -> bool {
        match self.kind {
            SqlKind::DiskFull
            | SqlKind::Broken
            | SqlKind::Corrupt
            | SqlKind::ReadOnly
            | SqlKind::Busy
            | SqlKind::Interrupted => true,
            SqlKind::Unique | SqlKind::Constraint | SqlKind::Decode | SqlKind::Other => false,
        }
    }
}

/// A command refused by its own rule: nothing of it was kept, its neighbours are untouched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lease's token is no longer the lane's: somebody else owns the turn now.
    #[error("the lease is stale")]
    Stale,
    #[error("{code}: {detail}")]
    Conflict { code: &'static str, detail: String },
    /// More than one may have.
    #[error("{detail}")]
    Quota { code: &'static str, detail: String, most: u64, left: u64 },
    #[error("{what} does not exist")]
    NotFound { what: String },
    #[error("the statement failed: {0}")]
    Sql(#[from] SqlError),
    /// The command's own code panicked.
    #[error("the command failed inside: {0}")]
    Panicked(String),
}

impl Refusal {
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Conflict { code, detail: detail.into() }
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }
}

/// What a caller of `write` or `read` gets instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too much is waiting; nothing was written.
    #[error("the store is busy: too many writes are waiting; send again later")]
    Busy,
    /// Nothing was written.
    #[error("the disk is full: nothing was written; free space and send again")]
    DiskFull,
    /// The outcome is unknown: the write may be there after a restart.
    #[error("the write could not be synced, its outcome is unknown; send again with the same id")]
    Unsynced,
    /// The outcome is unknown, and stays so for every write until the next start.
    #[error(
        "the {what} was removed or moved while the hive runs, so nothing is kept; put it back in \
         its place, start the hive again, and send again with the same id"
    )]
    Moved { what: &'static str },
    /// Nothing was written, or the read failed.
    #[error("the store failed: {detail}")]
    Broken { detail: String },
    #[error("the store is closed")]
    Closed,
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        match error.kind {
            SqlKind::DiskFull => Self::DiskFull,
            SqlKind::Busy => Self::Busy,
            _ => Self::Broken { detail: error.message },
        }
    }
}
