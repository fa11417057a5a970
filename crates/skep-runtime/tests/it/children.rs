//! Engines that a killed hive left.

use skep_guard::companion::Companions;
use skep_guard::process::Job;
use skep_testkit::processes;

use crate::echo;

/// When a hive is open, and turns begin to go on, nothing of an earlier process acts any more.
#[tokio::test]
async fn engine_children_of_a_killed_hive_end_before_turns_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let children = folder.path().join("children");
    let mut left = Vec::new();
    for name in ["one", "two"] {
        let job = Job {
            program: "sh".into(),
            arguments: vec!["-c".into(), "trap '' TERM; sleep 600 & sleep 600".into()],
            directory: folder.path().to_owned(),
            environment: Vec::new(),
            input: Vec::new(),
            output_bytes: 0,
            timeout: None,
        };
        let companion = Companions::new(children.clone()).start(name, job).await.unwrap();
        left.push(companion.pid().unwrap());
        // As a kill leaves it.
        std::mem::forget(companion);
    }
    left.extend(left.clone().into_iter().flat_map(processes::children_of));
    assert!(left.iter().all(processes::exists));
    let hive = echo::hive(folder.path()).await;
    assert!(!left.iter().any(processes::exists), "{left:?}");
    assert_eq!(std::fs::read_dir(children).unwrap().count(), 0);
    drop(hive);
}
