//! An agent that is removed leaves nothing that a new one of its name could see or use.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::http::{Answer, answer};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::org_spawn::{ALLOWED, agents, result, rows};
use crate::org_tasks::{agent, configure};
use crate::stage::{Play, Stage};

async fn remove(play: &Play, name: &str, cascade: bool) -> Answer {
    let path = format!("/api/v1/agents/{name}?cascade={cascade}");
    answer(play.api().request(Method::DELETE, &path)).await.unwrap()
}

async fn get(play: &Play, path: &str) -> Value {
    play.api().get(path).await.unwrap().good().unwrap()
}

/// What tells of a removed agent, of those that were there.
fn is_gone(stage: &Stage, names: &[&str]) {
    for name in names {
        assert!(!stage.home().join("teams").join(name).exists(), "{name}");
        let living = format!(
            "SELECT (SELECT count(*) FROM agents WHERE name = '{name}' AND removed_at IS NULL), \
             (SELECT count(*) FROM agent_scope s JOIN agents a ON a.id = s.agent \
             WHERE a.name = '{name}'), \
             (SELECT count(*) FROM vault v JOIN agents a ON a.id = v.owner \
             WHERE a.name = '{name}'), \
             (SELECT count(*) FROM grants g JOIN agents a ON a.id = g.agent \
             WHERE a.name = '{name}' AND g.revoked_at IS NULL), \
             (SELECT count(*) FROM tokens t JOIN agents a ON a.id = t.agent \
             WHERE a.name = '{name}' AND t.revoked_at IS NULL), \
             (SELECT count(*) FROM items i JOIN agents a ON a.id = i.agent \
             WHERE a.name = '{name}' AND i.finished_at IS NULL), \
             (SELECT count(*) FROM turns t JOIN agents a ON a.id = t.agent \
             WHERE a.name = '{name}' AND t.ended_at IS NULL), \
             (SELECT count(*) FROM tasks t JOIN agents a ON a.id IN (t.agent, t.from_agent) \
             WHERE a.name = '{name}' AND t.state = 'open'), \
             (SELECT count(*) FROM letters m JOIN agents a ON a.id = m.from_agent \
             WHERE a.name = '{name}' AND m.agent = 0 AND m.closed_at IS NULL), \
             (SELECT count(*) FROM reminders r JOIN agents a ON a.id = r.agent \
             WHERE a.name = '{name}'), \
             (SELECT count(*) FROM org_ops WHERE ended_at IS NULL)"
        );
        assert_eq!(rows(stage, &living), "0|0|0|0|0|0|0|0|0|0|0", "{name}");
    }
    let removed = stage.home().join("run/removed");
    assert_eq!(fs::read_dir(removed).map_or(0, |entries| entries.count()), 0);
}

