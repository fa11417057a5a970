//! Watches what whole process trees take, where the kernel only limits each process. One thread
//! reads the process table once for all of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::cgroup::Group;
use crate::process_table::{self, Marks, Members, ProcessRow};
use crate::{limits, size};

/// How often the trees are measured. What is taken in between is the overshoot.
const EVERY: Duration = Duration::from_millis(100);
/// The next look, where the memory of some tree grew by a tenth of what it may take since the last.
const SOON: Duration = Duration::from_millis(20);
/// A tree in which nothing has run is measured at every so many looks all the same.
const QUIET_LOOKS: u32 = 10;

/// The most a tree may take together.
#[derive(Debug, Clone)]
pub(crate) struct Ceiling {
    pub memory_bytes: u64,
    pub processes: usize,
    /// Open descriptors of all processes: each costs memory of the kernel that is counted nowhere.
    pub descriptors: u64,
    /// How much may be written while the disk of `folder` fills by as much.
    pub disk_bytes: u64,
    /// What must stay free on that disk.
    pub floor_bytes: u64,
    pub folder: PathBuf,
    /// What the folder took before.
    pub folder_bytes: u64,
    /// Where the kernel counts too.
    pub group: Option<Arc<Group>>,
}

/// What the kernel tells of a large process or folder takes it long: a third of what turns get.
const BELOW_TURNS: i32 = 5;

/// How often the folder is measured although the disk does not fill.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Sockets in the tree's own network namespace. What lies in one is memory that no process has:
/// up to 208 KiB each for all kinds but TCP, whose queues are looked at.
const MOST_SOCKETS: u64 = 256;
const MOST_STREAMS: u64 = 4096;
/// With fewer, their queues are not worth a look.
const FEW_STREAMS: u64 = 8;

/// Files a tree may leave on the disk, by which small ones cannot use up its inodes.
const NEW_FILES: u64 = 500_000;

#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: u64,
    /// For those who are not root.
    usable: u64,
    files: u64,
}

/// Ends when the tree takes too much, and says of what.
pub(crate) async fn excess(ceiling: Option<Ceiling>, members: Arc<Mutex<Members>>) -> &'static str {
    let Some(ceiling) = ceiling else { return std::future::pending().await };
    let (told, excess) = oneshot::channel();
    let _ = WATCHDOG.send(WatchedTree::new(ceiling, members, told));
    match excess.await {
        Ok(what) => what,
        // Without the thread each process has its own limits and nothing else.
        Err(_) => std::future::pending().await,
    }
}

static WATCHDOG: LazyLock<mpsc::Sender<WatchedTree>> = LazyLock::new(|| {
    let (sender, trees) = mpsc::channel();
    let begun = std::thread::Builder::new().name("skep-watchdog".to_owned());
    if let Err(error) = begun.spawn(move || watch(&trees)) {
        tracing::warn!(%error, "no watchdog");
    }
    sender
});

fn watch(new: &mpsc::Receiver<WatchedTree>) {
    limits::lower_priority_of_thread(BELOW_TURNS);
    let (mut trees, mut marks) = (Vec::new(), Marks::default());
    loop {
        if trees.is_empty() {
            let Ok(first) = new.recv() else { return };
            trees.push(first);
        }
        let grows = trees.iter().any(|tree: &WatchedTree| tree.grows);
        std::thread::sleep(if grows { SOON } else { EVERY });
        trees.extend(new.try_iter());
        // One that has ended is waited for by nobody.
        trees.retain(|tree: &WatchedTree| !tree.told.is_closed());
        let taken = look(&mut trees, &mut marks);
        // From the last: each removal moves what comes after it.
        for (index, what) in taken.into_iter().enumerate().rev() {
            if let Some(what) = what {
                let _ = trees.swap_remove(index).told.send(what);
            }
        }
    }
}

