//! Limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files and sockets as it may. The soft limit of most systems is
/// a relic that a few hundred clients reach. Returns the limit now in force.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(getrlimit(Resource::Nofile).current)
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
