//! Groups of processes whose memory and number the kernel itself counts, also what no process has:
//! buffers of sockets and pipes, tables, queues; and which get less of the processor's time. Made
//! below the group this process is in, where it may; version 1 and version 2 of the interface.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::{process_table, random};

/// What bubblewrap, the shells and the kernel need beside the memory of the command.
const BESIDE: u64 = 64 << 20;
/// Of the processor's time, where others want it too: a tenth of what the hive gets.
const SHARES: &str = "102";
const WEIGHT: &str = "10";
/// How often a group is looked at until it is empty.
const POLL: Duration = Duration::from_millis(20);
/// How long an ended group may take to become empty.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);
/// Where this process goes itself with version 2: a group with groups below has no processes.
const OWN: &str = "skep-hive";

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// One tree for each thing that is counted.
    One {
        memory: PathBuf,
        processes: PathBuf,
        time: Option<PathBuf>,
    },
    Two {
        all: PathBuf,
    },
}

/// A group of its own for one command. When dropped, what is left in it is killed, and it is
/// removed once that is gone.
#[derive(Debug)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    /// Writing `0` into each moves the writer.
    doors: Vec<File>,
    /// The folder itself, where a process can be born in it: version 2.
    birthplace: Option<File>,
    /// Counts what the kernel ended for want of memory.
    events: PathBuf,
    /// Whether it has a share of the processor's time.
    shares_time: bool,
}

impl Group {
    /// Nothing where none can be made.
    pub fn make(memory_bytes: u64, processes: u64) -> Option<Self> {
        static PLACE: OnceLock<Option<Place>> = OnceLock::new();
        let place = PLACE.get_or_init(|| {
            let place = Place::find()?;
            place.remove_strays();
            // Tried before it is relied on.
            Self::make_at(&place, process_table::label(), memory_bytes, processes)
                .ok()
                .map(|_| place)
        });
        let made = Self::make_at(place.as_ref()?, process_table::label(), memory_bytes, processes);
        made.inspect_err(|error| tracing::warn!(%error, "no control group for a command")).ok()
    }

    fn make_at(place: &Place, label: &str, memory_bytes: u64, processes: u64) -> io::Result<Self> {
        let name = format!("skep-{}-{}.{label}", process_table::own_pid(), random::uuid());
        let memory_bytes = memory_bytes.saturating_add(BESIDE).to_string();
        let folders: Vec<PathBuf> = place.trees().iter().map(|tree| tree.join(&name)).collect();
        let mut group = Self {
            folders: Vec::new(),
            doors: Vec::new(),
            birthplace: None,
            events: PathBuf::new(),
            shares_time: false,
        };
        for folder in &folders {
            fs::create_dir(folder)?;
            group.folders.push(folder.clone());
            let door = OpenOptions::new().write(true).open(folder.join(place.door()))?;
            group.doors.push(door);
        }
        let (memory, limits, events) = match (place, &folders[..]) {
            (Place::One { .. }, [memory, limits, time @ ..]) => {
                for time in time {
                    put(&time.join("cpu.shares"), SHARES)?;
                    group.shares_time = true;
                }
                put(&memory.join("memory.limit_in_bytes"), &memory_bytes)?;
                // Without it the kernel counts no buffers of TCP; not every one can.
                let _ = put(&memory.join("memory.kmem.tcp.limit_in_bytes"), &memory_bytes);
                (memory, limits, "memory.oom_control")
            }
            (Place::Two { .. }, [all]) => {
                put(&all.join("memory.max"), &memory_bytes)?;
                let _ = put(&all.join("memory.swap.max"), "0");
                group.shares_time = put(&all.join("cpu.weight"), WEIGHT).is_ok();
                group.birthplace = Some(File::open(all)?);
                (all, all, "memory.events")
            }
            _ => return Err(io::Error::other("a control group has other parts")),
        };
        put(&limits.join("pids.max"), &processes.to_string())?;
        group.events = memory.join(events);
        Ok(group)
    }

    /// Where a child can be born, so that it need not be moved.
    pub fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.birthplace.as_ref().map(AsFd::as_fd)
    }

    /// Moves the process that calls it, which has one thread. Bare system calls only: for a child
    /// before its exec.
    pub fn join(&self) -> io::Result<()> {
        for door in &self.doors {
            rustix::io::write(door.as_fd(), b"0")?;
        }
        Ok(())
    }

    /// Whether the kernel gives it a share of the processor's time as a whole.
    pub fn shares_time(&self) -> bool {
        self.shares_time
    }

    /// Whether the kernel has ended one of its processes for want of memory.
    pub fn ran_out(&self) -> bool {
        let text = fs::read_to_string(&self.events).unwrap_or_default();
        let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.is_some_and(|count| count.trim() != "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folders = std::mem::take(&mut self.folders);
        let busy: Vec<PathBuf> =
            folders.into_iter().filter(|folder| fs::remove_dir(folder).is_err()).collect();
        if busy.is_empty() {
            return;
        }
        // Without a thread it stays until the next start.
        let remove = move || busy.iter().for_each(|folder| empty(folder, EMPTY_WITHIN));
        let _ = std::thread::Builder::new().name("cgroup".to_owned()).spawn(remove);
    }
}

