//! Memory of this process that is free again.

/// Hands freed memory back to the system. The allocator keeps what it once had: without this a
/// burst of clients is paid for until the process ends. Takes milliseconds; not for a runtime's
/// own threads.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn resident_pages() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_a_burst_leaves_behind_is_given_back() {
        let burst: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 4096]).collect();
        let at_most = resident_pages();
        // Survivors in between are what keeps the allocator from shrinking by itself.
        let kept: Vec<_> = burst.into_iter().step_by(64).collect();
        give_back();
        let left = resident_pages();
        assert!(left + 10_000 < at_most, "{at_most} pages, {left} afterwards");
        assert_eq!(kept.len(), 313);
    }
}