#[tokio::test]
async fn org_a_removed_team_leaves_nothing_to_a_namesake() {
    let stage = Stage::new().await;
    let outside = stage.folder().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("mine.txt"), "kept").unwrap();
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event task_failed | team_removed") => {
                Reply::say("They are gone.")
            }
            ("main", 0) => Reply::call("delegate_task", json!({"team": "research", "task": "go"})),
            ("main", _) => Reply::say("They work."),
            ("research", 0) if text.contains("go") => Reply::new()
                .tool("ask_operator", json!({"question": "may I?"}))
                .tool("send_message", json!({"to": "operator", "body": "I begin."}))
                .tool("remind", json!({"message": "look", "delay_seconds": 3600})),
            ("research", 1) => Reply::call("query_team", json!({"team": "library", "query": "n?"})),
            ("library", 0) if text.contains("n?") => Reply::new().gate("never").text("late"),
            _ => Reply::say("I know nothing of it."),
        }
    });
    configure(&stage);
    let settings =
        format!("parent: research\nallowed_tools: ['*']\nworkspace: {}\n", outside.display());
    stage.write("teams/library/config.yaml", &settings);
    let play = stage.up().await;
    let secret = json!({"value": "canary-of-research-91", "hosts": []});
    let path = "/api/v1/vault/entries/KEY?agent=research";
    let set = answer(play.api().request(Method::PUT, path).json(&secret)).await.unwrap();
    assert!(set.status < 300, "{}", set.text);
    let token = json!({"name": "child", "role": "agent", "agent": "research"});
    let token = play.api().post("/api/v1/tokens", &token).await.unwrap().good().unwrap();
    let grant = json!({"tool": "bash", "command": "date", "minutes": 60});
    play.api().post("/api/v1/agents/research/grants", &grant).await.unwrap().good().unwrap();
    let mut client = play.ws().await;
    client.say("m1", "go").await.unwrap();
    client.answer_to("m1").await.unwrap();
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    play.tell("library", "main", "one more").await;
    assert_eq!(get(&play, "/api/v1/questions").await["questions"].as_array().unwrap().len(), 2);

    let alone = remove(&play, "research", false).await;
    assert_eq!((alone.status, &alone.json["code"]), (409, &json!("has_children")));
    let main = remove(&play, "main", true).await;
    assert_eq!((main.status, &main.json["code"]), (409, &json!("main_stays")));
    assert_eq!(remove(&play, "nobody", true).await.status, 404);
    let removed = remove(&play, "research", true).await.good().unwrap();
    assert_eq!(removed["removed"], json!(["library", "research"]), "leaves first");
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "They are gone.", "{last}");
    is_gone(&stage, &["research", "library"]);
    assert_eq!(get(&play, "/api/v1/questions").await["questions"], json!([]));
    assert_eq!(fs::read_to_string(outside.join("mine.txt")).unwrap(), "kept");
    let told = play.hive.api(Some(token["token"].as_str().unwrap())).unwrap();
    assert_eq!(told.get("/api/v1/agents").await.unwrap().status, 401);

    // Another one of that name begins with nothing.
    let new = json!({"name": "research", "parent": "main", "scope_accepts": ["Books"]});
    let made = play.api().post("/api/v1/agents", &new).await.unwrap();
    assert_eq!((made.status, &made.json), (201, &json!({"agent": "research"})));
    assert!(agents(&play).await.contains(&"research".to_owned()));
    assert_eq!(get(&play, "/api/v1/inbox?agent=research").await["items"], json!([]));
    let sessions = get(&play, "/api/v1/agents/research/sessions").await;
    assert_eq!(sessions["sessions"], json!([]), "{sessions}");
    let vault = get(&play, "/api/v1/vault").await;
    assert!(!vault.to_string().contains("KEY"), "{vault}");
    let grants = get(&play, "/api/v1/grants?agent=research").await;
    assert_eq!(grants["grants"], json!([]), "{grants}");
    let spent = "SELECT count(*) FROM usage_hours u JOIN agents a ON a.id = u.agent \
                 WHERE a.name = 'research' AND a.removed_at IS NULL";
    assert_eq!(rows(&stage, spent), "0");
    assert_eq!(play.ask("research", "n?").await["response"]["content"], "I know nothing of it.");
}

#[tokio::test]
async fn org_a_team_is_removed_by_the_agent_above_it() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::new()
            .tool("shutdown_team", json!({"name": "library"}))
            .tool("shutdown_team", json!({"name": "research"}))
            .tool("shutdown_team", json!({"name": "research", "cascade": true}))
            .tool("shutdown_team", json!({"name": "research"})),
        ("main", _) => {
            let results = request.last_tool_results();
            let told = results.iter().map(|it| serde_json::from_str::<Value>(&it.text).unwrap());
            let word = |told: Value| told["error"].as_str().unwrap_or("removed").to_owned();
            Reply::say(&told.map(word).collect::<Vec<_>>().join(" "))
        }
        _ => Reply::say("well"),
    });
    configure(&stage);
    stage.write("teams/main/config.yaml", ALLOWED);
    let play = stage.up().await;
    let answer = play.ask("main", "tidy up").await;
    let expected = "not_your_team has_children removed unknown_team";
    assert_eq!(answer["response"]["content"], expected);
    is_gone(&stage, &["research", "library"]);
    assert!(agents(&play).await.contains(&"press".to_owned()));
}

