//! Conversations as people keep them: named, pinned, archived, deleted.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::http::{Answer, Api, answer};
use skep_testkit::locate;
use skep_testkit::model::Reply;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::PATIENCE;

use crate::fault_crash_journal::Journal;
use crate::stage::{Play, Stage};

const SESSIONS: &str = "/api/v1/agents/main/sessions";

async fn say(stage: &Stage, play: &Play, key: &str, text: &str) -> Value {
    stage.model.push(Reply::say("an answer about herons"));
    let sent = play.tell("main", key, text).await;
    play.ended("main", sent["item_id"].as_str().unwrap()).await
}

async fn list(api: &Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("{SESSIONS}?{query}")).await.unwrap().good().unwrap();
    page["sessions"].as_array().unwrap().clone()
}

fn titles(list: &[Value]) -> Vec<&str> {
    list.iter().map(|session| session["title"].as_str().unwrap()).collect()
}

async fn patch(api: &Api, id: &str, body: &Value) -> Answer {
    answer(api.request(Method::PATCH, &format!("{SESSIONS}/{id}")).json(body)).await.unwrap()
}

async fn skep(stage: &Stage, arguments: &[&str]) -> Finished {
    let mut start = Start::new(&locate::skep().unwrap(), stage.home());
    for argument in arguments {
        start = start.argument(argument);
    }
    start.finish().await.unwrap()
}

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

#[tokio::test]
async fn channel_a_conversation_is_named_pinned_and_archived_and_others_see_it() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let api = play.api();
    say(&stage, &play, "one", "y").await;
    say(&stage, &play, "two", "# Winter **prices**\nfor the shop").await;
    let all = list(&api, "").await;
    assert_eq!(titles(&all), ["Winter prices", ""]);
    assert_eq!(
        (&all[0]["state"], &all[0]["last_message"]),
        (&json!("idle"), &json!("an answer about herons"))
    );
    // A later message says what it is about.
    say(&stage, &play, "one", "now the opening hours, please").await;
    let all = list(&api, "").await;
    assert_eq!(titles(&all), ["now the opening hours, please", "Winter prices"]);

    let mut events = api.events("/api/v1/events").await.unwrap();
    let winter = id(&all[1]).to_owned();
    let edited =
        patch(&api, &winter, &json!({"title": " Prices of the winter ", "pinned": true})).await;
    assert_eq!((edited.status, &edited.json["title"]), (200, &json!("Prices of the winter")));
    let seen = loop {
        let event = events.next_within(PATIENCE).await.unwrap().unwrap();
        let event: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if event["type"] == "session_changed" {
            break event;
        }
    };
    assert_eq!(
        (&seen["session"], &seen["title"], &seen["pinned"], &seen["archived"]),
        (&json!(winter), &json!("Prices of the winter"), &json!(true), &json!(false))
    );
    let all = list(&api, "archived=false").await;
    assert_eq!(titles(&all), ["Prices of the winter", "now the opening hours, please"]);
    // A title that a person gave stays.
    say(&stage, &play, "two", "and those of the summer season").await;
    assert_eq!(titles(&list(&api, "archived=false").await)[0], "Prices of the winter");

    let hours = id(&all[1]).to_owned();
    assert_eq!(patch(&api, &hours, &json!({"archived": true})).await.json["archived"], true);
    assert_eq!(titles(&list(&api, "archived=false").await), ["Prices of the winter"]);
    assert_eq!(titles(&list(&api, "archived=true").await), ["now the opening hours, please"]);
    let found = api.get("/api/v1/search?q=HOURS").await.unwrap().good().unwrap();
    assert_eq!(found["hits"][0]["title"], "now the opening hours, please");
    assert_eq!(
        (&found["hits"][0]["archived"], id(&found["conversations"][0])),
        (&json!(true), hours.as_str())
    );
    let by_name =
        api.get("/api/v1/search?q=%22of%20the%20winter%22").await.unwrap().good().unwrap();
    assert_eq!(
        (by_name["hits"].as_array().unwrap().len(), id(&by_name["conversations"][0])),
        (0, winter.as_str())
    );
    // Something said in it brings it back.
    say(&stage, &play, "one", "still there?").await;
    assert_eq!(list(&api, "archived=true").await, Vec::<Value>::new());

    for (body, status, code) in [
        (json!({"title": "two\nlines"}), 400, "bad_title"),
        (json!({"title": "x".repeat(121)}), 400, "bad_title"),
        (json!({"name": "x"}), 400, "invalid_body"),
    ] {
        let refused = patch(&api, &winter, &body).await;
        assert_eq!((refused.status, &refused.json["code"]), (status, &json!(code)), "{body}");
    }
    let markdown = api.get(&format!("{SESSIONS}/{winter}/export?format=markdown")).await.unwrap();
    assert!(markdown.text.contains("\n\nan answer about herons\n"), "{}", markdown.text);
    let name = markdown.headers["content-disposition"].to_str().unwrap();
    assert!(name.starts_with("attachment") && name.ends_with(".md\""), "{name}");
}

