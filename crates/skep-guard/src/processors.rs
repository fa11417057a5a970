//! Processors of the hive and processors of commands. The kernel takes up to one tick of its clock
//! to take a processor away from a command that has no share of its own; so while one of those
//! runs, it and the hive are on different processors.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Threads may begin while the list of them is read; each has the processors of its maker.
const PASSES: usize = 3;

struct Processors {
    all: CpuSet,
    hive: CpuSet,
    commands: CpuSet,
}

/// How many commands run that need it.
static RUNNING: Mutex<usize> = Mutex::new(0);

/// As long as one of these is there, the hive leaves the processors of commands alone.
pub(crate) struct SplitProcessors {
    processors: &'static Processors,
}

impl SplitProcessors {
    /// Nothing where this process has one processor only.
    pub fn begin() -> Option<Self> {
        let processors = Processors::of_this_process()?;
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if *running == 0 {
            move_to(&processors.hive);
        }
        *running += 1;
        Some(Self { processors })
    }

    pub fn of_commands(&self) -> CpuSet {
        self.processors.commands
    }
}

impl Drop for SplitProcessors {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        *running -= 1;
        if *running == 0 {
            move_to(&self.processors.all);
        }
    }
}

impl Processors {
    /// As it was started, and a quarter of them, one at least, for the hive.
    fn of_this_process() -> Option<&'static Self> {
        static PROCESSORS: OnceLock<Option<Processors>> = OnceLock::new();
        let split = || sched_getaffinity(None).ok().and_then(Self::split);
        PROCESSORS.get_or_init(split).as_ref()
    }

    fn split(all: CpuSet) -> Option<Self> {
        let count = all.count() as usize;
        if count < 2 {
            return None;
        }
        let (mut hive, mut commands) = (CpuSet::new(), CpuSet::new());
        let own = (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor));
        for (index, processor) in own.enumerate() {
            let part = if index < count.div_ceil(4) { &mut hive } else { &mut commands };
            part.set(processor);
        }
        Some(Self { all, hive, commands })
    }
}

/// Every thread of this process. Where the kernel refuses, it stays where it is.
fn move_to(processors: &CpuSet) {
    let mut moved = 0;
    for _ in 0..PASSES {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let threads: Vec<Pid> = threads.filter_map(Pid::from_raw).collect();
        for thread in &threads {
            let _ = sched_setaffinity(Some(*thread), processors);
        }
        if threads.len() == std::mem::replace(&mut moved, threads.len()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(count: usize) -> CpuSet {
        let mut set = CpuSet::new();
        (0..count).for_each(|processor| set.set(processor));
        set
    }

    #[test]
    fn a_quarter_of_the_processors_is_the_hives() {
        assert!(Processors::split(first(1)).is_none());
        for (all, hive) in [(2, 1), (3, 1), (4, 1), (5, 2), (8, 2), (64, 16)] {
            let split = Processors::split(first(all));
            let counts = split.map(|it| (it.hive, it.commands.count() as usize));
            assert_eq!(counts, Some((first(hive), all - hive)), "{all}");
        }
    }

    #[test]
    fn the_hive_has_all_processors_again_when_the_last_command_ends() {
        let all = sched_getaffinity(None).ok();
        let Some(split) = SplitProcessors::begin() else { return };
        let second = SplitProcessors::begin();
        let hive = Some(split.processors.hive);
        assert_eq!(sched_getaffinity(None).ok(), hive);
        assert_eq!(std::thread::spawn(|| sched_getaffinity(None).ok()).join().ok(), Some(hive));
        drop(split);
        assert_eq!(sched_getaffinity(None).ok(), hive);
        drop(second);
        assert_eq!(sched_getaffinity(None).ok(), all);
    }
}
