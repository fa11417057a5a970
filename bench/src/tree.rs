//! What a process and its children cost.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Processor time of one process so far, all threads, user and system, in nanoseconds: the ticks
/// of `/proc` are longer than fifty turns.
pub fn cpu_of(process: u32) -> Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both write to the place they are given and to nothing else.
    let failed = unsafe {
        libc::clock_getcpuclockid(process as i32, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        bail!("the processor time of process {process} cannot be read");
    }
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

/// Resident memory of one process in MiB.
pub fn memory_of(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).context("no VmRSS")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}

/// Of the process and those of its descendants that live.
pub fn cpu(process: u32) -> Result<Duration> {
    Ok(descendants(process)?.into_iter().filter_map(|id| cpu_of(id).ok()).sum())
}

pub fn memory(process: u32) -> Result<f64> {
    Ok(descendants(process)?.into_iter().filter_map(|id| memory_of(id).ok()).sum())
}

fn descendants(process: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may be gone by now.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let after = stat.rsplit_once(')').map(|(_, after)| after).unwrap_or_default();
        let parent = after.split_whitespace().nth(1).and_then(|field| field.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (id, parent)));
    }
    let mut found = vec![process];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
        at += 1;
    }
    Ok(found)
}
