//! Children of an agent that misbehave: they are contained, and other agents go on.

use std::fs;

use serde_json::json;
use skep_testkit::locate;

use crate::stage::Stage;
use crate::walls_floods::{middle_and_most, slow, turns, turns_beside};

/// What the child does, how long it is listened to, and how it ends.
const MODES: [(&str, u32, &str); 8] = [
    ("flood lines", 1500, "Cancelled"),
    ("flood line", 1500, "Cancelled"),
    ("flood errors", 1500, "Cancelled"),
    ("hang", 300, "Cancelled"),
    ("deaf", 300, "Cancelled"),
    ("daemon", 60_000, "Exited { code: 0 }"),
    ("memory", 60_000, "OverLimit { what: \"memory\" }"),
    ("disk", 60_000, "OverLimit { what: \"disk\" }"),
];

/// With `--all` enough turns for the figures to mean something: run it on a machine at rest.
#[tokio::test]
async fn walls_contain_children_while_others_go_on() {
    let (rounds, each) = if skep_testkit::all() { (5, 20) } else { (1, 5) };
    let stage = Stage::new().await;
    stage.write("teams/other/config.yaml", "allowed_tools: []\n");
    stage.write("teams/main/work/notes", "");
    let work = stage.home().join("teams/main/work");
    fs::copy(locate::unruly_child().unwrap(), work.join("unruly")).unwrap();
    let play = stage.up().await;
    turns(&stage, &play, each).await;
    for counting in ["kernel", "watchdog"] {
        // In turn, so that what else the machine does weighs on all alike.
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for (mode, ms, ending) in MODES.iter().cycle().take(rounds * MODES.len()) {
            let calm = turns(&stage, &play, each).await;
            let arguments = json!({"text": format!("{counting} {mode}"), "ms": ms});
            let (busy, text) = turns_beside(&stage, &play, each, ("child", arguments)).await;
            assert_eq!(text, *ending, "{counting} {mode}");
            eprintln!("{counting} {mode}: alone {:?}, beside {:?}", slow(&calm), slow(&busy));
            alone.extend(calm);
            beside.extend(busy);
            for entry in fs::read_dir(&work).unwrap().flatten() {
                if entry.file_name() != "unruly" {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        for (what, times) in [("alone", alone), ("beside children", beside)] {
            let (middle, most) = middle_and_most(times);
            eprintln!("{counting}: turns {what}: p50 {middle:?}, p99 {most:?}");
        }
    }
}
