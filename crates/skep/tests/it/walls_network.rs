//! What commands reach, as the hive tells it: to the model, in the audit trail, in `skep doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::hive::Start;
use skep_testkit::locate;
use skep_testkit::wait::{self, PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::stage::{Play, Stage};

const WALLS: &str = include_str!("../../../../docs/sandbox.md");

async fn bash(stage: &Stage, play: &Play, line: &str) -> String {
    stage.model.push_all([Reply::call("bash", json!({"command": line})), Reply::say("done")]);
    assert_eq!(play.ask("main", "go").await["state"], "done");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

/// Answers every connection with one page; its port.
async fn site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage";
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    port
}

fn description(stage: &Stage) -> String {
    let request = stage.model.requests().pop().unwrap();
    let tools = request.body["tools"].as_array().unwrap().clone();
    let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
    bash["description"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn walls_commands_reach_what_is_listed_and_the_result_names_what_was_blocked() {
    let stage = Stage::new().await;
    let port = site().await;
    let config = format!(
        "allowed_tools: [bash]\nnetwork:\n  hosts: ['localhost:{port}']\n  \
         private: ['127.0.0.1:{port}', '[::1]:{port}']\n"
    );
    stage.write("teams/main/config.yaml", &config);
    let play = stage.up().await;
    let line = format!("curl -sS http://127.0.0.1:{port}/; curl -sS http://other.invalid/ || true");
    let said = bash(&stage, &play, &line).await;
    let (output, blocked) = said.split_once("[exit code 0]\n").unwrap();
    assert!(output.starts_with("page"), "{said}");
    assert_eq!(
        blocked,
        "[network: other.invalid was blocked (host_unlisted): `network.hosts` of the agent does \
         not list it; list `other.invalid` there]"
    );
    let told = description(&stage);
    let listed =
        format!("nothing else: localhost:{port}, 127.0.0.1:{port}, [::1]:{port}. No proxy");
    assert!(told.contains(&listed), "{told}");
    let rows = play.api().get("/api/v1/audit?kind=contact").await.unwrap().good().unwrap();
    let rows: Vec<(Value, Value)> = rows["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["arguments"]["host"].clone(), row["outcome"].clone()))
        .collect();
    let mut hosts: Vec<String> = rows.iter().map(|row| format!("{} {}", row.0, row.1)).collect();
    hosts.sort();
    let reached = format!("\"127.0.0.1:{port}\" \"reached\"");
    assert_eq!(hosts, [reached.as_str(), "\"other.invalid\" \"host_unlisted\""]);
    // Without a list there is nothing, and with `none` nobody who answers names.
    crate::fault_config::noticed(&play, || {
        stage.write("teams/main/config.yaml", "allowed_tools: [bash]\nsandbox: {network: none}\n");
    })
    .await;
    let said = bash(&stage, &play, "curl -sS http://other.invalid/ || true").await;
    assert!(said.ends_with("[exit code 0]"), "{said}");
    assert!(description(&stage).ends_with("There is no network."));
}

/// Nobody asks for what the job says, and the lists change while it runs.
#[tokio::test]
async fn walls_a_job_is_in_the_audit_trail_and_heeds_a_change_of_the_lists() {
    let stage = Stage::new().await;
    let port = site().await;
    let config = format!("allowed_tools: [bash]\nnetwork: {{private: ['127.0.0.1:{port}']}}\n");
    stage.write("teams/main/config.yaml", &config);
    let play = stage.up().await;
    let line = format!("while sleep 0.1; do curl -s -o /dev/null http://127.0.0.1:{port}/; done");
    let job = Reply::call("bash", json!({"command": line, "background": true}));
    stage.model.push_all([job, Reply::say("done")]);
    assert_eq!(play.ask("main", "go").await["state"], "done");
    contact(&play, &format!("127.0.0.1:{port}"), "reached").await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    contact(&play, &format!("127.0.0.1:{port}"), "address_refused").await;
}

/// Waits for a row of the audit trail about this host.
async fn contact(play: &Play, host: &str, verdict: &str) {
    wait::until_async(verdict, PATIENCE, async || {
        let rows = play.api().get("/api/v1/audit?kind=contact").await.unwrap().good().unwrap();
        let mut rows = rows["rows"].as_array().unwrap().iter();
        rows.find(|row| row["arguments"]["host"] == host && row["outcome"] == verdict).map(|row| {
            assert_eq!((&row["tool"], &row["agent"]), (&json!("bash"), &json!("main")), "{row}");
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn walls_a_full_network_is_shown_in_red() {
    let stage = Stage::new().await;
    let port = site().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\nsandbox: {network: full}\n");
    let play = stage.up().await;
    let said = bash(&stage, &play, &format!("curl -sS http://127.0.0.1:{port}/")).await;
    assert_eq!(said, "page\n[exit code 0]");
    assert!(description(&stage).ends_with("Network: whatever this machine reaches."));
    let agent = play.state().await["agents"][0].clone();
    assert_eq!((&agent["sandbox"], &agent["network"]), (&json!("confined"), &json!("full")));
    let told = doctor(&stage, &[]).finish().await.unwrap();
    assert_eq!(told.code, Some(0), "{}", told.stdout);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let walls = told["findings"].as_array().unwrap().iter().filter(|one| one["about"] == "wall");
    let walls: Vec<&str> = walls.map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(walls.len(), 15, "{walls:?}");
    for wall in walls {
        let row = format!("| `{}` |", wall.split_once(':').unwrap().0);
        assert!(WALLS.contains(&row), "docs/sandbox.md does not list {wall}");
    }
    let open: Vec<&Value> = told["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["grade"] == "open")
        .collect();
    assert_eq!(open.len(), 1, "{told:#}");
    let text = open[0]["text"].as_str().unwrap();
    assert!(text.starts_with("main runs programs that reach whatever this machine"), "{text}");
}

fn doctor(stage: &Stage, variables: &[(&str, &str)]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home());
    let start = start.env("RIG_KEY", "rig-key-canary-1f7c").argument("doctor").argument("--json");
    variables.iter().fold(start, |start, (name, value)| start.env(name, value))
}

/// Texts of the walls that are down; the doctor has to end with 1.
async fn down(stage: &Stage, variables: &[(&str, &str)]) -> Vec<String> {
    let told = doctor(stage, variables).finish().await.unwrap();
    assert_eq!(told.code, Some(1), "{variables:?}: {}", told.stdout);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let bad = |finding: &&Value| finding["about"] == "wall" && finding["grade"] == "bad";
    let walls = told["findings"].as_array().unwrap().iter().filter(bad);
    walls.map(|wall| wall["text"].as_str().unwrap().to_owned()).collect()
}

/// The program without a wall of its own, and bubblewrap without an argument.
#[tokio::test]
async fn walls_that_are_down_are_named_by_doctor() {
    let stage = Stage::new().await;
    let unfiltered = down(&stage, &[("RIG_UNFILTERED", "1")]).await;
    assert_eq!(unfiltered, ["system calls: are not filtered"]);
    let unheard = down(&stage, &[("RIG_UNHEARD", "1")]).await;
    assert_eq!(unheard, ["listeners: the hive does not answer inside: "]);
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let real = "PATH=${PATH#*:}; exec bwrap";
    // Without the first one bubblewrap refuses the others.
    let table = [
        ("--unshare-all", "start: "),
        ("--die-with-parent", "arguments: not taken by bubblewrap: --die-with-parent"),
        ("--new-session", "arguments: not taken by bubblewrap: --new-session"),
        ("--disable-userns", "privileges: "),
        ("--clearenv", "arguments: not taken by bubblewrap: --clearenv"),
        ("--size 4096 --tmpfs /proc/1", "first process: open to all others: "),
    ];
    for (dropped, named) in table {
        let script = format!(
            "#!/bin/bash\ndropped=({dropped}) count=${{#dropped[@]}}\n\
             while [ $# -gt 0 ]; do\n\
             if [ \"${{*:1:count}}\" = \"${{dropped[*]}}\" ]; then shift $count; continue; fi\n\
             kept+=(\"$1\"); shift\ndone\n{real} \"${{kept[@]}}\"\n"
        );
        let shim = programs.path().join("bwrap");
        fs::write(&shim, script).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
        let walls = down(&stage, &[("PATH", &path)]).await;
        assert!(walls.iter().any(|wall| wall.starts_with(named)), "{dropped}: {walls:?}");
    }
}

/// A kernel that makes no more user namespaces, for a user and for who is root.
#[tokio::test]
async fn walls_without_user_namespaces_are_refused_with_the_remedy() {
    let stage = Stage::new().await;
    let rig = locate::rig().unwrap();
    for user in ["--map-user=1000 --map-group=1000", "--map-root-user"] {
        // The namespace inside is the one that is allowed.
        let script = format!(
            "echo 1 > /proc/sys/user/max_user_namespaces && \
             exec unshare --user {user} {} doctor --home {}",
            rig.display(),
            stage.home().display()
        );
        let told = Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", &script])
            .env("RIG_KEY", "rig-key-canary-1f7c")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&told.stdout);
        assert_eq!(told.status.code(), Some(1), "{user}: {told:?}");
        assert!(said.contains("bash would refuse to run: sandbox_down: "), "{user}: {said}");
        assert!(said.contains("Allow unprivileged user namespaces: `sysctl -w"), "{user}: {said}");
    }
}
