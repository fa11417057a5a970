//! The sandbox through the product: its walls by name, and commands in the background, which
//! outlast their turn and nothing else.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

/// Whether a process with this word in its command line runs.
fn runs(mark: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    })
}

async fn result(stage: &Stage, play: &Play, session: &str, arguments: Value) -> String {
    stage.model.push_all([Reply::call("bash", arguments), Reply::say("so be it")]);
    let item = play.tell("main", session, "go").await["item_id"].as_str().unwrap().to_owned();
    assert_eq!(play.ended("main", &item).await["state"], "done");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

/// Starts a command that carries `mark` and does not want to end.
async fn start(stage: &Stage, play: &Play, session: &str, mark: &str) -> String {
    let line = format!("trap '' TERM; echo up; touch {mark}; while :; do sleep 1; done; : {mark}");
    let text = result(stage, play, session, json!({"command": line, "background": true})).await;
    let job = text.strip_prefix("started ").unwrap().split_once('.').unwrap().0.to_owned();
    let made = stage.home().join("teams/main/work").join(mark);
    wait::until_true("the command", PATIENCE, || made.exists()).await.unwrap();
    assert!(runs(mark));
    job
}

async fn gone(mark: &str) {
    wait::until_true("its end", PATIENCE, || !runs(mark)).await.unwrap();
}

fn mark(name: &str) -> String {
    format!("mark-{name}-{}", std::process::id())
}

#[tokio::test]
async fn walls_background_outlasts_turns_and_ends_with_stop_and_with_a_new_session() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    let play = stage.up().await;
    let (one, two) = (mark("stop"), mark("new"));
    let first = start(&stage, &play, "a", &one).await;
    let second = start(&stage, &play, "b", &two).await;
    let said = wait::until_async("its words", PATIENCE, || async {
        let said = result(&stage, &play, "a", json!({"output_of": first})).await;
        said.starts_with("up").then_some(said)
    });
    assert_eq!(said.await.unwrap(), format!("up\n[{first} still runs]"));
    play.tell("main", "a", "/stop").await;
    gone(&one).await;
    assert!(runs(&two), "another session has nothing to do with it");
    // Its processes are gone a moment before the job knows.
    let said = wait::until_async("its end in words", PATIENCE, || async {
        let said = result(&stage, &play, "a", json!({"output_of": first})).await;
        (!said.ends_with("still runs]")).then_some(said)
    });
    assert_eq!(said.await.unwrap(), "up\n[cancelled; everything it had started was ended]");
    play.tell("main", "b", "/new").await;
    gone(&two).await;
    let said = result(&stage, &play, "b", json!({"stop": second})).await;
    assert_eq!(said, "up\n[cancelled; everything it had started was ended]");
}

#[tokio::test]
async fn walls_background_ends_when_its_agent_is_removed() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    let play = stage.up().await;
    let one = mark("removed");
    start(&stage, &play, "main", &one).await;
    // A turn that has begun goes on, and starts nothing any more.
    let call = Reply::new().gate_first("removed");
    let call = call.tool("bash", json!({"command": "sleep 1000", "background": true}));
    stage.model.push_all([call, Reply::say("done")]);
    let item = play.tell("main", "other", "go").await["item_id"].as_str().unwrap().to_owned();
    stage.model.gate("removed").wait_arrived(1).await.unwrap();
    let mut events = play.api().events("/api/v1/events").await.unwrap();
    fs::rename(stage.home().join("teams/main"), stage.folder().join("main")).unwrap();
    while events.next().await.unwrap().unwrap().name.as_deref() != Some("config") {}
    gone(&one).await;
    stage.model.gate("removed").open();
    assert_eq!(play.ended("main", &item).await["state"], "done");
    let told = stage.model.requests().pop().unwrap().last_tool_results().remove(0).text;
    assert!(told.starts_with("policy_deny: "), "{told}");
}

#[tokio::test]
async fn walls_background_is_gone_after_a_stop_and_after_a_kill() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    let mut play = stage.up().await;
    let (one, two) = (mark("term"), mark("kill"));
    start(&stage, &play, "main", &one).await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    gone(&one).await;
    let mut play = stage.up().await;
    let job = start(&stage, &play, "main", &two).await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    gone(&two).await;
    let said = result(&stage, &play, "main", json!({"output_of": job})).await;
    assert!(said.starts_with("no_such_job: "), "{said}");
}

