//! A process that keeps confined children, for tests that kill it or measure it.
//!
//! `keeper WORKSPACE COUNT [SCRIPT]`: starts them, says `ready`, and then each second which share
//! of a core its watchdog has used, in percent, and which it takes to read the same rows of the
//! process table and do nothing with them. Ends with its input. Each child runs the script first.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_guard::duplex::{DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let workspace = PathBuf::from(arguments.next().unwrap());
    let count: u32 = arguments.next().unwrap().parse().unwrap();
    let first = arguments.next().unwrap_or_else(|| ":".to_owned());
    let sandbox = Sandbox::new(Settings::new(Level::Confined, Vec::new()));
    let records = DuplexRecords::new(workspace.join("../children"));
    let room = SandboxRoom { workspace, read_only: Vec::new(), network: RoomNetwork::None };
    let mut children = Vec::new();
    for number in 0..count {
        let script = vec!["-c".into(), format!("{first} >&2; echo up; exec cat").into()];
        let program = DuplexProgram::new("bash", script);
        children.push(records.start(&number.to_string(), &sandbox, program, &room).await.unwrap());
    }
    for child in &mut children {
        assert_eq!(child.line().await.unwrap().unwrap(), b"up");
    }
    println!("ready");
    // On a thread of its own: the runtime would wait for it at the end, also after a panic.
    let (tell, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || tell.send(io::copy(&mut io::stdin(), &mut io::sink())));
    tokio::select! {
        ended = ended => {
            ended.unwrap().unwrap();
        },
        () = tell_share() => {}
    }
    for child in children {
        child.end().await.unwrap();
    }
}

async fn tell_share() {
    loop {
        let (begun, before) = (Instant::now(), watchdog_seconds());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let used = watchdog_seconds() - before;
        let share = used * 100.0 / begun.elapsed().as_secs_f64();
        println!("{share:.1} {:.1}", std::thread::spawn(bare_looks).join().unwrap() * 100.0);
    }
}

/// The processor time of as many looks as the watchdog takes in a second.
fn bare_looks() -> f64 {
    let own = Path::new("/proc/thread-self");
    let before = seconds(own);
    for _ in 0..10 {
        for entry in fs::read_dir("/proc").unwrap() {
            // Processes end meanwhile.
            let row = File::open(entry.unwrap().path().join("stat"));
            let _ = row.and_then(|mut row| row.read(&mut [0; 1024]));
        }
    }
    seconds(own) - before
}

/// Of the one thread of that name: with none or with more, there is nothing to say. A list that is
/// read while threads end may miss one that stays.
fn watchdog_seconds() -> f64 {
    let mut looks = (0..100).map(|_| watchdogs());
    looks.find(|found| found.len() == 1).unwrap()[0]
}

fn watchdogs() -> Vec<f64> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    threads
        .filter(|thread| {
            // Other threads end meanwhile.
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "skep-watchdog")
        })
        .map(|thread| seconds(&thread))
        .collect()
}

/// The processor time of a thread.
fn seconds(thread: &Path) -> f64 {
    let times = fs::read_to_string(thread.join("schedstat")).unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
