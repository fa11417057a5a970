//! This program once more, in the background: apart from the terminal and the process that
//! started it, with the environment it was started with.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::descriptors;
use crate::process::start::ChildProgram;
pub use crate::process::start::Process;

/// Starts this executable with other arguments. It outlives the caller.
pub fn again(
    arguments: &[OsString],
    directory: &Path,
    stdout: File,
    stderr: File,
) -> io::Result<Process> {
    let program = ChildProgram {
        path: std::env::current_exe()?.into(),
        arguments: arguments.to_vec(),
        directory: directory.to_owned(),
        environment: std::env::vars_os().collect(),
        group: None,
        steps: Box::new(|| {
            rustix::process::setsid()?;
            descriptors::keep_from_children()
        }),
    };
    let nothing = File::open("/dev/null")?;
    // SAFETY: the steps are bare system calls; nothing is allocated or locked.
    unsafe { program.start([nothing.as_fd(), stdout.as_fd(), stderr.as_fd()]) }
}
