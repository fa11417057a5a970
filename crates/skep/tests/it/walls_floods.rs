//! An agent that takes all it can get: it is stopped, the hive stays small, others go on.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

const LIMITS: &str = "allowed_tools: ['*']\nsandbox: {workspace_mib: 192, \
                      limits: {memory_mib: 128, processes: 40, disk_mib: 96}}\n";

/// A call and what its answer says, `|` between what it may be.
fn attacks() -> Vec<(&'static str, Value, &'static str)> {
    let bash = |command: &str| json!({"command": command, "timeout_ms": 300_000});
    let over = |what: &'static str| match what {
        "memory" => "[ended: it took more memory than the sandbox allows]",
        "disk" => "[ended: it took more disk than the sandbox allows]",
        // Under cgroups the kernel counts the buffers as memory and may be first.
        "sockets" => "it took more sockets than|it took more memory than",
        _ => "[ended: it took more open files than the sandbox allows]",
    };
    let spin = "for n in $(seq 30); do (while :; do :; done) & done; sleep 2";
    vec![
        ("bash", bash("./hostile memory forked"), over("memory")),
        ("bash", bash("./hostile memory tables"), over("memory")),
        ("bash", bash("./hostile sockets-full unix"), over("sockets")),
        ("bash", bash("./hostile handles"), over("open files")),
        ("bash", bash("./hostile disk"), over("disk")),
        ("bash", bash("./hostile disk-unseen"), over("disk")),
        ("bash", bash(spin), "[exit code 0]"),
        // No text: each of its bytes is three once it is shown.
        ("bash", bash("head -c 64M /dev/zero | tr '\\0' '\\377'"), "[exit code 0]"),
        (
            "edit",
            json!({"file_path": "letters", "old_string": "a", "replace_all": true,
                "new_string": "b".repeat(1 << 16)}),
            "Replace fewer places or by a shorter text",
        ),
    ]
}

/// Bytes of a line of the hive's status.
pub fn status(play: &Play, name: &str) -> u64 {
    let path = format!("/proc/{}/status", play.hive.process());
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// What turns of another agent take, in a session of their own: none has more to read than others.
pub async fn turns(stage: &Stage, play: &Play, count: usize) -> Vec<Duration> {
    stage.model.push_all((0..count).map(|_| Reply::say("done")));
    let path = "/api/v1/agents/other/messages?wait=true&timeout=60";
    let session = format!("turns {}", stage.model.asked());
    let body = json!({"message": "hello", "session_key": session});
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        let answer = play.api().post(path, &body).await.unwrap().good().unwrap();
        times.push(begun.elapsed());
        assert_eq!(answer["state"], "done");
    }
    times
}

async fn has_ended(play: &Play, item: &str) -> bool {
    let path = format!("/api/v1/agents/main/messages/{item}");
    play.api().get(&path).await.unwrap().good().unwrap()["state"] == "done"
}

/// What turns of another agent take while the call runs, from its first question to the model on
/// and until its end, `count` at least; and what the call answered.
pub async fn turns_beside(
    stage: &Stage,
    play: &Play,
    count: usize,
    (tool, arguments): (&str, Value),
) -> (Vec<Duration>, String) {
    let asked = stage.model.asked();
    // A call may end before the turns beside it do: its last answer is there by then.
    stage.model.push_all([Reply::call(tool, arguments), Reply::say("done")]);
    // A session of its own: none has more to read than others.
    let session = format!("beside-{asked}");
    let item = play.tell("main", &session, "go").await["item_id"].as_str().unwrap().to_owned();
    let begins = || stage.model.asked() > asked;
    wait::until_true("the call", PATIENCE, begins).await.unwrap();
    let mut times = turns(stage, play, count).await;
    let begun = Instant::now();
    while !has_ended(play, &item).await {
        times.extend(turns(stage, play, count).await);
        // Commands give way to all else: on a machine with much to do a flood takes its time.
        assert!(begun.elapsed() < Duration::from_secs(300), "the flood does not end");
    }
    let history = play.history("main", &session).await;
    let mut results = history.iter().filter(|row| row["role"] == "toolResult");
    let text = results.next_back().unwrap()["content"][0]["text"].as_str().unwrap().to_owned();
    (times, text)
}

/// How many there were, how long all but a hundredth of them took, and the slowest.
pub fn slow(times: &[Duration]) -> (usize, Duration, Duration) {
    let slowest = times.iter().max().copied().unwrap_or_default();
    (times.len(), middle_and_most(times.to_vec()).1, slowest)
}

pub fn middle_and_most(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[(times.len() * 99 / 100).min(times.len() - 1)])
}

/// With `--all` enough turns for the figures to mean something: run it on a machine at rest.
#[tokio::test]
async fn walls_stop_floods_while_others_go_on_and_the_hive_stays_small() {
    let (rounds, each) = if skep_testkit::all() { (10, 20) } else { (1, 5) };
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", LIMITS);
    stage.write("teams/other/config.yaml", "allowed_tools: []\n");
    stage.write("teams/main/work/letters", &"a".repeat(1 << 20));
    let hostile = locate::profile_folder().unwrap().join("examples/hostile");
    fs::copy(hostile, stage.home().join("teams/main/work/hostile")).unwrap();
    let play = stage.up().await;
    turns(&stage, &play, each).await;
    // From here on the highest mark is counted anew.
    fs::write(format!("/proc/{}/clear_refs", play.hive.process()), "5").unwrap();
    let before = status(&play, "VmRSS:");
    // In turn, so that what else the machine does weighs on all alike.
    let (mut alone, mut plain, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (tool, arguments, ending) in attacks() {
            let shown: String = arguments.to_string().chars().take(80).collect();
            let quiet = turns(&stage, &play, each).await;
            let harmless = json!({"command": "sleep 0.2"});
            let (calm, _) = turns_beside(&stage, &play, each, ("bash", harmless)).await;
            let (busy, text) = turns_beside(&stage, &play, each, (tool, arguments)).await;
            eprintln!("{shown}: alone {:?}, beside {:?}", slow(&quiet), slow(&busy));
            alone.extend(quiet);
            plain.extend(calm);
            beside.extend(busy);
            assert!(ending.split('|').any(|one| text.contains(one)), "{shown}: {text}");
            assert!(!text.contains("escaped"), "{shown}: {text}");
            // Room for the next one.
            for entry in fs::read_dir(stage.home().join("teams/main/work")).unwrap() {
                let entry = entry.unwrap();
                if !["hostile", "letters"].iter().any(|name| entry.file_name() == *name) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
    let grown = status(&play, "VmHWM:").saturating_sub(before);
    for (what, times) in [("alone", alone), ("beside sleep", plain), ("beside floods", beside)] {
        let (middle, most) = middle_and_most(times);
        eprintln!("turns {what}: p50 {middle:?}, p99 {most:?}");
    }
    eprintln!("the hive grew by {} KiB, from {} KiB", grown >> 10, before >> 10);
    assert!(grown < 64 << 20, "the hive grew by {} MiB", grown >> 20);
}
