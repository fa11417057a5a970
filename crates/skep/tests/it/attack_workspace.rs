//! Files of a workspace through the doors: what is shown, and that nothing else can be had.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::{Answer, Api};

use crate::stage::{Play, Stage};

/// The stage makes it a secret of the hive.
const SECRET: &str = "rig-key-canary-1f7c";
const MARKER: &str = "[secret:default.api_key]";
/// What lies outside of the workspace.
const CANARY: &str = "outside-canary-51";

fn work(stage: &Stage) -> PathBuf {
    stage.write("teams/main/work/notes/week.md", "# Week 47\n");
    stage.home().join("teams/main/work")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn look(api: &Api, path: &str) -> Answer {
    api.get(&format!("/api/v1/agents/main/workspace?path={}", encoded(path))).await.unwrap()
}

async fn content(api: &Api, path: &str) -> Answer {
    let path = format!("/api/v1/agents/main/workspace/content?path={}", encoded(path));
    api.get(&path).await.unwrap()
}

async fn file(play: &Play, path: &str) -> Value {
    look(&play.api(), path).await.good().unwrap()
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn refused(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.json["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn attack_workspace_folders_and_files_are_shown_as_they_are() {
    let stage = Stage::new().await;
    let work = work(&stage);
    fs::write(work.join("b.txt"), "two\nlines\n").unwrap();
    fs::write(work.join("we\nird\u{202e}.txt"), "odd").unwrap();
    fs::write(work.join(OsStr::from_bytes(b"not-\xff-text")), "x").unwrap();
    fs::write(work.join("latin.txt"), b"caf\xe9\n").unwrap();
    fs::write(work.join("data.bin"), b"\x7fELF\x00\x01").unwrap();
    fs::write(work.join("empty"), "").unwrap();
    symlink("b.txt", work.join("link")).unwrap();
    symlink(work.join("notes"), work.join("absolute")).unwrap();
    let play = stage.up().await;
    let top = play.api().get("/api/v1/agents/main/workspace").await.unwrap().good().unwrap();
    assert_eq!(top["path"], ".");
    let rows: Vec<(&str, &str)> = top["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["path"].as_str().unwrap(), row["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        ("notes", "folder"),
        ("absolute", "link"),
        ("b.txt", "file"),
        ("data.bin", "file"),
        ("empty", "file"),
        ("latin.txt", "file"),
        ("link", "link"),
        ("not-\u{fffd}-text", "other"),
        ("we\nird\u{202e}.txt", "file"),
        ("welcome.md", "file"),
    ];
    assert_eq!(rows, expected);
    let b = &top["entries"][2];
    assert_eq!(b["size"], 10);
    let modified = fs::metadata(work.join("b.txt")).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!(b["modified_at"].as_u64().map(u128::from), Some(modified));

    let b = file(&play, "b.txt").await;
    assert_eq!(
        (&b["text"], &b["size"], &b["cut"]),
        (&json!("two\nlines\n"), &json!(10), &json!(false))
    );
    assert_eq!(file(&play, "link").await["text"], "two\nlines\n");
    assert_eq!(file(&play, "we\nird\u{202e}.txt").await["text"], "odd");
    assert_eq!(file(&play, "latin.txt").await["text"], "caf\u{fffd}\n");
    assert_eq!(file(&play, "empty").await["text"], "");
    assert_eq!(file(&play, "data.bin").await["text"], Value::Null);
    // Links and whole paths lead to what a plain path leads to.
    let whole = work.canonicalize().unwrap().join("notes/week.md");
    for path in ["notes/week.md", "./notes//week.md", "absolute/week.md", whole.to_str().unwrap()] {
        let shown = look(&play.api(), path).await.good().unwrap();
        assert_eq!(shown["path"], "notes/week.md", "{path}");
        assert_eq!(shown["text"], "# Week 47\n", "{path}");
    }
    let found = play.api().get("/api/v1/agents/main/workspace?filter=WEEK").await.unwrap();
    let found = found.good().unwrap();
    assert_eq!(found["entries"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&found["entries"][0]["path"], &found["cut"]),
        (&json!("notes/week.md"), &json!(false))
    );
}

#[tokio::test]
async fn attack_workspace_paths_never_lead_out() {
    let stage = Stage::new().await;
    let work = work(&stage);
    stage.write("keys.env", &format!("OTHER={CANARY}\n"));
    stage.write("teams/plain/work/own.txt", CANARY);
    symlink("/etc/passwd", work.join("passwd")).unwrap();
    symlink("../../../keys.env", work.join("keys")).unwrap();
    symlink("../../..", work.join("up")).unwrap();
    symlink("/proc/self", work.join("self")).unwrap();
    symlink("circle", work.join("circle")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    fs::create_dir(work.join("closed")).unwrap();
    let pipe = Command::new("mkfifo").arg(work.join("pipe")).status().unwrap();
    assert!(pipe.success());
    let _socket = UnixListener::bind(work.join("socket")).unwrap();
    let play = stage.up().await;
    let keys = stage.home().join("keys.env");
    let outside = (403, "outside_workspace");
    let cases = [
        ("../config.yaml", outside),
        ("notes/../../../../keys.env", outside),
        ("..", outside),
        ("/", outside),
        ("/etc/passwd", outside),
        (keys.to_str().unwrap(), outside),
        ("passwd", outside),
        ("keys", outside),
        ("up/keys.env", outside),
        ("up/teams/plain/work/own.txt", outside),
        ("self/environ", outside),
        ("circle", (404, "bad_path")),
        ("a\0b", (404, "bad_path")),
        ("", (404, "bad_path")),
        (" ", (404, "bad_path")),
        ("pipe", (409, "not_a_regular_file")),
        ("socket", (409, "not_a_regular_file")),
        ("dangling", (404, "unknown_file")),
        ("notes/week.md/x", (404, "unknown_file")),
        ("%2e%2e/config.yaml", (404, "unknown_file")),
        ("..%2fconfig.yaml", (404, "unknown_file")),
        ("notes\\..\\..\\config.yaml", (404, "unknown_file")),
        (&"x/".repeat(3000), (414, "uri_too_long")),
        (&"x".repeat(300), (404, "bad_path")),
    ];
    for (path, expected) in cases {
        for answer in [look(&play.api(), path).await, content(&play.api(), path).await] {
            assert_eq!(refused(&answer), expected, "{path}: {}", answer.text);
            assert!(!answer.text.contains(CANARY) && !answer.text.contains("root:"), "{path}");
        }
    }
    assert_eq!(refused(&content(&play.api(), "notes").await), (409, "is_directory"));
    // As whoever types an address writes it: the dots are decoded once, and never by the path.
    for address in [
        "workspace?path=..%2F..%2F..%2Fkeys.env",
        "workspace?path=%2e%2e/%2e%2e/%2e%2e/keys.env",
        "workspace/../../../../keys.env",
        "workspace?path=notes/week.md&path=../config.yaml",
        "workspace?path=notes&folder=..",
        "workspace/content",
    ] {
        let answer = play.api().get(&format!("/api/v1/agents/main/{address}")).await.unwrap();
        assert!((400..=404).contains(&answer.status), "{address}: {}", answer.status);
        assert!(!answer.text.contains(CANARY), "{address}");
    }
    // A filter follows no link either.
    for (words, links) in [("keys", 1), ("own.txt", 0), ("passwd", 1)] {
        let path = format!("/api/v1/agents/main/workspace?filter={words}");
        let found = play.api().get(&path).await.unwrap().good().unwrap();
        let found = found["entries"].as_array().unwrap();
        assert!(found.iter().all(|row| row["kind"] == "link"), "{found:?}");
        assert_eq!(found.len(), links, "{words}");
    }
    // A hive that reads its files again makes a folder that is missing; a file in its place stays.
    while fs::write(&work, "").is_err() {
        fs::remove_dir_all(&work).unwrap();
    }
    assert_eq!(refused(&look(&play.api(), ".").await), (404, "no_workspace"));
}

#[tokio::test]
async fn attack_workspace_a_link_that_is_swapped_meanwhile_leads_nowhere() {
    let stage = Stage::new().await;
    let work = work(&stage);
    let outside = stage.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("week.md"), CANARY).unwrap();
    let play = stage.up().await;
    let ended = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (ended, work) = (Arc::clone(&ended), work.clone());
        std::thread::spawn(move || {
            symlink(&outside, work.join("other")).unwrap();
            while !ended.load(Ordering::Relaxed) {
                for (from, to) in
                    [("notes", "aside"), ("other", "notes"), ("notes", "other"), ("aside", "notes")]
                {
                    fs::rename(work.join(from), work.join(to)).unwrap();
                }
            }
        })
    };
    let api = play.api();
    let mut shown = 0;
    for _ in 0..200 {
        for answer in [look(&api, "notes/week.md").await, content(&api, "notes/week.md").await] {
            assert!(!answer.text.contains(CANARY), "{}", answer.text);
            assert!([200, 403, 404].contains(&answer.status), "{}", answer.text);
            shown += usize::from(answer.status == 200);
        }
    }
    ended.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(shown > 0, "it was never in its place");
}

#[tokio::test]
async fn attack_workspace_secrets_and_markup_do_not_reach_the_page() {
    let stage = Stage::new().await;
    let work = work(&stage);
    let half = SECRET.len() / 2;
    let filler = &"a line\n".repeat(40_000)[..(256 << 10) - half];
    fs::write(work.join(".env"), format!("KEY={SECRET}\n")).unwrap();
    fs::write(work.join("long.txt"), format!("{filler}{SECRET} and more")).unwrap();
    fs::write(work.join("dump.bin"), format!("\0\u{1}{SECRET}").as_bytes()).unwrap();
    fs::write(work.join("dump2.bin"), [&b"\x00\xff"[..], SECRET.as_bytes()].concat()).unwrap();
    let html = "<script>fetch('/api/v1/session')</script>";
    fs::write(work.join("page.html"), html).unwrap();
    fs::write(work.join("dot.svg"), format!("<svg onload='1'>{html}</svg>")).unwrap();
    fs::write(work.join("dot.png"), b"\x89PNG\r\n\x1a\n\xff rest").unwrap();
    fs::write(work.join("page.png"), html).unwrap();
    let play = stage.up().await;
    assert_eq!(file(&play, ".env").await["text"], format!("KEY={MARKER}\n"));
    assert_eq!(content(&play.api(), ".env").await.text, format!("KEY={MARKER}\n"));
    let long = file(&play, "long.txt").await;
    let text = long["text"].as_str().unwrap();
    assert_eq!(
        (&long["cut"], &long["size"]),
        (&json!(true), &json!(filler.len() + SECRET.len() + " and more".len()))
    );
    // The last word of what was cut waits for its end, which never comes.
    assert!(filler.starts_with(text) && text.len() >= filler.len() - 16, "{}", text.len());
    let saved = content(&play.api(), "long.txt").await;
    assert_eq!(saved.text, format!("{filler}{MARKER} and more"));
    assert_eq!(file(&play, "dump.bin").await["text"], Value::Null);
    assert_eq!(content(&play.api(), "dump.bin").await.text, format!("\0\u{1}{MARKER}"));
    assert_eq!(refused(&content(&play.api(), "dump2.bin").await), (409, "unreadable"));
    assert_eq!(file(&play, "dot.png").await["picture"], "image/png");
    for (name, kind, how) in [
        ("page.html", "application/octet-stream", "attachment"),
        ("dot.svg", "application/octet-stream", "attachment"),
        ("page.png", "application/octet-stream", "attachment"),
        ("dot.png", "image/png", "inline"),
    ] {
        let answer = content(&play.api(), name).await;
        assert_eq!(header(&answer, "content-type"), kind, "{name}");
        let disposition = format!("{how}; filename*=UTF-8''{name}");
        assert_eq!(header(&answer, "content-disposition"), disposition);
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff", "{name}");
        let policy = header(&answer, "content-security-policy");
        assert_eq!(policy, "default-src 'none'; sandbox", "{name}");
        assert_eq!(header(&answer, "cache-control"), "no-store", "{name}");
    }
}

#[tokio::test]
async fn attack_workspace_large_files_and_folders_are_cut_and_say_so() {
    let stage = Stage::new().await;
    let work = work(&stage);
    fs::create_dir(work.join("many")).unwrap();
    for number in 0..2500 {
        fs::write(work.join(format!("many/{number:04}.txt")), "").unwrap();
    }
    let mut huge = fs::File::create(work.join("huge.log")).unwrap();
    huge.write_all(&b"a line\n".repeat(100_000)).unwrap();
    huge.set_len(10 << 30).unwrap();
    let play = stage.up().await;
    let many = look(&play.api(), "many").await.good().unwrap();
    let names = many["entries"].as_array().unwrap();
    assert_eq!((names.len(), &many["cut"]), (1000, &json!(true)));
    assert_eq!(names[999]["path"], "many/0999.txt");
    let path = "/api/v1/agents/main/workspace?path=many&filter=2499";
    let found = play.api().get(path).await.unwrap().good().unwrap();
    assert_eq!(
        (&found["entries"][0]["path"], &found["cut"]),
        (&json!("many/2499.txt"), &json!(false))
    );
    let found = play.api().get("/api/v1/agents/main/workspace?filter=.txt").await.unwrap();
    let found = found.good().unwrap();
    assert_eq!((found["entries"].as_array().unwrap().len(), &found["cut"]), (1000, &json!(true)));
    let huge = file(&play, "huge.log").await;
    assert_eq!((&huge["size"], &huge["cut"]), (&json!(10_u64 << 30), &json!(true)));
    let shown = huge["text"].as_str().unwrap().len();
    assert!(((256 << 10) - 256..=256 << 10).contains(&shown), "{shown}");
    assert_eq!(refused(&content(&play.api(), "huge.log").await), (409, "too_large"));
}

#[tokio::test]
async fn attack_workspace_changes_of_a_conversation_are_for_whoever_sees_it() {
    let stage = Stage::new().await;
    let work = work(&stage);
    let whole = work.canonicalize().unwrap().join("prices.toml");
    let play = stage.up().await;
    let write = json!({"file_path": "prices.toml", "content": "night = 18\nbunks = 8\n"});
    let edit = json!({"file_path": whole, "old_string": "18", "new_string": "20"});
    stage.model.push_all([
        Reply::new().text("I write.").tool("write", write),
        Reply::new().tool("edit", edit).tool("read", json!({"file_path": "./prices.toml"})),
        Reply::say("Done."),
    ]);
    let made = json!({"name": "anna", "role": "user"});
    let made = play.api().post("/api/v1/tokens", &made).await.unwrap().good().unwrap();
    let anna = play.hive.api(made["token"].as_str()).unwrap();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    anna.post(path, &json!({"message": "prices"})).await.unwrap().good().unwrap();
    let mine = anna.get("/api/v1/agents/main/sessions").await.unwrap().good().unwrap();
    let session = mine["sessions"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/agents/main/sessions/{session}/changes");
    for api in [&anna, &play.api()] {
        let changes = api.get(&path).await.unwrap().good().unwrap();
        assert_eq!(changes["cut"], false);
        let [first, second] = &changes["changes"].as_array().unwrap()[..] else {
            panic!("{changes}")
        };
        assert_eq!(
            (&first["path"], &second["path"]),
            (&json!("prices.toml"), &json!("prices.toml"))
        );
        assert_eq!((&first["seq"], &second["seq"]), (&json!(2), &json!(4)));
        assert!(first["diff"].as_str().unwrap().contains("@@ -0,0 +1,2 @@\n+night = 18\n"));
        assert!(second["diff"].as_str().unwrap().contains("-night = 18\n+night = 20\n"));
    }
    // Her conversation is her own; the files of the workspace are not.
    for route in ["workspace", "workspace/content?path=prices.toml"] {
        let answer = anna.get(&format!("/api/v1/agents/main/{route}")).await.unwrap();
        assert_eq!(refused(&answer), (403, "role"));
    }
    let made = json!({"name": "bert", "role": "user"});
    let made = play.api().post("/api/v1/tokens", &made).await.unwrap().good().unwrap();
    let bert = play.hive.api(made["token"].as_str()).unwrap();
    assert_eq!(refused(&bert.get(&path).await.unwrap()), (404, "unknown_session"));
    let other = path.replace("/main/", "/plain/");
    assert_eq!(refused(&anna.get(&other).await.unwrap()), (404, "unknown_session"));
}
