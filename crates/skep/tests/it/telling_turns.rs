//! What became of a turn is told the same everywhere: live, in the history, at the command line,
//! and after a restart.

use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

fn started(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home());
    words.iter().fold(start, |start, word| start.argument(*word))
}

async fn command(stage: &Stage, words: &[&str]) -> Finished {
    started(stage, words).finish().await.unwrap()
}

impl Play {
    /// The turns of a session that were not simply answered.
    async fn outcomes(&self, session: &str, view: &str) -> Vec<Value> {
        let path = format!("/api/v1/agents/main/history?session_key={session}&view={view}");
        let page = self.api().get(&path).await.unwrap().good().unwrap();
        page["turns"].as_array().unwrap().clone()
    }

    /// Waits until the session's turn is about to be tried again.
    async fn until_retrying(&self, session: &str) -> Value {
        let found = wait::until_async("a turn to wait for its next try", PATIENCE, || async {
            let turns = self.outcomes(session, "full").await;
            turns.into_iter().find(|turn| turn["state"] == "retrying")
        });
        found.await.unwrap()
    }
}

type Fault = fn() -> Reply;

/// What the vendor does to every call, the code the turn fails with, words of the reason, and the
/// code of the tries before.
const FAULTS: &[(&str, Fault, &str, &str, Option<&str>)] = &[
    ("key", Reply::unauthorized, "provider_auth", "refused the key (401)", None),
    ("model", Reply::not_found, "provider_rejected", "(404)", None),
    ("long", Reply::context_too_long, "context_too_long", "too long", None),
    ("busy", Reply::overloaded, "provider_unavailable", "overloaded (529)", Some("overloaded")),
    (
        "cut",
        || Reply::new().open_text().delta("half an ans").cut(),
        "provider_unavailable",
        "cut off",
        Some("cut"),
    ),
    (
        "mute",
        || Reply::new().stop_reason("max_tokens"),
        "provider_rejected",
        "used its whole output limit",
        None,
    ),
];

#[tokio::test]
async fn telling_a_turn_that_failed_is_told_the_same_everywhere_and_after_a_restart() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let asked = request.body["messages"].to_string();
        let (_, fault, ..) = FAULTS.iter().find(|(name, ..)| asked.contains(name)).unwrap();
        fault()
    });
    let mut play = stage.up().await;
    let mut live = play.api().events("/api/v1/events").await.unwrap();
    let mut kept = Vec::new();
    for (name, _, code, why, retried) in FAULTS {
        let item = play.item("main", name, &format!("say {name}")).await;
        let mut events: Vec<Value> = Vec::new();
        while !events.last().is_some_and(|event| event["type"] == "turn_end") {
            let event = live.next_within(Duration::from_secs(20)).await.unwrap().unwrap();
            events.push(serde_json::from_str(&event.data).unwrap());
        }
        let ended = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
        let (turn, inbox) = (ended("turn_end"), ended("inbox_ended"));
        assert_eq!((&turn["ok"], &turn["code"]), (&json!(false), &json!(code)), "{turn}");
        assert!(turn["error"].as_str().unwrap().contains(why), "{turn}");
        assert_eq!((&inbox["item"], &inbox["code"]), (&json!(item), &json!(code)));
        assert_eq!(inbox["error"], turn["error"]);
        let retries = events.iter().filter(|event| event["type"] == "model_retry");
        let retries: Vec<Value> = retries
            .map(|it| {
                json!([it["scope"], it["attempt"], it["try"], it["of"], it["code"], it["turn"]])
            })
            .collect();
        let expected = retried.map(|code| {
            // Tries of a call are counted anew in each attempt of the turn, and say in which.
            let calls = |attempt: Option<u32>| {
                [2, 3, 4].map(|number| json!(["call", attempt, number, 4, code, turn["turn"]]))
            };
            let round = |number: u32| [json!(["turn", null, number, 3, code, turn["turn"]])];
            let first = [&calls(None)[..], &round(2)].concat();
            let second = [&calls(Some(2))[..], &round(3)].concat();
            [first, second, calls(Some(3)).to_vec()].concat()
        });
        assert_eq!(retries, expected.unwrap_or_default(), "{name}");

        let outcomes = play.outcomes(name, "full").await;
        let [outcome] = &outcomes[..] else { panic!("{name}: {outcomes:?}") };
        let told = json!([outcome["state"], outcome["code"], outcome["error"], outcome["item"]]);
        assert_eq!(told, json!(["failed", code, turn["error"], item]));
        assert_eq!(outcome["tools_run"], 0);
        assert_eq!(play.outcomes(name, "simple").await, outcomes, "{name}");
        let shown = command(&stage, &["history", "show", "main", "--session", name]).await.stdout;
        for words in ["turn failed", why, "no tool was run", &format!("task retry {item}")] {
            assert!(shown.contains(words), "{words} not in {shown}");
        }
        kept.push((*name, outcomes, shown));
    }
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    for (name, outcomes, shown) in kept {
        assert_eq!(play.outcomes(name, "full").await, outcomes, "{name}");
        let again = command(&stage, &["history", "show", "main", "--session", name]).await.stdout;
        assert_eq!(again, shown);
    }
}

