//! Links that change while calls are judged and run: no rule about paths is passed by that.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use skep_testkit::Reply;

use crate::stage::Stage;

const RULES: &str = "allowed_tools: [read, grep]
policy:
  - {effect: deny, tool: '*', path: 'secrets/**'}
";

/// Lets `door` lead to one and the other in turn, until it is told to end.
fn swap(work: &Path, over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let (work, over) = (work.to_path_buf(), Arc::clone(over));
    std::thread::spawn(move || {
        let mut swaps = 0;
        while !over.load(Ordering::Relaxed) {
            for target in ["open", "secrets"] {
                symlink(target, work.join("next")).unwrap();
                fs::rename(work.join("next"), work.join("door")).unwrap();
                swaps += 1;
            }
        }
        swaps
    })
}

#[tokio::test]
async fn attack_a_link_that_is_swapped_after_the_rules_were_asked_opens_nothing() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", RULES);
    stage.write("teams/main/work/open/key", "of the open folder\n");
    stage.write("teams/main/work/secrets/key", "canary\n");
    let work = stage.home().join("teams/main/work");
    symlink("open", work.join("door")).unwrap();
    let play = stage.up().await;
    let over = Arc::default();
    let swapping = swap(&work, &over);
    let (mut canaries, mut opened) = (0, 0);
    for round in 0..10 {
        let reply = (0..40).fold(Reply::new(), |reply, number| {
            let limit = 1 + round * 40 + number;
            let read = reply.tool("read", json!({"file_path": "door/key", "limit": limit}));
            read.tool("grep", json!({"pattern": ".", "path": "door", "max": limit}))
        });
        stage.model.push(reply);
        stage.model.push(Reply::say("done"));
        play.ask("main", "go").await;
        for result in stage.model.requests().pop().unwrap().last_tool_results() {
            canaries += u32::from(result.text.contains("canary"));
            opened += u32::from(result.text.contains("of the open folder"));
        }
    }
    over.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(swaps > 100 && opened > 10, "{swaps} swaps, {opened} opened: it shows nothing");
    assert_eq!(canaries, 0, "of {opened} calls that ran");
}
