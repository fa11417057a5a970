//! Reads the process table and decides which processes belong to a tree we started.
//!
//! A child may fork, lose its parent and call `setsid`, so neither parent nor group alone finds
//! all of them. Four traces are joined: descent, process group, session, and a variable in the
//! environment that every descendant inherits. What was a member once stays one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// The variable that marks all processes of a tree; its value is `<label>.<unique id>`.
pub(crate) const MARKER: &str = "SKEP_TREE";

/// Set once, by whoever is the keeper of all that this process starts.
pub(crate) static LABEL: OnceLock<String> = OnceLock::new();

/// Of this process and those that come after it.
pub(crate) fn label() -> &'static str {
    LABEL.get().map_or("unclaimed", String::as_str)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Clock ticks since boot; with the pid it names a process for good.
    pub started: u64,
    /// Clock ticks of the processor it has used.
    pub used: u64,
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
    let mut fields = [""; 20];
    for (field, text) in fields.iter_mut().zip(after_name.split(' ').skip(1)) {
        *field = text;
    }
    let number = |index: usize| fields[index].parse::<i32>().ok();
    let ticks = |index: usize| fields[index].parse::<u64>().ok();
    Some(ProcessRow {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        started: ticks(19)?,
        used: ticks(11)?.saturating_add(ticks(12)?),
        zombie: matches!(fields[0], "Z" | "X"),
    })
}

/// Whether the environment a process was started with holds a marker beginning with `prefix`.
pub(crate) fn is_marked(pid: i32, prefix: &str) -> bool {
    marks(pid).iter().any(|mark| mark.starts_with(prefix))
}

/// Whether a process is about to become another program: while the kernel loads that, it shows
/// neither the environment nor the words of either. Threads of the kernel never have any.
pub(crate) fn is_loading(row: &ProcessRow) -> bool {
    const KERNEL: i32 = 2;
    let is_empty = |file: &str| {
        std::fs::read(format!("/proc/{}/{file}", row.pid)).is_ok_and(|bytes| bytes.is_empty())
    };
    !row.zombie
        && row.pid != KERNEL
        && row.parent != KERNEL
        && is_empty("cmdline")
        && is_empty("environ")
}

/// The markers in the environment a process was started with: one, or none.
fn marks(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variables = bytes.split(|byte| *byte == 0).filter_map(|variable| {
        let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        (name == MARKER).then(|| value.to_owned())
    });
    variables.collect()
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
        Self::recorded(root, read_row(root).map_or(0, |row| row.started), marker)
    }

    /// A tree of an earlier process of ours.
    pub(crate) fn recorded(root: i32, root_started: u64, marker: String) -> Self {
        Self { root, root_started, marker, seen: HashSet::from([(root, root_started)]) }
    }

    pub(crate) fn identity(&self) -> (i32, u64, String) {
        (self.root, self.root_started, self.marker.clone())
    }

    /// The tree's processes that still run.
    pub(crate) fn alive(&mut self) -> Vec<ProcessRow> {
        Marks::default().alive(&mut [self], scan()).swap_remove(0)
    }
}

/// The markers of processes that no tree has claimed by other traces. A process has its marker
/// from its birth, so it is read once for all trees and for all times: once there is something to
/// read, see [`is_loading`].
#[derive(Debug, Default)]
pub(crate) struct Marks(HashMap<(i32, u64), Vec<String>>);