#[tokio::test]
async fn channel_a_deleted_conversation_is_gone_and_its_trail_stays() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let api = play.api();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    stage.model.push(Reply::new().tool("read", json!({"file_path": "a.txt"})));
    stage.model.push(Reply::say("The secret heron answers."));
    let body = json!({
        "message": "about the heron", "session_key": "bird",
        "attachments": [{"name": "a.txt", "data": "aGVyb24="}],
    });
    let said = api.post(path, &body).await.unwrap().good().unwrap();
    say(&stage, &play, "other", "a heron that stays").await;
    let bird = list(&api, "").await.into_iter().find(|it| it["session_key"] == "bird").unwrap();
    let (bird, place) = (id(&bird).to_owned(), format!("{SESSIONS}/{}", id(&bird)));
    let shown = api.get(&place).await.unwrap().good().unwrap();
    assert_eq!(shown["attachments"], json!({"count": 1, "bytes": 5}));

    let viewer = json!({"name": "eve", "role": "viewer"});
    let token = api.post("/api/v1/tokens", &viewer).await.unwrap().good().unwrap();
    let viewer = play.hive.api(token["token"].as_str()).unwrap();
    for refused in [viewer.delete(&place).await.unwrap(), patch(&viewer, &bird, &json!({})).await] {
        assert_eq!((refused.status, &refused.json["code"]), (403, &json!("role")));
    }
    let user = json!({"name": "ann", "role": "user"});
    let token = api.post("/api/v1/tokens", &user).await.unwrap().good().unwrap();
    let user = play.hive.api(token["token"].as_str()).unwrap();
    for refused in [user.delete(&place).await.unwrap(), patch(&user, &bird, &json!({})).await] {
        assert_eq!((refused.status, &refused.json["code"]), (404, &json!("unknown_session")));
    }

    let gone = skep(&stage, &["session", "delete", &bird[..13]]).await;
    assert_eq!(gone.code, Some(2), "nobody can be asked: {}", gone.stderr);
    let gone = skep(&stage, &["session", "delete", &bird[..13], "--yes"]).await;
    assert_eq!((gone.code, gone.stdout.trim()), (Some(0), format!("deleted {bird}").as_str()));
    assert_eq!(titles(&list(&api, "").await), ["a heron that stays"]);
    for path in [&place, &format!("/api/v1/agents/main/history?session={bird}")] {
        assert_eq!(api.get(path).await.unwrap().status, 404, "{path}");
    }
    let found = api.get("/api/v1/search?q=heron").await.unwrap().good().unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    let item = format!("/api/v1/inbox/{}", said["item_id"].as_str().unwrap());
    let item = api.get(&item).await.unwrap().good().unwrap();
    assert_eq!(
        (&item["state"], &item["text"], &item["response"]),
        (&json!("done"), &json!(""), &Value::Null)
    );
    let trail = api.get("/api/v1/audit").await.unwrap();
    for word in ["session_deleted", "\"read\""] {
        assert!(trail.text.contains(word), "{word}: {}", trail.text);
    }
    let verdict = api.get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["ok"], true, "{verdict}");
    // The key begins anew.
    say(&stage, &play, "bird", "a second bird").await;
    assert_eq!(play.history("main", "bird").await.len(), 2);
    let replayed = play.history("main", "bird").await;
    assert!(!serde_json::to_string(&replayed).unwrap().contains("secret heron"));
    let text = leftovers(&stage, &play).await;
    for word in ["secret heron", "about the heron", "aGVyb24="] {
        assert!(!text.contains(word), "{word} is still there");
    }
}

/// Every word in every table.
async fn leftovers(stage: &Stage, play: &Play) -> String {
    drop(play.state().await);
    let copy = tempfile::tempdir().unwrap();
    for file in ["skep.db", "skep.db-wal"] {
        let from = stage.home().join("run").join(file);
        std::fs::copy(from, copy.path().join(file)).unwrap();
    }
    let mut dump = std::process::Command::new("sqlite3");
    let dump = dump.arg(copy.path().join("skep.db")).arg(".dump").output().unwrap();
    assert!(dump.status.success());
    String::from_utf8_lossy(&dump.stdout).into_owned()
}

