use skep_guard::lock::{InstanceLock, LockError, Look};

#[test]
fn the_second_holder_learns_the_pid_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    let first = InstanceLock::acquire(&path).unwrap();
    let refused = InstanceLock::acquire(&path).unwrap_err();
    assert!(matches!(refused, LockError::Held { holder } if holder == Some(std::process::id())));
    assert_eq!(
        refused.to_string(),
        format!("another process (pid {}) already serves this home", std::process::id())
    );
    drop(first);
    InstanceLock::acquire(&path).unwrap();
}

#[test]
fn a_lock_that_cannot_be_made_names_its_path() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("missing").join("lock");
    let refused = InstanceLock::acquire(&path).unwrap_err().to_string();
    assert!(refused.contains("missing/lock"), "{refused}");
}

#[test]
fn a_look_keeps_the_lock_free_and_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    std::fs::write(&path, "17\n").unwrap();
    let look = Look::take(&path).unwrap();
    Look::take(&path).unwrap();
    let (waits, begun) = std::sync::mpsc::channel();
    let serving = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            waits.send(()).unwrap();
            InstanceLock::acquire(&path)
        });
        begun.recv().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "17\n", "a look writes nothing");
        drop(look);
        server.join().unwrap().unwrap()
    });
    assert!(matches!(Look::take(&path), Err(LockError::Held { holder: Some(_) })));
    std::fs::remove_file(&path).unwrap();
    let refused = InstanceLock::acquire(&path);
    assert!(
        matches!(refused, Err(LockError::Held { .. })),
        "whoever removes the file gets nothing"
    );
    drop(serving);
    InstanceLock::acquire(&path).unwrap();
}

#[test]
fn attack_a_link_in_place_of_the_file_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let (path, precious) = (home.path().join("lock"), home.path().join("precious"));
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &path).unwrap();
    let refused = InstanceLock::acquire(&path).unwrap_err();
    assert!(matches!(refused, LockError::Io { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}
