use skep_guard::lock::{InstanceLock, LockError};

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
