//! The log of the store damaged between a kill and the next start: the hive starts with every
//! message it has answered, or refuses to start, says why, and leaves every file as it was.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::{ModelRequest, Reply, locate};

use crate::stage::Stage;

const LOG: &str = "skep.db-wal";
/// A frame of the log: a header of 24 bytes and a page.
const FRAME: usize = 24 + 4096;
const MESSAGES: usize = 30;

/// What a killed hive left in `run/`.
type Files = BTreeMap<&'static str, Vec<u8>>;

struct Killed {
    stage: Stage,
    files: Files,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Words,
    Calls,
    /// All of the log is in the database already.
    Copied,
}

impl Killed {
    /// Thirty messages are answered, then it is killed.
    async fn after(work: Work) -> Self {
        let stage = Stage::new().await;
        stage.model.answer_with(move |request: &ModelRequest| {
            match work == Work::Calls && request.last_tool_results().is_empty() {
                true => Reply::new().tool("effect", json!({"text": "once"})),
                false => Reply::say("answered"),
            }
        });
        let mut play = stage.up().await;
        for n in 0..MESSAGES {
            assert_eq!(play.ask("main", &text(n)).await["state"], "done");
        }
        if work == Work::Copied {
            let database = stage.home().join("run/skep.db");
            let copy = "PRAGMA wal_checkpoint(PASSIVE)";
            let copied = Command::new("sqlite3").arg(&database).arg(copy).output().unwrap();
            let told = String::from_utf8(copied.stdout).unwrap();
            let counts: Vec<&str> = told.trim().split('|').collect();
            assert!(counts[0] == "0" && counts[1] == counts[2], "{told}");
        }
        play.hive.kill().await.unwrap();
        let files = files(&stage);
        Self { stage, files }
    }

    fn put(&self, files: &Files) {
        let run = self.stage.home().join("run");
        for name in NAMES {
            let path = run.join(name);
            match files.get(name) {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap_or_default(),
            }
        }
        let _ = fs::remove_file(run.join("skep.db-shm"));
        let _ = fs::remove_file(run.join("clean"));
    }

    /// Whether the start was refused; otherwise all that was answered is there.
    async fn start(&self, what: &str, files: &Files) -> bool {
        self.put(files);
        let mut hive = self.stage.start().spawn().unwrap();
        if hive.wait_listening().await.is_ok() {
            let mut play = self.stage.play(hive);
            let found = said(&play.history("main", "main").await);
            assert_eq!(found, (MESSAGES, MESSAGES), "{what}");
            play.hive.kill().await.unwrap();
            return false;
        }
        let (code, told) = (hive.wait(skep_testkit::wait::PATIENCE).await.unwrap(), hive.stderr());
        assert_eq!(code.code(), Some(3), "{what}: {told}");
        for part in [
            "could not open the hive",
            "answered messages are missing",
            "nothing was changed",
            "skep up --accept-loss",
        ] {
            assert!(told.contains(part), "{what}: no `{part}` in\n{told}");
        }
        assert!(self::files(&self.stage) == *files, "{what}: a file was changed");
        true
    }
}

