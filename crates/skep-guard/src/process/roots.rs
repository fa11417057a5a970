//! The trees that run, by their first processes, and children of ours that belong to none.
//!
//! What loses its parent falls to the first process of its tree while that runs: to the one on the
//! host, which is told so, or to that of the namespace. So a child of ours that is no root was left
//! by a tree that has ended, also one that has cleared its environment and left its session.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::child::PipedChild;
use super::{KILL_WINDOW, LOAD_WINDOW, POLL};
use crate::cgroup;
use crate::process_table::{self, LABEL, ProcessRow};

/// Locked while one is started: nobody takes a child that is not noted yet for an orphan.
static ROOTS: Mutex<Vec<Root>> = Mutex::new(Vec::new());

struct Root {
    pid: i32,
    marker: String,
}

fn roots() -> MutexGuard<'static, Vec<Root>> {
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Declares this process the keeper of everything it starts: orphans fall to us instead of to
/// init, and what an earlier process of the same `label` left running after a crash is ended.
/// Returns how many of those were found. Called once, at start, by the program itself.
pub fn claim(label: &str) -> io::Result<usize> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let found = end_marked(label).max(cgroup::end_strays(label, KILL_WINDOW));
    // Last, so that nothing started from now on can be taken for a stray.
    let _ = LABEL.set(label.to_owned());
    Ok(found)
}

/// Looks again while a process is being loaded, whose marker nobody can read; a program without
/// words and environment is taken for one, so not for long.
fn end_marked(label: &str) -> usize {
    let prefix = format!("{label}.");
    let own_pid = process_table::own_pid();
    let mut found = 0;
    let started = Instant::now();
    loop {
        let rows: Vec<ProcessRow> = process_table::scan()
            .into_iter()
            .filter(|row| row.pid != own_pid && !row.zombie)
            .collect();
        // Before the markers are read: what has ceased to be loaded by then shows them.
        let loading = started.elapsed() < LOAD_WINDOW && rows.iter().any(process_table::is_loading);
        let strays: Vec<&ProcessRow> =
            rows.iter().filter(|row| process_table::is_marked(row.pid, &prefix)).collect();
        found = found.max(strays.len());
        if (strays.is_empty() && !loading) || started.elapsed() > KILL_WINDOW {
            return found;
        }
        for stray in &strays {
            process_table::signal(stray, Signal::KILL);
        }
        std::thread::sleep(POLL);
    }
}

/// Starts the first process of a tree.
pub(super) fn begin(
    marker: &str,
    start: impl FnOnce() -> io::Result<PipedChild>,
) -> io::Result<PipedChild> {
    let mut roots = roots();
    let child = start()?;
    roots.push(Root { pid: child.id(), marker: marker.to_owned() });
    Ok(child)
}

/// A tree that has ended: what it left ends too. Looks for that every so often; with no time in
/// between a few times only.
pub(super) fn forget(root: i32, every: Duration) {
    roots().retain(|other| other.pid != root);
    if LABEL.get().is_none() {
        return;
    }
    let mut looks = 0;
    let begun = Instant::now();
    while end_orphans() > 0 {
        looks += 1;
        if begun.elapsed() > KILL_WINDOW || (every.is_zero() && looks == 5) {
            break;
        }
        std::thread::sleep(every);
    }
}

/// Kills children of ours that are no root, with all below them. How many there were.
fn end_orphans() -> usize {
    let (own_pid, rows) = (process_table::own_pid(), process_table::scan());
    let roots = roots();
    // Whoever has the mark of a tree that runs is being ended with it, in its own time.
    let is_claimed = |row: &ProcessRow| {
        roots
            .iter()
            .any(|root| root.pid == row.pid || process_table::is_marked(row.pid, &root.marker))
    };
    let (dead, mut orphans): (Vec<&ProcessRow>, Vec<&ProcessRow>) = rows
        .iter()
        .filter(|row| row.parent == own_pid && !is_claimed(row))
        .partition(|row| row.zombie);
    dead.iter().for_each(|row| process_table::reap(row.pid));
    let mut next = 0;
    while let Some(above) = orphans.get(next).map(|row| row.pid) {
        orphans.extend(rows.iter().filter(|row| row.parent == above && !row.zombie));
        next += 1;
    }
    orphans.iter().for_each(|row| process_table::signal(row, Signal::KILL));
    orphans.len()
}
