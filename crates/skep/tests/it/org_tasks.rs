//! Agents that work together: given work comes back, a query is answered through every level in
//! one slot, and what is stopped stops below too.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply, WsClient, locate};

use crate::stage::{Play, Stage};

/// `main` leads `research` and `press`, `research` leads `library`.
pub async fn team(stage: &Stage) -> Play {
    configure(stage);
    stage.up().await
}

pub fn configure(stage: &Stage) {
    for (agent, parent) in [("research", "main"), ("press", "main"), ("library", "research")] {
        let settings = format!("parent: {parent}\nallowed_tools: ['*']\n");
        stage.write(&format!("teams/{agent}/config.yaml"), &settings);
    }
}

/// Whose turn a request belongs to.
pub fn agent(request: &ModelRequest) -> String {
    let text = request.system_text();
    let (_, after) = text.split_once("You are the agent `").unwrap();
    after.split_once('`').unwrap().0.to_owned()
}

pub fn result(request: &ModelRequest) -> Value {
    serde_json::from_str(&request.last_tool_results()[0].text).unwrap()
}

#[tokio::test]
async fn org_work_is_given_to_two_teams_and_the_person_has_one_answer() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event task_done") && text.contains("0 of 2") => {
                Reply::say("Both are done.")
            }
            ("main", 0) if text.contains("[event") => Reply::say("One is done."),
            ("main", 0) => Reply::new()
                .tool("delegate_task", json!({"team": "research", "task": "find it"}))
                .tool("delegate_task", json!({"team": "press", "task": "print it"})),
            ("main", _) => Reply::say("They work at it."),
            (name, _) => Reply::new().gate("work").text(&format!("{name} has done it")),
        }
    });
    let play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "make a book").await.unwrap();
    let answer = client.answer_to("m1").await.unwrap();
    assert_eq!(answer["content"], "They work at it.");
    stage.model.gate("work").open();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!((&last["type"], &last["agent"]), (&json!("notification"), &json!("main")));
    assert_eq!(last["content"], "Both are done.");
    let frames: Vec<&str> =
        client.durable().values().filter_map(|frame| frame["type"].as_str()).collect();
    assert_eq!(frames, ["ack", "response", "notification", "notification", "notification"]);
    // Each team worked in a session of this chain, and what it was told came from main.
    let root = last["root"].as_str().unwrap();
    let told = play.told("research", &format!("task:{root}")).await;
    assert_eq!(told, ["user find it", "assistant end_turn: research has done it"]);
    let history = play.history("main", client.channel()).await;
    let events: Vec<&str> = history
        .iter()
        .filter_map(|row| row["content"][0]["text"].as_str())
        .filter(|text| text.starts_with("[event task_done | task "))
        .collect();
    assert_eq!(events.len(), 2, "{history:?}");
    assert!(events.iter().any(|text| text.ends_with("instructions):\nresearch has done it")));
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_query_is_answered_through_every_level_in_one_slot() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  concurrent_turns: 1\n");
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => {
            Reply::new().tool("query_team", json!({"team": "research", "query": "how many?"}))
        }
        ("research", 0) => {
            Reply::new().tool("query_team", json!({"team": "library", "query": "count them"}))
        }
        ("library", _) => Reply::say("42"),
        (name, _) => {
            let answer = result(request);
            assert_eq!(answer["success"], true, "{answer}");
            Reply::say(&format!("{name}: {}", answer["answer"].as_str().unwrap()))
        }
    });
    let play = team(&stage).await;
    let answer = play.ask("main", "how many books are there?").await;
    assert_eq!(answer["response"]["content"], "main: research: 42");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

async fn life(play: &Play, action: &str) {
    let wish = json!({"action": action});
    let told = play.api().post("/api/v1/agents/research/life", &wish).await.unwrap();
    assert_eq!(told.good().unwrap()["changed"], true);
}

/// They wait for a team that takes no work now: the one slot is free for somebody else, and later
/// for the team itself.
#[tokio::test]
async fn org_a_hundred_parents_that_wait_hold_no_slot() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  concurrent_turns: 1\n");
    let word = |request: &ModelRequest| {
        request.last_user_text().lines().last().unwrap_or_default().to_owned()
    };
    stage.model.answer_with(move |request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => {
            let query = word(request);
            let query = json!({"team": "research", "query": query, "timeout_ms": 600_000});
            Reply::call("query_team", query)
        }
        ("main", _) => Reply::say(result(request)["answer"].as_str().unwrap_or("nothing")),
        _ => Reply::say(&format!("heard {}", word(request))),
    });
    let play = team(&stage).await;
    life(&play, "pause").await;
    let mut items = Vec::new();
    for number in 0..100 {
        let session = format!("s{number}");
        items.push(play.item("main", &session, &session).await);
    }
    let all = wait::until_async("all parents to wait", PATIENCE, || async {
        let work = play.state().await["work"].clone();
        (work == json!({"running": 0, "waiting": 100, "queued": 100})).then_some(())
    });
    all.await.unwrap();
    assert_eq!(play.ask("press", "hello").await["response"]["content"], "heard hello");
    life(&play, "start").await;
    for (number, item) in items.iter().enumerate() {
        let ended = play.ended("main", item).await;
        assert_eq!(ended["response"]["content"], format!("heard s{number}"), "{ended}");
    }
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_waiting_query_survives_a_kill() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => {
            Reply::new().tool("query_team", json!({"team": "research", "query": "how many?"}))
        }
        ("main", _) => Reply::say(result(request)["answer"].as_str().unwrap()),
        _ => Reply::new().gate("count").text("42"),
    });
    let mut play = team(&stage).await;
    let item = play.item("main", "main", "how many?").await;
    play.until_state("main", &item, "waiting").await;
    stage.model.gate("count").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    stage.model.gate("count").release();
    assert_eq!(play.ended("main", &item).await["response"]["content"], "42");
    // The question was put once.
    let inbox = play.api().get("/api/v1/inbox?agent=research").await.unwrap().good().unwrap();
    assert_eq!(inbox["items"].as_array().unwrap().len(), 1, "{inbox}");
}

