//! The test's end of the preload shim: counts what a process writes below a folder, kills it at a
//! chosen operation, breaks its disk while it runs, or takes away its power.

#[path = "../shim/src/page.rs"]
mod page;

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::wait::{self, PATIENCE};
use page::{ENV_CONTROL, ENV_ROOT, MAGIC, PAGE_BYTES, Page};

/// What ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing: count only, or break the disk while it runs.
    Never,
    /// SIGKILL before this operation (the first is 1).
    Kill(u64),
    /// Power loss before this operation. `seed` 0 drops everything unsynced; any other seed lets
    /// some of the oldest unsynced operations of each file reach the disk, as a real disk may.
    PowerLoss { at: u64, seed: u64 },
}

/// A disk error to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    InputOutput,
    NoSpace,
}

/// One process at a time; `prepare` before each start.
pub struct Shim {
    library: PathBuf,
    root: PathBuf,
    page: File,
    folder: TempDir,
}

impl Shim {
    /// Watches `root`, whose parent must exist: what the shim needs is kept beside it.
    pub fn new(root: &Path) -> Result<Self> {
        let parent = root.parent().context("the watched folder needs a parent")?;
        let parent = parent.canonicalize().context("resolving the parent of the watched folder")?;
        let name = root.file_name().context("the watched folder needs a name")?;
        let folder = tempfile::Builder::new().prefix("shim-").tempdir_in(&parent)?;
        let page = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join("page"))
            .context("creating the control page")?;
        page.set_len(PAGE_BYTES as u64)?;
        let shim = Shim { library: crate::locate::shim()?, root: parent.join(name), page, folder };
        shim.prepare(End::Never)?;
        Ok(shim)
    }

    /// Starts anew: counters at 0, no faults, and the given end.
    pub fn prepare(&self, end: End) -> Result<()> {
        self.page.write_all_at(&[0; PAGE_BYTES], 0)?;
        self.set(offset_of!(Page, magic), MAGIC)?;
        self.set_end(end, 0)
    }

    /// Puts the process of this command under the shim. The command must start the program itself,
    /// not a shell around it.
    pub fn apply(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env(ENV_ROOT, &self.root)
            .env(ENV_CONTROL, self.folder.path().join("page"));
    }

    /// Chooses the end counted from this moment on. A power loss only takes back what was written
    /// by a process started after `prepare(End::PowerLoss {..})`.
    pub fn end_from_now(&self, end: End) -> Result<()> {
        self.set_end(end, self.count()?)
    }

    /// Operations begun so far.
    pub fn count(&self) -> Result<u64> {
        self.get(offset_of!(Page, count))
    }

    /// True once the process runs under the shim.
    pub fn loaded(&self) -> Result<bool> {
        Ok(self.get(offset_of!(Page, loaded))? != 0)
    }

    pub fn fail_syncs(&self, error: DiskError) -> Result<()> {
        self.set(offset_of!(Page, sync_error), error.number())
    }

    pub fn fail_writes(&self, error: DiskError) -> Result<()> {
        self.set(offset_of!(Page, write_error), error.number())
    }

    /// So many operations fail, the first of them counted from this moment on (the next is 1).
    pub fn fail_from_now(&self, at: u64, operations: u64) -> Result<()> {
        let from = self.count()?.saturating_add(at);
        self.set(offset_of!(Page, fail_until), 0)?;
        self.set(offset_of!(Page, fail_from), from)?;
        self.set(offset_of!(Page, fail_until), from.saturating_add(operations))
    }

    pub fn delay_syncs(&self, delay: Duration) -> Result<()> {
        self.set(offset_of!(Page, sync_delay_ms), u64::try_from(delay.as_millis())?)
    }

    /// Every sync from now on hangs until `heal`.
    pub fn hang_syncs(&self) -> Result<()> {
        self.set(offset_of!(Page, sync_hang), 1)
    }

    /// Ends every fault; hanging syncs go on.
    pub fn heal(&self) -> Result<()> {
        self.set(offset_of!(Page, sync_error), 0)?;
        self.set(offset_of!(Page, write_error), 0)?;
        self.set(offset_of!(Page, fail_until), 0)?;
        self.set(offset_of!(Page, sync_delay_ms), 0)?;
        self.set(offset_of!(Page, sync_hang), 0)
    }

    /// Syncs that hang at this moment.
    pub fn hanging(&self) -> Result<u64> {
        self.get(offset_of!(Page, hanging))
    }

    /// Waits until a sync hangs.
    pub async fn wait_hanging(&self) -> Result<()> {
        wait::until_true("a hanging sync", PATIENCE, || self.hanging().is_ok_and(|n| n > 0)).await
    }

    /// Waits until `more` operations were made to fail since `failed` gave `before`.
    pub async fn wait_failed(&self, before: u64, more: u64) -> Result<()> {
        let enough = || self.failed().is_ok_and(|failed| failed >= before + more);
        wait::until_true("injected disk errors", PATIENCE, enough).await
    }

    /// Operations made to fail so far.
    pub fn failed(&self) -> Result<u64> {
        self.get(offset_of!(Page, failed))
    }

    /// Syncs that succeeded so far.
    pub fn synced(&self) -> Result<u64> {
        self.get(offset_of!(Page, synced))
    }

    /// Operations the power loss took back.
    pub fn dropped(&self) -> Result<u64> {
        self.get(offset_of!(Page, dropped))
    }

    /// Writes whose state before could not be kept; a power-loss run is only good when this is 0.
    pub fn untracked(&self) -> Result<u64> {
        self.get(offset_of!(Page, untracked))
    }

    fn set_end(&self, end: End, base: u64) -> Result<()> {
        let (kill, power, seed) = match end {
            End::Never => (0, 0, 0),
            End::Kill(at) => (base.saturating_add(at), 0, 0),
            End::PowerLoss { at, seed } => (0, base.saturating_add(at), seed),
        };
        if power > 0 {
            self.set(offset_of!(Page, journal), 1)?;
        }
        self.set(offset_of!(Page, seed), seed)?;
        self.set(offset_of!(Page, kill_at), kill)?;
        self.set(offset_of!(Page, power_loss_at), power)
    }

    fn get(&self, offset: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.page.read_exact_at(&mut word, offset as u64).context("reading the control page")?;
        Ok(u64::from_ne_bytes(word))
    }

    fn set(&self, offset: usize, value: u64) -> Result<()> {
        let word = value.to_ne_bytes();
        self.page.write_all_at(&word, offset as u64).context("writing the control page")
    }
}

impl DiskError {
    fn number(self) -> u64 {
        let error = match self {
            DiskError::InputOutput => rustix::io::Errno::IO,
            DiskError::NoSpace => rustix::io::Errno::NOSPC,
        };
        u64::from(error.raw_os_error().unsigned_abs())
    }
}
