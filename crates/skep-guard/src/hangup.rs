//! The terminal of this process: that it went away, and what was typed too early.

/// Forgets what was typed before now: it was meant for something that stood there before.
pub fn forget_typed() {
    // SAFETY: a number, for a descriptor of this process. Of something else than a terminal it
    // forgets nothing.
    unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
}

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
