//! How much of the disk a folder takes, and what was last measured.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::sync::watch;

use crate::limits;

/// Folders within folders. Each level holds a handle.
const DEEPEST: usize = 128;
/// Names; more take inodes as floods take bytes.
const MOST_NAMES: u64 = 2_000_000;
/// By how much a folder that is full may grow: every redirection makes a file, and folders take
/// room for the names in them.
const MORE_BYTES: u64 = 16 << 20;
const MORE_NAMES: u64 = 10_000;

/// What a folder takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub bytes: u64,
    pub names: u64,
    /// It has more folders within folders or more names than are looked at.
    pub endless: bool,
}

/// Measures a folder, and stops once there are more than `most` bytes. Links are not followed and
/// other file systems not entered. A file with several names counts in parts for each of them. What
/// cannot be read or vanishes meanwhile is passed over.
pub fn of(path: &Path, most: u64) -> io::Result<Size> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let device = rustix::fs::fstat(&folder)?.st_dev;
    let mut walk = Walk { most, device, size: Size { bytes: 0, names: 0, endless: false } };
    walk.folder(folder, 0)?;
    Ok(walk.size)
}

struct Walk {
    most: u64,
    device: u64,
    size: Size,
}

impl Walk {
    fn folder(&mut self, folder: rustix::fd::OwnedFd, depth: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(&folder)? {
            if self.size.bytes > self.most || self.size.endless {
                return Ok(());
            }
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let found = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            let Ok(status) = found else { continue };
            if status.st_dev != self.device {
                continue;
            }
            self.size.names += 1;
            self.size.endless = self.size.names > MOST_NAMES;
            let bytes = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512);
            if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
                self.size.bytes += bytes / names_of(&status);
                continue;
            }
            self.size.bytes += bytes;
            if depth >= DEEPEST {
                self.size.endless = true;
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(inner) = rustix::fs::openat(&folder, name, flags, Mode::empty()) {
                // One that cannot be listed holds nothing that we could count.
                let _ = self.folder(inner, depth + 1);
            }
        }
        Ok(())
    }
}

/// How many names a file has; a number of 32 bits on some machines.
#[allow(clippy::useless_conversion)]
fn names_of(status: &rustix::fs::Stat) -> u64 {
    u64::from(status.st_nlink).max(1)
}

/// What folders took when they were last measured. The measuring is done by threads that give way
/// to all others; whoever wants to know waits for the one under way.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    measured: Mutex<HashMap<PathBuf, watch::Receiver<Option<Size>>>>,
    /// Of those that are full, the least they took since they are.
    full: Mutex<HashMap<PathBuf, Size>>,
}

/// What may be done to a folder of limited size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Left,
    /// It can only be made smaller.
    Full,
    /// It grew all the same, or nobody can say how much it takes: no file may be made either.
    Closed,
}

impl Sizes {
    /// What a folder takes that may take `most` bytes, and what may be done to it. One that was
    /// full is measured anew: somebody may have made room.
    pub async fn look(&self, path: &Path, most: u64) -> (Option<Size>, Space) {
        let space = |size: Option<Size>| size.map_or(Space::Left, |it| self.space(path, it, most));
        let known = self.known(path).await;
        if space(known) == Space::Left {
            return (known, Space::Left);
        }
        self.measure(path);
        let now = self.known(path).await;
        (now, space(now))
    }

    /// As it was last measured, or as it is now where it never was. Nothing where that failed.
    async fn known(&self, path: &Path) -> Option<Size> {
        let known = self.measured.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        let mut size = match known {
            Some(size) => size,
            None => self.measure(path),
        };
        let size = size.wait_for(Option::is_some).await;
        size.ok().and_then(|size| *size)
    }

    /// What a folder of this size may still take, where it may take `most` bytes.
    fn space(&self, path: &Path, size: Size, most: u64) -> Space {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        if !size.endless && size.bytes <= most {
            full.remove(path);
            return Space::Left;
        }
        let least = full.entry(path.to_path_buf()).or_insert(size);
        (least.bytes, least.names) = (least.bytes.min(size.bytes), least.names.min(size.names));
        let grew = size.bytes - least.bytes > MORE_BYTES || size.names - least.names > MORE_NAMES;
        if size.endless || grew { Space::Closed } else { Space::Full }
    }