impl Marks {
    /// Of each tree the processes that still run. Dead ones that fell to us are reaped on the way;
    /// a root is left to its owner.
    pub fn alive(
        &mut self,
        trees: &mut [&mut Members],
        rows: Vec<ProcessRow>,
    ) -> Vec<Vec<ProcessRow>> {
        let own_pid = own_pid();
        let by_pid: HashMap<i32, &ProcessRow> = rows.iter().map(|row| (row.pid, row)).collect();
        let mut owners = by_traces(trees, &by_pid, own_pid);
        add_descendants(&mut owners, &by_pid, own_pid);
        if self.add_marked(&mut owners, trees, &by_pid, own_pid) {
            add_descendants(&mut owners, &by_pid, own_pid);
        }
        for (pid, tree) in &owners {
            trees[*tree].seen.insert((*pid, by_pid[pid].started));
        }
        for tree in trees.iter_mut() {
            // A tree may live for months and its processes for a moment.
            tree.seen.retain(|(pid, started)| match by_pid.get(pid) {
                Some(row) => row.started == *started,
                None => runs(*pid),
            });
        }
        let mut alive = vec![Vec::new(); trees.len()];
        for row in rows {
            let Some(tree) = owners.get(&row.pid) else { continue };
            if !row.zombie {
                alive[*tree].push(row);
            } else if row.parent == own_pid && row.pid != trees[*tree].root {
                reap(row.pid);
            }
        }
        alive
    }

    /// Whether there were any.
    fn add_marked(
        &mut self,
        owners: &mut HashMap<i32, usize>,
        trees: &[&mut Members],
        by_pid: &HashMap<i32, &ProcessRow>,
        own_pid: i32,
    ) -> bool {
        let by_marker: HashMap<&str, usize> =
            trees.iter().enumerate().map(|(tree, it)| (it.marker.as_str(), tree)).collect();
        // What is older than a root has no mark of its tree.
        let oldest = trees.iter().map(|tree| tree.root_started).min().unwrap_or(0);
        let before = owners.len();
        self.0.retain(|(pid, started), _| by_pid.get(pid).is_some_and(|it| it.started == *started));
        for row in by_pid.values().filter(|row| row.started >= oldest && row.pid != own_pid) {
            if owners.contains_key(&row.pid) {
                continue;
            }
            let marks = match self.0.entry((row.pid, row.started)) {
                Entry::Occupied(known) => known.into_mut(),
                // Before the markers are read: what has ceased to be loaded by then shows them.
                Entry::Vacant(_) if is_loading(row) => continue,
                Entry::Vacant(place) => place.insert(marks(row.pid)),
            };
            if let Some(tree) = marks.iter().find_map(|mark| by_marker.get(mark.as_str())) {
                owners.insert(row.pid, *tree);
            }
        }
        owners.len() > before
    }
}

/// Which tree a process is in, by what was seen before, its group and its session.
fn by_traces(
    trees: &[&mut Members],
    by_pid: &HashMap<i32, &ProcessRow>,
    own_pid: i32,
) -> HashMap<i32, usize> {
    let mut owners = HashMap::new();
    let mut roots = HashMap::new();
    for (tree, members) in trees.iter().enumerate() {
        let seen = members.seen.iter().filter(|(pid, started)| {
            *pid != own_pid && by_pid.get(pid).is_some_and(|row| row.started == *started)
        });
        owners.extend(seen.map(|(pid, _)| (*pid, tree)));
        let root = by_pid.get(&members.root);
        if root.is_none_or(|row| row.started == members.root_started) {
            roots.insert(members.root, tree);
        }
    }
    for row in by_pid.values().filter(|row| row.pid != own_pid) {
        if let Some(tree) = roots.get(&row.group).or_else(|| roots.get(&row.session)) {
            owners.entry(row.pid).or_insert(*tree);
        }
    }
    owners
}

/// A process whose parent is in a tree is in it too.
fn add_descendants(
    owners: &mut HashMap<i32, usize>,
    by_pid: &HashMap<i32, &ProcessRow>,
    own_pid: i32,
) {
    let mut outside = HashSet::from([own_pid]);
    let mut line = Vec::new();
    for row in by_pid.values() {
        let mut above = Some(*row);
        // Upwards until somebody is known. The table is not of one moment: it may hold a circle.
        while let Some(row) = above
            && !owners.contains_key(&row.pid)
            && !outside.contains(&row.pid)
            && line.len() < by_pid.len()
        {
            line.push(row.pid);
            above = by_pid.get(&row.parent).copied();
        }
        let owner = above.and_then(|row| owners.get(&row.pid)).copied();
        for pid in line.drain(..) {
            if let Some(tree) = owner {
                owners.insert(pid, tree);
            } else {
                outside.insert(pid);
            }
        }
    }
}

