//! Which model answers: found on this machine where nobody said, listed and tried by people
//! (spec 02, 09).

use std::time::{Duration, Instant};

use axum::Router;
use axum::response::Html;
use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::{Reply, ScriptedModel, locate};
use tokio::net::TcpListener;

use crate::stage::Stage;

/// A page that answers to everything, as a web server on a well-known port may.
async fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router = Router::new().fallback(async || Html("<h1>It works!</h1>"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn command(stage: &Stage, words: &[&str]) -> Finished {
    let start = Start::new(&locate::rig().unwrap(), stage.home());
    words.iter().fold(start, |start, word| start.argument(*word)).finish().await.unwrap()
}

#[tokio::test]
async fn engine_a_model_server_of_this_machine_is_found_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let skep = locate::skep().unwrap();
    let model = ScriptedModel::start().await.unwrap();
    model.ask_for_no_key();
    model.answer_with(|_| Reply::say("local words"));
    // Taken and silent, a closed port, a page, then the one.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let places = format!(
        "http://{}/v1, http://{closed}/v1, {}, {}/v1/",
        silent.local_addr().unwrap(),
        page().await,
        model.base_url()
    );
    let start = || Start::up(&skep, &home).env("SKEP_LOCAL_SERVERS", &places);
    let mut hive = start().listening().await.unwrap();
    let note =
        format!("model: openai scripted-local (a model server answers at {}/v1)", model.base_url());
    assert!(hive.stdout().contains(&note), "{}", hive.stdout());
    let send = ["send", "main", "hello", "--wait"];
    let send = send.iter().fold(Start::new(&skep, &home), |start, word| start.argument(*word));
    let sent = send.finish().await.unwrap();
    assert_eq!(sent.stdout, "local words\n", "{}", sent.stderr);
    let asked = model.requests();
    assert_eq!((asked[0].body["model"].as_str(), asked[0].key()), (Some("scripted-local"), None));
    hive.kill().await.unwrap();
    // A key goes before it, and so does a profile: then nothing is looked for.
    let mut keyed = start().env("OPENAI_API_KEY", "sk-canary-key-77").listening().await.unwrap();
    assert!(keyed.stdout().contains("OPENAI_API_KEY is set"), "{}", keyed.stdout());
    keyed.kill().await.unwrap();
    std::fs::write(home.join("providers.yaml"), "profiles: {default: {provider: rehearsal}}\n")
        .unwrap();
    let written = start().listening().await.unwrap();
    assert!(written.stdout().contains("profile default of providers.yaml"), "{}", written.stdout());
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn engine_a_server_that_does_not_answer_holds_up_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = format!("http://{}/v1", silent.local_addr().unwrap());
    let since = Instant::now();
    let start = Start::up(&locate::skep().unwrap(), &home).env("SKEP_LOCAL_SERVERS", place);
    let hive = start.listening().await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    assert!(hive.stdout().contains("model: rehearsal"), "{}", hive.stdout());
}

/// Profiles that answer, are refused, cannot be found and are no model.
async fn scene() -> Stage {
    let stage = Stage::new().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nowhere = format!("{}.invalid", "a".repeat(64));
    let (model, page) = (stage.model.base_url(), page().await);
    let profile = |name: &str, url: &str, more: &str| {
        format!(
            "  {name}: {{provider: anthropic, model: m-{name}, api_key: '${{RIG_KEY}}', api_url: \
             '{url}'{more}}}\n"
        )
    };
    let priced = ", price: {input: 3, output: 15}, context_window: 2000, fallback: [refused]";
    stage.write(
        "providers.yaml",
        &[
            "profiles:\n".to_owned(),
            profile("default", &model, priced),
            profile("refused", &format!("http://user:pass-canary@{closed}/path"), ""),
            profile("nowhere", &format!("http://{nowhere}"), ""),
            profile("page", &page, ""),
        ]
        .concat(),
    );
    stage
}

