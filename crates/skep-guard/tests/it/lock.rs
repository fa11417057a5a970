use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_guard::lock::{InstanceLock, LockError, Look};

fn lock_in(home: &Path) -> PathBuf {
    let run = home.join("run");
    std::fs::create_dir(&run).unwrap();
    run.join("lock")
}

#[test]
fn the_second_holder_learns_the_pid_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let path = lock_in(home.path());
    let first = InstanceLock::acquire(home.path(), &path).unwrap();
    let refused = InstanceLock::acquire(home.path(), &path).unwrap_err();
    assert!(matches!(refused, LockError::Held { holder } if holder == Some(std::process::id())));
    assert_eq!(
        refused.to_string(),
        format!("another process (pid {}) already serves this home", std::process::id())
    );
    drop(first);
    InstanceLock::acquire(home.path(), &path).unwrap();
}

#[test]
fn a_lock_that_cannot_be_made_names_its_path() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("missing").join("lock");
    let refused = InstanceLock::acquire(home.path(), &path).unwrap_err().to_string();
    assert!(refused.contains("missing/lock"), "{refused}");
}

#[test]
fn a_look_keeps_the_lock_free_and_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let path = lock_in(home.path());
    std::fs::write(&path, "17\n").unwrap();
    let look = Look::take(home.path(), &path).unwrap();
    Look::take(home.path(), &path).unwrap();
    let (waits, begun) = std::sync::mpsc::channel();
    let serving = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            waits.send(()).unwrap();
            InstanceLock::acquire(home.path(), &path)
        });
        begun.recv().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "17\n", "a look writes nothing");
        drop(look);
        server.join().unwrap().unwrap()
    });
    assert!(matches!(Look::take(home.path(), &path), Err(LockError::Held { holder: Some(_) })));
    std::fs::remove_file(&path).unwrap();
    let refused = InstanceLock::acquire(home.path(), &path);
    assert!(
        matches!(refused, Err(LockError::Held { .. })),
        "whoever removes the file gets nothing"
    );
    drop(serving);
    acquired_again(home.path(), &path);
}

#[test]
fn attack_a_link_in_place_of_the_file_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let (path, precious) = (lock_in(home.path()), home.path().join("precious"));
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &path).unwrap();
    let refused = InstanceLock::acquire(home.path(), &path).unwrap_err();
    assert!(matches!(refused, LockError::Io { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn the_folder_of_the_file_removed_or_moved_opens_the_way_to_nobody() {
    let home = tempfile::tempdir().unwrap();
    let path = lock_in(home.path());
    let run = home.path().join("run");
    let serving = InstanceLock::acquire(home.path(), &path).unwrap();
    std::fs::rename(&run, home.path().join("away")).unwrap();
    std::fs::create_dir(&run).unwrap();
    let refused = InstanceLock::acquire(home.path(), &path).unwrap_err();
    assert!(matches!(refused, LockError::Held { .. }), "{refused}");
    let refused = Look::take(home.path(), &path).unwrap_err();
    assert!(matches!(refused, LockError::Held { .. }), "{refused}");
    drop(serving);
    acquired_again(home.path(), &path);
}

/// A child that another test forks meanwhile has the file open until its exec.
fn acquired_again(home: &Path, path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Err(error) = InstanceLock::acquire(home, path) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::yield_now();
    }
}