/// Kills what processes of this label left in their groups, and removes the groups. How many
/// processes there were. Only for who knows that no other process of the label runs.
pub(crate) fn end_strays(label: &str, within: Duration) -> usize {
    let (suffix, mut found) = (format!(".{label}"), 0);
    let place = Place::look();
    for tree in place.iter().flat_map(Place::trees) {
        for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|it| it.starts_with("skep-") && it.ends_with(&suffix)) {
                found += members(&entry.path()).len();
                empty(&entry.path(), within);
            }
        }
    }
    found
}

/// Kills all in a group until it can be removed.
fn empty(folder: &Path, within: Duration) {
    let begun = Instant::now();
    // Dead processes are in it until somebody has asked for their end.
    while fs::remove_dir(folder).is_err() && folder.exists() {
        if begun.elapsed() > within {
            tracing::warn!(folder = %folder.display(), "a control group is not empty");
            return;
        }
        kill_members(folder);
        std::thread::sleep(POLL);
    }
}

fn kill_members(folder: &Path) {
    if put(&folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let open = |pid: i32| {
        let handle = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty());
        Some((pid, handle.ok()?))
    };
    let handles: Vec<_> = members(folder).into_iter().filter_map(open).collect();
    // One that is still there by its number is the one of the handle.
    let still = members(folder);
    for (_, handle) in handles.iter().filter(|(pid, _)| still.contains(pid)) {
        let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
    }
}

/// By their numbers. Those that this process cannot see have none.
fn members(folder: &Path) -> Vec<i32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

impl Place {
    fn find() -> Option<Self> {
        let place = Self::look()?;
        match &place {
            Self::One { .. } => Some(place),
            Self::Two { all } => open_to_groups(all).ok().map(|()| place),
        }
    }

    /// Changes nothing.
    fn look() -> Option<Self> {
        let read = |file| fs::read_to_string(format!("/proc/self/{file}")).ok();
        let (groups, mounts) = (read("cgroup")?, read("mountinfo")?);
        Self::one(&groups, &mounts).or_else(|| Self::two(&groups, &mounts))
    }

    fn one(groups: &str, mounts: &str) -> Option<Self> {
        let tree = |part| folder_of(groups, mounts, Some(part));
        let time = tree("cpu").filter(|time| Some(time) != tree("memory").as_ref());
        Some(Self::One { memory: tree("memory")?, processes: tree("pids")?, time })
    }

    fn two(groups: &str, mounts: &str) -> Option<Self> {
        Some(Self::Two { all: folder_of(groups, mounts, None)? })
    }

    fn trees(&self) -> Vec<&Path> {
        match self {
            Self::One { memory, processes, time } => {
                [memory, processes].into_iter().chain(time).map(PathBuf::as_path).collect()
            }
            Self::Two { all } => vec![all],
        }
    }

    /// The file that moves whoever writes to it. Version 1 can move one thread, which a child
    /// before its exec is: for that the kernel stops no forks and ends of others, and does not
    /// wait until all of them have seen it, which takes milliseconds.
    fn door(&self) -> &'static str {
        match self {
            Self::One { .. } => "tasks",
            Self::Two { .. } => "cgroup.procs",
        }
    }

    /// Groups of processes like this one that are gone. One that is in use stays.
    fn remove_strays(&self) {
        for tree in self.trees() {
            for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let made_by = name.to_str().and_then(|name| {
                    name.strip_prefix("skep-")?.split_once('-')?.0.parse::<i32>().ok()
                });
                if made_by.is_some_and(|pid| process_table::read_row(pid).is_none()) {
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }
}

/// The folder of the group this process is in: of a part in version 1, of all in version 2.
fn folder_of(groups: &str, mounts: &str, part: Option<&str>) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (parts, path) = rest.split_once(':')?;
        let fits = part.map_or(parts.is_empty(), |part| parts.split(',').any(|one| one == part));
        fits.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = kind.split(' ');
        let (kind, options) = (words.next()?, words.nth(1)?);
        let fits = match part {
            Some(part) => kind == "cgroup" && options.split(',').any(|one| one == part),
            None => kind == "cgroup2",
        };
        let mut words = mount.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        fits.then(|| Path::new(at).join(below))
    })
}

