//! This program once more, in the background: apart from the terminal and the process that
//! started it, with the environment it was started with.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::descriptors;

/// Starts this executable with other arguments. It outlives the caller.
pub fn again(
    arguments: &[OsString],
    directory: &Path,
    stdout: File,
    stderr: File,
) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    // SAFETY: bare system calls, async-signal-safe; nothing is allocated or locked.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            descriptors::keep_from_children()
        });
    }
    command.spawn()
}
