//! How the work of a hive ends, in three steps.

use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
pub struct StopTokens {
    /// No new work.
    pub draining: CancellationToken,
    /// Running turns give their lease back.
    pub cut: CancellationToken,
    /// Writes that hang are given up: the process ends.
    pub cut_hard: CancellationToken,
}