#[tokio::test]
async fn channel_a_conversation_at_work_is_not_deleted_nor_regenerated() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let api = play.api();
    let gate = stage.model.gate("open");
    stage.model.push(Reply::say("done").gate_first("open"));
    let sent = play.tell("main", "main", "take your time").await;
    gate.wait_arrived(1).await.unwrap();
    let session = list(&api, "").await.remove(0);
    assert_eq!(session["state"], "running");
    let refused = api.delete(&format!("{SESSIONS}/{}", id(&session))).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("session_busy")));
    let refused = regenerate(&api, &session, "k").await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("session_busy")));
    assert!(refused.text.contains("wait for it or stop it"), "{}", refused.text);
    gate.open();
    play.ended("main", sent["item_id"].as_str().unwrap()).await;
    assert_eq!(api.delete(&format!("{SESSIONS}/{}", id(&session))).await.unwrap().status, 204);
}

async fn regenerate(api: &Api, session: &Value, key: &str) -> Answer {
    let place = format!("{SESSIONS}/{}/regenerate", id(session));
    let request = api.request(Method::POST, &place).header("Idempotency-Key", key);
    answer(request).await.unwrap()
}

fn texts(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["content"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn channel_the_last_answer_is_regenerated_and_the_model_does_not_see_the_old_one() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let api = play.api();
    for (asked, answered) in [("the first heron", "old one"), ("the second heron", "old two")] {
        stage.model.push(Reply::say(answered));
        play.ask("main", asked).await;
    }
    let old = list(&api, "").await.remove(0);
    patch(&api, id(&old), &json!({"pinned": true})).await;
    stage.model.push(Reply::say("new two"));
    let made = regenerate(&api, &old, "k1").await;
    assert_eq!(made.status, 202, "{}", made.text);
    play.ended("main", made.json["item_id"].as_str().unwrap()).await;
    let again = regenerate(&api, &old, "k1").await;
    assert_eq!((again.status, &again.json["item_id"]), (202, &made.json["item_id"]));
    let found = api.get("/api/v1/search?q=first+heron").await.unwrap().good().unwrap();
    let places = json!([found["hits"][0]["session"], found["hits"][1]]);
    assert_eq!(places, json!([made.json["session"], null]), "{found}");
    assert_eq!(again.json["session"], made.json["session"]);
    let seen = stage.model.requests().pop().unwrap().body["messages"].to_string();
    assert!(seen.contains("old one") && seen.contains("the second heron"), "{seen}");
    assert!(!seen.contains("old two"), "{seen}");
    let now = play.history("main", "main").await;
    assert_eq!(texts(&now), ["the first heron", "old one", "the second heron", "new two"]);
    // The first answer stays, in the archive.
    let path = format!("/api/v1/agents/main/history?session={}", id(&old));
    let kept = api.get(&path).await.unwrap().good().unwrap();
    assert_eq!(texts(kept["messages"].as_array().unwrap())[3], "old two");
    let (archived, open) = (list(&api, "archived=true").await, list(&api, "archived=false").await);
    let places = |all: &[Value]| {
        let places = all.iter().map(|it| json!([it["id"], it["pinned"], it["current"]]));
        places.collect::<Vec<_>>()
    };
    assert_eq!(places(&archived), [json!([old["id"], false, false])]);
    assert_eq!(places(&open), [json!([now[0]["sessionId"], true, true])]);
    let refused = regenerate(&api, &old, "k2").await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("not_current")));

    // Also the only message of a conversation, and in a fork of another one.
    say(&stage, &play, "one", "a heron alone").await;
    let only = list(&api, "archived=false").await.remove(1);
    let fork = format!("{SESSIONS}/{}/fork", id(&only));
    let fork = api.post(&fork, &json!({"session_key": "two"})).await.unwrap().good().unwrap();
    for (key, session) in [("one", &only), ("two", &fork)] {
        stage.model.push(Reply::say(key));
        let made = regenerate(&api, session, key).await;
        assert_eq!(made.status, 202, "{}", made.text);
        play.ended("main", made.json["item_id"].as_str().unwrap()).await;
        assert_eq!(texts(&play.history("main", key).await), ["a heron alone", key]);
    }

    let newest = list(&api, "archived=false").await.remove(1);
    for (name, role, refused) in [("eve", "viewer", "role"), ("ann", "user", "unknown_session")] {
        let token = json!({"name": name, "role": role});
        let token = api.post("/api/v1/tokens", &token).await.unwrap().good().unwrap();
        let theirs = play.hive.api(token["token"].as_str()).unwrap();
        assert_eq!(regenerate(&theirs, &newest, "k3").await.json["code"], refused);
    }
    let verdict = api.get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["ok"], true, "{verdict}");
}

