//! A process that keeps confined children, for tests that kill it or measure it.
//!
//! `keeper WORKSPACE COUNT`: starts them, says `ready`, and answers each line of its standard input
//! with the milliseconds of the processor that its watchdog has used. Ends with its input.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::BufRead;
use std::path::PathBuf;

use skep_guard::duplex::{DuplexProgram, DuplexRecords};
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let workspace = PathBuf::from(arguments.next().unwrap());
    let count: u32 = arguments.next().unwrap().parse().unwrap();
    let sandbox = Sandbox::new(Settings::new(Level::Confined, Vec::new()));
    let records = DuplexRecords::new(workspace.join("../children"));
    let room = SandboxRoom { workspace, read_only: Vec::new() };
    let mut children = Vec::new();
    for number in 0..count {
        let script = vec!["-c".into(), "echo up; exec cat".into()];
        let program = DuplexProgram::new("bash", script);
        let mut child = records.start(&number.to_string(), &sandbox, program, &room).await.unwrap();
        assert_eq!(child.line().await.unwrap().unwrap(), b"up");
        children.push(child);
    }
    println!("ready");
    let asked = tokio::task::spawn_blocking(|| {
        for _ in std::io::stdin().lock().lines() {
            println!("{}", watchdog_milliseconds());
        }
    });
    asked.await.unwrap();
    for child in children {
        child.end().await.unwrap();
    }
}

/// Of all threads of that name: there is one.
fn watchdog_milliseconds() -> String {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let used = threads.filter_map(|thread| {
        let name = fs::read_to_string(thread.join("comm")).ok()?;
        let used = fs::read_to_string(thread.join("schedstat")).ok()?;
        let nanoseconds: u64 = used.split(' ').next()?.parse().ok()?;
        (name.trim() == "skep-watchdog").then_some((nanoseconds / 1_000_000).to_string())
    });
    used.collect::<Vec<_>>().join(" ")
}
