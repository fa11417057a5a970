//! Ways to make a full workspace larger without writing into a file.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::ptr;

use crate::escaped;

const MAPPED: usize = 16 << 20;

/// What it is called, and whether it made something.
type Way = (&'static str, fn(u32) -> bool);

pub fn grow() {
    let ways: [Way; 8] = [
        ("a folder", |number| fs::create_dir(grown(number)).is_ok()),
        ("a link", |number| symlink("x".repeat(1000), grown(number)).is_ok()),
        ("a second name", |number| fs::hard_link("hostile", grown(number)).is_ok()),
        ("a pipe", |number| {
            let path = std::ffi::CString::new(grown(number)).unwrap();
            // SAFETY: a path that ends.
            unsafe { libc::mkfifo(path.as_ptr(), 0o600) == 0 }
        }),
        ("a socket", |number| UnixListener::bind(grown(number)).is_ok()),
        ("an attribute", |_| {
            let value = [1_u8; 3000];
            let (path, name) = (c"hostile".as_ptr(), c"user.grown".as_ptr());
            // SAFETY: constants and a local buffer of its own length.
            unsafe { libc::setxattr(path, name, value.as_ptr().cast(), value.len(), 0) == 0 }
        }),
        ("a mapped file", |_| mapped(libc::PROT_READ | libc::PROT_WRITE)),
        ("a file mapped to be read", |_| mapped(libc::PROT_READ)),
    ];
    for (what, way) in ways {
        let made = (0..100).filter(|number| way(*number)).count();
        if made > 0 {
            escaped(&format!("grew by {what}, {made} times"));
        }
    }
}

fn grown(number: u32) -> String {
    format!("grown-{number}")
}

/// Writes into a hole of a file that was there before.
fn mapped(first: libc::c_int) -> bool {
    let file = fs::OpenOptions::new().read(true).write(true).open("sparse").unwrap();
    // SAFETY: a mapping of a file that is as long; nobody else uses it.
    unsafe {
        let fd = file.as_raw_fd();
        let at = libc::mmap(ptr::null_mut(), MAPPED, first, libc::MAP_SHARED, fd, 0);
        if at == libc::MAP_FAILED {
            return false;
        }
        if libc::mprotect(at, MAPPED, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        ptr::write_bytes(at.cast::<u8>(), 1, MAPPED);
        libc::msync(at, MAPPED, libc::MS_SYNC);
        libc::munmap(at, MAPPED);
    }
    true
}

/// Files without content.
pub fn names(count: u32) {
    let made = (0..count).filter(|number| fs::File::create(format!("empty-{number}")).is_ok());
    println!("made {} names", made.count());
}