/// Of each tree what it takes too much of.
fn look(trees: &mut [WatchedTree], marks: &mut Marks) -> Vec<Option<&'static str>> {
    let mut taken = vec![None; trees.len()];
    if trees.is_empty() {
        return taken;
    }
    let held: Vec<Arc<Mutex<Members>>> = trees.iter().map(|it| Arc::clone(&it.members)).collect();
    // One that is locked is being ended.
    let mut free: Vec<(usize, MutexGuard<'_, Members>)> = held
        .iter()
        .enumerate()
        .filter_map(|(index, members)| match members.try_lock() {
            Ok(members) => Some((index, members)),
            Err(TryLockError::Poisoned(members)) => Some((index, members.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        })
        .collect();
    let mut members: Vec<&mut Members> =
        free.iter_mut().map(|(_, members)| &mut **members).collect();
    let alive = marks.alive(&mut members, process_table::scan());
    for (index, alive) in free.into_iter().map(|(index, _)| index).zip(alive) {
        taken[index] = trees[index].excess(&alive);
    }
    taken
}

/// A tree and what was found when it was looked at before.
struct WatchedTree {
    ceiling: Arc<Ceiling>,
    members: Arc<Mutex<Members>>,
    /// Closed when nobody wants to know any more.
    told: oneshot::Sender<&'static str>,
    /// When it began.
    before: Option<Free>,
    folder: FolderLook,
    /// Which processes there were, with the time they had used.
    work: u64,
    quiet_looks: u32,
    memory: u64,
    /// Its memory, since the last look.
    grows: bool,
}

impl WatchedTree {
    fn new(
        ceiling: Ceiling,
        members: Arc<Mutex<Members>>,
        told: oneshot::Sender<&'static str>,
    ) -> Self {
        let (before, folder) = (free(&ceiling), FolderLook::first(&ceiling));
        let ceiling = Arc::new(ceiling);
        Self {
            ceiling,
            members,
            told,
            before,
            folder,
            work: 0,
            quiet_looks: 0,
            memory: 0,
            grows: false,
        }
    }

    fn excess(&mut self, alive: &[ProcessRow]) -> Option<&'static str> {
        let now = free(&self.ceiling);
        if now.is_some_and(|now| now.usable < self.ceiling.floor_bytes) {
            return Some("disk");
        }
        self.grows = false;
        if !self.is_quiet(alive) {
            let memory = sum(alive, resident);
            self.grows = memory.saturating_sub(self.memory) > self.ceiling.memory_bytes / 10;
            self.memory = memory;
            if let Some(what) = taken(&self.ceiling, alive, memory) {
                return Some(what);
            }
        }
        let (before, now) = (self.before?, now?);
        let gone = before.bytes.saturating_sub(now.bytes);
        let most = self.ceiling.disk_bytes;
        // Others use the disk too: it counts what is gone and was written by this tree. What a
        // process wrote that nobody waited for is found in the folder only.
        let filled = (gone > most && sum(alive, written) > most)
            || self.folder.finds_too_much(&self.ceiling, alive, gone);
        let files = before.files.saturating_sub(now.files) > NEW_FILES;
        (filled || files).then_some("disk")
    }

    /// A tree in which nothing has run has taken nothing.
    fn is_quiet(&mut self, alive: &[ProcessRow]) -> bool {
        let mut hasher = DefaultHasher::new();
        alive.iter().for_each(|row| (row.pid, row.started, row.used).hash(&mut hasher));
        let work = hasher.finish();
        if work == self.work && self.quiet_looks + 1 < QUIET_LOOKS {
            self.quiet_looks += 1;
            return true;
        }
        (self.work, self.quiet_looks) = (work, 0);
        false
    }
}

/// What else than the disk it takes too much of.
fn taken(ceiling: &Ceiling, alive: &[ProcessRow], seen: u64) -> Option<&'static str> {
    if ceiling.group.as_ref().is_some_and(|group| group.ran_out()) {
        return Some("memory");
    }
    if alive.len() > ceiling.processes {
        return Some("processes");
    }
    let sockets = alive.iter().find_map(Sockets::of).unwrap_or_default();
    if sockets.others > MOST_SOCKETS || sockets.streams > MOST_STREAMS {
        return Some("sockets");
    }
    // Pages that several processes share are counted for each of them here, so a sum that is too
    // large is taken again in the slow and exact way. Tables are nobody else's, and long ones are
    // what makes it slow.
    let memory = ceiling.memory_bytes.saturating_sub(sockets.queued);
    if seen > memory && (sum(alive, tables) > memory || sum(alive, proportional) > memory) {
        return Some("memory");
    }
    (sum(alive, descriptors) > ceiling.descriptors).then_some("open files")
}

fn sum(alive: &[ProcessRow], measure: fn(&ProcessRow) -> u64) -> u64 {
    alive.iter().map(measure).fold(0, u64::saturating_add)
}

/// When the folder is measured next: that takes long, so a thread of its own does it.
struct FolderLook {
    /// Once the disk has filled by this much.
    gone: u64,
    /// At the latest then, for others may empty the disk as fast as this tree fills it.
    at: Instant,
    /// When the one that is under way began, and what it will find.
    under_way: Option<(Instant, mpsc::Receiver<u64>)>,
}

