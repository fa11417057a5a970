//! The page shared by the test and the process under test. Compiled into both.

use std::sync::atomic::AtomicU64;

/// Environment variable: the watched folder, as an absolute path without symbolic links.
pub const ENV_ROOT: &str = "SKEP_SHIM_ROOT";
/// Environment variable: the file that holds the page. Removed files of a power-loss run are kept
/// beside it until they are known to be gone for good.
pub const ENV_CONTROL: &str = "SKEP_SHIM_CONTROL";
/// The library refuses a page without this mark.
pub const MAGIC: u64 = 0x534b_4550_5348_494d;
pub const PAGE_BYTES: usize = 4096;

/// Plain 64-bit words, so that they survive `kill -9` of either side.
#[repr(C)]
pub struct Page {
    pub magic: AtomicU64,
    /// Set by the library once it watches.
    pub loaded: AtomicU64,
    /// Operations begun so far; the first one is number 1.
    pub count: AtomicU64,
    /// SIGKILL before this operation is performed; 0 = never.
    pub kill_at: AtomicU64,
    /// Power loss before this operation is performed; 0 = never.
    pub power_loss_at: AtomicU64,
    /// Keep what is needed for a power loss. Read once, at load.
    pub journal: AtomicU64,
    /// 0: power loss drops everything unsynced. Else: seed that picks, for each file and for the
    /// folder entries, how many of the oldest unsynced operations reached the disk anyway.
    pub seed: AtomicU64,
    /// errno for fsync and fdatasync; 0 = work.
    pub sync_error: AtomicU64,
    /// errno for writes and growing truncates; 0 = work.
    pub write_error: AtomicU64,
    /// The first of the counted operations that fail with EIO, and the first that works again;
    /// both 0 = none.
    pub fail_from: AtomicU64,
    pub fail_until: AtomicU64,
    pub sync_delay_ms: AtomicU64,
    /// 1: syncs wait until this is 0 again.
    pub sync_hang: AtomicU64,
    /// Syncs that are hanging at this moment.
    pub hanging: AtomicU64,
    /// Syncs that were performed and succeeded.
    pub synced: AtomicU64,
    /// Operations that were made to fail.
    pub failed: AtomicU64,
    /// Operations the power loss took back.
    pub dropped: AtomicU64,
    /// Files whose state before a write could not be kept; must stay 0 in a power-loss run.
    pub untracked: AtomicU64,
}
