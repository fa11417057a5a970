//! A session that grows too long is told to its model in notes; its rows stay as they are.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::model::Usage;
use skep_testkit::{ModelRequest, Reply, locate};

use crate::engine_prompt::prefix;
use crate::stage::{Play, Stage};
use crate::telling::lines;

const WIRES: [&str; 3] = ["anthropic", "openai", "openai-responses"];
const INSTRUCTION: &str = "Write these notes.";
const CARRIED: &str = "These are the notes you wrote about it:";

/// One agent for each wire, named like it; a window of ten thousand tokens.
async fn stage_of_wires() -> Stage {
    let stage = Stage::new().await;
    let mut profiles = "profiles:\n  default: {provider: rehearsal}\n".to_owned();
    for wire in WIRES {
        let base = stage.model.base_url();
        let url = if wire == "anthropic" { base } else { format!("{base}/v1") };
        profiles += &format!(
            "  {wire}:\n    provider: {wire}\n    model: scripted\n    api_url: {url}\n    \
             api_key: ${{RIG_KEY}}\n    context_window: 10000\n"
        );
        let agent = format!("allowed_tools: ['@files', look, effect]\nprofile: {wire}\n");
        stage.write(&format!("teams/{wire}/config.yaml"), &agent);
    }
    stage.write("providers.yaml", &profiles);
    stage
}

/// What a call is said to have used, in thousandths of the window.
fn used(share: u64) -> Usage {
    let tokens = share * 10;
    Usage { input_tokens: Some(tokens - 1), output_tokens: Some(1), ..Usage::default() }
}

/// A turn with thinking, two calls and an answer.
async fn turn(stage: &Stage, play: &Play, agent: &str, name: &str, tokens: u64) {
    let calls = Reply::new()
        .thinking(&format!("thought of {name}"))
        .tool("look", json!({"text": format!("{name}-a")}))
        .tool("look", json!({"text": format!("{name}-b")}))
        .usage(used(10));
    stage.model.push(calls);
    stage.model.push(Reply::say(&format!("answer {name}")).usage(used(tokens)));
    let ended = play.ask(agent, &format!("question {name}")).await;
    assert_eq!(ended["response"]["content"], format!("answer {name}"), "{ended}");
}

fn is_for_notes(request: &ModelRequest) -> bool {
    request.last_user_text().contains(INSTRUCTION)
}

fn seams(history: &[Value]) -> Vec<&Value> {
    history.iter().filter(|row| !row["details"]["compaction"].is_null()).collect()
}

fn begins_with(later: &ModelRequest, earlier: &ModelRequest) {
    let (before, after) = (prefix(earlier), prefix(later));
    assert!(
        after.starts_with(&before),
        "request {} does not begin with request {}:\n{before}\n{after}",
        later.number,
        earlier.number
    );
}

/// The notes are made over what the model was shown before, so that its cache holds, and what
/// follows the seam grows request by request as before.
#[tokio::test]
async fn engine_compact_before_the_window_is_full_on_every_wire() {
    let stage = stage_of_wires().await;
    let mut play = stage.up().await;
    for wire in WIRES {
        let first = stage.model.requests().len();
        let heavy = format!("1{}", "x".repeat(1000));
        turn(&stage, &play, wire, &heavy, 100).await;
        turn(&stage, &play, wire, "2", 700).await;
        turn(&stage, &play, wire, "3", 750).await;
        // Three quarters are used: notes first, then the turn.
        stage.model.push(Reply::say("NOTED: one").usage(used(740)));
        turn(&stage, &play, wire, "4", 200).await;
        play.hive.kill().await.unwrap();
        play = stage.up().await;
        turn(&stage, &play, wire, "5", 300).await;
        let requests = stage.model.requests().split_off(first);
        let notes: Vec<usize> =
            (0..requests.len()).filter(|at| is_for_notes(&requests[*at])).collect();
        assert_eq!((requests.len(), notes.as_slice()), (11, &[6][..]), "{wire}");
        for at in [1, 2, 3, 4, 5, 8, 9, 10] {
            begins_with(&requests[at], &requests[at - 1]);
        }
        // The notes are asked for over the first turn, which stood in the request before.
        let question = prefix(&requests[6]);
        let (shown, _) = question.split_once("[from the hive").unwrap();
        let (shown, _) = shown.rsplit_once("answer 1").unwrap();
        assert!(prefix(&requests[5]).starts_with(shown), "{wire}: {shown}");
        // The turn itself begins with the notes, and has what stayed whole.
        let shown = requests[7].body.to_string();
        assert!(shown.contains(CARRIED) && shown.contains("NOTED: one"), "{wire}: {shown}");
        assert!(!shown.contains("question 1") && shown.contains("question 2"), "{wire}: {shown}");
        assert_eq!(stage.model.refusals(), Vec::<String>::new(), "{wire}");
        let history = play.history(wire, "main").await;
        let told = lines(&history);
        assert_eq!(history.len(), 5 * 5 + 1, "every row is there, and the seam: {told:?}");
        let seams = seams(&history);
        assert_eq!(seams[0]["details"]["compaction"]["reason"], "full", "{wire}");
        assert_eq!(seams[0]["details"]["compaction"]["upto"], 5, "{wire}");
        assert_eq!(seams[0]["content"][1]["text"], "NOTED: one", "{wire}");
        assert_eq!(seams[0]["meta"]["usage"]["totalTokens"], 7400, "{wire}");
        let path = format!("/api/v1/agents/{wire}/history?session_key=main");
        let simple = play.api().get(&path).await.unwrap().good().unwrap();
        let context = &simple["context"];
        let told = (context["used"].as_u64(), context["window"].as_u64());
        assert_eq!(told, (Some(3000), Some(10000)), "{wire}");
        let parts = ["tools", "system", "history", "newest"].map(|part| {
            context["parts"][part].as_u64().unwrap_or_else(|| panic!("{part}: {context}"))
        });
        assert_eq!(parts.iter().sum::<u64>(), 3000, "{context}");
        assert!(parts[0] > 0 && parts[1] > 100, "tools and rules have a size: {context}");
        let simple = simple.to_string();
        assert!(!simple.contains("NOTED"), "{simple}");
    }
    let events = play.events().await;
    let told: Vec<Value> = events
        .iter()
        .filter(|event| event["type"] == "compacted")
        .map(|event| json!([event["agent"], event["upto"], event["messages"], event["reason"]]))
        .collect();
    assert_eq!(told, WIRES.map(|wire| json!([wire, 5, 5, "full"])));
}

