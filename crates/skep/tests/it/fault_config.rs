//! Files that change while the hive runs: what is right is in force for the next turn, what is
//! wrong stays out, is told, and can be mended (spec 02, 11).

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, ScriptedModel, locate};

use crate::stage::{Play, Stage};
use crate::telling::lines;

/// The events that tell of the files, in order.
async fn told(play: &Play) -> Vec<Value> {
    let mut events = play.events().await;
    events.retain(|event| event["type"] == "config");
    events
}

/// Waits until the files were told of once more than before, and gives the newest.
async fn told_again(play: &Play, before: usize) -> Value {
    let what = format!("a config event after {before}");
    let found = wait::until_async(&what, PATIENCE, || async {
        let events = told(play).await;
        (events.len() > before).then(|| events.last().cloned()).flatten()
    });
    let found = found.await.unwrap();
    assert_eq!(told(play).await.len(), before + 1, "told once");
    found
}

/// Changes the files and waits until that is in force.
pub async fn change(play: &Play, change: impl FnOnce()) -> Value {
    let before = told(play).await.len();
    change();
    let event = told_again(play, before).await;
    assert_eq!(event["state"], "applied", "{event}");
    assert_eq!(event["problems"], json!([]), "{event}");
    event
}

/// Changes the files and waits until that was seen, whatever is said of it.
pub async fn noticed(play: &Play, change: impl FnOnce()) -> Value {
    let before = told(play).await.len();
    change();
    told_again(play, before).await
}

/// Breaks the files: told with these words, in force is what was.
async fn fault(play: &Play, said: &[&str], change: impl FnOnce()) {
    let before = told(play).await.len();
    change();
    let event = told_again(play, before).await;
    assert_eq!(event["state"], "kept", "{event}");
    let text = event["problems"][0]["text"].as_str().unwrap();
    for word in said {
        assert!(text.contains(word), "{word} not in {text}");
    }
    let state = play.state().await;
    assert_eq!(state["hive"]["config"]["problems"], event["problems"]);
    let status = status(play).await;
    assert!(status.stdout.contains(text), "{}", status.stdout);
}

async fn status(play: &Play) -> Finished {
    command(play.hive.home(), &["status"]).await
}

async fn command(home: &Path, words: &[&str]) -> Finished {
    let start = Start::new(&locate::rig().unwrap(), home).env("RIG_KEY", "rig-key-canary-1f7c");
    words.iter().fold(start, |start, word| start.argument(*word)).finish().await.unwrap()
}

fn providers(model: &ScriptedModel, name: &str) -> String {
    format!(
        "profiles:\n  default:\n    provider: anthropic\n    model: {name}\n    api_url: {}\n    \
         api_key: ${{RIG_KEY}}\n    timeouts: {{ connect: 600, first: 600, idle: 600 }}\n",
        model.base_url()
    )
}

fn models(model: &ScriptedModel) -> Vec<String> {
    let requests = model.requests();
    requests.iter().map(|request| request.body["model"].as_str().unwrap().to_owned()).collect()
}

/// As an editor saves: a new file takes the place of the old one.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("tmp");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn fault_config_a_running_turn_keeps_its_model_and_the_next_has_the_new_one() {
    let stage = Stage::new().await;
    let second = ScriptedModel::start().await.unwrap();
    second.answer_with(|_| Reply::say("from the second"));
    stage.model.push_all([
        Reply::new().gate("thinking").tool("look", json!({"text": "a"})),
        Reply::say("from the first"),
    ]);
    let play = stage.up().await;
    let item = play.item("main", "main", "hello").await;
    stage.model.gate("thinking").wait_arrived(1).await.unwrap();
    let file = stage.home().join("providers.yaml");
    change(&play, || replace(&file, &providers(&second, "other"))).await;
    stage.model.gate("thinking").release();
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["response"]["content"], "from the first");
    assert_eq!(models(&stage.model), ["scripted", "scripted"]);
    assert_eq!(play.ask("main", "again").await["response"]["content"], "from the second");
    assert_eq!(models(&second), ["other"]);
    // Rules and tools of the next turn, in one change of several files.
    change(&play, || {
        stage.write("rules/new.md", "Say moin.");
        stage.write("teams/main/config.yaml", "allowed_tools: [look]\nmax_steps: 7\n");
    })
    .await;
    play.ask("main", "third").await;
    let request = second.requests().pop().unwrap();
    assert!(request.system_text().contains("Say moin."), "{}", request.system_text());
    assert_eq!(request.tool_names(), ["look"]);
}