/// Version 2: the parts have to be handed down, and a group that does so holds no process itself.
fn open_to_groups(all: &Path) -> io::Result<()> {
    let parts = fs::read_to_string(all.join("cgroup.controllers"))?;
    if !["memory", "pids"].iter().all(|part| parts.split_whitespace().any(|one| one == *part)) {
        return Err(io::Error::other("memory and pids are not handed down"));
    }
    let control = all.join("cgroup.subtree_control");
    let hand_down = || {
        put(&control, "+memory +pids")?;
        // Good to have.
        let _ = put(&control, "+cpu");
        Ok(())
    };
    if hand_down().is_ok() {
        return Ok(());
    }
    let (pid, own) = (process_table::own_pid().to_string(), all.join(OWN));
    fs::create_dir(&own)?;
    let moved = put(&own.join("cgroup.procs"), &pid).and_then(|()| hand_down());
    if moved.is_err() {
        // Others are in our group too: everything stays as it was.
        let _ = put(&all.join("cgroup.procs"), &pid);
        let _ = fs::remove_dir(&own);
    }
    moved
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    // One write, and nothing is made where the kernel has no such file.
    io::Write::write_all(&mut OpenOptions::new().write(true).open(file)?, text.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::Arc;

    use super::*;
    use crate::process::start::ChildProgram;

    #[test]
    fn the_group_of_this_process_is_found_in_both_versions() {
        let groups = "8:pids:/\n4:cpu,cpuacct:/\n3:memory:/made/by\n0::/user/one\n";
        let mounts = "24 20 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      25 24 0:22 / /cg/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      28 24 0:25 / /cg/time rw - cgroup cgroup rw,cpu,cpuacct\n\
                      26 24 0:23 / /cg/pids rw - cgroup cgroup rw,pids\n\
                      27 24 0:24 /user /cg/all rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let one = Place::One {
            memory: "/cg/memory/made/by".into(),
            processes: "/cg/pids".into(),
            time: Some("/cg/time".into()),
        };
        assert_eq!(Place::one(groups, mounts), Some(one));
        assert_eq!(Place::two(groups, mounts), Some(Place::Two { all: "/cg/all/one".into() }));
        assert_eq!(Place::one("0::/\n", mounts), None);
        assert_eq!(Place::two("4:memory:/\n", mounts), None);
        // Mounted from elsewhere: not ours to find.
        assert_eq!(Place::two("0::/system\n", mounts), None);
    }

    /// A process in a group; the thread ends with its end.
    fn sleeps_in(group: &Arc<Group>) -> std::thread::JoinHandle<ExitStatus> {
        let program = ChildProgram {
            path: "sleep".into(),
            arguments: vec!["600".into()],
            directory: "/".into(),
            environment: [].into(),
            group: Some(Arc::clone(group)),
            steps: Box::new(|| Ok(())),
        };
        let nothing = File::open("/dev/null").unwrap();
        // SAFETY: there are no steps.
        let started = unsafe { program.start([nothing.as_fd(); 3]) }.unwrap();
        std::thread::spawn(move || {
            loop {
                if let Some(ended) = started.try_wait().unwrap() {
                    return ended;
                }
                std::thread::yield_now();
            }
        })
    }

    /// Where groups can be made.
    #[test]
    fn what_is_left_in_a_group_ends_with_it_and_with_its_label() {
        let Some(place) = Place::look() else { return };
        let make = |label: &str| Group::make_at(&place, label, 64 << 20, 20).ok().map(Arc::new);
        let label = format!("test-{}", random::uuid());
        let Some(group) = make(&label) else { return };
        let dropped = sleeps_in(&group);
        drop(group);
        assert_eq!(dropped.join().unwrap().signal(), Some(libc::SIGKILL));
        let (group, other) = (make(&label).unwrap(), make("other").unwrap());
        let (left, folders) = (sleeps_in(&group), group.folders.clone());
        std::mem::forget(group);
        assert!(end_strays(&label, EMPTY_WITHIN) >= 1);
        assert_eq!(left.join().unwrap().signal(), Some(libc::SIGKILL));
        assert!(folders.iter().all(|folder| !folder.exists()));
        assert!(other.folders.iter().all(|folder| folder.exists()));
    }

    /// Where version 2 is mounted and ours to use, whatever it counts.
    #[test]
    fn a_child_is_born_in_its_group() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(place) = folder_of(&groups, &mounts, None) else { return };
        let name = format!("skep-{}-{}", process_table::own_pid(), random::uuid());
        let folder = place.join(&name);
        if fs::create_dir(&folder).is_err() {
            return;
        }
        let group = Arc::new(Group {
            // No way to join it.
            doors: Vec::new(),
            birthplace: File::open(&folder).ok(),
            folders: vec![folder],
            events: PathBuf::new(),
            shares_time: false,
        });
        let (mut ours, theirs) = io::pipe().unwrap();
        let program = ChildProgram {
            path: "cat".into(),
            arguments: vec!["/proc/self/cgroup".into()],
            directory: "/".into(),
            environment: [].into(),
            group: Some(Arc::clone(&group)),
            steps: Box::new(|| Ok(())),
        };
        // SAFETY: there are no steps.
        let started = unsafe { program.start([theirs.as_fd(); 3]) };
        drop(theirs);
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        while started.as_ref().unwrap().try_wait().unwrap().is_none() {}
        drop(group);
        assert!(said.lines().any(|it| it.starts_with("0::") && it.ends_with(&name)), "{said}");
    }
}
