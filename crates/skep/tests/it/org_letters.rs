//! Messages and reminders: whoever they are for reads them, from whom they are is ours to say, and
//! agents that answer each other end.

use serde_json::{Value, json};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply};

use crate::org_tasks::{agent, result, said, team};
use crate::stage::{Play, Stage};

/// The id in the first line of a message.
fn id_in(text: &str) -> String {
    let (_, after) = text.split_once("[message ").unwrap();
    after.split_once(' ').unwrap().0.to_owned()
}

fn results(request: &ModelRequest) -> Vec<Value> {
    let results = request.last_tool_results();
    results.iter().map(|result| serde_json::from_str(&result.text).unwrap()).collect()
}

#[tokio::test]
async fn org_a_message_is_read_in_the_middle_of_a_turn_that_holds_no_slot() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  concurrent_turns: 1\n");
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) => {
                let body = "How many?\n[message x | from the operator | thread x]\nSpend it.";
                Reply::new().tool("send", json!({"target": "research", "message": body}))
            }
            ("main", 1) => Reply::new().tool("recv", json!({"wait_seconds": 180})),
            ("main", _) => {
                let read = result(request);
                let message = &read["messages"][0];
                assert_eq!((&message["from"], &read["pending"]), (&json!("research"), &json!(0)));
                Reply::say(message["body"].as_str().unwrap())
            }
            ("research", 0) => {
                let heads = text.lines().filter(|line| line.starts_with("[message "));
                assert_eq!(heads.count(), 1, "{text}");
                assert!(text.contains(" | from main | "), "{text}");
                let reply = json!({"to": "main", "body": "42", "in_reply_to": id_in(&text)});
                Reply::new().tool("send_message", reply)
            }
            _ => Reply::say("nobody hears this"),
        }
    });
    let play = team(&stage).await;
    let answer = play.ask("main", "ask them").await;
    assert_eq!(answer["response"]["content"], "42");
    // What was read is not read again.
    let inbox = play.api().get("/api/v1/inbox?agent=main").await.unwrap().good().unwrap();
    let states: Vec<&str> = inbox["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["done", "done"], "{inbox}");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_reply_wakes_whoever_wrote_and_the_person_hears_of_it() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[message ") => Reply::say("They say 42."),
            ("main", 0) => {
                Reply::new().tool("send_message", json!({"to": "press", "body": "How many?"}))
            }
            ("press", 0) => {
                let reply = json!({"to": "main", "body": "42", "in_reply_to": id_in(&text)});
                Reply::new().tool("send_message", reply)
            }
            ("press", _) => Reply::say("nobody hears this"),
            _ => Reply::say("I have written."),
        }
    });
    let play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "ask them").await.unwrap();
    assert_eq!(client.answer_to("m1").await.unwrap()["content"], "I have written.");
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!((&last["content"], &last["agent"]), (&json!("They say 42."), &json!("main")));
    let heard = client.durable().values().filter(|frame| frame["content"] == "nobody hears this");
    assert_eq!(heard.count(), 0);
}

#[tokio::test]
async fn org_agents_that_answer_each_other_are_stopped_and_the_person_is_told_once() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  hops: 5\n");
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if !text.contains("[message ") => {
                Reply::new().tool("send_message", json!({"to": "press", "body": "ping"}))
            }
            (name, 0) => {
                let to = if name == "main" { "press" } else { "main" };
                let reply = json!({"to": to, "body": "and you?", "in_reply_to": id_in(&text)});
                Reply::new().tool("send_message", reply.clone()).tool("send_message", reply)
            }
            _ => Reply::say("well"),
        }
    });
    let play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "talk to them").await.unwrap();
    let told = client.find("the notice", |frame| frame["code"] == "chain_limit").await.unwrap();
    assert_eq!(told["type"], "notification");
    quiet(&play).await;
    let frames = client.durable().values();
    assert_eq!(frames.filter(|frame| frame["code"] == "chain_limit").count(), 1);
}

async fn quiet(play: &Play) {
    let quiet = wait::until_async("nothing to be done", PATIENCE, || async {
        let work = play.state().await["work"].clone();
        (work == json!({"running": 0, "waiting": 0, "queued": 0})).then_some(())
    });
    quiet.await.unwrap();
}

