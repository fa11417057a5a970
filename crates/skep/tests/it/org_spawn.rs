//! A new team is there as a whole or not at all, and never has more than the agent that made it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::canary::Canary;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply, WsClient};

use crate::org_journey::operate;
use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

/// `main` makes teams without a question.
pub const ALLOWED: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: allow, tool: spawn_team}\n  \
                           - {effect: allow, tool: shutdown_team}\n";

pub fn result(request: &ModelRequest) -> Value {
    serde_json::from_str(&request.last_tool_results()[0].text).unwrap()
}

/// What `sqlite3` says to this, of a hive that may run.
pub fn rows(stage: &Stage, sql: &str) -> String {
    let database = stage.home().join("run/skep.db");
    let said = Command::new("sqlite3").arg("-readonly").arg(database).arg(sql).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

pub async fn agents(play: &Play) -> Vec<String> {
    let page = play.api().get("/api/v1/agents").await.unwrap().good().unwrap();
    let agents = page["agents"].as_array().unwrap().iter();
    agents.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

/// Nothing tells that somebody wanted this agent.
pub async fn is_nowhere(stage: &Stage, play: &Play, name: &str) {
    assert!(!agents(play).await.contains(&name.to_owned()), "{name}");
    assert!(!stage.home().join("teams").join(name).join("config.yaml").exists(), "{name}");
    let left =
        |folder: &str| fs::read_dir(stage.home().join(folder)).map_or(0, |entries| entries.count());
    assert_eq!(left("run/staging"), 0, "{name}");
    let count = format!(
        "SELECT (SELECT count(*) FROM agents WHERE name = '{name}'), \
         (SELECT count(*) FROM org_ops WHERE name = '{name}' AND ended_at IS NULL), \
         (SELECT count(*) FROM vault), (SELECT count(*) FROM agent_scope)"
    );
    assert_eq!(rows(stage, &count), "0|0|0|0", "{name}");
}

fn order(secret: &Canary) -> Value {
    json!({
        "name": "writers", "description": "Writes things down.",
        "scope_accepts": ["Letters", "books"], "init_context": "We write in English.",
        "credentials": {"PRESS_TOKEN": secret.value()}, "allowed_tools": ["@files", "bash"],
    })
}

#[tokio::test]
async fn org_a_team_is_spawned_gets_ready_and_works() {
    let stage = Stage::new().await;
    let tools = "allowed_tools: [read, grep, spawn_team, delegate_task, list_teams]\n";
    let policy = "policy:\n  - {effect: allow, tool: spawn_team}\n";
    stage.write("teams/main/config.yaml", &format!("{tools}{policy}"));
    let secret = Canary::new("press");
    let wanted = order(&secret);
    stage.model.answer_with(move |request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event task_done") => Reply::say("All is written."),
            ("main", 0) => Reply::call("spawn_team", wanted.clone()),
            ("main", 1) => {
                let made = result(request);
                assert_eq!((&made["status"], &made["team"]), (&json!("queued"), &json!("writers")));
                assert_eq!(made["allowed_tools"], json!(["read", "grep"]), "{made}");
                Reply::new()
                    .tool("delegate_task", json!({"team": "writers", "task": "write it"}))
                    .tool("list_teams", json!({}))
            }
            ("main", _) => Reply::say("They are at it."),
            ("writers", _) if text.contains("You lead the new team `writers`") => {
                assert!(text.contains("The agent above you is `main`"), "{text}");
                assert!(text.contains("letters, books"), "{text}");
                assert!(request.system_text().contains("We write in English."));
                assert_eq!(request.tool_names(), ["grep", "read"]);
                Reply::say("Ready.")
            }
            _ => Reply::say("written"),
        }
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "write it").await.unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "All is written.");
    let config = fs::read_to_string(stage.home().join("teams/writers/config.yaml")).unwrap();
    assert!(config.contains("parent: \"main\"\n"), "{config}");
    assert!(!stage.home().join("teams/writers/.made-by").exists());
    assert_eq!(fs::read_dir(stage.home().join("run/staging")).unwrap().count(), 0);
    let told = "SELECT (SELECT group_concat(word) FROM agent_scope), (SELECT name FROM vault), \
                (SELECT bootstrapped FROM agents WHERE name = 'writers'), \
                (SELECT count(*) FROM org_ops WHERE ended_at IS NOT NULL)";
    assert_eq!(rows(&stage, told), "books,letters|PRESS_TOKEN|1|1");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    let seen = secret.find_below(stage.home()).unwrap();
    assert!(seen.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn org_a_spawn_that_is_approved_has_its_credentials() {
    let stage = Stage::new().await;
    let secret = Canary::new("asked");
    let wanted = order(&secret);
    stage.model.answer_with(move |request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("approval_denied") => Reply::say("They said no."),
            ("main", 0) => Reply::call("spawn_team", wanted.clone()),
            ("main", _) => Reply::say(result(request)["status"].as_str().unwrap()),
            _ => Reply::say("Ready."),
        }
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "write it").await.unwrap();
    let answer = client.answer_to("m1").await.unwrap();
    assert_eq!(answer["content"], "awaiting_approval");
    let asked = play.question().await;
    assert_eq!(asked["arguments"]["credentials"], "[secret:credentials.writers]", "{asked}");
    is_nowhere(&stage, &play, "writers").await;
    play.answer(&asked, "approve").await.good().unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "queued", "{last}");
    assert!(agents(&play).await.contains(&"writers".to_owned()));
    assert_eq!(rows(&stage, "SELECT name, secret FROM vault"), "PRESS_TOKEN|1");
    assert!(secret.find_below(stage.home()).unwrap().is_empty());
}

