//! `Idempotency-Key` on writes that are no messages, and the headers of limits.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::http::{self, Answer, Api};

use crate::stage::Stage;

async fn keyed(api: &Api, method: Method, path: &str, key: &str, body: Option<Value>) -> Answer {
    let mut request = api.request(method, path).header("Idempotency-Key", key);
    if let Some(body) = &body {
        request = request.json(body);
    }
    http::answer(request).await.unwrap()
}

fn grant(minutes: u32) -> Option<Value> {
    Some(json!({"tool": "bash", "command": "ls", "minutes": minutes}))
}

#[tokio::test]
async fn channel_a_write_with_a_key_is_carried_out_once() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::new().text("hello"));
    let mut play = stage.up().await;
    let grants = "/api/v1/agents/main/grants";
    let first = keyed(&play.api(), Method::POST, grants, "g1", grant(5)).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let second = keyed(&play.api(), Method::POST, grants, "g1", grant(5)).await;
    assert_eq!((second.status, &second.json), (201, &first.json));
    let other = keyed(&play.api(), Method::POST, grants, "g1", grant(6)).await;
    assert_eq!((other.status, &other.json["code"]), (409, &json!("id_reused")));
    let elsewhere = keyed(&play.api(), Method::POST, "/api/v1/links", "g1", grant(5)).await;
    assert_eq!((elsewhere.status, &elsewhere.json["code"]), (409, &json!("id_reused")));
    let list = play.api().get("/api/v1/grants").await.unwrap().good().unwrap();
    assert_eq!(list["grants"].as_array().unwrap().len(), 1, "{list}");

    // Somebody else's key is another one.
    let made = play.api().post("/api/v1/tokens", &json!({"name": "two"})).await.unwrap();
    let two = play.hive.api(made.json["token"].as_str()).unwrap();
    let theirs = keyed(&two, Method::POST, grants, "g1", grant(5)).await;
    assert_eq!(theirs.status, 201);
    assert_ne!(theirs.json["id"], first.json["id"]);

    // What was refused did nothing, and its key is free.
    let refused = keyed(&play.api(), Method::POST, grants, "g2", grant(0)).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let mended = keyed(&play.api(), Method::POST, grants, "g2", grant(7)).await;
    assert_eq!(mended.status, 201, "{}", mended.text);

    play.ask("main", "hi").await;
    let list = play.api().get("/api/v1/agents/main/sessions").await.unwrap().good().unwrap();
    let session = list["sessions"][0]["id"].as_str().unwrap();
    let fork = format!("/api/v1/agents/main/sessions/{session}/fork");
    let forked = keyed(&play.api(), Method::POST, &fork, "f1", None).await;
    assert_eq!(forked.status, 201, "{}", forked.text);
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let again = keyed(&play.api(), Method::POST, &fork, "f1", None).await;
    assert_eq!((again.status, &again.json), (201, &forked.json), "{}", again.text);
    let sessions = play.api().get("/api/v1/agents/main/sessions").await.unwrap().good().unwrap();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2, "{sessions}");

    let path = format!("/api/v1/grants/{}", first.json["id"].as_str().unwrap());
    for _ in 0..2 {
        let gone = keyed(&play.api(), Method::DELETE, &path, "d1", None).await;
        assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    }
    let gone = keyed(&play.api(), Method::DELETE, &path, "d2", None).await;
    assert_eq!(gone.status, 404);
}

/// Whether a file of the store holds it.
fn is_kept(home: &Path, text: &str) -> bool {
    ["run/skep.db", "run/skep.db-wal"].iter().any(|file| {
        let bytes = std::fs::read(home.join(file)).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn channel_an_answer_that_shows_a_secret_is_not_kept() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    let body = Some(json!({"name": "ann", "role": "user"}));
    let first = keyed(&play.api(), Method::POST, "/api/v1/links", "l1", body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let link = first.json["link"].as_str().unwrap();
    let (_, once) = link.split_once("once=").unwrap();
    let second = keyed(&play.api(), Method::POST, "/api/v1/links", "l1", body).await;
    assert_eq!((second.status, &second.json["code"]), (409, &json!("id_reused")));
    assert!(!second.text.contains(once));
    play.hive.kill().await.unwrap();
    assert!(!is_kept(stage.home(), once));
    assert!(is_kept(stage.home(), "\"body\":null"));
}

/// Of ten that come together one is carried out; the others get its answer, or are told that it is
/// under way.
#[tokio::test]
async fn channel_writes_with_one_key_at_the_same_time() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let grants = "/api/v1/agents/main/grants";
    let api = play.api();
    let all = (0..10).map(|_| keyed(&api, Method::POST, grants, "g1", grant(5)));
    for answer in futures_util::future::join_all(all).await {
        let open = answer.status == 409 && answer.json["code"] == "request_open";
        assert!(answer.status == 201 || open, "{}", answer.text);
    }
    let list = play.api().get("/api/v1/grants").await.unwrap().good().unwrap();
    assert_eq!(list["grants"].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test]
async fn channel_a_wrong_credential_is_told_its_limit() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    for left in [2, 1, 0, 0] {
        let request =
            play.hive.api(Some("skep_wrong")).unwrap().request(Method::GET, "/api/v1/agents");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let policy = "\"wrong-credentials\";q=3;qu=\"requests\";w=900";
        assert_eq!(header("ratelimit-policy"), policy);
        assert_eq!(header("ratelimit"), format!("\"wrong-credentials\";r={left};t=900"));
    }
    let good = play.api().request(Method::GET, "/api/v1/agents").send().await.unwrap();
    assert!(!good.headers().contains_key("ratelimit"));
}
