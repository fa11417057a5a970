//! Engines that a killed hive left.

use skep_guard::duplex::{DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};
use skep_testkit::processes;

use crate::echo;

/// When a hive is open, and turns begin to go on, nothing of an earlier process acts any more.
#[tokio::test]
async fn engine_children_of_a_killed_hive_end_before_turns_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let children = folder.path().join("children");
    let sandbox = Sandbox::new(Settings::new(Level::Host, Vec::new()));
    let room = SandboxRoom {
        workspace: folder.path().to_owned(),
        read_only: Vec::new(),
        network: RoomNetwork::None,
    };
    let records = DuplexRecords::new(children.clone());
    let mut left = Vec::new();
    for name in ["one", "two"] {
        let script = vec!["-c".into(), "trap '' TERM; sleep 600 & sleep 600".into()];
        let program = DuplexProgram::new("sh", script);
        let child = records.start(name, &sandbox, program, &room).await.unwrap();
        left.push(child.pid());
        // As a kill leaves it.
        std::mem::forget(child);
    }
    left.extend(left.clone().into_iter().flat_map(processes::children_of));
    assert!(left.iter().all(processes::exists));
    let hive = echo::hive(folder.path()).await;
    assert!(!left.iter().any(processes::exists), "{left:?}");
    assert_eq!(std::fs::read_dir(children).unwrap().count(), 0);
    drop(hive);
}