/// The vendor says that it is too long: notes once, asked again once.
#[tokio::test]
async fn engine_compact_once_when_the_vendor_refuses_the_length() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    for wire in WIRES {
        turn(&stage, &play, wire, "1", 10).await;
        turn(&stage, &play, wire, "2", 10).await;
        stage.model.push(Reply::call("effect", json!({"text": wire})));
        stage.model.push(Reply::context_too_long());
        stage.model.push(Reply::say("NOTED"));
        stage.model.push(Reply::say("after all"));
        let ended = play.ask(wire, "question 3").await;
        assert_eq!(ended["response"]["content"], "after all", "{wire}: {ended}");
        let history = play.history(wire, "main").await;
        let seam = &seams(&history)[0]["details"]["compaction"];
        assert_eq!(seam["reason"], "overflow", "{wire}");
        // It is refused again: it fails, and says what helps.
        stage.model.push(Reply::context_too_long());
        stage.model.push(Reply::say("NOTED MORE"));
        stage.model.push(Reply::context_too_long());
        let before = stage.model.requests().len();
        let ended = play.ask(wire, "question 4").await;
        assert_eq!(ended["error"]["code"], "context_too_long", "{wire}: {ended}");
        assert!(ended["error"]["error"].as_str().unwrap().contains("/new"), "{ended}");
        assert_eq!(stage.model.requests().len() - before, 3, "{wire}");
        assert_eq!(seams(&play.history(wire, "main").await).len(), 2, "{wire}");
    }
    assert_eq!(stage.effects.total().unwrap(), 3, "no call runs twice for it");
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
}