fn runs(pid: i32) -> bool {
    let gone = |pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH);
    Pid::from_raw(pid).is_some_and(|pid| !gone(pid))
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
        let expected = ProcessRow { session: 40, used: 11, ..row(42, 7, 42, 9876) };
        assert_eq!(parse_stat(42, text), Some(expected));
        assert_eq!(parse_stat(42, "42 (cut"), None);
    }

    fn row(pid: i32, parent: i32, group: i32, started: u64) -> ProcessRow {
        ProcessRow { pid, parent, group, session: group, started, used: 0, zombie: false }
    }

    #[test]
    fn one_look_at_the_table_finds_every_tree() {
        // No process has a number this high.
        let pid = |number: i32| (1 << 30) | number;
        let mut first = Members::recorded(pid(10), 100, "of the first".to_owned());
        let mut second = Members::recorded(pid(20), 200, "of the second".to_owned());
        let rows = || {
            vec![
                row(pid(1), 0, pid(1), 1),
                row(pid(10), pid(1), pid(10), 100),
                // Below a child of the first, in a session of its own.
                row(pid(12), pid(11), pid(12), 102),
                row(pid(11), pid(10), pid(11), 101),
                row(pid(20), pid(1), pid(20), 200),
                // Nobody's child, in the second's group.
                row(pid(21), pid(1), pid(20), 201),
                row(pid(30), pid(1), pid(30), 300),
                // Each is the other's parent.
                row(pid(40), pid(41), pid(40), 400),
                row(pid(41), pid(40), pid(41), 401),
            ]
        };
        let pids = |alive: Vec<ProcessRow>| alive.iter().map(|row| row.pid).collect::<Vec<_>>();
        let mut look = |rows| {
            let alive = Marks::default().alive(&mut [&mut first, &mut second], rows);
            alive.into_iter().map(pids).collect::<Vec<_>>()
        };
        let found = vec![vec![pid(10), pid(12), pid(11)], vec![pid(20), pid(21)]];
        assert_eq!(look(rows()), found);
        // The root is gone and its number is another's; who was seen stays, with what is new below.
        let mut later = rows();
        later.retain(|row| ![pid(10), pid(11)].contains(&row.pid));
        later.extend([row(pid(10), pid(1), pid(10), 500), row(pid(13), pid(12), pid(13), 501)]);
        later.iter_mut().filter(|row| row.pid == pid(12)).for_each(|row| row.parent = pid(1));
        assert_eq!(look(later), [vec![pid(12), pid(13)], vec![pid(20), pid(21)]]);
    }

    /// Right after its start every second process shows nothing of itself.
    #[test]
    fn a_process_shows_its_marker_or_that_it_is_being_loaded() {
        let sleep = || {
            let mut command = std::process::Command::new("sleep");
            command.arg("100").env_clear();
            command
        };
        for round in 0..200 {
            let mut child = sleep().env(MARKER, "loaded.1").spawn().unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            let loading = is_loading(&read_row(pid).unwrap());
            let seen = loading || is_marked(pid, "loaded.");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(seen, "round {round}");
        }
        let mut bare = sleep().spawn().unwrap();
        let row = read_row(i32::try_from(bare.id()).unwrap()).unwrap();
        let begun = std::time::Instant::now();
        while is_loading(&row) {
            assert!(begun.elapsed().as_secs() < 10, "a program without environment is no other");
        }
        bare.kill().unwrap();
        bare.wait().unwrap();
    }
}
