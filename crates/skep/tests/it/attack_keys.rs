//! A provider's key given in the browser: it is in `keys.env` and nowhere else, whatever was wrong
//! with the request and whatever the vendor says (spec 14 O).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::canary::Canary;
use skep_testkit::hive::Start;
use skep_testkit::http::{Answer, Api, answer};
use skep_testkit::wait::PATIENCE;
use skep_testkit::{Hive, Reply, ScriptedModel, locate};

/// A new home without a model, in which everything that can be is in the log.
async fn new_home() -> (tempfile::TempDir, Hive) {
    let folder = tempfile::tempdir().unwrap();
    let start = Start::up(&locate::skep().unwrap(), &folder.path().join("home"));
    let start = start.env("SKEP_LOCAL_SERVERS", "none").env("SKEP_LOG", "trace");
    let hive = start.listening().await.unwrap();
    (folder, hive)
}

async fn put(api: &Api, name: &str, id: Option<&str>, body: &Value) -> Answer {
    let mut request = api.request(Method::PUT, &format!("/api/v1/providers/{name}")).json(body);
    if let Some(id) = id {
        request = request.header("idempotency-key", id);
    }
    answer(request).await.unwrap()
}

#[tokio::test]
async fn attack_a_key_from_the_browser_is_in_its_file_alone() {
    let (folder, mut hive) = new_home().await;
    let api = hive.socket_api().unwrap();
    let mut events = api.events("/api/v1/events?since=0").await.unwrap();
    let model = ScriptedModel::start().await.unwrap();
    let (wrong, key) = (Canary::new("wrong"), Canary::new("right"));
    let url = model.base_url();
    let body = |key: &Canary| {
        let key = key.value();
        json!({"provider": "anthropic", "model": "m-1", "api_url": url, "api_key": key})
    };
    let mut seen = String::new();

    // A vendor that repeats the key: nothing is saved, and the key is not repeated to anybody.
    model.push(Reply::fixed(
        401,
        "application/json",
        format!("{{\"error\":\"{}\"}}", wrong.value()),
    ));
    let refused = put(&api, "default", Some("first"), &body(&wrong)).await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("profile_test_failed")));
    assert!(refused.json["detail"].as_str().unwrap().ends_with("Not saved."), "{}", refused.text);
    seen.push_str(&refused.text);
    let home = folder.path().join("home");
    assert!(!home.join("keys.env").exists());
    let note = api.get("/api/v1/state").await.unwrap().good().unwrap();
    assert!(note["hive"]["model_note"].as_str().unwrap().starts_with("rehearsal"), "{note}");

    // The right one: in force when the answer comes, and the same request is carried out once.
    model.push(Reply::say("ok"));
    let saved = put(&api, "default", Some("second"), &body(&key)).await;
    assert_eq!((saved.status, &saved.json["ok"]), (200, &json!(true)), "{}", saved.text);
    let again = put(&api, "default", Some("second"), &body(&key)).await;
    assert_eq!(again.text, saved.text);
    assert_eq!(model.asked(), 2);
    assert_eq!(model.requests()[1].key(), Some(key.value()));
    let mode = fs::metadata(home.join("keys.env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    model.push(Reply::say("hello yourself"));
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let said = api.post(path, &json!({"message": "hello"})).await.unwrap();
    assert_eq!(said.json["response"]["content"], "hello yourself", "{}", said.text);
    // The key stays where only the model is changed, and does not go to another address.
    model.push(Reply::say("ok"));
    let other = json!({"provider": "anthropic", "model": "m-2", "api_url": url});
    assert_eq!(put(&api, "default", None, &other).await.status, 200);
    assert_eq!(model.requests()[3].key(), Some(key.value()));
    let thief = ScriptedModel::start().await.unwrap();
    let moved = json!({"provider": "anthropic", "model": "m-2", "api_url": thief.base_url()});
    assert_eq!(put(&api, "default", None, &moved).await.json["code"], "invalid_profile");
    assert_eq!(thief.asked(), 0);

    let listed = api.get("/api/v1/providers").await.unwrap();
    assert_eq!(listed.json["providers"][0]["key"], "keys.env", "{}", listed.text);
    let audit = api.get("/api/v1/audit").await.unwrap();
    let written = audit.json["rows"].as_array().unwrap().iter();
    let written: Vec<&Value> = written.filter(|row| row["outcome"] == "profile_written").collect();
    assert_eq!(written.len(), 2, "{}", audit.text);
    assert_eq!(written[1]["arguments"]["key"], "given", "{}", audit.text);
    for text in [saved.text, said.text, listed.text, audit.text] {
        seen.push_str(&text);
    }
    for path in ["/api/v1/logs?limit=1000", "/api/v1/state", "/api/v1/inbox"] {
        seen.push_str(&api.get(path).await.unwrap().text);
    }
    hive.terminate().unwrap();
    while let Ok(Some(event)) = events.next().await {
        seen.push_str(&format!("{event:?}"));
    }
    hive.wait(PATIENCE).await.unwrap();
    seen.push_str(&hive.stdout());
    seen.push_str(&hive.stderr());
    for canary in [&wrong, &key] {
        assert_eq!(canary.find_in(seen.as_bytes()), None, "{seen}");
    }
    assert_eq!(wrong.find_below(&home).unwrap(), []);
    let found = key.find_below(&home).unwrap();
    let files: Vec<_> = found.iter().map(|sighting| sighting.path.clone()).collect();
    assert_eq!(files, [home.join("keys.env")]);
    // The next start reads it, too.
    let start = Start::up(&locate::skep().unwrap(), &home).env("SKEP_LOCAL_SERVERS", "none");
    let hive = start.listening().await.unwrap();
    assert!(hive.stdout().contains("model: anthropic m-2"), "{}", hive.stdout());
}

#[tokio::test]
async fn attack_a_profile_that_cannot_be_is_refused_and_nothing_is_written() {
    let (folder, hive) = new_home().await;
    let api = hive.socket_api().unwrap();
    let key = Canary::new("refused");
    let home = folder.path().join("home");
    let before = fs::read_to_string(home.join("providers.yaml")).unwrap();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let good = |url: &str, key: &str| {
        let wire = "anthropic";
        json!({"provider": wire, "model": "m", "api_url": url, "api_key": key})
    };
    let canary = key.value();
    let long = canary.repeat(200);
    let (line, nul) = (format!("{canary}\nX-Other: 1"), format!("{canary}\0"));
    let here = format!("http://{closed}");
    let cases = [
        (good(&here, canary), "profile_test_failed"),
        (good(&format!("http://{}.invalid", "a".repeat(60)), canary), "profile_test_failed"),
        (good("not an address", canary), "invalid_profile"),
        (good("file:///etc/passwd", canary), "invalid_profile"),
        (good(&format!("http://user:{canary}@{closed}"), canary), "invalid_profile"),
        (good(&here, &line), "invalid_profile"),
        (good(&here, &nul), "invalid_profile"),
        (good(&here, &long), "invalid_profile"),
        (good(&here, "short"), "invalid_profile"),
        (good("${HOME}", canary), "invalid_profile"),
        (json!({"provider": canary, "model": "m", "api_key": canary}), "invalid_profile"),
        (json!({"provider": "anthropic", "api_key": canary}), "invalid_body"),
        (json!({"provider": "anthropic", "model": "m", "api_key": [canary]}), "invalid_body"),
        (json!({"provider": "ollama", "model": "m", "more": canary}), "invalid_body"),
    ];
    for (body, code) in &cases {
        let refused = put(&api, "default", None, body).await;
        assert_eq!(refused.json["code"], *code, "{body}: {}", refused.text);
        assert!(key.find_in(refused.text.as_bytes()).is_none(), "{body}: {}", refused.text);
    }
    let huge = json!({"provider": "x", "model": "m", "api_key": canary.repeat(40_000)});
    let huge = api.request(Method::PUT, "/api/v1/providers/default").json(&huge);
    // A client that is still writing may find the connection closed before it reads the answer.
    if let Ok(refused) = answer(huge).await {
        assert_eq!(refused.status, 413);
    }
    for role in ["viewer", "user"] {
        let made = api.post("/api/v1/tokens", &json!({"name": role, "role": role})).await.unwrap();
        let token = made.good().unwrap()["token"].as_str().unwrap().to_owned();
        let theirs = hive.api(Some(&token)).unwrap();
        let refused = put(&theirs, "default", None, &good(&here, canary)).await;
        assert_eq!((refused.status, &refused.json["code"]), (403, &json!("role")));
    }
    assert_eq!(fs::read_to_string(home.join("providers.yaml")).unwrap(), before);
    assert_eq!(key.find_below(&home).unwrap(), []);
    assert!(key.find_in(hive.stderr().as_bytes()).is_none());
}

#[tokio::test]
async fn attack_a_removed_profile_leaves_no_key() {
    let (folder, hive) = new_home().await;
    let api = hive.socket_api().unwrap();
    let model = ScriptedModel::start().await.unwrap();
    let keys = [("default", Canary::new("default")), ("cheap", Canary::new("cheap"))];
    for (name, key) in &keys {
        model.push(Reply::say("ok"));
        let body = json!({"provider": "anthropic", "model": "m", "api_url": model.base_url(),
            "api_key": key.value()});
        assert_eq!(put(&api, name, None, &body).await.status, 200);
    }
    let remove = async |api: &Api, name: &str| {
        let request = api.request(Method::DELETE, &format!("/api/v1/providers/{name}"));
        let answer = answer(request).await.unwrap();
        (answer.status, answer.json["code"].as_str().unwrap_or_default().to_owned(), answer.text)
    };
    let (status, code, text) = remove(&api, "default").await;
    assert_eq!((status, &*code), (409, "profile_in_use"), "{text}");
    assert!(text.contains("used by main"), "{text}");
    assert_eq!(remove(&api, "nobody").await.1, "unknown_profile");
    let made = api.post("/api/v1/tokens", &json!({"name": "eve", "role": "user"})).await.unwrap();
    let token = made.good().unwrap()["token"].as_str().unwrap().to_owned();
    assert_eq!(remove(&hive.api(Some(&token)).unwrap(), "cheap").await.1, "role");

    assert_eq!(remove(&api, "cheap").await.0, 204);
    let listed = api.get("/api/v1/providers").await.unwrap().good().unwrap();
    let listed = listed["providers"].as_array().unwrap();
    let names: Vec<&Value> = listed.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["default"]);
    let audit = api.get("/api/v1/audit").await.unwrap();
    assert_eq!(audit.json["rows"][0]["outcome"], "profile_removed", "{}", audit.text);
    let home = folder.path().join("home");
    assert_eq!(keys[1].1.find_below(&home).unwrap(), []);
    let files: Vec<_> = keys[0].1.find_below(&home).unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
}
