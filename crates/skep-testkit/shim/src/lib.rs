//! A preload library that counts, breaks and undoes what one process writes below one folder.
//!
//! It stands between a program and its file system: one counter over every write, sync, truncate,
//! unlink and rename below the watched folder; a kill before operation N; failing, slow and hung
//! syncs; failing writes; and power loss, which takes back everything that was never synced.
//! The test drives it through a shared page (`page.rs`); `skep_testkit::Shim` is the other end.
//!
//! It never touches sockets, pipes or files outside the folder, never reaches child processes
//! (it removes itself from the environment at load), and does not see writes through `mmap` or
//! by raw system calls that bypass the C library.

mod faults;
mod hooks;
mod hooks_folder;
mod journal;
mod page;
mod place;
mod power;
mod raw;
mod setup;