#[tokio::test]
async fn fault_config_mistakes_stay_out_and_are_told_until_they_are_mended() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("still here"));
    stage.write("skep.yaml", "limits:\n  steps: 40\n");
    let play = stage.up().await;
    let skep = stage.home().join("skep.yaml");
    let good = fs::read_to_string(&skep).unwrap();
    type Break<'a> = &'a dyn Fn(&Path);
    let cases: [(&[&str], Break<'_>); 7] = [
        (&["skep.yaml:2:3", "`limits.stps`", "did you mean `steps`?"], &|path| {
            replace(path, "limits:\n  stps: 40\n");
        }),
        (&["skep.yaml:", "is not valid YAML"], &|path| {
            replace(path, "limits: {steps: 4");
        }),
        (&["skep.yaml", "is gone or empty, and was not before"], &|path| {
            fs::remove_file(path).unwrap();
        }),
        (&["skep.yaml", "is gone or empty"], &|path| fs::write(path, "").unwrap()),
        (&["skep.yaml", "is not a regular file"], &|path| {
            let beside = path.with_extension("tmp");
            assert!(Command::new("mkfifo").arg(&beside).status().unwrap().success());
            fs::rename(beside, path).unwrap();
        }),
        (&["skep.yaml", "is a link"], &|path| {
            let beside = path.with_extension("tmp");
            std::os::unix::fs::symlink("providers.yaml", &beside).unwrap();
            fs::rename(beside, path).unwrap();
        }),
        (&["skep.yaml", "is too large"], &|path| {
            replace(path, &"# x\n".repeat(1 << 19));
        }),
    ];
    for (said, broken) in cases {
        fault(&play, said, || broken(&skep)).await;
        assert_eq!(play.ask("main", "there?").await["response"]["content"], "still here");
        change(&play, || replace(&skep, &good)).await;
        assert_eq!(play.state().await["hive"]["config"]["problems"], json!([]));
    }
    fault(&play, &["teams", "is gone or empty"], || {
        fs::rename(stage.home().join("teams"), stage.folder().join("teams")).unwrap();
    })
    .await;
    assert_eq!(play.ask("main", "there?").await["response"]["content"], "still here");
    change(&play, || {
        fs::rename(stage.folder().join("teams"), stage.home().join("teams")).unwrap();
    })
    .await;
    // The folder that came back is watched again.
    change(&play, || stage.write("teams/main/config.yaml", "description: new\n")).await;
    assert_eq!(play.state().await["agents"][0]["description"], "new");
}