impl FolderLook {
    fn first(ceiling: &Ceiling) -> Self {
        Self { gone: ceiling.disk_bytes, at: Instant::now() + LOOK_EVERY, under_way: None }
    }

    /// Whether the folder, with files of the tree that have no name any more, took more than it
    /// may.
    fn finds_too_much(&mut self, ceiling: &Arc<Ceiling>, alive: &[ProcessRow], gone: u64) -> bool {
        let most = ceiling.folder_bytes.saturating_add(ceiling.disk_bytes);
        if let Some((begun, found)) = self.under_way.take() {
            match found.try_recv() {
                Ok(named) => {
                    self.gone = gone.saturating_add(ceiling.disk_bytes / 4);
                    // At most a fiftieth of the time.
                    self.at = Instant::now() + LOOK_EVERY.max(begun.elapsed() * 50);
                    return named.saturating_add(nameless(alive)) > most;
                }
                Err(mpsc::TryRecvError::Empty) => self.under_way = Some((begun, found)),
                // No thread: it is tried again.
                Err(mpsc::TryRecvError::Disconnected) => {}
            }
        } else if gone > self.gone || Instant::now() >= self.at {
            let (done, found) = mpsc::channel();
            let ceiling = Arc::clone(ceiling);
            let measure = move || {
                limits::lower_priority_of_thread(BELOW_TURNS);
                let size = size::of(&ceiling.folder, most);
                let _ = done.send(size.map_or(0, |size| size.bytes));
            };
            let _ = std::thread::Builder::new().name("skep-folder".to_owned()).spawn(measure);
            self.under_way = Some((Instant::now(), found));
        }
        false
    }
}

/// Bytes of files that were removed and are still open.
fn nameless(alive: &[ProcessRow]) -> u64 {
    let mut files = HashMap::new();
    let folders =
        alive.iter().filter_map(|row| std::fs::read_dir(format!("/proc/{}/fd", row.pid)).ok());
    for handle in folders.flatten().flatten() {
        if let Ok(file) = std::fs::metadata(handle.path())
            && file.is_file()
            && file.nlink() == 0
        {
            files.insert((file.dev(), file.ino()), file.blocks().saturating_mul(512));
        }
    }
    files.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

fn free(ceiling: &Ceiling) -> Option<Free> {
    let disk = rustix::fs::statvfs(&ceiling.folder).ok()?;
    Some(Free {
        bytes: disk.f_bfree.saturating_mul(disk.f_frsize),
        usable: disk.f_bavail.saturating_mul(disk.f_frsize),
        files: disk.f_ffree,
    })
}

/// The tables of pages count: a mapping that is only read has nothing else.
fn resident(row: &ProcessRow) -> u64 {
    lines(row, "status", &["RssAnon:", "RssShmem:", "VmPTE:"]).unwrap_or(0).saturating_mul(1024)
}

fn proportional(row: &ProcessRow) -> u64 {
    let Some(kilobytes) = lines(row, "smaps_rollup", &["Pss_Anon:", "Pss_Shmem:"]) else {
        return resident(row);
    };
    kilobytes.saturating_mul(1024).saturating_add(tables(row))
}

fn tables(row: &ProcessRow) -> u64 {
    lines(row, "status", &["VmPTE:"]).unwrap_or(0).saturating_mul(1024)
}

fn descriptors(row: &ProcessRow) -> u64 {
    let folder = format!("/proc/{}/fd", row.pid);
    match std::fs::metadata(&folder).map(|folder| folder.len()) {
        // Linux before 6.2 does not count them for us.
        Ok(0) => std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
        Ok(count) => count,
        Err(_) => 0,
    }
}

/// Sockets of a network namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sockets {
    /// TCP, those that nobody has accepted included.
    streams: u64,
    others: u64,
    /// Bytes on their way between streams, with what the kernel needs around them.
    queued: u64,
}

impl Sockets {
    /// Nothing for a process in our own namespace: bubblewrap outside of its walls.
    fn of(row: &ProcessRow) -> Option<Self> {
        let namespace = |process: &dyn std::fmt::Display| {
            std::fs::read_link(format!("/proc/{process}/ns/net")).ok()
        };
        if namespace(&row.pid)? == namespace(&"self")? {
            return None;
        }
        let read = |file| std::fs::read_to_string(format!("/proc/{}/net/{file}", row.pid)).ok();
        let mut sockets = Self::counted(&read("protocols")?);
        if sockets.streams > FEW_STREAMS {
            let queued = ["tcp", "tcp6"].map(|file| queued(&read(file).unwrap_or_default()));
            sockets.queued = queued.iter().fold(0, |sum, bytes| sum.saturating_add(2 * bytes));
        }
        Some(sockets)
    }

