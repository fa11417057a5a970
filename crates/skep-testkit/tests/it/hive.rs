//! The process harness and the HTTP client, on stand-ins for the program.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use skep_testkit::hive::Start;
use skep_testkit::http::Api;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::PATIENCE;
use skep_testkit::{locate, processes, wait};
use tempfile::TempDir;

/// Written by another process: a child that is started here meanwhile would have it open for
/// writing, and nobody could execute it.
fn script(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("program");
    let write = r##"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""##;
    let written = Command::new("sh").args(["-c", write]).arg(&path).arg(text).status().unwrap();
    assert!(written.success());
    path
}

fn home(folder: &TempDir) -> PathBuf {
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    home
}

#[tokio::test]
async fn waits_for_the_listening_line_and_kills_with_children() {
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("mark-{}", folder.path().display());
    let text = "echo starting; sleep 600 & echo listening on http://127.0.0.1:4711; wait";
    let start = Start::up(&script(&folder, text), &home(&folder)).env("TEST_MARK", &mark);
    let mut hive = start.listening().await.unwrap();
    assert_eq!(hive.url().unwrap(), "http://127.0.0.1:4711");
    let children = hive.children();
    assert_eq!(children.len(), 1);
    let mut family = processes::alive(&mark);
    family.retain(|process| *process != hive.process());
    assert_eq!(family, children);
    assert!(hive.is_running());
    drop(hive);
    processes::wait_gone(&children, PATIENCE).await.unwrap();
    wait::until_true("no process with the mark", PATIENCE, || processes::alive(&mark).is_empty())
        .await
        .unwrap();
}

#[tokio::test]
async fn says_what_went_wrong_when_the_program_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(&folder, "echo the port is taken >&2; exit 1");
    let home = home(&folder);
    let error = Start::up(&program, &home).listening().await.err().unwrap();
    assert!(format!("{error:#}").contains("the port is taken"));
    let finished = Start::up(&program, &home).finish().await.unwrap();
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), "the port is taken\n"));
}

#[tokio::test]
async fn gives_arguments_and_a_clean_environment() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    let program = script(&folder, "echo $@; echo $SKEP_HOME; env | grep -c CARGO");
    let finished = Start::up(&program, &home).finish().await.unwrap();
    let home = home.display();
    assert_eq!(finished.stdout, format!("up --home {home} --port 0\n{home}\n0\n"));
}

#[tokio::test]
async fn signals_reach_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    let polite =
        script(&folder, "trap 'exit 7' TERM; echo listening on x; while :; do sleep 0.01; done");
    let mut hive = Start::up(&polite, &home).listening().await.unwrap();
    hive.terminate().unwrap();
    assert_eq!(hive.wait(PATIENCE).await.unwrap().code(), Some(7));
    let mut hive = Start::up(&polite, &home).listening().await.unwrap();
    hive.kill().await.unwrap();
    assert!(hive.terminate().is_err(), "a collected process is never signalled");
    let mut hive = Start::up(&polite, &home).listening().await.unwrap();
    hive.pause().unwrap();
    hive.terminate().unwrap();
    assert!(hive.wait(Duration::from_millis(100)).await.is_err());
    hive.resume().unwrap();
    hive.wait(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn runs_a_program_under_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    let shim = Shim::new(&home).unwrap();
    shim.prepare(End::Kill(1)).unwrap();
    // The probe reads its operations from standard input, which is empty here: it just ends.
    let probe = locate::shim_probe().unwrap();
    let finished = Start::new(&probe, &home).shim(&shim).finish().await.unwrap();
    assert_eq!(finished.code, Some(0));
    assert!(shim.loaded().unwrap());
    // A shell that writes below the home is killed at its first write.
    let sh = Path::new("/bin/sh");
    let mut shell = Start::new(sh, &home)
        .argument("-c")
        .argument(format!("echo x > {}/a", home.display()))
        .shim(&shim)
        .spawn()
        .unwrap();
    assert_eq!(shell.wait(PATIENCE).await.unwrap().signal(), Some(9));
    assert_eq!(fs::read(home.join("a")).unwrap(), b"");
}

#[tokio::test]
async fn speaks_http_over_tcp_and_unix_sockets() {
    use axum::response::sse::{Event, Sse};
    use axum::{Json, Router, http::HeaderMap, routing};
    let events = || async {
        let events =
            ["one", "two"].map(|data| Ok::<_, String>(Event::default().id("7").data(data)));
        Sse::new(futures_util::stream::iter(events))
    };
    let echo = |headers: HeaderMap, Json(body): Json<serde_json::Value>| async move {
        let token = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        Json(json!({ "token": token, "body": body }))
    };
    let router =
        Router::new().route("/echo", routing::post(echo)).route("/events", routing::get(events));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.sock");
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unix = tokio::net::UnixListener::bind(&path).unwrap();
    let base = format!("http://{}", tcp.local_addr().unwrap());
    let other = router.clone();
    let servers = [
        tokio::spawn(async move { axum::serve(tcp, router).await.unwrap() }),
        tokio::spawn(async move { axum::serve(unix, other).await.unwrap() }),
    ];
    let over_tcp = Api::tcp(&base, Some("secret")).unwrap();
    let answer = over_tcp.post("/echo", &json!([1])).await.unwrap().good().unwrap();
    assert_eq!(answer, json!({ "token": "Bearer secret", "body": [1] }));
    let over_unix = Api::unix(&path).unwrap();
    let answer = over_unix.post("/echo", &json!([2])).await.unwrap().good().unwrap();
    assert_eq!(answer, json!({ "token": null, "body": [2] }));
    assert_eq!(over_unix.get("/nowhere").await.unwrap().status, 404);
    let mut stream = over_tcp.events("/events").await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!((first.id.as_deref(), first.data.as_str()), (Some("7"), "one"));
    assert_eq!(stream.next().await.unwrap().unwrap().data, "two");
    assert_eq!(stream.next().await.unwrap(), None);
    servers.iter().for_each(|server| server.abort());
}