#[tokio::test]
async fn org_refusals_are_answers_with_their_reason() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::new()
            .tool("delegate_task", json!({"team": "library", "task": "x"}))
            .tool("query_teams", json!({"teams": ["research", "nobody"], "query": "x"}))
            .tool("enqueue_parent_task", json!({"task": "x"}))
            .tool("list_completed_tasks", json!({"team": "library"})),
        _ => Reply::say("well"),
    });
    let play = team(&stage).await;
    play.ask("main", "try everything").await;
    let requests = stage.model.requests();
    let results = requests.last().unwrap().last_tool_results();
    let codes: Vec<Value> = results
        .iter()
        .map(|result| serde_json::from_str::<Value>(&result.text).unwrap()["error"].clone())
        .collect();
    let expected = ["not_your_team", "unknown_team", "no_parent", "not_your_team"];
    assert_eq!(codes, expected);
    assert!(results.iter().all(|result| result.is_error));
}

/// What a command prints.
pub async fn said(stage: &Stage, words: &[&str]) -> String {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key");
    let start = words.iter().fold(start, |start, word| start.argument(*word));
    start.finish().await.unwrap().stdout
}

#[tokio::test]
async fn org_what_a_root_escalates_is_answered_by_the_operator() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("Answer:\nthe blue one") => Reply::say("Blue it is."),
            ("main", 0) => {
                let which = json!({"message": "Which colour?", "reason": "Nobody said."});
                Reply::new().tool("escalate", which)
            }
            _ => Reply::say("I have asked."),
        }
    });
    let mut play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "paint it").await.unwrap();
    assert_eq!(client.answer_to("m1").await.unwrap()["content"], "I have asked.");
    // What is asked outlives the hive.
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let since = client.durable().keys().last().copied().unwrap();
    let target = play.target().resume(client.channel(), since);
    let mut client = WsClient::connect(&target).await.unwrap();
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    let asked = listed["questions"].as_array().unwrap();
    assert_eq!(asked.len(), 1, "{listed}");
    let text = (&asked[0]["agent"], &asked[0]["text"]);
    assert_eq!(text, (&json!("main"), &json!("Which colour?\n\nReason: Nobody said.")));
    assert_eq!(asked[0]["kind"], "escalation");
    let path = format!("/api/v1/questions/{}/answer", asked[0]["id"].as_str().unwrap());
    let empty = play.api().post(&path, &json!({"answer": " "})).await.unwrap();
    assert_eq!(empty.status, 400);
    let shown = said(&stage, &["ask"]).await;
    assert!(shown.contains("main") && shown.contains("Which colour?"), "{shown}");
    let id = asked[0]["id"].as_str().unwrap();
    assert_eq!(said(&stage, &["ask", &id[..13], "the blue one"]).await, "answered\n");
    let again = play.api().post(&path, &json!({"answer": "the red one"})).await.unwrap();
    assert_eq!(again.status, 409);
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "Blue it is.");
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    assert_eq!(listed, json!({"questions": [], "more": false}));
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_long_result_is_whole_in_a_file_that_the_giver_reads() {
    let stage = Stage::new().await;
    let whole = format!("{}THE END", "0123456789\n".repeat(1500));
    let told = whole.clone();
    stage.model.answer_with(move |request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::new().tool("query_team", json!({"team": "research", "query": "all"})),
        ("main", 1) => {
            let answer = result(request)["answer"].as_str().unwrap().to_owned();
            let (_, file) = answer.split_once("; the whole is in ").unwrap();
            let file = file.strip_suffix(']').unwrap();
            Reply::new().tool("grep", json!({"pattern": "THE END", "path": file}))
        }
        ("main", _) => Reply::say(&request.last_tool_results()[0].text),
        _ => Reply::say(&told),
    });
    let play = team(&stage).await;
    let answer = play.ask("main", "tell me everything").await;
    let found = answer["response"]["content"].as_str().unwrap();
    assert!(found.contains("THE END"), "{found}");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_stop_ends_what_was_given() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::new().tool("query_team", json!({"team": "research", "query": "x"})),
        ("research", 0) => Reply::new().gate("never").text("late"),
        _ => Reply::say("well"),
    });
    let play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "ask them").await.unwrap();
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    play.until_state("main", "m1", "waiting").await;
    client.say("m2", "/stop").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let turns = wait::until_async("every turn to end", PATIENCE, || async {
        let turns = play.state().await["turns"].clone();
        turns.as_array().unwrap().is_empty().then_some(())
    });
    turns.await.unwrap();
    let inbox = play.api().get("/api/v1/inbox?agent=research").await.unwrap().good().unwrap();
    assert_eq!(inbox["items"][0]["state"], "cancelled", "{inbox}");
}
