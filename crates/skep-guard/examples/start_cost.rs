//! What the start of a confined command costs the process that starts it, and its other threads:
//! `start_cost [STARTS] [RESIDENT_MIB]`. One thread writes to its memory all the while, slice by
//! slice; what a start takes from it shows in its slowest slices.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings, ShellCommand};
use tokio_util::sync::CancellationToken;

const PAGE: usize = 4096;
const WRITTEN: usize = 8 << 20;
/// Pages of one slice.
const SLICE: usize = 16;

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let (starts, resident) = (words.next().unwrap_or(200), words.next().unwrap_or(50));
    let kept = vec![1_u8; resident << 20];
    let work = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(Settings::new(Level::Confined, Vec::new()));
    let room = SandboxRoom {
        workspace: work.path().to_owned(),
        read_only: Vec::new(),
        network: RoomNetwork::None,
    };
    // The first makes the trial.
    run(&sandbox, &room).await;
    for count in [0, starts] {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || write_until(&stop)
        });
        let (begun, before, of_starter) = (Instant::now(), Used::now(), starter_seconds());
        for _ in 0..count {
            run(&sandbox, &room).await;
        }
        if count == 0 {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let used = Used::now();
        let of_starter = starter_seconds() - of_starter;
        let time = begun.elapsed();
        stop.store(true, Ordering::Relaxed);
        let mut slices = writer.join().unwrap();
        slices.sort_unstable();
        let at =
            |part: f64| slices[((slices.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        let each = |all: f64| all / count.max(1) as f64;
        println!(
            "{count} starts in {:.2} s: each {:.0} minor faults, {:.2} ms system, {:.2} ms of the \
             starting thread; slices p50 {:.0} us, p99 {:.0}, p99.9 {:.0}, p99.99 {:.0}, \
             most {:.0}",
            time.as_secs_f64(),
            each((used.faults - before.faults) as f64),
            each((used.system - before.system) * 1e3),
            each(of_starter * 1e3),
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            at(1.0),
        );
    }
    drop(kept);
}

async fn run(sandbox: &Sandbox, room: &SandboxRoom) {
    let command = ShellCommand {
        line: "true".to_owned(),
        timeout: Duration::from_secs(20),
        output_bytes: 1024,
    };
    sandbox.run(command, room, &CancellationToken::new()).await.unwrap();
}

fn write_until(stop: &AtomicBool) -> Vec<Duration> {
    let mut memory = vec![1_u8; WRITTEN];
    let mut slices = Vec::with_capacity(1 << 22);
    while !stop.load(Ordering::Relaxed) {
        for slice in memory.chunks_mut(SLICE * PAGE) {
            let begun = Instant::now();
            slice.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            slices.push(begun.elapsed());
        }
        // Others want the processor too.
        std::thread::sleep(Duration::from_micros(500));
    }
    slices
}

struct Used {
    faults: i64,
    system: f64,
}

impl Used {
    fn now() -> Self {
        // SAFETY: plain numbers, for which zero is a value; the kernel fills them.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        let system = usage.ru_stime;
        Self { faults: usage.ru_minflt, system: system.tv_sec as f64 + system.tv_usec as f64 / 1e6 }
    }
}

/// On a processor.
fn starter_seconds() -> f64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    threads
        .filter(|thread| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "skep-spawn")
        })
        .map(|thread| fs::read_to_string(thread.join("schedstat")).unwrap())
        .map(|times| times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9)
        .sum()
}