/// An answer that is cut off or refused never passes for a whole one.
#[tokio::test]
async fn telling_an_answer_that_is_incomplete_is_told_by_every_command() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let cases = [
        ("max_tokens", "Incomplete: output limit reached\n"),
        ("refusal", "The model refused to continue\n"),
        ("end_turn", ""),
    ];
    for (reason, words) in cases {
        let next = || {
            stage.model.push(Reply::new().text_in(["The bear ", "goes"]).stop_reason(reason));
        };
        let chat = ["chat", "--session", reason, "-m", "and then?"];
        let sends = ["--wait", "--stream"]
            .map(|how| ["send", "main", "and then?", "--session", reason, how].to_vec());
        for asked in [&sends[0], &sends[1], &chat.to_vec()] {
            next();
            let done = command(&stage, asked).await;
            let seen = (done.code, done.stdout.as_str(), done.stderr.as_str());
            assert_eq!(seen, (Some(0), "The bear goes\n", words), "{asked:?}");
        }
        next();
        let mut terminal = started(&stage, &chat).on_terminal(80, 24).unwrap();
        assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
        let screen = terminal.everything();
        assert!(screen.contains(words.trim_end()), "{screen}");
        next();
        let receipt = play.tell("main", reason, "and then?").await;
        let followed = play.ended("main", receipt["item_id"].as_str().unwrap()).await;
        assert_eq!(followed["response"]["stop_reason"], reason, "{followed}");
        let shown = command(&stage, &["history", "show", "main", "--session", reason]).await.stdout;
        let rows = shown.matches("  The bear goes\n").count();
        let marked = cases.map(|(_, words)| shown.matches(words.trim_end()).count());
        let expected = cases.map(|(each, _)| if each == reason { 5 } else { 0 });
        assert_eq!((rows, &marked[..2]), (5, &expected[..2]), "{shown}");
    }
}

#[tokio::test]
async fn telling_a_turn_that_waits_for_its_next_try_outlives_the_process_and_is_tried_now() {
    let stage = Stage::new().await;
    stage.model.push(Reply::rate_limited(Some("600")));
    let mut play = stage.up().await;
    let item = play.item("main", "main", "hello").await;
    let told = play.until_retrying("main").await;
    assert_eq!(told["item"], item);
    let retry = &told["retry"];
    assert_eq!((&retry["scope"], &retry["code"]), (&json!("turn"), &json!("rate_limited")));
    let turn = told["turn"].as_str().unwrap().to_owned();
    let stands = async |play: &Play| {
        let state = play.state().await;
        let open = &state["turns"][0];
        assert_eq!((&open["turn"], &open["state"]), (&json!(turn), &json!("waiting")));
        assert_eq!(&open["retry"], retry);
        let work = json!({"running": 0, "waiting": 1, "queued": 0});
        assert_eq!((&state["work"], &state["agents"][0]["work"]), (&work, &work));
        let shown = command(&stage, &["status"]).await.stdout;
        assert_eq!(shown.matches("0 running, 1 waiting, 0 queued").count(), 2, "{shown}");
    };
    stands(&play).await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(play.until_retrying("main").await, told);
    stands(&play).await;

    let post = async |turn: &str| {
        let path = format!("/api/v1/turns/{turn}/retry-now");
        play.api().post(&path, &json!(null)).await.unwrap()
    };
    stage.model.push(Reply::say("at last"));
    assert_eq!(post("none").await.status, 404);
    assert_eq!(post(&turn).await.status, 204);
    assert_eq!(play.ended("main", &item).await["response"]["content"], "at last");
    let late = post(&turn).await;
    assert_eq!((late.status, &late.json["code"]), (409, &json!("not_retrying")));
    assert_eq!(play.outcomes("main", "full").await, Vec::<Value>::new());
}

#[tokio::test]
async fn telling_whoever_waits_for_an_answer_hears_of_the_next_try() {
    let stage = Stage::new().await;
    stage.model.push(Reply::rate_limited(Some("3")));
    stage.model.push(Reply::say("at last"));
    let _play = stage.up().await;
    for how in ["--wait", "--stream"] {
        let sent = command(&stage, &["send", "main", "hello", how]).await;
        assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "at last\n"), "{}", sent.stderr);
        assert!(sent.stderr.contains("rate limited, next in "), "{how}: {}", sent.stderr);
        stage.model.push(Reply::rate_limited(Some("3")));
        stage.model.push(Reply::say("at last"));
    }
}

