//! Every fault of a model vendor and of a tool ends in its stated outcome (spec 13 C).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use skep_testkit::{ModelRequest, Reply};

use crate::stage::{Play, Stage};
use crate::telling::lines;

/// Two leases of four tries: what never passes is asked for eight times.
const LIMITS: &str = "limits:\n  attempts: 2\n";
const ALL_TRIES: usize = 8;

type Fault = fn() -> Reply;

/// Faults that may pass.
const PASSING: &[(&str, Fault)] = &[
    ("rate limited", || Reply::rate_limited(None)),
    ("rate limited for a second", || Reply::rate_limited(Some("1"))),
    ("server error", Reply::server_error),
    ("overloaded", Reply::overloaded),
    ("cut before the first byte", || Reply::new().cut_after(0)),
    ("cut in the text", || Reply::new().open_text().delta("half a").cut()),
    ("cut after the text", || Reply::say("whole text").cut()),
    ("cut in the arguments", || {
        Reply::new().text("I act.").open_tool("effect").delta("{\"te").cut()
    }),
    ("cut after the arguments", || Reply::call("effect", json!({"text": "x"})).cut()),
    ("closed without an end", || Reply::fixed(200, "text/event-stream", HALF_STREAM)),
    ("garbage", Reply::garbage),
    ("a page", || Reply::html(200)),
    ("a page of a proxy", || Reply::html(502)),
    ("nothing", Reply::empty),
    ("silence", Reply::silence),
    ("silence in the text", || Reply::new().open_text().delta("and then").then_silence()),
    ("a trickle", || Reply::say("slowly").trickle(Duration::from_millis(40))),
    ("overloaded in the stream", || {
        Reply::new().open_text().delta("half").error_event("overloaded_error", "Overloaded")
    }),
];

/// Ends before `message_stop`: the call in it is not complete.
const HALF_STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":\
    {\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"scripted\",\
    \"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,\
    \"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\
    \"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"effect\",\
    \"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\
    \"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\nevent: \
    content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";

/// Faults that do not pass: the code, and a word of what people are told.
const LASTING: &[(&str, Fault, &str, &str)] = &[
    ("unauthorized", Reply::unauthorized, "provider_auth", "key"),
    ("forbidden", Reply::forbidden, "provider_auth", ""),
    ("bad request", || Reply::bad_request("no such thing"), "provider_rejected", "no such thing"),
    ("no such model", Reply::not_found, "provider_rejected", ""),
    ("too large", Reply::too_large, "context_too_long", "/new"),
    ("context too long", Reply::context_too_long, "context_too_long", "/new"),
];

/// A stage whose vendor is given up after so many seconds of silence.
async fn impatient(seconds: u32) -> Stage {
    let stage = Stage::new().await;
    stage.write("skep.yaml", LIMITS);
    // Few tools: what a vendor does not read in time it was not asked.
    stage.write("teams/main/config.yaml", "allowed_tools: [effect]\n");
    stage.write_profile(seconds);
    stage
}

/// How often each text was asked about.
#[derive(Default)]
struct Asked(Mutex<HashMap<String, usize>>);

impl Asked {
    fn count(&self, request: &ModelRequest) -> (String, usize) {
        let text = request.last_user_text();
        let text = text.lines().last().unwrap_or_default().to_owned();
        let mut asked = self.0.lock().unwrap();
        let count = asked.entry(text.clone()).or_default();
        *count += 1;
        (text, *count)
    }
}

fn asked_about(stage: &Stage, text: &str) -> usize {
    let requests = stage.model.requests();
    requests.iter().filter(|request| request.last_user_text().ends_with(text)).count()
}

/// Sends the text to a session of that name and waits for the end.
async fn ask(play: &Play, agent: &str, text: &str) -> (Value, Vec<String>) {
    let item = play.item(agent, &text.replace(' ', "-"), text).await;
    let ended = play.ended(agent, &item).await;
    let history = play.history(agent, &text.replace(' ', "-")).await;
    (ended, lines(&history))
}

