//! Items of the inbox by their id: shown, ended, tried again; and the commands for them.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::http::answer;
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

async fn item(play: &Play, id: &str) -> Value {
    play.api().get(&format!("/api/v1/inbox/{id}")).await.unwrap().good().unwrap()
}

async fn post(play: &Play, id: &str, what: &str) -> (u16, Value) {
    let path = format!("/api/v1/inbox/{id}/{what}");
    let answer = play.api().post(&path, &json!(null)).await.unwrap();
    (answer.status, answer.json)
}

async fn said(stage: &Stage, words: &[&str]) -> Finished {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key");
    words.iter().fold(start, |start, word| start.argument(*word)).finish().await.unwrap()
}

#[tokio::test]
async fn engine_tasks_cancel_what_waits_at_once_and_what_runs_with_its_turn() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half").gate("never").close());
    stage.model.push(Reply::say("third"));
    let play = stage.up().await;
    let mut ws = play.ws().await;
    for (id, text) in [("a", "one"), ("b", "cancelled-words"), ("c", "/new last-words")] {
        ws.say(id, text).await.unwrap();
    }
    let ack = ws.find("the third ack", |frame| frame["message_id"] == "c").await.unwrap();
    assert_eq!(ack["state"], "queued");
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    let page = play.api().get("/api/v1/inbox").await.unwrap().good().unwrap();
    let ids: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|item| item["item_id"].as_str().unwrap().to_owned())
        .collect();

    let (status, cancelled) = post(&play, &ids[1], "cancel").await;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")));
    assert_eq!(cancelled["error"]["code"], "cancelled");
    assert!(cancelled["turn"].is_null() && cancelled["started_at"].is_null(), "{cancelled}");
    let told = ws.answer_to("b").await.unwrap();
    assert_eq!((&told["type"], &told["code"]), (&json!("error"), &json!("cancelled")));
    let (status, again) = post(&play, &ids[1], "cancel").await;
    assert_eq!((status, &again["code"]), (409, &json!("already_ended")));

    let running = item(&play, &ids[0]).await;
    assert_eq!((&running["state"], &running["text"]), (&json!("running"), &json!("one")));
    let (status, cancelled) = post(&play, &ids[0], "cancel").await;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")), "{cancelled}");
    let told = ws.answer_to("a").await.unwrap();
    assert_eq!((&told["type"], &told["code"]), (&json!("error"), &json!("cancelled")));
    assert_eq!(ws.answer_to("c").await.unwrap()["content"], "third");
    let done = item(&play, &ids[2]).await;
    assert_eq!((&done["state"], &done["response"]), (&json!("done"), &json!("third")));
    assert!(done["started_at"].as_i64() >= done["created_at"].as_i64(), "{done}");

    let asked = stage.model.requests();
    let seen = |text: &str| asked.iter().any(|request| request.body.to_string().contains(text));
    assert!(
        seen("last-words") && !seen("cancelled-words"),
        "the model never heard what was cancelled"
    );
    assert_eq!(play.state().await["work"], json!({"running": 0, "waiting": 0, "queued": 0}));
    let (status, missing) = post(&play, "nothing", "cancel").await;
    assert_eq!((status, &missing["code"]), (404, &json!("unknown_item")));
}