#[tokio::test]
async fn engine_providers_are_knocked_at_without_being_asked() {
    let stage = scene().await;
    let play = stage.up().await;
    let reached = play.api().get("/api/v1/providers?check=true").await.unwrap().good().unwrap();
    let reached = reached["providers"].as_array().unwrap().iter();
    let reached: Vec<(&str, bool)> = reached
        .map(|it| (it["name"].as_str().unwrap(), it["reached"]["ok"].as_bool().unwrap()))
        .collect();
    let expected = [("default", true), ("nowhere", false), ("page", true), ("refused", false)];
    assert_eq!(reached, expected);
    let shown = command(&stage, &["provider", "list", "--check"]).await.stdout;
    for words in ["\n  reachable in ", " ms: the model vendor cannot be reached: the connection is"]
    {
        assert!(shown.contains(words), "{words} not in {shown}");
    }
    assert!(stage.model.requests().is_empty(), "no model is asked, and no key is sent");
}

#[tokio::test]
async fn engine_providers_are_listed_without_their_keys_and_tried() {
    let stage = scene().await;
    let model = stage.model.base_url();
    let play = stage.up().await;
    let list = play.api().get("/api/v1/providers").await.unwrap().good().unwrap();
    let listed: Vec<&Value> = list["providers"].as_array().unwrap().iter().collect();
    assert_eq!(
        listed[0],
        &json!({
            "name": "default", "provider": "anthropic", "model": "m-default", "address": model,
            "key": "RIG_KEY of the environment", "max_output_tokens": 8192,
            "context_window": 2000, "price_known": true, "fallback": ["refused"],
            "agents": ["main", "plain"],
        })
    );
    let whole = list.to_string();
    assert!(!whole.contains("canary"), "{whole}");
    let shown = command(&stage, &["provider", "list"]).await;
    assert!(
        shown.stdout.contains(
            "  key: RIG_KEY of the environment; price known; context window 2000 tokens\n"
        ),
        "{}",
        shown.stdout
    );
    stage.model.push(Reply::say("ok"));
    let good = command(&stage, &["provider", "test", "default"]).await;
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(good.stdout.starts_with("ok    default  m-default  answered in "), "{}", good.stdout);
    assert!(good.stdout.contains(" tokens, $0.0"), "{}", good.stdout);
    let cases = [
        (Some(Reply::unauthorized()), "default", "refused the key (401)"),
        (Some(Reply::not_found()), "default", "rejected the request (404)"),
        (Some(Reply::rate_limited(None)), "default", "limits the rate of requests (429)"),
        (None, "refused", "cannot be reached: the connection is refused"),
        (None, "nowhere", "cannot be reached: the host "),
        (None, "page", "answers with something else than events; check the profile's api_url"),
    ];
    for (reply, name, said) in cases {
        stage.model.push_all(reply);
        let bad = command(&stage, &["provider", "test", name]).await;
        assert_eq!(bad.code, Some(1), "{name}");
        assert!(
            bad.stdout.starts_with(&format!("bad   {name}  m-{name}  after ")),
            "{}",
            bad.stdout
        );
        assert!(bad.stdout.contains(said), "{said} not in {}", bad.stdout);
        assert!(!format!("{}{}", bad.stdout, bad.stderr).contains("canary"), "{name}");
    }
    stage.model.push(Reply::say("ok"));
    let other = command(&stage, &["provider", "test", "anthropic:another"]).await;
    assert!(
        other.stdout.starts_with("ok    anthropic:another  another  answered"),
        "{}",
        other.stdout
    );
    assert!(other.stdout.contains(" tokens, cost unknown"), "{}", other.stdout);
    assert_eq!(stage.model.requests().pop().unwrap().body["model"], "another");
    let unknown = command(&stage, &["provider", "test", "small"]).await;
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("skep provider list"), "{}", unknown.stderr);
    stage.model.push(Reply::say("ok"));
    let all = command(&stage, &["provider", "test", "--json"]).await;
    assert_eq!(all.code, Some(1));
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let told: Vec<bool> =
        all["tests"].as_array().unwrap().iter().map(|it| it["ok"].as_bool().unwrap()).collect();
    assert_eq!(told, [true, false, false, false]);
    // Nothing of it is a conversation.
    assert_eq!(play.state().await["work"]["queued"], 0);
    assert!(play.history("main", "main").await.is_empty());
}