    /// Begins to measure it anew.
    pub fn measure(&self, path: &Path) -> watch::Receiver<Option<Size>> {
        let (done, size) = watch::channel(None);
        let mut sizes = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.insert(path.to_path_buf(), size.clone());
        drop(sizes);
        let path = path.to_path_buf();
        let measure = move || {
            limits::lower_priority_of_thread(limits::LOWEST_PRIORITY);
            // Without an answer the channel closes, which says that nothing is known.
            if let Ok(size) = of(&path, u64::MAX) {
                let _ = done.send(Some(size));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("size".to_owned()).spawn(measure) {
            tracing::warn!(%error, "a workspace cannot be measured");
        }
        size
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_measured_by_what_it_takes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("folder");
        fs::create_dir_all(path.join("a/b")).unwrap();
        let empty = of(&path, u64::MAX).unwrap().bytes;
        fs::write(path.join("a/b/one"), vec![1; 1 << 20]).unwrap();
        fs::File::create(path.join("hole")).unwrap().set_len(1 << 40).unwrap();
        fs::hard_link(path.join("a/b/one"), path.join("second")).unwrap();
        // Neither is what leads elsewhere.
        fs::write(place.path().join("other"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(place.path(), path.join("link")).unwrap();
        let size = of(&path, u64::MAX).unwrap();
        let grown = size.bytes - empty;
        assert!((1 << 20..(1 << 20) + 32_768).contains(&grown), "{grown}");
        assert!(!size.endless);
        assert!(of(&path, 4096).unwrap().bytes > 4096);
        assert!(of(&path.join("link"), 1).is_err());
    }

    #[test]
    fn folders_without_end_are_not_followed_to_it() {
        let place = tempfile::tempdir().unwrap();
        let mut path = place.path().to_path_buf();
        for _ in 0..DEEPEST {
            path.push("d");
        }
        fs::create_dir_all(path).unwrap();
        assert!(!of(place.path(), u64::MAX).unwrap().endless);
        fs::create_dir_all(place.path().join("d/".repeat(DEEPEST + 1))).unwrap();
        assert!(of(place.path(), u64::MAX).unwrap().endless);
    }

    #[tokio::test]
    async fn what_is_being_measured_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let sizes = Sizes::default();
        let before = sizes.known(place.path()).await.unwrap();
        fs::write(place.path().join("file"), vec![1; 1 << 20]).unwrap();
        assert_eq!(sizes.known(place.path()).await, Some(before));
        sizes.measure(place.path());
        let after = sizes.known(place.path()).await.unwrap();
        assert!(after.bytes >= before.bytes + (1 << 20), "{before:?} {after:?}");
        assert_eq!(sizes.known(Path::new("/nowhere")).await, None);
    }

    #[tokio::test]
    async fn a_full_folder_is_measured_anew() {
        let place = tempfile::tempdir().unwrap();
        let sizes = Sizes::default();
        let look = || sizes.look(place.path(), 1 << 20);
        let file = place.path().join("file");
        fs::write(&file, vec![1; 2 << 20]).unwrap();
        assert_eq!(look().await.1, Space::Full);
        fs::remove_file(file).unwrap();
        assert_eq!(look().await.1, Space::Left);
    }

    #[test]
    fn a_full_folder_that_grows_is_closed_until_it_is_smaller() {
        let (sizes, path) = (Sizes::default(), Path::new("/w"));
        let size = |mib: u64, names| Size { bytes: mib << 20, names, endless: false };
        let endless = Size { endless: true, ..size(1, 1) };
        let story = [
            (size(100, 10), Space::Left),
            (size(120, 10), Space::Full),
            (size(136, 10_010), Space::Full),
            (size(136, 10_011), Space::Closed),
            (size(137, 10), Space::Closed),
            (size(110, 10), Space::Full),
            // Room that was made in between is no room to grow.
            (size(127, 10), Space::Closed),
            (size(50, 10), Space::Left),
            (size(137, 50_000), Space::Full),
            (endless, Space::Closed),
        ];
        for (size, expected) in story {
            assert_eq!(sizes.space(path, size, 100 << 20), expected, "{size:?}");
        }
    }
}
