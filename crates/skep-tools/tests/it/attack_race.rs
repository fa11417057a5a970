//! Folders and files that turn into links and back while the tools work on them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::lab::{call, context, tool};

const CANARY: &str = "canary-77ab01";
/// Together 10^5 tries.
const TRIES: [(&str, usize); 5] =
    [("read", 40_000), ("write", 10_000), ("edit", 10_000), ("glob", 20_000), ("grep", 20_000)];

/// Exchanges a folder and a file with links over and over until it is dropped. Their folders are
/// held by handle: by path the swapper itself could carry the canary inside.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(work: &Path) -> Self {
        let (outer, inner) =
            (fs::File::open(work).unwrap(), fs::File::open(work.join("dir")).unwrap());
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            let swap = |folder: &fs::File, one: &str, two: &str| {
                renameat_with(folder, one, folder, two, RenameFlags::EXCHANGE).unwrap();
            };
            while !stopped.load(Ordering::Relaxed) {
                swap(&outer, "dir", "dir-link");
                if counted.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                    swap(&inner, "file", "file-link");
                }
                std::thread::yield_now();
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn arguments(name: &str, number: usize) -> Value {
    match name {
        "read" => json!({"file_path": "dir/file"}),
        "write" => json!({"file_path": "dir/file", "content": format!("inside {number}\n")}),
        "edit" => {
            let words = ["inside", "within"];
            let (old, new) = (words[number % 2], words[(number + 1) % 2]);
            json!({"file_path": "dir/file", "old_string": old, "new_string": new})
        }
        // From above the swapped folder and from inside it.
        "glob" => {
            json!({"pattern": "*", "path": if number.is_multiple_of(2) { "." } else { "dir" }})
        }
        _ => json!({"pattern": "", "path": if number.is_multiple_of(2) { "." } else { "dir" }}),
    }
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn attack_by_swapped_links_never_reaches_the_canary() {
    // In memory where there is such a place: a write is synced, and a disk would take minutes.
    let memory = Path::new("/dev/shm");
    let home = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let work = home.path().join("work");
    let outside = home.path().join("outside");
    fs::create_dir_all(work.join("dir")).unwrap();
    fs::create_dir(&outside).unwrap();
    for name in ["file", "only-outside"] {
        fs::write(outside.join(name), format!("{CANARY}\n")).unwrap();
    }
    fs::write(work.join("dir/file"), "inside\n").unwrap();
    symlink("../outside", work.join("dir-link")).unwrap();
    symlink("../../outside/file", work.join("dir/file-link")).unwrap();
    let before = contents(&outside);

    let swapper = Swapper::start(&work);
    let begun = Instant::now();
    for (name, tries) in TRIES {
        let tool = tool(name);
        let (mut done, mut refused) = (0, 0);
        for number in 0..tries {
            let answer = call(tool.as_ref(), arguments(name, number), context(&work)).await;
            assert!(!answer.text.contains(CANARY), "{name} {number}: {answer:?}");
            assert!(!answer.text.contains("only-outside"), "{name} {number}: {answer:?}");
            if answer.is_error {
                refused += 1
            } else {
                done += 1
            }
            if number.is_multiple_of(1000) {
                assert!(begun.elapsed() < Duration::from_secs(600), "{name} at {number}");
            }
        }
        assert!(done > 0 && refused > 0, "{name}: {done} done, {refused} refused: no race");
    }
    assert!(swapper.swaps.load(Ordering::Relaxed) > 100_000, "too few swaps for a race");
    drop(swapper);
    assert_eq!(contents(&outside), before);
    let left =
        fs::read_dir(work.join("dir")).or_else(|_| fs::read_dir(work.join("dir-link"))).unwrap();
    assert!(left.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(".tmp")));
}
