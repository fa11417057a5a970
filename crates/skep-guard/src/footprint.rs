//! What this process takes from its machine.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub resident_bytes: u64,
    /// Files, sockets and pipes.
    pub open_files: u64,
}

/// Nothing where the system does not tell.
pub fn now() -> Footprint {
    Footprint { resident_bytes: resident_bytes(), open_files: open_files().unwrap_or(0) }
}

/// As in [`now`], for whoever asks often.
pub fn resident_bytes() -> u64 {
    resident().unwrap_or(0)
}

fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

fn open_files() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // The folder that is being read is open too.
    u64::try_from(entries.count()).ok()?.checked_sub(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_something() {
        let footprint = now();
        assert!(footprint.resident_bytes > 1 << 20, "{footprint:?}");
        assert!(footprint.open_files >= 3, "{footprint:?}");
    }
}
