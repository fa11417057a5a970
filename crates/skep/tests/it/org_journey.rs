//! The whole way of a request: a person asks `main`, which has two teams made (the operator
//! approves), gives both work, passes a question on to the operator, and answers once.
//!
//! What each agent says follows from its conversation alone, so that the same is said after a
//! crash.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply, WsClient};

use crate::org_spawn::rows;
use crate::org_tasks::{agent, said};
use crate::stage::{Play, Stage};

const TEAMS: [&str; 2] = ["research", "press"];
const FOUND: &str = "The colour is blue.";
const PRINTED: &str = "It is printed.";
const LAST_WORD: &str = "The book is done. The colour is blue. It is printed.";
/// How often the operator looks for what waits.
const LOOK: Duration = Duration::from_millis(20);

/// Plays every agent. Each model call takes this long.
pub fn script(stage: &Stage, takes: Duration) {
    stage.model.answer_with(move |request| {
        let reply = match agent(request).as_str() {
            _ if request.last_user_text().contains("You lead the new team") => Reply::say("Ready."),
            "main" => lead(request),
            "research" => find(request),
            _ => print(request),
        };
        reply.delay_first(takes)
    });
}

/// Events and the teams' question come in any order, into running turns or turns of their own.
fn lead(request: &ModelRequest) -> Reply {
    let made = request.tool_results().iter().filter(|it| it.text.contains("queued")).count();
    let order = |team| json!({"name": team, "scope_accepts": ["books"], "allowed_tools": ["*"]});
    let task = |team, task| json!({"team": team, "task": task});
    if !calls(request, "spawn_team") {
        let [first, second] = TEAMS;
        Reply::new().tool("spawn_team", order(first)).tool("spawn_team", order(second))
    } else if made < 2 {
        Reply::say("I have asked for two teams.")
    } else if !calls(request, "delegate_task") {
        Reply::new()
            .tool("delegate_task", task("research", "find the colour"))
            .tool("delegate_task", task("press", "print it"))
    } else if hears(request, "Which colour?") && !calls(request, "escalate") {
        Reply::call("escalate", json!({"message": "Which colour?"}))
    } else if hears(request, FOUND) && hears(request, PRINTED) {
        Reply::say(LAST_WORD)
    } else if hears(request, "Answer:\nblue") {
        Reply::say("blue")
    } else {
        Reply::say("They work at it.")
    }
}

fn find(request: &ModelRequest) -> Reply {
    if !calls(request, "escalate") {
        Reply::call("escalate", json!({"message": "Which colour?"}))
    } else if !hears(request, "blue") {
        Reply::say("I have asked.")
    } else if !calls(request, "effect") {
        Reply::call("effect", json!({"text": "paint"}))
    } else {
        Reply::say(FOUND)
    }
}

fn print(request: &ModelRequest) -> Reply {
    match calls(request, "effect") {
        false => Reply::call("effect", json!({"text": "print"})),
        true => Reply::say(PRINTED),
    }
}

/// Whether the agent has called this tool in this conversation.
fn calls(request: &ModelRequest, tool: &str) -> bool {
    blocks(request, "assistant").any(|block| block["type"] == "tool_use" && block["name"] == tool)
}

/// Whether the agent was told this in this conversation.
fn hears(request: &ModelRequest, text: &str) -> bool {
    let told = blocks(request, "user").filter_map(|block| block["text"].as_str());
    told.into_iter().any(|told| told.contains(text))
}

fn blocks<'a>(request: &'a ModelRequest, role: &'a str) -> impl Iterator<Item = &'a Value> {
    let said = request.messages().iter().filter(move |message| message["role"] == role);
    said.flat_map(|message| message["content"].as_array().into_iter().flatten())
}

/// A person at a socket, with what was said to them; comes back to the same channel.
#[derive(Default)]
pub struct Person {
    channel: Option<String>,
    frames: BTreeMap<u64, Value>,
}