#[tokio::test]
async fn org_a_removal_is_asked_about_and_done_by_the_command_line() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::call("shutdown_team", json!({"name": "press"})),
        _ => Reply::say(result(request)["status"].as_str().unwrap()),
    });
    configure(&stage);
    let play = stage.up().await;
    assert_eq!(play.ask("main", "tidy up").await["response"]["content"], "awaiting_approval");
    let asked = play.question().await;
    assert!(stage.home().join("teams/press").exists());
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key");
    let rm = ["agent", "rm", "press"].iter().fold(start, |start, word| start.argument(*word));
    let said = rm.finish().await.unwrap();
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "removed press\n"), "{said:?}");
    is_gone(&stage, &["press"]);
    // What was asked for is done by then: the yes finds nobody to remove.
    play.answer(&asked, "approve").await.good().unwrap();
    let told = wait::until_async("what came of it", PATIENCE, || async {
        let rows = play.history("main", "main").await;
        rows.iter().any(|row| row.to_string().contains("unknown_team")).then_some(())
    });
    told.await.unwrap();
}

/// What would be refused is not asked about, and a yes does not change who leads whom.
#[tokio::test]
async fn org_a_yes_does_not_reach_beyond_the_own_teams() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::new()
            .tool("shutdown_team", json!({"name": "library"}))
            .tool("shutdown_team", json!({"name": "research"}))
            .tool("shutdown_team", json!({"name": "nobody"}))
            .tool("spawn_team", json!({"name": "press", "scope_accepts": ["x"]}))
            .tool("spawn_team", json!({"name": "Press", "scope_accepts": ["x"]}))
            .tool("request_spawn", json!({"name": "new", "description": "x"}))
            .tool("shutdown_team", json!({"name": "press"})),
        _ => Reply::say("well"),
    });
    configure(&stage);
    let play = stage.up().await;
    play.ask("main", "tidy up").await;
    let requests = stage.model.requests();
    let told = requests.last().unwrap().last_tool_results();
    let told: Vec<Value> =
        told.iter().map(|result| serde_json::from_str(&result.text).unwrap()).collect();
    let words: Vec<&str> = told
        .iter()
        .map(|told| told["error"].as_str().or(told["status"].as_str()).unwrap())
        .collect();
    let expected = [
        "not_your_team",
        "has_children",
        "unknown_team",
        "name_taken",
        "bad_name",
        "not_manager",
        "awaiting_approval",
    ];
    assert_eq!(words, expected);
    let asked = play.question().await;
    assert_eq!(asked["arguments"], json!({"name": "press"}), "{asked}");
    let open = get(&play, "/api/v1/approvals?state=open").await;
    assert_eq!(open["approvals"].as_array().unwrap().len(), 1, "{open}");
    // Somebody else leads the team by the time of the yes.
    stage.write("teams/press/config.yaml", "parent: research\nallowed_tools: ['*']\n");
    let moved = wait::until_true("the other parent", PATIENCE, || {
        let parent = "SELECT p.name FROM agents a JOIN agents p ON p.id = a.parent_id \
                      WHERE a.name = 'press'";
        rows(&stage, parent) == "research"
    });
    moved.await.unwrap();
    play.answer(&asked, "approve").await.good().unwrap();
    let told = wait::until_async("what came of it", PATIENCE, || async {
        let rows = play.history("main", "main").await;
        rows.iter().any(|row| row.to_string().contains("press is not directly below")).then_some(())
    });
    told.await.unwrap();
    assert!(agents(&play).await.contains(&"press".to_owned()));
}