/// How many messages a history has, each in its place, and how many answers.
fn said(history: &[Value]) -> (usize, usize) {
    let said = |role: &'static str| {
        let rows = history.iter().filter(move |row| row["role"] == role);
        rows.map(|row| row["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    };
    let asked: Vec<String> = said("user").collect();
    let expected: Vec<String> = (0..asked.len()).map(text).collect();
    assert_eq!(asked, expected);
    (asked.len(), said("assistant").filter(|said| said == "answered").count())
}

const NAMES: [&str; 4] = ["skep.db", LOG, "store.head", "audit.head"];

fn text(n: usize) -> String {
    format!("message number {n}")
}

fn files(stage: &Stage) -> Files {
    let run = stage.home().join("run");
    let found = NAMES.iter().filter_map(|name| Some((*name, fs::read(run.join(name)).ok()?)));
    found.collect()
}

/// One way to damage a log, of so many in all.
fn damage(files: &Files, place: usize, places: usize) -> (String, Files) {
    let mut damaged = files.clone();
    let log = damaged.get_mut(LOG).unwrap();
    let frame = place * (log.len() / FRAME) / places;
    let at = 32 + frame * FRAME;
    let what = match place % 10 {
        0 => {
            log[place / 10 % 8 * 4] ^= 0x41;
            "header"
        }
        1 => {
            log[at + place / 10 % 6 * 4] ^= 1;
            "frame header"
        }
        2 | 3 => {
            log[at + 24 + 1000..at + 24 + 1064].fill(0xa5);
            "64 bytes of a page"
        }
        4 => {
            log[at..at + FRAME].fill(0);
            "a frame zeroed"
        }
        5 => {
            log.truncate(at + place % FRAME);
            "cut"
        }
        6 => {
            let last = log.len() - 1 - place % FRAME;
            log[last] ^= 1;
            "tail"
        }
        7 => {
            log.fill(0);
            "zeroed"
        }
        8 => {
            log.copy_within(32..32 + FRAME, at);
            "a frame in place of another"
        }
        _ => {
            damaged.remove(LOG);
            "removed"
        }
    };
    (format!("place {place}, {what} at frame {frame}"), damaged)
}

async fn damaged_everywhere(work: Work) {
    let places = if skep_testkit::all() { 100 } else { 10 };
    let killed = Killed::after(work).await;
    assert!(!killed.start("undamaged", &killed.files).await, "{work:?}: refused falsely");
    let mut refused = 0;
    for place in 0..places {
        let (what, files) = damage(&killed.files, place, places);
        if files != killed.files {
            refused += usize::from(killed.start(&format!("{work:?}, {what}"), &files).await);
        }
    }
    println!("{work:?}: {refused} of {places} damages refused");
    assert!(refused * 10 >= places * 7, "{work:?}: {refused} of {places} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_damaged_log_is_refused_or_costs_nothing() {
    tokio::join!(
        damaged_everywhere(Work::Words),
        damaged_everywhere(Work::Calls),
        damaged_everywhere(Work::Copied)
    );
}

#[tokio::test]
async fn fault_the_loss_of_a_damaged_log_is_accepted_and_named() {
    let killed = Killed::after(Work::Calls).await;
    let mut files = killed.files.clone();
    let log = files.get_mut(LOG).unwrap();
    let middle = 32 + log.len() / FRAME / 2 * FRAME + 100;
    log[middle..middle + 64].fill(0xa5);
    assert!(killed.start("the middle", &files).await);
    let stage = &killed.stage;
    let doctor = Start::new(&locate::rig().unwrap(), stage.home()).argument("doctor");
    let told = doctor.env("RIG_KEY", "key-of-the-rig").finish().await.unwrap();
    assert!(told.stdout.contains("answered messages are missing"), "{told:?}");

    let play = stage.run(stage.start().argument("--accept-loss")).await;
    let told = play.hive.stderr();
    for part in ["missing: events (seq) ", "messages (ord) ", "run/damaged-"] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }
    let copies = fs::read_dir(stage.home().join("run")).unwrap().map(|entry| entry.unwrap().path());
    let mut copies = copies.filter(|path| path.display().to_string().contains("run/damaged-"));
    let copy = copies.next().unwrap();
    for name in ["skep.db", LOG, "store.head"] {
        assert!(fs::read(copy.join(name)).unwrap() == files[name], "{name}");
    }
    let (kept, _) = said(&play.history("main", "main").await);
    assert!(0 < kept && kept < MESSAGES, "{kept}");
    assert_eq!(play.ask("main", &text(kept)).await["state"], "done");
    let mut play = play;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(said(&play.history("main", "main").await).0, kept + 1);
}