impl Person {
    pub fn has_last_word(&self) -> bool {
        self.frames.values().any(|frame| frame["about"] == "m1")
    }

    /// Asks, and listens until the last word, or until the hive is gone.
    pub async fn listen(&mut self, play: &Play) {
        let mut target = play.target();
        if let Some(channel) = &self.channel {
            target = target.resume(channel, self.frames.keys().last().copied().unwrap_or(0));
        }
        let Ok(Ok(mut client)) = WsClient::try_connect(&target).await else { return };
        self.channel = Some(client.channel().to_owned());
        // Harmless where it was taken before.
        if client.say("m1", "make a book").await.is_err() {
            return;
        }
        while let Ok(Some(frame)) = client.receive().await {
            self.frames.extend(client.durable().clone());
            if frame["about"] == "m1" {
                return;
            }
        }
    }
}

/// Approves and answers whatever waits, until the hive is gone.
pub async fn operate(play: &Play) {
    while answer_all(play).await.is_ok() {
        tokio::time::sleep(LOOK).await;
    }
}

async fn answer_all(play: &Play) -> anyhow::Result<()> {
    let api = play.api();
    let waiting = api.get("/api/v1/approvals").await?.good()?;
    for asked in waiting["approvals"].as_array().unwrap() {
        let path = format!("/api/v1/approvals/{}/decision", asked["id"].as_str().unwrap());
        api.post(&path, &json!({"decision": "approve", "hash": asked["hash"]})).await?.good()?;
    }
    let waiting = api.get("/api/v1/questions").await?.good()?;
    for asked in waiting["questions"].as_array().unwrap() {
        let path = format!("/api/v1/questions/{}/answer", asked["id"].as_str().unwrap());
        api.post(&path, &json!({"answer": "blue"})).await?.good()?;
    }
    Ok(())
}

/// A person who asks and an operator who answers, until the last word or the end of the hive.
pub async fn live(play: &Play, person: &mut Person) {
    tokio::select! {
        () = person.listen(play) => {}
        () = operate(play) => {}
    }
}

/// Everything was done, once, and nothing is left to do.
pub async fn is_whole(stage: &Stage, play: &Play, person: &Person, after: &str) {
    let open = "SELECT count(*) FROM items WHERE finished_at IS NULL";
    let quiet =
        wait::until("all work to end", PATIENCE, || (rows(stage, open) == "0").then_some(()));
    quiet.await.unwrap_or_else(|error| panic!("{after}: {error:#}"));
    // What the person was told, from the first frame on.
    let target = play.target().resume(person.channel.as_deref().unwrap(), 0);
    let mut client = WsClient::connect(&target).await.unwrap();
    client.say("m2", "/status").await.unwrap();
    client.answer_to("m2").await.unwrap();
    let frames: Vec<&Value> = client.durable().values().collect();
    let told = |key: &str, value: &str| -> Vec<&Value> {
        frames.iter().filter(|frame| frame[key] == value).map(|frame| &frame["content"]).collect()
    };
    assert_eq!(told("about", "m1"), [LAST_WORD], "{after}");
    let answered = frames.iter().filter(|frame| frame["in_reply_to"] == json!(["m1"]));
    let answered: Vec<&Value> = answered.map(|frame| &frame["content"]).collect();
    assert_eq!(answered.len(), 1, "{after}: {answered:?}");
    assert_eq!(told("status", "task_done").len(), 2, "{after}: {frames:?}");
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "error").count(), 0, "{after}");
    // Two teams, made once each, and every task ended once with its result.
    let counted = "SELECT (SELECT group_concat(name || ' ' || bootstrapped) FROM (SELECT name, \
                   bootstrapped FROM agents WHERE removed_at IS NULL ORDER BY name)), \
                   (SELECT count(*) FROM org_ops), \
                   (SELECT count(*) FROM org_ops WHERE ended_at IS NULL), \
                   (SELECT count(*) FROM items WHERE kind = 'bootstrap')";
    let expected = "main 1,plain 1,press 1,research 1|2|0|2";
    assert_eq!(rows(stage, counted), expected, "{after}");
    let states = "SELECT group_concat(DISTINCT state) FROM items";
    assert_eq!(rows(stage, states), "done", "{after}");
    assert_eq!(chain(play, stage).await, ENDED, "{after}");
    for team in TEAMS {
        assert!(stage.home().join("teams").join(team).join("config.yaml").exists(), "{after}");
    }
    let staged = stage.home().join("run/staging");
    assert_eq!(fs::read_dir(staged).map_or(0, |entries| entries.count()), 0, "{after}");
    // Each effect once; one whose outcome nobody knows is shown and not repeated.
    let (effects, state) = (stage.effects.total().unwrap(), play.state().await);
    let unknown = state["unknown_calls"].as_array().unwrap().len();
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new(), "{after}");
    assert!(effects <= 2 && effects + unknown >= 2, "{after}: {effects}, {unknown} unknown");
    assert_eq!(stage.model.refusals(), Vec::<String>::new(), "{after}");
}

