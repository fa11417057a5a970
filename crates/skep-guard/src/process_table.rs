//! Reads the process table and decides which processes belong to a tree we started.
//!
//! A child may fork, lose its parent and call `setsid`, so neither parent nor group alone finds
//! all of them. Four traces are joined: descent, process group, session, and a variable in the
//! environment that every descendant inherits. What was a member once stays one.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// The variable that marks all processes of a tree; its value is `<label>.<unique id>`.
pub(crate) const MARKER: &str = "SKEP_TREE";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Clock ticks since boot; with the pid it names a process for good.
    pub started: u64,
    pub zombie: bool,
}

/// All processes at one moment. Rows that vanish while being read are left out.
pub(crate) fn scan() -> Vec<ProcessRow> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_row)
        .collect()
}

pub(crate) fn read_row(pid: i32) -> Option<ProcessRow> {
    // One read: the kernel gives the whole line, and there may be thousands of them.
    let mut line = [0; 1024];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(line.get(..length)?))
}

/// Fields of `/proc/PID/stat` after the program name, which may itself hold spaces and brackets.
fn parse_stat(pid: i32, text: &str) -> Option<ProcessRow> {
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(ProcessRow {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        started: fields.get(19)?.parse().ok()?,
        zombie: matches!(fields.first(), Some(&"Z" | &"X")),
    })
}

/// Whether the environment a process was started with holds a marker beginning with `prefix`.
pub(crate) fn is_marked(pid: i32, prefix: &str) -> bool {
    let wanted = format!("{MARKER}={prefix}");
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| {
        bytes.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted.as_bytes()))
    })
}

/// What identifies a tree, and who was seen in it.
#[derive(Debug)]
pub(crate) struct Members {
    root: i32,
    root_started: u64,
    marker: String,
    seen: HashSet<(i32, u64)>,
}

impl Members {
    pub(crate) fn new(root: i32, marker: String) -> Self {
        let root_started = read_row(root).map_or(0, |row| row.started);
        Self { root, root_started, marker, seen: HashSet::from([(root, root_started)]) }
    }

    /// A tree of an earlier process of ours.
    pub(crate) fn recorded(root: i32, root_started: u64, marker: String) -> Self {
        Self { root, root_started, marker, seen: HashSet::from([(root, root_started)]) }
    }

    pub(crate) fn identity(&self) -> (i32, u64, String) {
        (self.root, self.root_started, self.marker.clone())
    }

    /// The tree's processes that still run. Dead ones that fell to us are reaped on the way; the
    /// root is left to its owner.
    pub(crate) fn alive(&mut self) -> Vec<ProcessRow> {
        let own_pid = own_pid();
        let rows = scan();
        let foreign_root =
            rows.iter().any(|row| row.pid == self.root && row.started != self.root_started);
        for row in &rows {
            let by_group = row.group == self.root || row.session == self.root;
            // What is older than the root has no mark of its tree.
            let marked = || row.started >= self.root_started && is_marked(row.pid, &self.marker);
            if row.pid != own_pid && ((by_group && !foreign_root) || marked()) {
                self.seen.insert((row.pid, row.started));
            }
        }
        self.close_over_descent(&rows, own_pid);
        let members = rows.into_iter().filter(|row| self.seen.contains(&(row.pid, row.started)));
        let (dead, alive): (Vec<ProcessRow>, Vec<ProcessRow>) = members.partition(|row| row.zombie);
        for row in dead {
            if row.parent == own_pid && row.pid != self.root {
                reap(row.pid);
            }
        }
        alive
    }

    fn close_over_descent(&mut self, rows: &[ProcessRow], own_pid: i32) {
        let mut member_pids: HashSet<i32> = rows
            .iter()
            .filter(|row| self.seen.contains(&(row.pid, row.started)))
            .map(|row| row.pid)
            .collect();
        loop {
            let before = member_pids.len();
            for row in rows {
                if row.pid != own_pid && member_pids.contains(&row.parent) {
                    member_pids.insert(row.pid);
                    self.seen.insert((row.pid, row.started));
                }
            }
            if member_pids.len() == before {
                return;
            }
        }
    }
}

/// Sends a signal unless the pid has meanwhile come to name another process.
pub(crate) fn signal(row: &ProcessRow, signal: Signal) {
    let same = read_row(row.pid).is_some_and(|now| now.started == row.started);
    if let (true, Some(pid)) = (same, Pid::from_raw(row.pid)) {
        // It may end between the two lines; then there is nothing left to signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Takes the exit status of a dead child of ours, so that it leaves the table.
pub(crate) fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Someone else may have taken it already; both ways it is gone.
        let _ = rustix::process::waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
    }
}

pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 7 42 40 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2 3";
        let expected =
            ProcessRow { pid: 42, parent: 7, group: 42, session: 40, started: 9876, zombie: false };
        assert_eq!(parse_stat(42, text), Some(expected));
        assert_eq!(parse_stat(42, "42 (cut"), None);
    }
}