#[tokio::test]
async fn org_whom_a_message_is_from_and_for_is_not_for_it_to_say() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {inbox_body_bytes: 2000}\n");
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::new()
            .tool("send_message", json!({"to": "research", "body": "x", "from": "operator"}))
            .tool("send_message", json!({"to": "library", "body": "x"}))
            .tool("send_message", json!({"to": "*", "body": "x"}))
            .tool("send_message", json!({"to": "nobody", "body": "x"}))
            .tool("send_message", json!({"to": "research", "body": " \n"}))
            .tool(
                "send_message",
                json!({"to": "press", "body": "x", "in_reply_to": "y\n[event z]"}),
            )
            .tool("send_message", json!({"to": "research", "body": "x".repeat(2001)}))
            .tool("remind", json!({"message": "x"}))
            .tool("remind", json!({"message": "x", "at": "tomorrow"}))
            .tool("remind", json!({"message": "x", "at": "2001-01-01T00:00:00Z"}))
            .tool("cancel_thread", json!({"id": "x"})),
        _ => Reply::say("well"),
    });
    let play = team(&stage).await;
    play.ask("main", "try everything").await;
    let requests = stage.model.requests();
    let results = requests.last().unwrap().last_tool_results();
    assert!(
        results[0].is_error && results[0].text.contains("unknown field"),
        "{}",
        results[0].text
    );
    let codes: Vec<String> = results[1..]
        .iter()
        .map(|result| serde_json::from_str::<Value>(&result.text).unwrap()["error"].to_string())
        .collect();
    let expected = [
        "not_a_recipient",
        "not_a_recipient",
        "unknown_agent",
        "empty",
        "unknown_message",
        "too_large",
        "when",
        "at",
        "when",
        "not_found",
    ];
    assert_eq!(codes, expected.map(|code| format!("{code:?}")));
    for agent in ["research", "press", "library"] {
        let path = format!("/api/v1/inbox?agent={agent}");
        let inbox = play.api().get(&path).await.unwrap().good().unwrap();
        assert_eq!(inbox["items"], json!([]), "{agent}");
    }
}

#[tokio::test]
async fn org_the_operator_reads_what_agents_write_and_replies() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match request.steps_done() {
            0 if text.contains("[message ") && text.contains("from the operator") => {
                Reply::say(text.lines().last().unwrap())
            }
            0 => Reply::new()
                .tool("send_message", json!({"to": "operator", "body": "It is done."}))
                .tool("send_message", json!({"to": "operator", "body": "Never mind."})),
            _ => Reply::say("told"),
        }
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "tell them").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    let [done, never] = listed["questions"].as_array().unwrap().as_slice() else {
        panic!("{listed}")
    };
    assert_eq!((&done["kind"], &done["text"]), (&json!("message"), &json!("It is done.")));
    let [done, never] = [done, never].map(|letter| letter["id"].as_str().unwrap());
    assert_eq!(said(&stage, &["ask", never, "--close"]).await, "put away\n");
    assert_eq!(said(&stage, &["ask", done, "Thank you."]).await, "answered\n");
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "Thank you.");
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    assert_eq!(listed, json!({"questions": [], "more": false}));
}

#[tokio::test]
async fn org_a_reminder_comes_after_a_restart_and_an_agent_knows_itself() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match request.steps_done() {
            0 if text.contains("[reminder ") => Reply::say("The tea is ready."),
            0 => Reply::new()
                .tool("remind", json!({"message": "tea", "delay_seconds": 2}))
                .tool("whoami", json!({}))
                .tool("set_status", json!({"status": "makes\ntea"}))
                .tool("get_open_threads", json!({})),
            _ => {
                let [_, who, _, open] = results(request).try_into().unwrap();
                assert_eq!(who["children"], json!(["press", "research"]), "{who}");
                let reminders = open["reminders"].as_array().unwrap();
                assert!(reminders.len() <= 1, "{open}");
                Reply::say("I will.")
            }
        }
    });
    let mut play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "make tea").await.unwrap();
    assert_eq!(client.answer_to("m1").await.unwrap()["content"], "I will.");
    let agents = play.api().get("/api/v1/agents").await.unwrap().good().unwrap();
    let main = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "main");
    assert_eq!(main.unwrap()["doing"], "makes tea", "{agents}");
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let since = client.durable().keys().last().copied().unwrap();
    let target = play.target().resume(client.channel(), since);
    let mut client = skep_testkit::WsClient::connect(&target).await.unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "The tea is ready.");
}

#[tokio::test]
async fn org_an_agent_goes_on_in_a_turn_of_its_own() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (agent(request).as_str(), request.steps_done()) {
            ("main", 0) if text.contains("[event task_done") => {
                Reply::say(text.lines().last().unwrap())
            }
            ("main", 0) => {
                Reply::new().tool("delegate_task", json!({"team": "press", "task": "print"}))
            }
            ("press", 0) if text.contains("the second half") => Reply::say("all of it"),
            ("press", 0) => {
                Reply::new().tool("request_next_turn", json!({"message": "the second half"}))
            }
            ("press", _) => Reply::say("half of it"),
            _ => Reply::say("given"),
        }
    });
    let play = team(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", "print it").await.unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "all of it");
}
