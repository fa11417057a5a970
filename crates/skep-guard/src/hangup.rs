//! The signal of a terminal that went away.

/// Started by somebody like `nohup`, who wants this process to stay when the terminal goes.
pub fn is_ignored() -> bool {
    // SAFETY: all zeroes are a valid sigaction; without a new action the call only tells the
    // present one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let told = libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut now);
        told == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}
