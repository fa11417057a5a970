//! Texts of which a part is shown: titles, previews, excerpts, events. A value that became a secret
//! after it was said is not shown in part either.

use std::io::Write as _;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::json;
use skep_testkit::http::answer;
use skep_testkit::{Reply, locate};

use crate::stage::Stage;

const VALUE: &str = "correct horse battery staple 77";

#[tokio::test]
async fn attack_what_is_shown_in_part_shows_no_part_of_a_value() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    // Each ends, where it is cut, behind the first half of the value: the title after 60
    // characters, the last message after 120, previews and events after 200.
    let said = [
        format!("Deploy with the phrase of hive 3, {VALUE}, at noon"),
        format!("{}{VALUE}", "a word ".repeat(15)),
        format!("{}{VALUE}", "say x ".repeat(29)),
    ];
    for (number, text) in said.iter().enumerate() {
        stage.model.push(Reply::say(text));
        let told = play.tell("main", &format!("s-{number}"), text).await;
        play.ended("main", told["item_id"].as_str().unwrap()).await;
    }
    let list = "/api/v1/agents/main/sessions";
    let before = play.api().get(list).await.unwrap().text;
    assert!(before.contains("hive 3, correct horse battery\""), "nobody knows yet: {before}");
    let path = "/api/v1/vault/entries/PHRASE";
    let set = answer(play.api().request(Method::PUT, path).json(&json!({"value": VALUE}))).await;
    assert_eq!(set.unwrap().status, 204);
    let mut seen = String::new();
    for path in [list, "/api/v1/inbox", "/api/v1/state", "/api/v1/search?q=deploy+phrase"] {
        seen.push_str(&format!("{path}: {}\n", play.api().get(path).await.unwrap().text));
    }
    let mut events = play.api().events("/api/v1/events?since=0").await.unwrap();
    let mut ended = 0;
    while ended < said.len() {
        let event = events.next().await.unwrap().unwrap();
        ended += usize::from(event.name.as_deref() == Some("turn_end"));
        seen.push_str(&format!("{event:?}\n"));
    }
    let line = seen.lines().find(|line| line.contains("corr") || line.contains("horse"));
    assert_eq!(line, None);
    assert!(seen.contains("hive 3, …"), "{seen}");
}

/// A name of the program's is cut in a refusal: what is cut away may be the rest of a key.
#[tokio::test]
async fn attack_a_refusal_repeats_no_part_of_a_value() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let value = "value-that-somebody-took-for-a-name-0123456789-0123456789-0123456789-0123456789";
    let path = "/api/v1/vault/entries/LONG";
    let set = answer(play.api().request(Method::PUT, path).json(&json!({"value": value}))).await;
    assert_eq!(set.unwrap().status, 204);
    let body = json!({"model": value, "messages": [{"role": value, "content": "x"}]});
    let mut seen = play.api().post("/v1/chat/completions", &body).await.unwrap().text;
    for path in [
        format!("/api/v1/agents/{value}/history"),
        format!("/api/v1/approvals/{value}"),
        format!("/{}{value}", "x/".repeat(90)),
    ] {
        let told = play.api().get(&path).await.unwrap();
        assert!(told.status >= 400, "{}", told.text);
        seen.push_str(&told.text);
    }
    let long = json!({"message": [value, "y".repeat(300)], "session_key": 7});
    seen.push_str(&play.api().post("/api/v1/agents/main/messages", &long).await.unwrap().text);
    assert!(seen.contains("[secret:vault.LONG]"), "{seen}");
    assert!(!seen.contains("value-that"), "{seen}");
}

#[tokio::test]
async fn a_vault_entry_is_replaced_when_that_is_meant() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let path = "/api/v1/vault/entries/ONE";
    let put = |value: &str, only: Option<&str>| {
        let request = play.api().request(Method::PUT, path).json(&json!({ "value": value }));
        answer(only.iter().fold(request, |it, only| it.header("If-None-Match", *only)))
    };
    assert_eq!(put("value-of-the-first", Some("*")).await.unwrap().status, 204);
    let refused = put("value-of-the-second", Some("*")).await.unwrap();
    assert_eq!((refused.status, refused.json["code"].as_str()), (409, Some("vault_exists")));
    assert_eq!(put("value-of-the-second", Some("\"etag\"")).await.unwrap().status, 400);
    assert_eq!(put("value-of-the-second", None).await.unwrap().status, 204);
    // The command says which of the two it did.
    let set = |words: &[&str], value: &str| {
        let mut skep = Command::new(locate::skep().unwrap());
        skep.args(["vault", "set"]).args(words).arg("--home").arg(stage.home());
        let piped = skep.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = piped.unwrap();
        running.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        String::from_utf8(running.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!(set(&["TWO"], "value-of-two-1"), "set TWO\n");
    assert_eq!(set(&["TWO"], "value-of-two-2"), "replaced TWO: the value it had is gone\n");
    let hosts = ["TWO", "--host", "api.example.org", "--keep"];
    assert_eq!(set(&hosts, ""), "changed TWO: its value stays\n");
}
