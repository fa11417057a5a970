//! Memory of this process that nobody needs at the moment.

/// Of Rust and of the C that is linked in, SQLite above all: the system's own took a quarter of a
/// turn's time with many sessions at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hands freed memory back to the system. The allocator keeps what it once had for a while: without
/// this a burst of clients is paid for until the process ends. Takes milliseconds; not for a
/// runtime's own threads.
pub fn give_back() {
    // SAFETY: it moves nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Lets go of the program's own code as it lies in memory. Much of it ran once, at the start; what
/// runs again comes back from the system's cache of the file, a few pages at a time.
pub fn let_go_of_code() {
    #[cfg(target_os = "linux")]
    for (start, length) in code() {
        // SAFETY: the range is one mapping of this program's file that can be run and not be
        // written: none of its pages differs from the file, which is where they come back from.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// Where the code of this program lies, and how long it is.
#[cfg(target_os = "linux")]
fn code() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return Vec::new() };
    let program = program.to_string_lossy();
    maps.lines().filter_map(|line| code_of(line, &program)).collect()
}

/// `5581e0a00000-5581e20d1000 r-xp 00749000 fe:00 1835021    /usr/bin/skep`
#[cfg(target_os = "linux")]
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()? != "r-xp" || words.nth(3)?.trim_start() != program {
        return None;
    }
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(all(test, target_os = "linux"))]
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

    #[test]
    fn the_code_of_this_program_is_let_go_and_comes_back() {
        let here = code_of as *const () as usize;
        let code = code();
        assert!(code.iter().any(|(start, length)| (*start..start + length).contains(&here)));
        let before = resident_pages();
        let_go_of_code();
        let after = resident_pages();
        assert!(after < before, "{before} pages, {after} afterwards");
        assert_eq!(code_of("7f00-7f10 r--p 0 fe:00 1    /bin/x", "/bin/x"), None);
        assert_eq!(code_of("7f00-7f10 r-xp 0 fe:00 1    /bin/y", "/bin/x"), None);
        assert_eq!(code_of("7f00-7f10 r-xp 0 fe:00 1    /bin/x", "/bin/x"), Some((0x7f00, 16)));
    }
}