#[tokio::test]
async fn engine_tasks_try_again_what_failed_and_nothing_else() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::unauthorized(), Reply::say("now it works")]);
    let play = stage.up().await;
    let failed = play.ask("main", "//etc is a folder").await;
    assert_eq!(
        (&failed["state"], &failed["error"]["code"]),
        (&json!("failed"), &json!("provider_auth"))
    );
    let first = failed["item_id"].as_str().unwrap();
    let keyed = |key: &str| {
        let path = format!("/api/v1/inbox/{first}/retry");
        let request = play.api().request(Method::POST, &path).header("Idempotency-Key", key);
        async move { answer(request).await.unwrap() }
    };
    let receipt = keyed("k1").await.good().unwrap();
    let second = receipt["item_id"].as_str().unwrap();
    assert_ne!(first, second);
    assert_eq!(keyed("k1").await.good().unwrap()["item_id"], second, "the same key, the same try");
    let answer = play.ended("main", second).await;
    assert_eq!(answer["response"]["content"], "now it works");
    let (old, new) = (item(&play, first).await, item(&play, second).await);
    assert_eq!((&old["state"], &old["retried_as"]), (&json!("failed"), &json!(second)));
    assert_eq!((&new["retry_of"], &new["text"]), (&json!(first), &json!("/etc is a folder")));

    let (status, refused) = post(&play, second, "retry").await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_retryable")));
    let command = play.tell("main", "main", "/status").await;
    let (status, refused) = post(&play, command["item_id"].as_str().unwrap(), "retry").await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_retryable")));
    // Another try of the first while one is open is refused; once it has ended it is not.
    stage.model.push(Reply::new().open_text().delta("x").gate("third").close());
    let (status, third) = post(&play, first, "retry").await;
    assert_eq!(status, 202);
    let (status, refused) = post(&play, first, "retry").await;
    assert_eq!((status, &refused["code"]), (409, &json!("already_retried")));
    stage.model.gate("third").release();
    play.ended("main", third["item_id"].as_str().unwrap()).await;
    assert_eq!(item(&play, first).await["retried_as"], third["item_id"]);
}

#[tokio::test]
async fn engine_tasks_try_again_with_the_files_and_the_thinking_of_the_message() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::unauthorized(), Reply::say("read")]);
    let play = stage.up().await;
    // "words of a file"
    let file = json!({"name": "notes.txt", "data": "d29yZHMgb2YgYSBmaWxl"});
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let body = json!({"message": "read this", "attachments": [file], "think": "high"});
    let failed = play.api().post(path, &body).await.unwrap().good().unwrap();
    let (status, again) = post(&play, failed["item_id"].as_str().unwrap(), "retry").await;
    assert_eq!(status, 202, "{again}");
    let done = play.ended("main", again["item_id"].as_str().unwrap()).await;
    assert_eq!(done["response"]["content"], "read");
    let [first, second] = [1, 2].map(|number| stage.model.wait_for_request(number));
    let (first, second) = (first.await.unwrap().body, second.await.unwrap().body);
    assert!(first["thinking"].is_object(), "{first}");
    assert_eq!(first["thinking"], second["thinking"]);
    let asked = second.to_string();
    // Once for the turn that failed, once for the one that is its second try.
    assert_eq!(asked.matches("words of a file").count(), 2, "{asked}");
}

#[tokio::test]
async fn engine_tasks_on_the_command_line() {
    let stage = Stage::new().await;
    stage.model.push_all([
        Reply::unauthorized(),
        Reply::call("look", json!({})),
        Reply::say("good"),
    ]);
    let play = stage.up().await;
    let failed = play.ask("main", "mend it").await;
    let id = failed["item_id"].as_str().unwrap();
    let list = said(&stage, &["inbox", "main", "--state", "failed"]).await;
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["id", "agent", "session", "state", "when", "message"]
    );
    assert!(lines[1].starts_with(id) && lines[1].ends_with("mend it"), "{list:?}");
    let work = said(&stage, &["task", "list", "--agent", "main", "--state", "failed,dead"]).await;
    let row: Vec<&str> = work.stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2], row[4]), (id, "message", "main", "failed"));
    let shown = said(&stage, &["task", "show", id]).await;
    for part in [
        "state    failed\n",
        "agent    main / main\n",
        "message:\n  mend it\n",
        "error provider_auth:\n",
        &format!("next: skep task retry {id}\n"),
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let retried = said(&stage, &["task", "retry", id]).await;
    let new = retried.stdout.split_once("as item ").unwrap().1.split_once('\n').unwrap().0;
    play.ended("main", new).await;
    let shown = said(&stage, &["task", "show", new]).await;
    assert!(shown.stdout.contains(&format!("retry of {id}\n")), "{}", shown.stdout);
    assert!(shown.stdout.contains(", 2 model calls, 0 failed attempts\n"), "{}", shown.stdout);
    assert!(shown.stdout.ends_with("answer:\n  good\n"), "{}", shown.stdout);
    let late = said(&stage, &["task", "cancel", new]).await;
    assert_eq!(late.code, Some(1));
    let why = format!(
        "skep: could not cancel the item {new}\n  the item {new} is done already; there is nothing \
         to cancel (already_ended)\n  next: skep task show {new}\n"
    );
    assert_eq!(late.stderr, why);
    let unknown = said(&stage, &["task", "show", "x"]).await;
    assert!(unknown.code == Some(1) && unknown.stderr.contains("next: skep inbox"), "{unknown:?}");
    let json = said(&stage, &["inbox", "--json", "--limit", "1"]).await;
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["items"][0]["item_id"], new);
}