/// Calls of one step are examined side by side, and counted in the commit that asks.
#[tokio::test]
async fn org_an_agent_has_at_most_twenty_changes_open() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => {
            let order = |n| json!({"name": format!("team-{n}"), "scope_accepts": ["books"]});
            (0..26).fold(Reply::new(), |reply, n| reply.tool("spawn_team", order(n)))
        }
        _ => {
            let results = request.last_tool_results();
            let over: Vec<_> = results.iter().filter(|result| result.is_error).collect();
            assert!(over.iter().all(|result| result.text.starts_with("too_many_open: ")));
            Reply::say(&format!("{} of {}", over.len(), results.len()))
        }
    });
    let play = stage.up().await;
    let answer = play.ask("main", "make them all").await;
    assert_eq!(answer["response"]["content"], "6 of 26", "{answer}");
    let told = "SELECT (SELECT count(*) FROM approvals WHERE state = 'open'), \
                (SELECT count(*) FROM tasks WHERE kind = 'shape'), \
                (SELECT group_concat(n) FROM (SELECT outcome || count(*) AS n FROM audit \
                 GROUP BY outcome ORDER BY 1))";
    assert_eq!(rows(&stage, told), "20|20|asked20,refused6");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// What was approved with the team: its first item writes its own rules, and no later one does.
#[tokio::test]
async fn org_the_first_item_of_a_team_writes_its_own_rules() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ALLOWED);
    let rules = stage.home().join("teams/writers/team-rules");
    let (own, org) = (rules.join("own.md"), stage.home().join("teams/writers/org-rules/org.md"));
    stage.model.answer_with(move |request| {
        let text = request.last_user_text();
        let write = |path: &Path| json!({"file_path": path, "content": "# Style\n\nBe short."});
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) => {
                let order = json!({"name": "writers", "scope_accepts": ["books"]});
                Reply::call("spawn_team", order)
            }
            ("writers", 0) if text.contains("You lead the new team") => {
                Reply::call("write", write(&own))
            }
            ("writers", 1) if text.contains("You lead the new team") => {
                assert!(!request.last_tool_results()[0].is_error, "{:?}", request.tool_results());
                Reply::call("write", write(&org))
            }
            _ => Reply::say("well"),
        }
    });
    let play = stage.up().await;
    play.ask("main", "write it").await;
    // The other folder is asked about, and only that.
    let asked = play.question().await;
    let path = asked["arguments"]["file_path"].as_str().unwrap();
    assert!(path.ends_with("org-rules/org.md"), "{asked}");
    assert!(rules.join("own.md").exists());
    play.answer(&asked, "deny").await.good().unwrap();
}