#[tokio::test]
async fn walls_are_named_by_doctor_and_an_agent_without_them_is_shown() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "sandbox: {level: host}\n");
    let doctor = || {
        let start = Start::new(&locate::rig().unwrap(), stage.home());
        start.env("RIG_KEY", "rig-key-canary-1f7c").argument("doctor").argument("--json")
    };
    let told = doctor().finish().await.unwrap();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    let of = |about: &str| -> Vec<(String, String)> {
        let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let findings = findings.iter().filter(|finding| finding["about"] == about);
        findings.map(|finding| (word(finding, "grade"), word(finding, "text"))).collect()
    };
    let good = |text: &str| ("ok".to_owned(), text.to_owned());
    assert_eq!(
        of("wall"),
        [
            good("files outside: not readable"),
            good("hive home: not visible"),
            good("network: own loopback only"),
            good("server: not visible"),
            good("first process: out of reach"),
            good("namespaces: all its own"),
            good("privileges: none, and none to gain"),
            good("system calls: filtered"),
            good("arguments: all taken by bubblewrap"),
            good("system files: read-only"),
            good("workspace: writable"),
            good("descriptors: none inherited"),
            good("limits: set"),
            good("unlisted hosts: do not answer"),
            good("listeners: the hive answers for listed hosts"),
        ]
    );
    let exposed = ("open".to_owned(), "main runs programs on the host, without walls".to_owned());
    assert_eq!(of("agent"), [exposed]);
    let play = stage.up().await;
    assert_eq!(play.state().await["agents"][0]["sandbox"], "host");
    assert_eq!(play.state().await["agents"][1]["sandbox"], "confined");
}

/// Whoever looks at a silent job waits for it, and does not spend a model call on each look.
#[tokio::test]
async fn walls_background_that_is_silent_is_waited_for() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    let play = stage.up().await;
    let silent = json!({"command": "sleep 2; echo built", "background": true});
    let text = result(&stage, &play, "main", silent).await;
    let job = text.strip_prefix("started ").unwrap().split_once('.').unwrap().0.to_owned();
    let said = result(&stage, &play, "main", json!({"output_of": job})).await;
    // Its words, and then its end.
    let said = match said.contains("still runs") {
        true => result(&stage, &play, "main", json!({"output_of": job})).await,
        false => said,
    };
    assert_eq!(said, "built\n[exit code 0]");
    // A stop does not wait for it.
    let text = result(&stage, &play, "main", json!({"command": "sleep 600", "background": true}));
    let text = text.await;
    let job = text.strip_prefix("started ").unwrap().split_once('.').unwrap().0.to_owned();
    stage.model.push(Reply::call("bash", json!({"output_of": job})));
    let item = play.item("main", "main", "look").await;
    let looks = wait::until_async("the look", PATIENCE, || async {
        let state = play.state().await;
        (state["turns"][0]["tool"].is_string() || state["turns"][0]["turn"].is_string())
            .then_some(())
    });
    looks.await.unwrap();
    assert!(play.stop("main", "main").await);
    assert_eq!(play.ended("main", &item).await["state"], "cancelled");
}

/// A command that had begun when its turn was stopped may have had its effect.
#[tokio::test]
async fn walls_a_command_that_is_stopped_has_an_unknown_outcome() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    let play = stage.up().await;
    let line =
        "curl -s http://other.invalid/; echo heron; echo a >> part; sleep 600; echo b >> part";
    stage.model.push(Reply::call("bash", json!({"command": line})));
    let item = play.item("main", "main", "go").await;
    let part = stage.home().join("teams/main/work/part");
    wait::until_true("the effect", PATIENCE, || part.exists()).await.unwrap();
    play.tell("main", "main", "/stop").await;
    assert_eq!(play.ended("main", &item).await["state"], "cancelled");
    let rows = play.history("main", "main").await;
    let result = rows.iter().find(|row| row["role"] == "toolResult").unwrap();
    let said = result["content"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("outcome unknown: "), "{said}");
    let (said, blocked) = said.split_once("\n[network: ").unwrap();
    assert!(said.ends_with("heron\n[cancelled; everything it had started was ended]"), "{said}");
    assert!(blocked.starts_with("other.invalid was blocked (host_unlisted)"), "{blocked}");
    assert_eq!(play.state().await["unknown_calls"][0]["tool"], "bash");
    let row = play.audit("kind=call&tool=bash").await.remove(0);
    assert_eq!(row["outcome"], "unknown", "{row}");
    let row = play.audit("kind=contact&tool=bash").await.remove(0);
    assert_eq!(row["outcome"], "host_unlisted", "{row}");
    assert_eq!(fs::read_to_string(part).unwrap(), "a\n");
}