#[tokio::test]
async fn fault_config_agents_come_break_alone_and_go() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("here"));
    let play = stage.up().await;
    change(&play, || stage.write("teams/cto/config.yaml", "description: first\n")).await;
    assert_eq!(play.ask("cto", "hello").await["response"]["content"], "here");
    fault(&play, &["teams/cto/config.yaml:1:9", "`engine`", "did you mean `native`?"], || {
        stage.write("teams/cto/config.yaml", "engine: nativ\n");
    })
    .await;
    let agents = play.state().await["agents"].as_array().unwrap().clone();
    let cto = agents.iter().find(|agent| agent["name"] == "cto").unwrap();
    assert_eq!((&cto["status"], &cto["description"]), (&json!("active"), &json!("first")));
    assert_eq!(play.ask("cto", "still?").await["response"]["content"], "here");
    let doctor = command(stage.home(), &["doctor"]).await.stdout;
    assert!(doctor.contains("cto: the running hive goes on with what was before: "), "{doctor}");
    assert!(doctor.contains("  agents that can work: 3"), "{doctor}");
    noticed(&play, || stage.write("teams/cto/config.yaml", "network: {hosts: [a b]}\n")).await;
    let doctor = command(stage.home(), &["doctor"]).await.stdout;
    assert!(doctor.contains("cto: the running hive denies all its tool calls: "), "{doctor}");
    change(&play, || stage.write("teams/cto/config.yaml", "description: second\n")).await;
    // Its running turn ends as it began; what waits behind it ends with the reason.
    stage.model.push(Reply::new().gate("busy").text("done"));
    let running = play.item("cto", "main", "work").await;
    stage.model.gate("busy").wait_arrived(1).await.unwrap();
    let queued = play.tell_mode("cto", "main", "more", "queue").await;
    stage.model.push(Reply::say("unused"));
    change(&play, || stage.take_out("teams/cto")).await;
    let refused = play.api().post("/api/v1/agents/cto/messages", &json!({"message": "x"})).await;
    assert_eq!(refused.unwrap().status, 404);
    stage.model.gate("busy").release();
    let inbox = wait::until_async("both to end", PATIENCE, || async {
        let items = play.api().get("/api/v1/inbox").await.unwrap().good().unwrap();
        let find =
            |id: &Value| items["items"].as_array()?.iter().find(|i| i["item_id"] == *id).cloned();
        let both = [find(&json!(running))?, find(&queued["item_id"])?];
        both.iter().all(|item| item["finished_at"].is_i64()).then_some(both)
    });
    let [first, second] = inbox.await.unwrap();
    assert_eq!(first["state"], "done", "{first}");
    assert_eq!(second["state"], "failed", "{second}");
    assert_eq!(second["error"]["code"], "agent_unavailable", "{second}");
    let states: Vec<Value> = play.events().await;
    let gone = states.iter().filter(|event| event["state"] == "removed").count();
    assert_eq!(gone, 1);
    // One of the same name later has its history back.
    change(&play, || stage.write("teams/cto/config.yaml", "description: third\n")).await;
    let history = lines(&play.history("cto", "main").await);
    assert_eq!(history[0], "user hello", "{history:?}");
}

#[tokio::test]
async fn fault_config_whoever_waits_for_an_agent_that_is_removed_learns_the_end() {
    let stage = Stage::new().await;
    stage.write("teams/cto/config.yaml", "description: first\n");
    stage.model.push(Reply::new().gate_first("removed").text("the last words"));
    let play = stage.up().await;
    let item = play.item("cto", "main", "hello").await;
    stage.model.gate("removed").wait_arrived(1).await.unwrap();
    let waiting = play.ended("cto", &item);
    let removing = async {
        change(&play, || stage.take_out("teams/cto")).await;
        stage.model.gate("removed").open();
    };
    let (waited, ()) = tokio::join!(waiting, removing);
    assert_eq!(waited["response"]["content"], "the last words");
    let path = format!("/api/v1/agents/cto/messages/{item}");
    assert_eq!(play.api().get(&path).await.unwrap().good().unwrap(), waited);
    let unknown = play.api().get("/api/v1/agents/nobody/messages/x").await.unwrap();
    assert_eq!((unknown.status, &unknown.json["code"]), (404, &json!("unknown_agent")));
}