/// After a restart nobody knows the values: nothing is made without them.
#[tokio::test]
async fn org_credentials_that_are_gone_make_no_team() {
    let stage = Stage::new().await;
    let wanted = order(&Canary::new("lost"));
    stage.model.answer_with(move |request| match request.steps_done() {
        0 => Reply::call("spawn_team", wanted.clone()),
        _ => {
            let made = result(request);
            Reply::say(made["error"].as_str().unwrap_or("asked"))
        }
    });
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "write it").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let asked = play.question().await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let since = client.durable().keys().last().copied().unwrap();
    let target = play.target().resume(client.channel(), since);
    let mut client = WsClient::connect(&target).await.unwrap();
    play.answer(&asked, "approve").await.good().unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "credentials_lost", "{last}");
    is_nowhere(&stage, &play, "writers").await;
}

/// What goes wrong, with what the call says then.
type Harm = (&'static str, fn(&Path, &mut Value), &'static str, Option<&'static str>);

#[tokio::test]
async fn org_a_spawn_that_fails_leaves_nothing() {
    let table: &[Harm] = &[
        ("a bad name", |_, order| order["name"] = json!("Writers"), "bad_name", None),
        ("a name that is taken", |_, order| order["name"] = json!("plain"), "name_taken", None),
        ("no keyword", |_, order| order["scope_accepts"] = json!([]), "no_keywords", None),
        (
            "an unknown preset",
            |_, order| order["allowed_tools"] = json!(["@all"]),
            "unknown_tool",
            { None },
        ),
        (
            "an unknown tool",
            |_, order| order["allowed_tools"] = json!(["read", "flytomoon"]),
            "unknown_tool",
            None,
        ),
        ("no profile", |_, order| order["profile"] = json!("none"), "unknown_profile", None),
        ("no engine", |_, order| order["engine"] = json!("none"), "unknown_engine", None),
        ("a variable", |_, order| order["profile"] = json!("${RIG_KEY}"), "unknown_profile", None),
        (
            "a file in the way",
            |home, _| {
                fs::create_dir_all(home.join("run")).unwrap();
                fs::write(home.join("run/staging"), "").unwrap();
            },
            "spawn_failed",
            Some("files"),
        ),
        (
            "a bad vault entry",
            |_, order| order["credentials"] = json!({"a key": "canary-aB3dE5gH7jK9"}),
            "bad_credentials",
            None,
        ),
        (
            "an ordinary word",
            |_, order| order["credentials"] = json!({"KEY": "operator"}),
            "bad_credentials",
            None,
        ),
        ("no text", |_, order| order["credentials"] = json!({"KEY": 7}), "bad_credentials", None),
    ];
    for (what, harm, code, step) in table {
        let stage = Stage::new().await;
        stage.write("teams/main/config.yaml", ALLOWED);
        let mut wanted = json!({
            "name": "writers", "scope_accepts": ["books"], "init_context": "x",
            "credentials": {"KEY": "canary-aB3dE5gH7jK9"},
        });
        let play = stage.up().await;
        harm(stage.home(), &mut wanted);
        stage.model.answer_with(move |request| match request.steps_done() {
            0 if agent(request) == "main" => Reply::call("spawn_team", wanted.clone()),
            _ => Reply::say("well"),
        });
        play.ask("main", "write it").await;
        let requests = stage.model.requests();
        let answered = requests.iter().rev().find(|request| !request.tool_results().is_empty());
        let told = result(answered.unwrap());
        assert_eq!(
            (&told["error"], told["step"].as_str()),
            (&json!(code), *step),
            "{what}: {told}"
        );
        if *what == "a file in the way" {
            fs::remove_file(stage.home().join("run/staging")).unwrap();
        }
        is_nowhere(&stage, &play, "writers").await;
    }
}

#[tokio::test]
async fn org_managers_ask_for_agents_and_start_and_stop_them() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nmanager: true\n");
    stage.write("teams/low/config.yaml", "parent: main\nallowed_tools: ['*']\n");
    stage.model.answer_with(|request| {
        let wanted = json!({"name": "helper", "description": "Helps."});
        match (agent(request).as_str(), request.steps_done()) {
            ("low", 0) => {
                Reply::new().tool("request_spawn", wanted).tool("kill", json!({"agent": "main"}))
            }
            ("main", 0) => Reply::new()
                .tool("kill", json!({"agent": "low"}))
                .tool("start", json!({"agent": "low"}))
                .tool("restart", json!({"agent": "low"}))
                .tool("kill", json!({"agent": "main"}))
                .tool("kill", json!({"agent": "plain"}))
                .tool("request_spawn", wanted),
            _ => Reply::say("well"),
        }
    });
    let play = stage.up().await;
    play.ask("main", "manage").await;
    let answers = |request: &ModelRequest| -> Vec<String> {
        let results = request.last_tool_results();
        let word = |answer: Value| match &answer["error"] {
            Value::String(code) => code.clone(),
            _ => answer["status"].as_str().unwrap_or("done").to_owned(),
        };
        results.iter().map(|it| word(serde_json::from_str(&it.text).unwrap())).collect()
    };
    let last = |of: &str| {
        let requests = stage.model.requests();
        requests.into_iter().rev().find(|request| agent(request) == of).unwrap()
    };
    let expected = ["done", "done", "done", "itself", "not_your_team", "awaiting_approval"];
    assert_eq!(answers(&last("main")), expected);
    let asked = play.question().await;
    play.answer(&asked, "deny").await.good().unwrap();
    // One that is no manager may nothing of this; its yes is never asked for.
    play.ask("low", "manage").await;
    let told = answers(&last("low"));
    assert_eq!(told[1], "not_manager", "{told:?}");
}