#[tokio::test]
async fn engine_passing_faults_are_retried_and_leave_no_trace() {
    // Long enough that an answer on a busy machine is no silence.
    let stage = impatient(4).await;
    let asked = Asked::default();
    stage.model.answer_with(move |request| {
        let (text, count) = asked.count(request);
        let fault = PASSING.iter().find(|(name, _)| *name == text).unwrap().1;
        if count == 1 { fault() } else { Reply::say("after all") }
    });
    let play = stage.up().await;
    let (play, stage) = (&play, &stage);
    join_all(PASSING.iter().map(|(name, _)| async move {
        let (ended, told) = ask(play, "main", name).await;
        assert_eq!(ended["response"]["content"], "after all", "{name}: {ended}");
        assert_eq!(told, [format!("user {name}"), "assistant end_turn: after all".into()]);
        assert_eq!(asked_about(stage, name), 2, "{name}");
    }))
    .await;
    assert_eq!(stage.effects.total().unwrap(), 0, "nothing runs from unfinished arguments");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_faults_that_never_pass_end_as_unavailable() {
    let stage = impatient(1).await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        let text = text.lines().last().unwrap_or_default();
        PASSING.iter().find(|(name, _)| *name == text).unwrap().1()
    });
    let play = stage.up().await;
    let (play, stage) = (&play, &stage);
    join_all(PASSING.iter().map(|(name, _)| async move {
        let (ended, told) = ask(play, "main", name).await;
        assert_eq!(ended["state"], "failed", "{name}: {ended}");
        assert_eq!(ended["error"]["code"], "provider_unavailable", "{name}: {ended}");
        assert!(!ended["error"]["error"].as_str().unwrap().is_empty());
        assert_eq!(asked_about(stage, name), ALL_TRIES, "{name}");
        // Of the last try the text is kept, calls never.
        assert_eq!(told[0], format!("user {name}"));
        assert!(told[1..].iter().all(|row| row.starts_with("assistant error: ")), "{told:?}");
        assert!(told.len() <= 2 && !told.join("").contains("effect"), "{told:?}");
    }))
    .await;
    assert_eq!(stage.effects.total().unwrap(), 0, "nothing runs from unfinished arguments");
    assert_eq!(stage.model.in_flight(), 0, "no connection is left behind");
}

#[tokio::test]
async fn engine_lasting_faults_fail_at_once_and_say_what_to_do() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        let text = text.lines().last().unwrap_or_default();
        LASTING.iter().find(|(name, ..)| *name == text).unwrap().1()
    });
    let play = stage.up().await;
    for (name, _, code, word) in LASTING {
        let (ended, told) = ask(&play, "main", name).await;
        assert_eq!(ended["state"], "failed", "{name}: {ended}");
        assert_eq!(ended["error"]["code"], *code, "{name}: {ended}");
        let text = ended["error"]["error"].as_str().unwrap();
        assert!(text.contains(word), "{name}: {text}");
        assert!(!text.contains("rig-key-canary"), "{name}: {text}");
        assert_eq!(told, [format!("user {name}")]);
        assert_eq!(asked_about(&stage, name), 1, "{name}");
    }
}

#[tokio::test]
async fn engine_long_retry_after_makes_the_turn_wait_and_go_on_by_itself() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  concurrent_turns: 1\n");
    stage.model.push(Reply::call("effect", json!({"text": "once"})));
    stage.model.push(Reply::rate_limited(Some("3")));
    let play = stage.up().await;
    let begun = Instant::now();
    let item = play.item("main", "main", "go").await;
    play.until_state("main", &item, "waiting").await;
    let turns = play.state().await["turns"].clone();
    assert_eq!(turns[0]["state"], "waiting", "{turns}");
    // It holds no slot meanwhile.
    stage.model.push(Reply::say("meanwhile"));
    let other = play.item("main", "other", "hello").await;
    assert_eq!(play.ended("main", &other).await["response"]["content"], "meanwhile");
    stage.model.push(Reply::say("at last"));
    assert_eq!(play.ended("main", &item).await["response"]["content"], "at last");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    let events = play.events().await;
    let first = |name: &str| events.iter().find(|event| event["type"] == name).unwrap();
    let ms = |event: &Value, name: &str| event[name].as_i64().unwrap();
    let (started, waited) = (first("turn_start"), first("turn_waiting"));
    // From when the vendor answered on: after the turn had begun, before it was said.
    let until = ms(waited, "until");
    assert!(until >= ms(started, "at") + 3000, "{started} {waited}");
    assert!(until <= ms(waited, "at") + 3000, "{waited}");
    assert_eq!(stage.effects.total().unwrap(), 1);
    let inbox = play.api().get("/api/v1/inbox?state=done").await.unwrap().good().unwrap();
    let mine =
        inbox["items"].as_array().unwrap().iter().find(|row| row["item_id"] == item.as_str());
    assert_eq!(mine.unwrap()["attempts"], 0, "no attempt is counted: {inbox}");
}

/// What a model may ask for, and the results it gets back.
const ASKED: &[(&str, &str, &str)] = &[
    ("nope", "{\"text\":\"x\"}", "unknown_tool: there is no tool `nope`"),
    ("effect", "{\"text\":5}", "bad_arguments: the arguments of `effect` do not fit"),
    ("effect", "{\"texts\":\"x\"}", "bad_arguments: the arguments of `effect` do not fit"),
    ("read", "{\"file_path\":\"../../../etc/passwd\"}", ""),
];

