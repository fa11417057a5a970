//! Limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files and sockets as it may. The soft limit of most systems is
/// a relic that a few hundred clients reach. Returns the limit now in force.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(open_files())
}

/// How many files and sockets this process can have open; nothing where that has no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// From now on this thread works when nobody else wants to.
pub fn lower_priority_of_thread() {
    // Zero is the calling thread. One that may not be lowered works as before.
    let _ = rustix::process::setpriority_process(None, 19);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files().ok(), Some(hard));
    }
}