#[tokio::test]
async fn fault_config_limits_change_under_load_and_what_cannot_is_named() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::new().gate("all").text("done"));
    let play = stage.up().await;
    let mut items = Vec::new();
    for session in ["a", "b"] {
        items.push(play.item("main", session, "hello").await);
    }
    stage.model.gate("all").wait_arrived(2).await.unwrap();
    change(&play, || stage.write("skep.yaml", "limits: {concurrent_turns: 1}\n")).await;
    for session in ["c", "d", "e"] {
        items.push(play.item("main", session, "hello").await);
    }
    stage.model.gate("all").open();
    for item in &items {
        assert_eq!(play.ended("main", item).await["response"]["content"], "done");
    }
    let events = play.events().await;
    let mut most = 0;
    let mut open = 0_i32;
    let from = events.iter().position(|event| event["type"] == "config").unwrap();
    for event in &events[from..] {
        match event["type"].as_str().unwrap() {
            "turn_start" => open += 1,
            "turn_end" => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    assert!(most <= 1, "{most} turns began at once under a limit of one");
    let event = change(&play, || {
        stage.write("skep.yaml", "server: {port: 1, public_url: 'https://h.example'}\n");
    })
    .await;
    // The port of the command line goes before the file's.
    assert_eq!(event["needs_restart"], json!(["skep.yaml: server.public_url"]));
    let status = status(&play).await;
    assert!(status.stdout.contains("skep.yaml: server.public_url"), "{}", status.stdout);
}

#[tokio::test]
async fn fault_config_a_storm_of_changes_is_read_a_few_times() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let file = stage.home().join("teams/main/config.yaml");
    for round in 0..3000 {
        fs::write(&file, format!("description: round {round}\n")).unwrap();
        if round % 3 == 0 {
            replace(&file, &format!("description: round {round}, replaced\n"));
        }
    }
    wait::until_async("the last round to be in force", PATIENCE, || async {
        let state = play.state().await;
        (state["agents"][0]["description"] == "round 2999").then_some(())
    })
    .await
    .unwrap();
    // The event is written after the settings are in force. A read between the emptying of the
    // file and its writing tells of a problem; the last one does not.
    let events = wait::until_async("the event of the last round", PATIENCE, || async {
        let events = told(&play).await;
        events.last().is_some_and(|last| last["problems"] == json!([])).then_some(events)
    })
    .await
    .unwrap();
    assert!(events.len() <= 20, "{} readings", events.len());
}

#[tokio::test]
async fn fault_config_a_tool_that_is_not_there_now_is_no_mistake() {
    let stage = Stage::new().await;
    let list = "allowed_tools: [look, mcp__git__log]\npolicy:\n  - {effect: ask, tool: a.b}\n";
    stage.write("teams/main/config.yaml", list);
    let checked = command(stage.home(), &["config", "check"]).await;
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for tool in ["a.b", "mcp__git__log"] {
        let told = format!("look  teams/main/config.yaml: the tool `{tool}` is not there now");
        assert!(checked.stdout.contains(&told), "{}", checked.stdout);
    }
    stage.write("teams/main/config.yaml", "allowed_tools: [look, mcp_git]\n");
    let checked = command(stage.home(), &["config", "check"]).await;
    assert_eq!(checked.code, Some(2), "a plain name is the program's own: {}", checked.stdout);
}

#[tokio::test]
async fn fault_config_check_tells_every_mistake_and_the_schemas_are_printed() {
    let stage = Stage::new().await;
    let right = command(stage.home(), &["config", "check"]).await;
    assert_eq!(right.code, Some(0), "{}", right.stderr);
    assert_eq!(right.stdout, "ok    no errors; agents: main, plain\n");
    assert!(!stage.home().join("run").exists(), "nothing was made by looking");
    stage.write("teams/main/config.yaml", "profile: defalt\n");
    let told = |ended: &Finished| ended.stdout.replace(&format!("{}/", stage.home().display()), "");
    let one = command(stage.home(), &["config", "check"]).await;
    assert_eq!(one.code, Some(2));
    assert_eq!(
        told(&one),
        "bad   teams/main/config.yaml:1:10: `profile`: there is no profile `defalt`; expected \
         `default`; did you mean `default`?\n"
    );
    stage.write("skep.yaml", "limts: {}\n");
    stage.write("channels.yaml", "ws: {enabled: 5}\n");
    stage.write("teams/plain/config.yaml", "engin: blunt\n");
    let all = command(stage.home(), &["config", "check", "--json"]).await;
    assert_eq!(all.code, Some(2));
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let found: Vec<(String, Option<u64>)> = all["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["key"].as_str().unwrap().to_owned(), problem["line"].as_u64()))
        .collect();
    let expected = ["limts", "ws.enabled", "engin"].map(|key| (key.to_owned(), Some(1)));
    assert_eq!(found, expected);
    let printed = command(stage.home(), &["config", "schema", "agent"]).await;
    let schema: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(schema["properties"]["profile"]["x-holds"], "profile");
    let printed = command(stage.home(), &["config", "schema", "--json"]).await;
    let all: Value = serde_json::from_str(&printed.stdout).unwrap();
    let names: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(names, ["skep.json", "providers.json", "channels.json", "agent.json"]);
}
