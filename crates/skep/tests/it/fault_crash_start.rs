//! The first start ended at any of its file operations, migrations included: the next one works,
//! and the home looks as if nothing had happened.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use skep_testkit::hive::Start;
use skep_testkit::shim::{End, Shim};
use skep_testkit::{Hive, locate};

use crate::fault_crash_journal::Journal;

/// Every file of a home but those of the running program, and `run/` itself.
fn files(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut next = vec![home.to_owned()];
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(home).unwrap().display().to_string();
        // Written by a thread of its own: a kill right after an answer may come before its line.
        if name.starts_with("run/logs/") {
            continue;
        }
        let of_run = name.starts_with("run/") && !name.starts_with("run/schema/");
        let content = if of_run { Vec::new() } else { fs::read(&path).unwrap_or_default() };
        found.insert(name, content);
    }
    found
}

/// A bare folder is started, up to where `end` says; then it is started again and asked.
/// Gives the operations of the first start and what the home holds in the end.
async fn started_twice(end: End) -> (u64, BTreeMap<String, Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let skep = locate::skep().unwrap();
    let shim = Shim::new(&home).unwrap();
    shim.prepare(end).unwrap();
    let mut first = Start::up(&skep, &home).shim(&shim).spawn().unwrap();
    if first.wait_listening().await.is_ok() {
        if end == End::Never {
            first.wait_ready().await.unwrap();
        }
        // The point may lie just behind the line that says where it listens.
        if first.is_running() {
            first.kill().await.unwrap();
        }
    }
    assert!(!first.is_running(), "{end:?}");
    assert_eq!(shim.untracked().unwrap(), 0, "{end:?}");
    let count = shim.count().unwrap();
    let second = Start::up(&skep, &home).listening().await;
    let mut second = second.unwrap_or_else(|error| panic!("{end:?}: {error:#}"));
    let api = second.socket_api().unwrap();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let answer = api.post(path, &json!({"message": "hello"})).await.unwrap().good().unwrap();
    assert_eq!(answer["state"], "done", "{end:?}");
    // Whichever of the two showed the operator token: it opens the hive.
    let shown = |hive: &Hive| {
        let said = hive.stdout();
        Some(said.split_once("shown this once: ")?.1.lines().next()?.to_owned())
    };
    let token = shown(&second).or_else(|| shown(&first));
    let tokens = second.api(token.as_deref()).unwrap().get("/api/v1/tokens").await.unwrap();
    assert_eq!(tokens.status, 200, "{end:?}: {token:?} {}", tokens.text);
    second.kill().await.unwrap();
    assert_eq!(Journal::of(&home).left(), Vec::<&serde_json::Value>::new(), "{end:?}");
    (count, files(&home))
}

async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let (whole, expected) = started_twice(End::Never).await;
    assert!(expected.contains_key("teams/main/work/welcome.md"), "{:?}", expected.keys());
    let points = points.min(whole);
    let at = |point: u64| 1 + point * whole / points;
    let ran = stream::iter(0..points).map(async |point| {
        let end = end(at(point));
        (end, started_twice(end).await.1)
    });
    let ran: Vec<_> = ran.buffer_unordered(3).collect().await;
    for (end, found) in ran {
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "{end:?}");
        assert!(found == expected, "{end:?}: a file has another content");
    }
    println!("{points} points over the {whole} operations of a first start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_killed_at_any_operation_is_taken_up_by_the_next() {
    let points = if skep_testkit::all() { u64::MAX } else { 30 };
    sweep(points, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_loses_power_is_taken_up_by_the_next() {
    let points = if skep_testkit::all() { u64::MAX } else { 15 };
    sweep(points, |at| End::PowerLoss { at, seed: if at % 2 == 0 { 0 } else { at } }).await;
}