/// Every new team makes one of its own: the chain ends where its limit is, and the person hears of
/// it once.
#[tokio::test]
async fn org_teams_that_make_teams_are_stopped_with_one_notice() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  hops: 4\n");
    stage.write("teams/main/config.yaml", ALLOWED);
    stage.model.answer_with(|request| match request.steps_done() {
        0 => {
            let own = agent(request);
            let order = |twin: &str| {
                let name = format!("{own}-{twin}");
                json!({"name": name, "scope_accepts": ["books"], "allowed_tools": ["*"]})
            };
            let first = order("x");
            // The last one tries twice.
            match own.matches("-x").count() {
                4 => Reply::new().tool("spawn_team", first).tool("spawn_team", order("y")),
                _ => Reply::call("spawn_team", first),
            }
        }
        _ => {
            let results = request.last_tool_results();
            let word = |answer: &Value| match &answer["error"] {
                Value::String(code) => code.clone(),
                _ => answer["status"].as_str().unwrap().to_owned(),
            };
            let answers = results.iter().map(|it| word(&serde_json::from_str(&it.text).unwrap()));
            Reply::say(&answers.collect::<Vec<_>>().join(" and "))
        }
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "make a team").await.unwrap();
    // The operator says yes to everything.
    tokio::select! {
        found = client.find("the notice", |frame| frame["code"] == "chain_limit") => {
            found.unwrap();
        }
        () = operate(&play) => panic!("the hive is gone"),
    }
    let last = "main-x-x-x-x";
    let open = "SELECT count(*) FROM items WHERE finished_at IS NULL";
    let quiet =
        wait::until("all work to end", PATIENCE, || (rows(&stage, open) == "0").then_some(()));
    quiet.await.unwrap();
    let told = play.told(last, "main").await;
    assert!(told.last().unwrap().ends_with("chain_limit and chain_limit"), "{told:?}");
    let made = agents(&play).await;
    assert_eq!(made, ["main", "main-x", "main-x-x", "main-x-x-x", last, "plain"]);
    // All frames are here: this one comes after them.
    client.say("m2", "/status").await.unwrap();
    client.answer_to("m2").await.unwrap();
    let notices = client.durable().values().filter(|frame| frame["code"] == "chain_limit");
    assert_eq!(notices.count(), 1);
}
