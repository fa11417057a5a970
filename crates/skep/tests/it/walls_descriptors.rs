//! A hive that was started with open descriptors: none of them reaches a command.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::hive::Start;
use skep_testkit::locate;

use crate::stage::{Play, Stage};

async fn bash(stage: &Stage, play: &Play, line: &str) -> String {
    stage.model.push_all([Reply::call("bash", json!({"command": line})), Reply::say("done")]);
    assert_eq!(play.ask("main", "go").await["state"], "done");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

/// A folder, a file, a socket and a pipe, as a careless supervisor leaves them open. All programs
/// that this process starts get them.
fn inheritable(stage: &Stage) -> Vec<OwnedFd> {
    let run = stage.home().join("run");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("canary"), "canary").unwrap();
    let (socket, other) = UnixStream::pair().unwrap();
    let (out, into) = std::io::pipe().unwrap();
    let handles: Vec<OwnedFd> = vec![
        File::open(&run).unwrap().into(),
        File::open(run.join("canary")).unwrap().into(),
        socket.into(),
        other.into(),
        out.into(),
        into.into(),
    ];
    for handle in &handles {
        fcntl_setfd(handle, FdFlags::empty()).unwrap();
    }
    handles
}

#[tokio::test]
async fn walls_let_no_descriptor_of_the_hive_in() {
    let stage = Stage::new().await;
    let handles = inheritable(&stage);
    let mut play = stage.up().await;
    let said = bash(&stage, &play, "for each in /proc/$$/fd/*; do echo ${each##*/}; done").await;
    // The fourth is the folder that the shell reads to name them.
    assert_eq!(said, "0\n1\n2\n3\n[exit code 0]");
    for handle in &handles {
        let number = handle.as_raw_fd();
        let line = format!("cat /proc/self/fd/{number}/canary <&{number}; echo x >&{number}");
        let said = bash(&stage, &play, &line).await;
        assert_eq!(said.matches("Bad file descriptor").count(), 2, "{said}");
    }
    // On the host a command has all rights of the hive, and still none of its descriptors.
    stage.write(
        "teams/main/config.yaml",
        "allowed_tools: [bash]\nsandbox: {level: host}\npolicy:\n  - {effect: allow, tool: bash}\n",
    );
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let said = bash(&stage, &play, "for each in /proc/$$/fd/*; do echo ${each##*/}; done").await;
    assert_eq!(said, "0\n1\n2\n3\n[exit code 0]");
}

/// The same program on a kernel that was told not to close anything.
#[tokio::test]
async fn walls_without_the_closing_are_named_and_nothing_runs() {
    let stage = Stage::new().await;
    let handles = inheritable(&stage);
    let doctor = Start::new(&locate::rig().unwrap(), stage.home())
        .env("RIG_UNCLOSED", "1")
        .env("RIG_KEY", "rig-key-canary-1f7c")
        .argument("doctor")
        .argument("--json");
    let told = doctor.finish().await.unwrap();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    let down: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["about"] == "wall" && finding["grade"] != "ok")
        .map(|finding| finding["text"].as_str().unwrap())
        .collect();
    let [named] = down[..] else { panic!("{told:#}") };
    assert!(named.starts_with("descriptors: inherited from the hive: "), "{named}");
    let numbers: Vec<&str> = named.rsplit(": ").next().unwrap().split(' ').collect();
    for handle in &handles {
        assert!(numbers.contains(&handle.as_raw_fd().to_string().as_str()), "{named}");
    }
    let play = stage.run(stage.start().env("RIG_UNCLOSED", "1")).await;
    let said = bash(&stage, &play, "touch ran").await;
    assert!(said.starts_with("sandbox_down: "), "{said}");
    assert!(said.contains("descriptors: inherited from the hive: "), "{said}");
    assert!(said.contains("The command was not run. It needs a kernel"), "{said}");
    assert!(!stage.home().join("teams/main/work/ran").exists());
}