    /// `TCPv6     2496      3       2   no     320   yes  kernel      y  y  y`
    fn counted(protocols: &str) -> Self {
        let mut sockets = Self::default();
        for line in protocols.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(Ok(count))) = (words.next(), words.nth(1).map(str::parse::<u64>))
            else {
                continue;
            };
            match name {
                "TCP" | "TCPv6" => sockets.streams += count,
                _ => sockets.others += count,
            }
        }
        sockets
    }
}

/// `   0: 0100007F:1F90 0100007F:D431 01 00000000:00027F00 …`: to be sent and to be read.
fn queued(table: &str) -> u64 {
    let queues = table.lines().skip(1).filter_map(|line| {
        let (sent, read) = line.split_ascii_whitespace().nth(4)?.split_once(':')?;
        let bytes = |text| u64::from_str_radix(text, 16).ok();
        // In a listener they count connections, which are few and harmless as bytes.
        Some(bytes(sent)? + bytes(read)?)
    });
    queues.fold(0, u64::saturating_add)
}

/// By the process and by all children it has waited for.
fn written(row: &ProcessRow) -> u64 {
    lines(row, "io", &["write_bytes:"]).unwrap_or(0)
}

/// The sum of some lines of a file in `/proc/PID`.
fn lines(row: &ProcessRow, file: &str, names: &[&str]) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", row.pid)).ok()?;
    let values = text.lines().filter_map(|line| {
        let value = names.iter().find_map(|name| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Some(values.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_table;

    fn watched(ceiling: Ceiling) -> WatchedTree {
        let own = Members::new(process_table::own_pid(), "of nobody".to_owned());
        WatchedTree::new(ceiling, Arc::new(Mutex::new(own)), oneshot::channel().0)
    }

    fn endless() -> Ceiling {
        Ceiling {
            memory_bytes: u64::MAX,
            processes: usize::MAX,
            descriptors: u64::MAX,
            disk_bytes: u64::MAX,
            floor_bytes: 0,
            folder: PathBuf::from("/"),
            folder_bytes: 0,
            group: None,
        }
    }

    #[test]
    fn a_disk_that_is_nearly_full_ends_what_runs() {
        let floors = [0, u64::MAX];
        let mut trees = floors.map(|floor_bytes| watched(Ceiling { floor_bytes, ..endless() }));
        assert_eq!(look(&mut trees, &mut Marks::default()), [None, Some("disk")]);
    }

    #[test]
    fn a_tree_that_is_being_ended_is_left_alone() {
        let mut trees = [watched(Ceiling { floor_bytes: u64::MAX, ..endless() })];
        let members = Arc::clone(&trees[0].members);
        let ending = members.lock();
        assert_eq!(look(&mut trees, &mut Marks::default()), [None]);
        drop(ending);
        assert_eq!(look(&mut trees, &mut Marks::default()), [Some("disk")]);
    }

    #[test]
    fn a_tree_that_does_nothing_is_measured_now_and_then() {
        let mut tree = watched(endless());
        let row = process_table::read_row(process_table::own_pid());
        let mut alive: Vec<ProcessRow> = row.into_iter().collect();
        let looks = |tree: &mut WatchedTree, alive: &[ProcessRow]| {
            (0..QUIET_LOOKS + 1).filter(|_| !tree.is_quiet(alive)).count()
        };
        assert_eq!(looks(&mut tree, &alive), 2);
        alive[0].used += 1;
        assert!(!tree.is_quiet(&alive));
    }

    #[test]
    fn sockets_are_counted_by_kind_and_queues_are_added_up() {
        let protocols = "protocol  size sockets  memory press maxhdr  slab module     cl co\n\
                         UNIX      1152      2      -1   NI       0   yes  kernel      y  y\n\
                         UNIX-STREAM 1152   40      -1   NI       0   yes  kernel      y  y\n\
                         TCPv6     2496      3       2   no     320   yes  kernel      y  y\n\
                         UDP       1344      1       0   NI       0   yes  kernel      y  y\n\
                         TCP       2368     10       2   no     320   yes  kernel      y  y\n";
        let expected = Sockets { streams: 13, others: 43, queued: 0 };
        assert_eq!(Sockets::counted(protocols), expected);
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
                     \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 0\n\
                     \x20  1: 0100007F:1F90 0100007F:D431 01 00000100:00027F00 00:00000000 0\n";
        assert_eq!(queued(table), 1 + 0x100 + 0x2_7f00);
        assert_eq!(queued("cut"), 0);
    }
}