/// The tasks of the chain, whoever was the first to end.
const ENDED: [&str; 6] = [
    "main → operator: done ",
    "main → operator: done ",
    "main → operator: done blue",
    "main → press: done It is printed.",
    "main → research: done The colour is blue.",
    "research → main: done blue",
];

async fn chain(play: &Play, stage: &Stage) -> Vec<String> {
    let root = rows(stage, "SELECT id FROM items WHERE message_id = 'm1'");
    let shown = play.api().get(&format!("/api/v1/inbox/{root}")).await.unwrap().good().unwrap();
    let word = |task: &Value, key: &str| task[key].as_str().unwrap_or_default().to_owned();
    let line = |task: &Value| {
        let [from, to, state, result] =
            ["from", "agent", "state", "result"].map(|key| word(task, key));
        format!("{from} → {to}: {state} {result}")
    };
    let mut lines: Vec<String> = shown["chain"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn org_a_request_makes_teams_gives_them_work_and_is_answered_once() {
    let stage = Stage::new().await;
    script(&stage, Duration::ZERO);
    let play = stage.up().await;
    let mut person = Person::default();
    live(&play, &mut person).await;
    is_whole(&stage, &play, &person, "undisturbed").await;
    // The chain as a person reads it, without ids.
    let root = rows(&stage, "SELECT id FROM items WHERE message_id = 'm1'");
    let shown = said(&stage, &["task", "show", &root]).await;
    let tasks = shown.lines().skip_while(|line| *line != "tasks:").skip(1);
    let tasks = tasks.take_while(|line| line.starts_with(' '));
    let (results, tasks): (Vec<&str>, Vec<&str>) =
        tasks.partition(|line| line.trim_start().starts_with("= "));
    assert_eq!(results.len(), tasks.len(), "each has its result: {shown}");
    let tasks: Vec<String> = tasks
        .iter()
        .map(|line| {
            let (_id, task) = line.trim_start().split_once(' ').unwrap();
            format!("{}{task}", &line[..line.len() - line.trim_start().len()])
        })
        .collect();
    let team = |name: &str| {
        let order = json!({"name": name, "scope_accepts": ["books"], "allowed_tools": ["*"]});
        format!("  shape main → operator: done  spawn_team {order}")
    };
    let asked = [
        "  delegate main → research: done  find the colour",
        "    escalate research → main: done  Which colour?",
        "      escalate main → operator: done  Which colour?",
    ];
    assert!(tasks.windows(3).any(|tasks| tasks == asked), "{shown}");
    let others = [&team("press"), &team("research"), "  delegate main → press: done  print it"];
    let mut rest: Vec<&str> = tasks.iter().map(String::as_str).collect();
    rest.retain(|task| !asked.contains(task));
    rest.sort_by_key(|task| others.iter().position(|other| other == task));
    assert_eq!(rest, others, "{shown}");
}