/// Killed at every file operation: the answer is the old one, or on its way anew; never neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_in_a_regeneration_leaves_the_old_conversation_or_the_new_one() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("an answer"));
    let shim = Shim::new(stage.home()).unwrap();
    let mut play = stage.run(stage.start().shim(&shim)).await;
    for operation in [1, 2, 3, 4, 6, 9] {
        let key = format!("k{operation}");
        let sent = play.tell("main", &key, "the heron").await;
        play.ended("main", sent["item_id"].as_str().unwrap()).await;
        let of_key = async |play: &Play| {
            let mut all = list(&play.api(), "").await;
            all.retain(|it| it["session_key"] == key.as_str());
            all
        };
        let old = of_key(&play).await.remove(0);
        shim.end_from_now(End::Kill(operation)).unwrap();
        let place = format!("{SESSIONS}/{}/regenerate", id(&old));
        let request = play.api().request(Method::POST, &place).header("Idempotency-Key", &key);
        let told = answer(request).await.is_ok_and(|answer| answer.status == 202);
        if play.hive.is_running() {
            play.hive.kill().await.unwrap();
        }
        play.hive.wait(PATIENCE).await.unwrap();
        shim.prepare(End::Never).unwrap();
        play = stage.run(stage.start().shim(&shim)).await;
        let places = |all: Vec<Value>| {
            let places = all.iter().map(|it| (it["current"] == true, it["archived"] == true));
            let mut places: Vec<_> = places.collect();
            places.sort();
            places
        };
        let (before, after) = (vec![(true, false)], vec![(false, true), (true, false)]);
        let found = places(of_key(&play).await);
        assert!(found == after || found == before && !told, "{found:?} at {operation}");
        // The same request again ends in the same place.
        let made = regenerate(&play.api(), &old, &key).await;
        assert_eq!(made.status, 202, "{}", made.text);
        play.ended("main", made.json["item_id"].as_str().unwrap()).await;
        assert_eq!(places(of_key(&play).await), after, "at {operation}");
        assert_eq!(texts(&play.history("main", &key).await), ["the heron", "an answer"]);
    }
}

/// Killed at every file operation of a deletion: all of it is there afterwards, or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_in_a_deletion_leaves_all_of_the_conversation_or_nothing() {
    let stage = Stage::new().await;
    let shim = Shim::new(stage.home()).unwrap();
    let mut play = stage.run(stage.start().shim(&shim)).await;
    for number in 0..3 {
        for text in ["the first heron", "the second heron", "the third heron"] {
            say(&stage, &play, &format!("k{number}"), text).await;
        }
    }
    let (mut gone, mut whole) = (0, 0);
    for operation in [1, 2, 3, 4, 6, 9] {
        let Some(session) = list(&play.api(), "").await.into_iter().next() else { break };
        shim.end_from_now(End::Kill(operation)).unwrap();
        let answered = play.api().delete(&format!("{SESSIONS}/{}", id(&session))).await;
        let told = answered.is_ok_and(|answer| answer.status == 204);
        if play.hive.is_running() {
            play.hive.kill().await.unwrap();
        }
        play.hive.wait(PATIENCE).await.unwrap();
        let rows = Journal::of(stage.home()).history;
        let rows = rows.iter().filter(|row| row["session"] == session["id"]).count();
        assert!(rows == 0 || rows == 6, "{rows} of 6 rows are left at {operation}");
        shim.prepare(End::Never).unwrap();
        play = stage.run(stage.start().shim(&shim)).await;
        let there = list(&play.api(), "").await.iter().any(|it| it["id"] == session["id"]);
        assert_eq!(there, rows == 6, "at {operation}");
        assert!(!(told && there), "what was told stays at {operation}");
        let hits =
            play.api().get("/api/v1/search?q=heron&limit=100").await.unwrap().good().unwrap();
        let hits = hits["hits"].as_array().unwrap().iter();
        let hits = hits.filter(|hit| hit["session"] == session["id"]).count();
        assert_eq!(hits, if there { 3 } else { 0 }, "at {operation}");
        gone += usize::from(!there);
        whole += usize::from(there);
    }
    assert!(whole > 0, "{gone} were deleted before the kill");
}
