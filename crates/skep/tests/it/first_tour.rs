//! `skep tour`: what a newcomer is shown, how long it takes, and what is left of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use skep_testkit::hive::{Finished, Start};
use skep_testkit::{Hive, Terminal, locate};

use crate::stage::Stage;

const LONGEST: Duration = Duration::from_secs(120);

/// A person without a hive, and a folder for temporary files that is nobody else's.
struct Newcomer {
    folder: tempfile::TempDir,
}

impl Newcomer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["user", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn command(&self, program: &Path, words: &[&str]) -> Start {
        let start = Start::new(program, &self.home())
            .env("HOME", self.folder.path().join("user"))
            .env("TMPDIR", self.folder.path().join("tmp"));
        words.iter().fold(start, |start, word| start.argument(*word))
    }

    fn skep(&self, words: &[&str]) -> Start {
        self.command(&locate::skep().unwrap(), words)
    }

    async fn run(&self, words: &[&str]) -> Finished {
        self.skep(words).finish().await.unwrap()
    }

    /// What stands in the three folders.
    fn left(&self) -> Vec<PathBuf> {
        let folders = ["user", "tmp", "home"].map(|name| self.folder.path().join(name));
        let entries = folders.iter().flat_map(fs::read_dir).flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// As the docs have it: `…` for the link, the ids and the folders, which are others each time.
fn as_in_docs(shown: &str) -> String {
    let word = |word: &str| {
        let plain = word.trim_end_matches([',', '.']);
        if plain.starts_with("http://") {
            word.replace(plain, "http://…")
        } else if plain.len() == 36 && plain.matches('-').count() == 4 {
            word.replace(plain, "…")
        } else if let Some((_, rest)) = plain.split_once("/skep-tour-") {
            let inside = rest.split_once('/').map_or_else(String::new, |(_, it)| format!("/{it}"));
            word.replace(plain, &format!("/tmp/skep-tour-…{inside}"))
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    shown.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn first_tour_shows_a_team_at_work_and_leaves_nothing() {
    let newcomer = Newcomer::new();
    let began = Instant::now();
    let shown = newcomer.run(&["tour", "--yes"]).await;
    assert_eq!(shown.code, Some(0), "{}{}", shown.stdout, shown.stderr);
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    assert_eq!(shown.stderr, "");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, block) = docs.split_once("```text\n").unwrap();
    let (expected, _) = block.split_once("\n```").unwrap();
    let home = newcomer.home().display().to_string();
    assert_eq!(as_in_docs(&shown.stdout).replace(&home, "…"), expected);
    assert_eq!(newcomer.left(), Vec::<PathBuf>::new());
}

/// Presses keys as a person does who reads; what was shown.
async fn play(terminal: &mut Terminal, answer: &str, decision: &str) -> String {
    for prompt in ["dashboard, this link", "skep agent new --template support --name tour"] {
        terminal.sees(prompt).await.unwrap();
        terminal.sees("Enter goes on").await.unwrap();
        terminal.press("\r").unwrap();
    }
    terminal.sees("answered elsewhere):").await.unwrap();
    terminal.press(answer).unwrap();
    terminal.sees("decided elsewhere):").await.unwrap();
    terminal.press(decision).unwrap();
    terminal.sees("Enter ends the tour").await.unwrap();
    terminal.everything()
}

#[tokio::test]
async fn first_tour_does_what_the_person_decides() {
    let newcomer = Newcomer::new();
    let began = Instant::now();
    // So wide that no line is wrapped.
    let mut terminal = newcomer.skep(&["tour"]).on_terminal(200, 100).unwrap();
    let shown = play(&mut terminal, "\r2\r", "\rmaybe\rn\r").await;
    for line in [
        "1  return it now",
        "it still waits for you",
        "you: ask for the bank statement first",
        "maybe is none of these",
        "you: denied",
        "tour: tour-writer on order 1207: There is a draft, drafts/order-1207.md, and no reply: ",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // What the agents did can be looked at before it ends.
    let temporary = fs::read_dir(newcomer.folder.path().join("tmp")).unwrap().next();
    let home = temporary.unwrap().unwrap().path();
    let files = home.join("teams/tour/work");
    let draft = fs::read_to_string(files.join("drafts/order-1207.md")).unwrap();
    assert!(draft.contains("ask for the bank statement first"), "{draft}");
    assert!(!files.join("replies/order-1207.md").exists());
    terminal.press("\r").unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    assert!(terminal.screen().contains("nothing is left of it"), "{}", terminal.screen());
    assert_eq!(newcomer.left(), Vec::<PathBuf>::new());
}

async fn names(hive: &Hive) -> Vec<Value> {
    let listed = hive.socket_api().unwrap().get("/api/v1/agents").await.unwrap().good().unwrap();
    listed["agents"].as_array().unwrap().iter().map(|agent| agent["name"].clone()).collect()
}

#[tokio::test]
async fn first_tour_uses_the_hive_that_runs_and_removes_its_agents() {
    let newcomer = Newcomer::new();
    let up = newcomer.skep(&["up", "--port", "0"]);
    let mut hive = up.listening().await.unwrap();
    let shown = newcomer.run(&["tour", "--yes"]).await;
    assert_eq!(shown.code, Some(0), "{}{}", shown.stdout, shown.stderr);
    let place = format!("the one that runs in {}", newcomer.home().display());
    for line in [place.as_str(), "Removed again: tour, tour-finder, tour-writer.\n"] {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
    assert_eq!(names(&hive).await, ["main"]);
    // What they said is found by the command that it prints.
    let found = shown.stdout.lines().find(|line| line.contains(" history show id:"));
    let words: Vec<&str> = found.unwrap().split_whitespace().collect();
    let at = words.iter().position(|word| *word == "history").unwrap();
    let history = newcomer.run(&words[at..]).await;
    assert_eq!(history.code, Some(0), "{}", history.stderr);
    assert!(history.stdout.contains("tour-writer on order 1207: "), "{}", history.stdout);
    let gone = newcomer.run(&["history", "show", "tour", "--session", "tour"]).await;
    let removed = format!("One that was removed is `{}`.", words[at + 2]);
    assert!(gone.stderr.contains(&removed), "{}", gone.stderr);
    let teams = fs::read_dir(newcomer.home().join("teams")).unwrap();
    assert_eq!(teams.map(|it| it.unwrap().file_name()).collect::<Vec<_>>(), ["main"]);
    // The same name belongs to somebody: nothing of theirs is touched.
    assert_eq!(newcomer.run(&["agent", "new", "tour"]).await.code, Some(0));
    let refused = newcomer.run(&["tour", "--yes"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("the agent tour is there already"), "{}", refused.stderr);
    assert_eq!(names(&hive).await, ["main", "tour"]);
    assert_eq!(newcomer.run(&["down"]).await.code, Some(0));
    hive.wait(LONGEST).await.unwrap();
}

#[tokio::test]
async fn first_tour_that_is_stopped_leaves_nothing() {
    let newcomer = Newcomer::new();
    let mut terminal = newcomer.skep(&["tour"]).on_terminal(100, 100).unwrap();
    terminal.sees("Enter goes on").await.unwrap();
    terminal.press("\x03").unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(1));
    assert!(terminal.screen().contains("it was stopped"), "{}", terminal.screen());
    assert_eq!(newcomer.left(), Vec::<PathBuf>::new());
    // With a hive that runs its agents go.
    let mut hive = newcomer.skep(&["up", "--port", "0"]).listening().await.unwrap();
    let mut terminal = newcomer.skep(&["tour"]).on_terminal(100, 100).unwrap();
    terminal.sees("Enter goes on").await.unwrap();
    assert_eq!(names(&hive).await.len(), 4);
    terminal.press("\x03").unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(1));
    assert_eq!(names(&hive).await, ["main"]);
    assert_eq!(newcomer.run(&["down"]).await.code, Some(0));
    hive.wait(LONGEST).await.unwrap();
}

#[tokio::test]
async fn first_tour_uses_no_model_that_costs() {
    let stage = Stage::new().await;
    let _play = stage.up().await;
    let tour = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "rig-key-1f7c");
    let shown = tour.argument("tour").argument("--yes").finish().await.unwrap();
    assert_eq!(shown.code, Some(0), "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stdout.contains("uses a real model"), "{}", shown.stdout);
    assert_eq!(stage.model.requests().len(), 0);
}

/// The file is not there although it was approved: nothing is told as done.
#[tokio::test]
async fn first_tour_says_that_an_approved_file_is_missing() {
    let newcomer = Newcomer::new();
    let mut terminal = newcomer.skep(&["tour"]).on_terminal(200, 100).unwrap();
    for _ in 0..2 {
        terminal.sees("Enter goes on").await.unwrap();
        terminal.press("\r").unwrap();
    }
    terminal.sees("answered elsewhere):").await.unwrap();
    terminal.press("1\r").unwrap();
    terminal.sees("decided elsewhere):").await.unwrap();
    let temporary = fs::read_dir(newcomer.folder.path().join("tmp")).unwrap().next();
    // Where the folder of the file would be.
    let replies = temporary.unwrap().unwrap().path().join("teams/tour/work/replies");
    fs::write(replies, "").unwrap();
    terminal.press("y\r").unwrap();
    // The place has changed since it was asked about: it is asked about again.
    terminal.sees("decided elsewhere):").await.unwrap();
    terminal.press("y\r").unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(1));
    let shown = terminal.everything();
    assert!(shown.contains("replies/order-1207.md was approved, and is not in "), "{shown}");
    assert!(shown.contains("next: set TMPDIR to another folder, if "), "{shown}");
    assert!(!shown.contains("Go on:"), "{shown}");
    assert_eq!(newcomer.left(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn first_tour_names_a_folder_that_takes_nothing() {
    let newcomer = Newcomer::new();
    let full = newcomer.folder.path().join("file");
    fs::write(&full, "").unwrap();
    let refused = newcomer.skep(&["tour", "--yes"]).env("TMPDIR", &full).finish().await.unwrap();
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    for part in [full.to_str().unwrap(), "next: set TMPDIR to another folder"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[tokio::test]
async fn first_tour_asks_on_a_terminal_alone() {
    let newcomer = Newcomer::new();
    let cases: [(&[&str], &str); 3] = [
        (&["tour"], "this is not a terminal"),
        (&["tour", "--yes", "--json"], "it prints text for people"),
        (&["--url", "http://127.0.0.1:1", "tour"], "folders in the home of the hive"),
    ];
    for (words, why) in cases {
        let refused = newcomer.run(words).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
    assert_eq!(newcomer.left(), Vec::<PathBuf>::new());
}
