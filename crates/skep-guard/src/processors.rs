//! What a program in the sandbox may take of the processors beside the hive.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Threads may begin while the list of them is read; each has the processors of its maker.
const PASSES: usize = 3;

/// Held as long as the program runs.
pub(crate) enum ProcessorStanding {
    /// Its group has a share of the time. It waits for its turn when it wakes: it takes no thread's
    /// place.
    Shared,
    /// Without a share each of its processes would count as much as a thread of ours. So it runs
    /// where nothing else wants to; and because the kernel takes up to one tick of its clock to
    /// take a processor away from it, it and the hive are on different processors, where there
    /// are two.
    Last(Option<SplitProcessors>),
}

impl ProcessorStanding {
    pub fn of(shares_time: bool) -> Self {
        if shares_time { Self::Shared } else { Self::Last(SplitProcessors::begin()) }
    }

    /// What the child itself does about it.
    pub fn entrance(&self) -> ProcessorEntrance {
        match self {
            Self::Shared => ProcessorEntrance { policy: libc::SCHED_BATCH, processors: None },
            Self::Last(split) => ProcessorEntrance {
                policy: libc::SCHED_IDLE,
                processors: split.as_ref().map(|split| split.processors.commands),
            },
        }
    }
}

/// For the child, made before the start.
pub(crate) struct ProcessorEntrance {
    policy: i32,
    /// It must not choose others.
    pub processors: Option<CpuSet>,
}

impl ProcessorEntrance {
    /// For this process from now on, and all below it: bare system calls, nothing allocated. A
    /// system that refuses lets it run as before.
    pub fn enter(&self) {
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads the struct. Zero is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, self.policy, &raw const none) };
        if let Some(processors) = &self.processors {
            let _ = sched_setaffinity(None, processors);
        }
    }
}

struct Processors {
    all: CpuSet,
    hive: CpuSet,
    commands: CpuSet,
}

/// How many programs run that need it.
static RUNNING: Mutex<usize> = Mutex::new(0);

/// As long as one of these is there, the hive leaves the processors of commands alone.
pub(crate) struct SplitProcessors {
    processors: &'static Processors,
}

impl SplitProcessors {
    /// Nothing where this process has one processor only.
    fn begin() -> Option<Self> {
        let processors = Processors::of_this_process()?;
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if *running == 0 {
            move_to(&processors.hive);
        }
        *running += 1;
        Some(Self { processors })
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
        let Some(split) = SplitProcessors::begin() else {
            assert_eq!(all.map(|all| all.count()), Some(1));
            return;
        };
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