#[tokio::test]
async fn engine_tasks_agents_are_listed_made_and_stopped() {
    let stage = Stage::new().await;
    let nowhere = stage.folder().join("nowhere").display().to_string();
    let next = format!("next: skep --home {nowhere} up\n");
    let nowhere = said(&stage, &["agent", "new", "helper", "--home", &nowhere]).await;
    assert!(nowhere.code == Some(1) && nowhere.stderr.ends_with(&next), "{nowhere:?}");
    let play = stage.up().await;
    let list = said(&stage, &["agent", "list"]).await;
    assert!(list.stdout.contains("\nmain ") && list.stdout.contains("\nplain "), "{list:?}");
    let shown = said(&stage, &["agent", "show", "main"]).await;
    assert!(shown.stdout.starts_with("agent   main\nstatus  active\n"), "{}", shown.stdout);
    let nobody = said(&stage, &["agent", "show", "mian"]).await;
    assert!(nobody.stderr.contains("there are: main, plain"), "{nobody:?}");

    stage.model.push(Reply::new().open_text().delta("on").gate("never").close());
    let told = play.tell("main", "main", "go").await;
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    let stopped = said(&stage, &["agent", "stop", "main", "--session", "main"]).await;
    assert_eq!(stopped.stdout, "stopping the turn of main / main\n");
    let ended = play.ended("main", told["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "cancelled");
    assert_eq!(
        said(&stage, &["agent", "stop", "main", "--session", "main"]).await.stdout,
        "nothing runs in main / main\n"
    );

    let words =
        ["agent", "new", "helper", "--description", "Helps: \"now\"", "--tools", "read,grep"];
    let made = said(&stage, &words).await;
    assert!(made.stdout.ends_with("it is running: skep chat helper\n"), "{made:?}");
    let file = stage.home().join("teams/helper/config.yaml");
    let settings = std::fs::read_to_string(file).unwrap();
    assert!(
        settings.ends_with(
            "description: \"Helps: \\\"now\\\"\"\nallowed_tools: [\"read\", \"grep\"]\n"
        ),
        "{settings}"
    );
    let cases = [
        (&["agent", "new", "helper"][..], 1, "is there already", "skep agent show helper"),
        (&["agent", "new", "../x"], 2, "cannot be an agent's name", "skep agent new a-better-name"),
        (&["agent", "new", "b", "--tools", "raed"], 2, "`read`", "skep agent new --help"),
        (&["agent", "new", "b", "--profile", "dfault"], 2, "`default`", "skep agent new --help"),
    ];
    for (words, code, why, next) in cases {
        let refused = said(&stage, words).await;
        assert_eq!(refused.code, Some(code), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.ends_with(&format!("next: {next}\n")), "{}", refused.stderr);
    }
    assert!(!stage.home().join("teams/b").exists() && !stage.home().join("teams/.b.new").exists());
    stage.model.push(Reply::say("I am the helper"));
    assert_eq!(play.ask("helper", "who?").await["response"]["content"], "I am the helper");
}

#[tokio::test]
async fn engine_tasks_shells_get_their_completions() {
    let stage = Stage::new().await;
    for (shell, part) in
        [("bash", "_skep()"), ("zsh", "#compdef skep"), ("fish", "complete -c skep")]
    {
        let script = said(&stage, &["completions", shell]).await;
        assert!(script.code == Some(0) && script.stdout.contains(part), "{shell}");
        for word in ["chat", "agent", "inbox", "task"] {
            assert!(script.stdout.contains(word), "{shell} does not know {word}");
        }
    }
}