/// Notes that cannot be made never cost the turn.
#[tokio::test]
async fn engine_compact_goes_on_without_notes_that_fail() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    let wire = WIRES[0];
    turn(&stage, &play, wire, "1", 10).await;
    turn(&stage, &play, wire, "2", 900).await;
    // The vendor has no wish to write them: as before.
    stage.model.push(Reply::unauthorized());
    turn(&stage, &play, wire, "3", 900).await;
    assert_eq!(seams(&play.history(wire, "main").await).len(), 0);
    // A call instead of notes is not run.
    stage.model.push(Reply::call("effect", json!({"text": "instead"})));
    turn(&stage, &play, wire, "4", 900).await;
    assert_eq!(stage.effects.total().unwrap(), 0);
    // What is to go is too long by itself: notes without a model.
    stage.model.push(Reply::context_too_long());
    turn(&stage, &play, wire, "5", 10).await;
    let history = play.history(wire, "main").await;
    let notes = seams(&history)[0]["content"][1]["text"].as_str().unwrap();
    assert!(notes.contains("The conversation began with: question 1"), "{notes}");
    assert!(notes.contains("Tools used so far: look"), "{notes}");
    let requests = stage.model.requests();
    assert!(requests.last().unwrap().body.to_string().contains("Tools used so far"));
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// A single long turn is cut between its steps, and does not forget what it was asked for.
#[tokio::test]
async fn engine_compact_in_the_middle_of_a_turn() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    for wire in WIRES {
        let first = stage.model.requests().len();
        let long = "x".repeat(2000);
        stage.model.push(Reply::call("look", json!({"text": long})).usage(used(500)));
        stage.model.push(Reply::call("look", json!({"text": "last"})).usage(used(800)));
        stage.model.push(Reply::say("NOTED: looked twice").usage(used(700)));
        stage.model.push(Reply::call("effect", json!({"text": wire})).usage(used(100)));
        stage.model.push(
            Reply::new()
                .open_text()
                .gate(&format!("last-{wire}"))
                .delta("done")
                .close()
                .usage(used(120)),
        );
        let item = play.item(wire, "main", "look closely").await;
        stage.model.gate(&format!("last-{wire}")).wait_arrived(1).await.unwrap();
        let turns = play.state().await["turns"].clone();
        assert_eq!(turns[0]["context"], json!({"used": 1000, "window": 10000}), "{turns}");
        stage.model.gate(&format!("last-{wire}")).release();
        let ended = play.ended(wire, &item).await;
        assert_eq!(ended["response"]["content"], "done", "{wire}: {ended}");
        let requests = stage.model.requests().split_off(first);
        assert_eq!(requests.len(), 5, "{wire}");
        assert!(is_for_notes(&requests[2]), "{wire}");
        begins_with(&requests[4], &requests[3]);
        let shown = requests[3].body.to_string();
        assert!(shown.contains("look closely") && shown.contains("NOTED: looked twice"));
        assert!(!shown.contains(&long), "{wire}");
        let results: Vec<String> =
            requests[3].tool_results().into_iter().map(|result| result.text).collect();
        assert_eq!(results, ["looked at last"], "{wire}");
    }
    assert_eq!(stage.effects.total().unwrap(), 3);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// The process dies while the notes are written: they are asked for again, once.
#[tokio::test]
async fn engine_compact_survives_a_crash() {
    let stage = stage_of_wires().await;
    let mut play = stage.up().await;
    let wire = WIRES[0];
    let heavy = format!("1{}", "x".repeat(1000));
    turn(&stage, &play, wire, &heavy, 10).await;
    // It stays whole, and what it used is no reason to make notes again.
    turn(&stage, &play, wire, "2", 900).await;
    stage.model.push(Reply::new().open_text().delta("HALF").gate("notes"));
    let item = play.item(wire, "main", "question 3").await;
    stage.model.gate("notes").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("NOTED"));
    stage.model.push(Reply::new().open_text().delta("half").gate("answer"));
    let mut play = stage.up().await;
    stage.model.gate("answer").wait_arrived(1).await.unwrap();
    // And again right after: the notes are on record now.
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("answer 3"));
    let play = stage.up().await;
    assert_eq!(play.ended(wire, &item).await["response"]["content"], "answer 3");
    let requests = stage.model.requests();
    let notes: Vec<usize> = (0..requests.len()).filter(|at| is_for_notes(&requests[*at])).collect();
    assert_eq!((requests.len(), notes), (8, vec![4, 5]));
    assert_eq!(requests[4].raw, requests[5].raw, "the same question again");
    assert_eq!(requests[6].raw, requests[7].raw);
    let history = play.history(wire, "main").await;
    let told = lines(&history);
    assert_eq!(seams(&history).len(), 1, "{told:?}");
    assert_eq!(history.len(), 2 * 5 + 3, "{told:?}");
}

/// A turn that is stopped while notes are written ends at once.
#[tokio::test]
async fn engine_compact_stops_when_told() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    let wire = WIRES[0];
    turn(&stage, &play, wire, "1", 10).await;
    turn(&stage, &play, wire, "2", 900).await;
    stage.model.push(Reply::new().open_text().delta("HALF").gate("notes"));
    let item = play.item(wire, "main", "question 3").await;
    stage.model.gate("notes").wait_arrived(1).await.unwrap();
    let path = format!("/api/v1/agents/{wire}/history?session_key=main&view=full");
    let page = play.api().get(&path).await.unwrap().good().unwrap();
    assert_eq!(
        (&page["context"]["used"], &page["context"]["window"]),
        (&json!(9000), &json!(10000))
    );
    assert!(play.stop(wire, "main").await);
    assert_eq!(play.ended(wire, &item).await["state"], "cancelled");
    assert!(stage.model.requests().last().unwrap().hung_up());
    assert!(!play.history(wire, "main").await.iter().any(|row| row.to_string().contains("HALF")));
}