#[tokio::test]
async fn telling_a_streamed_answer_that_broke_off_begins_anew() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half").cut());
    stage.model.push(Reply::say("the whole answer"));
    let _play = stage.up().await;
    let sent = command(&stage, &["send", "main", "hello", "--stream"]).await;
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(sent.stdout.ends_with("the whole answer\n"), "{}", sent.stdout);
    if sent.stdout.contains("half") {
        assert_eq!(sent.stdout, "half\nthe whole answer\n");
        assert!(sent.stderr.contains("; the answer begins anew"), "{}", sent.stderr);
    }
    let mixed = command(&stage, &["--json", "send", "main", "hello", "--stream"]).await;
    assert_eq!((mixed.code, mixed.stdout.as_str()), (Some(2), ""), "{}", mixed.stderr);
}

#[tokio::test]
async fn telling_a_turn_that_waits_is_told_once_and_tried_at_once_on_request() {
    let stage = Stage::new().await;
    stage.model.push(Reply::rate_limited(Some("3600")));
    let play = stage.up().await;
    let item = play.item("main", "main", "hello").await;
    play.until_retrying("main").await;
    let shown = command(&stage, &["status"]).await.stdout;
    let turn = shown.lines().find(|line| line.starts_with("turn ")).unwrap();
    assert!(turn.contains("  rate limited, next in "), "{turn}");
    assert!(!turn.contains("waits"), "{turn}");
    stage.model.push(Reply::say("at last"));
    let tried = command(&stage, &["task", "retry", &item]).await;
    assert_eq!(tried.code, Some(0), "{}", tried.stderr);
    assert!(tried.stdout.starts_with("the next try begins now\n"), "{}", tried.stdout);
    assert_eq!(play.ended("main", &item).await["response"]["content"], "at last");
    let again = command(&stage, &["task", "retry", &item]).await;
    assert_eq!(again.code, Some(1), "{}", again.stdout);
    assert!(again.stderr.contains("is answered; send it again"), "{}", again.stderr);
}

#[tokio::test]
async fn telling_who_stops_waiting_learns_that_the_message_goes_on() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::rate_limited(Some("3600")));
    let _play = stage.up().await;
    for how in ["--wait", "--stream"] {
        let words = ["send", "main", "hello", "--session", &how[2..], how];
        let start = Start::new(&locate::rig().unwrap(), stage.home());
        let start = words.iter().fold(start, |start, word| start.argument(*word));
        let mut terminal = start.on_terminal(120, 24).unwrap();
        terminal.sees("rate limited, next in").await.unwrap();
        terminal.press("\u{3}").unwrap();
        let said = terminal.sees("next: skep").await.unwrap();
        assert!(said.contains("skep: stopped waiting"), "{said}");
        assert!(said.contains("the message goes on in the hive"), "{said}");
        assert_eq!(terminal.wait().await.unwrap().code(), Some(1));
    }
}

#[tokio::test]
async fn telling_a_failed_message_is_tried_again_and_both_are_linked() {
    let stage = Stage::new().await;
    stage.model.push(Reply::unauthorized());
    let play = stage.up().await;
    let item = play.item("main", "main", "hello").await;
    play.until_state("main", &item, "failed").await;
    stage.model.push(Reply::say("hi"));
    let path = format!("/api/v1/inbox/{item}/retry");
    let again = play.api().post(&path, &json!(null)).await.unwrap().good().unwrap();
    let again = again["item_id"].as_str().unwrap();
    assert_eq!(play.ended("main", again).await["response"]["content"], "hi");
    let outcomes = play.outcomes("main", "full").await;
    assert_eq!((&outcomes[0]["item"], &outcomes[0]["retried_as"]), (&json!(item), &json!(again)));
    assert_eq!((outcomes.len(), &outcomes[0]["seq"]), (1, &json!(1)));
    let history = play.history("main", "main").await;
    let items = history.iter().filter(|row| row["role"] == "user");
    let items: Vec<&Value> = items.map(|row| &row["origin"]["item"]).collect();
    assert_eq!(items, [&json!(item), &json!(again)]);
    let principals = history.iter().filter(|row| row["role"] == "user");
    let principals: Vec<&Value> = principals.map(|row| &row["origin"]["principal"]).collect();
    assert_eq!(principals[0], principals[1]);
}

#[tokio::test]
async fn telling_a_stopped_turn_says_what_was_run_and_what_was_not_counted() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half an ans").gate("hold"));
    let play = stage.up().await;
    let item = play.item("main", "main", "hello").await;
    let spoke = wait::until_async("the first words", PATIENCE, || async {
        let path = "/api/v1/agents/main/history?session_key=main";
        let page = play.api().get(path).await.unwrap().good().unwrap();
        page["active"]["content"].get(0).map(|_| ())
    });
    spoke.await.unwrap();
    assert!(play.stop("main", "main").await);
    play.until_state("main", &item, "cancelled").await;
    let outcomes = play.outcomes("main", "full").await;
    let told = (&outcomes[0]["state"], &outcomes[0]["code"], &outcomes[0]["tools_run"]);
    assert_eq!(told, (&json!("cancelled"), &json!("cancelled"), &json!(0)));
    let history = play.history("main", "main").await;
    assert_eq!(history[1]["meta"]["stopReason"], "cancelled");
    assert_eq!(history[1]["meta"].get("usage"), None, "nobody counted it");
}