#[tokio::test]
async fn engine_strange_calls_are_answered_as_errors_and_the_turn_goes_on() {
    let stage = Stage::new().await;
    stage.write("teams/narrow/config.yaml", "allowed_tools: [look]\n");
    let play = stage.up().await;
    for (tool, arguments, expected) in ASKED {
        stage.model.push(Reply::new().tool_in(tool, [*arguments]));
        stage.model.push(Reply::say("I see"));
        let answer = play.ask("main", "try").await;
        assert_eq!(answer["response"]["content"], "I see", "{tool} {arguments}: {answer}");
        let result = stage.model.requests().last().unwrap().last_tool_results().remove(0);
        assert!(result.is_error, "{tool} {arguments}: {result:?}");
        assert!(result.text.contains(expected), "{tool} {arguments}: {}", result.text);
    }
    // A tool that exists, but not for this agent.
    stage.model.push(Reply::call("effect", json!({"text": "x"})));
    stage.model.push(Reply::say("I see"));
    assert_eq!(play.ask("narrow", "try").await["response"]["content"], "I see");
    let request = stage.model.requests().last().unwrap().clone();
    assert_eq!(request.tool_names(), ["look"]);
    let result = request.last_tool_results().remove(0);
    assert!(result.is_error);
    let expected = "not_listed: the tool `effect` is not on this agent's list. \
                    This agent has: look.";
    assert_eq!(result.text, expected);
    assert_eq!(stage.effects.total().unwrap(), 0);
    assert_eq!(play.state().await["unknown_calls"], json!([]));
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_fifty_calls_and_calls_of_one_name_each_run_once() {
    let stage = Stage::new().await;
    let many = (0..50).fold(Reply::new(), |reply, number| {
        let tool = if number % 2 == 0 { "effect" } else { "look" };
        reply.tool(tool, json!({"text": number.to_string()}))
    });
    stage.model.push(many);
    stage.model.push(
        Reply::new().tool_with_id("same", "effect", json!({"text": "a"})).tool_with_id(
            "same",
            "effect",
            json!({"text": "b"}),
        ),
    );
    stage.model.push(Reply::new().tool_with_id("same", "effect", json!({"text": "c"})));
    stage.model.push(Reply::say("done"));
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["response"]["content"], "done");
    let requests = stage.model.requests();
    let results = requests[1].last_tool_results();
    let texts: Vec<String> = results.into_iter().map(|result| result.text).collect();
    let expected: Vec<String> = (0..50)
        .map(|number| match number % 2 {
            0 => format!("done {number}"),
            _ => format!("looked at {number}"),
        })
        .collect();
    assert_eq!(texts, expected);
    let results = requests[3].tool_results();
    let ids: std::collections::HashSet<&str> =
        results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!((ids.len(), results.len()), (53, 53));
    let texts: Vec<&str> = results[50..].iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts, ["done a", "done b", "done c"]);
    assert_eq!(stage.effects.total().unwrap(), 28);
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_tool_that_panics_or_floods_ends_nothing_else() {
    let stage = Stage::new().await;
    stage.model.push(
        Reply::new()
            .tool("boom", json!({}))
            .tool("flood", json!({"ms": 300_000}))
            .tool("effect", json!({"text": "after"})),
    );
    stage.model.push(Reply::say("still here"));
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["response"]["content"], "still here");
    let results = stage.model.requests()[1].last_tool_results();
    assert_eq!(
        (results[0].is_error, results[0].text.as_str()),
        (true, "tool_failed: the tool failed inside; see the log")
    );
    assert!(results[1].text.len() < 65_536 + 200, "{}", results[1].text.len());
    let note = "[534464 of 600000 bytes left out; they are in ";
    let (_, file) = results[1].text.split_once(note).unwrap();
    let file = file.split_once(']').unwrap().0;
    let whole = std::fs::read_to_string(stage.home().join("teams/main/work").join(file)).unwrap();
    assert_eq!(whole, "é".repeat(300_000));
    assert_eq!(results[2].text, "done after");
    assert_eq!(stage.effects.total().unwrap(), 1);
    assert_eq!(play.state().await["unknown_calls"], json!([]));
}

#[tokio::test]
async fn engine_arguments_cut_by_the_token_limit_do_not_run() {
    let stage = Stage::new().await;
    stage.model.push(
        Reply::new()
            .text("I act.")
            .tool_in("effect", ["{\"text\": \"ha"])
            .stop_reason("max_tokens"),
    );
    let play = stage.up().await;
    // Asking again would end at the same limit: what was said is the answer.
    assert_eq!(play.ask("main", "go").await["response"]["content"], "I act.");
    assert_eq!(play.told("main", "main").await, ["user go", "assistant max_tokens: I act."]);
    assert_eq!(stage.effects.total().unwrap(), 0);
}

/// Calls beyond what one answer may hold are answered, and the turn goes on.
#[tokio::test]
async fn engine_of_an_answer_with_too_many_calls_the_first_ones_run() {
    let stage = Stage::new().await;
    let look =
        |reply: Reply, number: usize| reply.tool("look", json!({"text": number.to_string()}));
    stage.model.push((0..1003).fold(Reply::new(), look));
    stage.model.push(Reply::say("fewer at once"));
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["response"]["content"], "fewer at once");
    let results = stage.model.requests()[1].last_tool_results();
    let refused: Vec<bool> =
        results.iter().map(|result| result.text.starts_with("too_many_calls: ")).collect();
    assert_eq!(refused, [vec![false; 1000], vec![true; 3]].concat());
}