/// `/compact` through every door: a turn of its own, in order, past nothing.
#[tokio::test]
async fn engine_compact_when_a_person_asks() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    let wire = WIRES[0];
    let nothing = play.ask(wire, "/compact").await;
    let text = nothing["response"]["content"].as_str().unwrap();
    assert!(text.starts_with("Nothing was compacted: "), "{nothing}");
    assert_eq!(stage.model.requests().len(), 0);
    turn(&stage, &play, wire, "1", 10).await;
    turn(&stage, &play, wire, "2", 10).await;
    // It waits for the turn that runs, and does not join it.
    stage.model.push(Reply::new().gate("busy").tool("look", json!({"text": "x"})));
    stage.model.push(Reply::say("answer 3"));
    let busy = play.item(wire, "main", "question 3").await;
    stage.model.gate("busy").wait_arrived(1).await.unwrap();
    let compact = play.item(wire, "main", "/compact the colour of the bees").await;
    let after = play.item(wire, "main", "question 4").await;
    stage.model.push(Reply::say("NOTED"));
    stage.model.push(Reply::say("answer 4"));
    stage.model.gate("busy").release();
    assert_eq!(play.ended(wire, &busy).await["response"]["content"], "answer 3");
    let told = play.ended(wire, &compact).await;
    assert!(told["response"]["content"].as_str().unwrap().starts_with("Compacted: "), "{told}");
    assert_eq!(play.ended(wire, &after).await["response"]["content"], "answer 4");
    let requests = stage.model.requests();
    assert_eq!(requests.len(), 8);
    assert!(is_for_notes(&requests[6]));
    assert!(requests[6].last_user_text().contains("To be kept above all: the colour of the bees"));
    for request in &requests {
        assert!(!request.body.to_string().contains("/compact"), "no model reads the command");
    }
    let shown = requests[7].body.to_string();
    assert!(shown.contains("NOTED") && !shown.contains("question 1"), "{shown}");
    assert!(shown.contains("question 3") && shown.contains("question 4"), "{shown}");
    let history = play.history(wire, "main").await;
    assert_eq!(seams(&history)[0]["details"]["compaction"]["reason"], "asked");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_compact_by_rest_socket_and_terminal() {
    let stage = stage_of_wires().await;
    let play = stage.up().await;
    let wire = WIRES[0];
    turn(&stage, &play, wire, "1", 10).await;
    let sessions = play.api().get(&format!("/api/v1/agents/{wire}/sessions")).await.unwrap();
    let id = sessions.good().unwrap()["sessions"][0]["id"].as_str().unwrap().to_owned();
    stage.model.push(Reply::say("NOTED by rest"));
    let path = format!("/api/v1/agents/{wire}/sessions/{id}/compact?wait=true");
    let ended = play.api().post(&path, &json!({"keep": "all"})).await.unwrap().good().unwrap();
    assert_eq!(ended["state"], "done", "{ended}");
    turn(&stage, &play, wire, "2", 10).await;
    stage.model.push(Reply::say("NOTED by terminal"));
    let skep = Start::new(&locate::skep().unwrap(), stage.home());
    let words = ["session", "compact", id.as_str(), "--agent", wire];
    let done = words.iter().fold(skep, |start, word| start.argument(*word)).finish().await.unwrap();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.starts_with("Compacted: "), "{}", done.stdout);
    let history = play.history(wire, "main").await;
    let notes: Vec<&Value> =
        seams(&history).into_iter().map(|row| &row["content"][1]["text"]).collect();
    assert_eq!(notes, ["NOTED by rest", "NOTED by terminal"]);
    // A fork shows its model what the original did, notes included.
    let fork = format!("/api/v1/agents/{wire}/sessions/{id}/fork");
    let body = json!({"session_key": "copy"});
    play.api().post(&fork, &body).await.unwrap().good().unwrap();
    for key in ["main", "copy"] {
        stage.model.push(Reply::say("same"));
        let item = play.item(wire, key, "and now?").await;
        assert_eq!(play.ended(wire, &item).await["state"], "done");
    }
    let requests = stage.model.requests();
    let [original, copy] = requests.last_chunk::<2>().unwrap();
    // All but the newest message, which says when it came.
    let told = |request: &ModelRequest| {
        let messages = request.messages();
        json!(messages[..messages.len() - 1]).to_string()
    };
    assert!(told(original).contains("NOTED by terminal"), "{}", told(original));
    assert_eq!(told(copy), told(original));
    // A session its key no longer leads to is not touched.
    play.ask(wire, "/new").await;
    stage.model.push(Reply::say("fresh"));
    assert_eq!(play.ask(wire, "hello").await["response"]["content"], "fresh");
    let refused = play.api().post(&path, &json!({})).await.unwrap();
    assert_eq!(refused.status, 409);
    let mut ws = play.ws().await;
    ws.say("m1", "/compact").await.unwrap();
    let told = ws.answer_to("m1").await.unwrap();
    assert!(told["content"].as_str().unwrap().starts_with("Nothing was compacted"), "{told}");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}
