//! Watches what a whole process tree takes, where the kernel only limits each process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::process_table::{Members, Row};

/// How often the tree is measured. What is taken in between is the overshoot.
const EVERY: Duration = Duration::from_millis(100);

/// The most a tree may take together.
#[derive(Debug, Clone)]
pub(crate) struct Ceiling {
    pub memory_bytes: u64,
    pub processes: usize,
    /// How much may be written while the disk of `folder` fills by as much.
    pub disk_bytes: u64,
    pub folder: PathBuf,
}

/// Files a tree may leave on the disk, by which small ones cannot use up its inodes.
const NEW_FILES: u64 = 500_000;

#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: u64,
    files: u64,
}

/// Ends when the tree takes too much, and says of what.
pub(crate) async fn excess(ceiling: Option<Ceiling>, members: Arc<Mutex<Members>>) -> &'static str {
    let Some(ceiling) = ceiling else { return std::future::pending().await };
    let ceiling = Arc::new(ceiling);
    let before = free(&ceiling);
    loop {
        tokio::time::sleep(EVERY).await;
        let (ceiling, members) = (Arc::clone(&ceiling), Arc::clone(&members));
        let measure = move || measured(&ceiling, &members, before);
        match tokio::task::spawn_blocking(measure).await {
            Ok(None) => {}
            Ok(Some(what)) => return what,
            // The runtime shuts down; the tree is ended by whoever drops it.
            Err(_) => return std::future::pending().await,
        }
    }
}

fn measured(
    ceiling: &Ceiling,
    members: &Mutex<Members>,
    before: Option<Free>,
) -> Option<&'static str> {
    let alive = members.lock().unwrap_or_else(PoisonError::into_inner).alive();
    if alive.len() > ceiling.processes {
        return Some("processes");
    }
    // Pages that several processes share are counted for each of them here, so a sum that is too
    // large is taken again in the slow and exact way.
    let sum = |measure: fn(&Row) -> u64| alive.iter().map(measure).fold(0, u64::saturating_add);
    if sum(resident) > ceiling.memory_bytes && sum(proportional) > ceiling.memory_bytes {
        return Some("memory");
    }
    let (before, now) = (before?, free(ceiling)?);
    // Others use the disk too: it counts what is gone and was written by this tree.
    let gone = before.bytes.saturating_sub(now.bytes);
    let filled = gone > ceiling.disk_bytes && sum(written) > ceiling.disk_bytes;
    (filled || before.files.saturating_sub(now.files) > NEW_FILES).then_some("disk")
}

fn free(ceiling: &Ceiling) -> Option<Free> {
    let disk = rustix::fs::statvfs(&ceiling.folder).ok()?;
    Some(Free { bytes: disk.f_bfree.saturating_mul(disk.f_frsize), files: disk.f_ffree })
}

fn resident(row: &Row) -> u64 {
    lines(row, "status", &["RssAnon:", "RssShmem:"]).unwrap_or(0).saturating_mul(1024)
}

fn proportional(row: &Row) -> u64 {
    lines(row, "smaps_rollup", &["Pss_Anon:", "Pss_Shmem:"])
        .map_or_else(|| resident(row), |kilobytes| kilobytes.saturating_mul(1024))
}

/// By the process and by all children it has waited for.
fn written(row: &Row) -> u64 {
    lines(row, "io", &["write_bytes:"]).unwrap_or(0)
}

/// The sum of some lines of a file in `/proc/PID`.
fn lines(row: &Row, file: &str, names: &[&str]) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", row.pid)).ok()?;
    let values = text.lines().filter_map(|line| {
        let value = names.iter().find_map(|name| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Some(values.fold(0, u64::saturating_add))
}
