//! Sessions through the doors: listed, searched, forked, carried from one hive to another.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::locate;
use skep_testkit::model::{Reply, Usage};

use crate::stage::{Play, Stage};

async fn get(play: &Play, path: &str) -> Value {
    play.api().get(path).await.unwrap().good().unwrap()
}

/// The command line against the running rig's home.
async fn skep(stage: &Stage, arguments: &[&str]) -> Finished {
    let mut start = Start::new(&locate::skep().unwrap(), stage.home());
    for argument in arguments {
        start = start.argument(argument);
    }
    start.finish().await.unwrap()
}

/// The session that the key leads to now.
async fn session(play: &Play, key: &str) -> Value {
    let page = get(play, "/api/v1/agents/main/sessions").await;
    let sessions = page["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|it| it["session_key"] == key && it["current"] == true);
    found.unwrap().clone()
}

/// A conversation with thinking, parallel calls and an answer.
async fn talk(stage: &Stage, play: &Play) {
    stage.write("teams/main/work/a.txt", "alpha");
    let calls = Reply::new()
        .thinking("which files?")
        .text("I look.")
        .tool("read", json!({"file_path": "a.txt"}))
        .tool("read", json!({"file_path": "missing.txt"}));
    stage.model.push(calls);
    stage.model.push(Reply::say("The file says Ärger about a zebra."));
    play.ask("main", "What is in the files of the zebra?").await;
    stage.model.push(Reply::say("You are welcome."));
    play.ask("main", "thank you").await;
}

#[tokio::test]
async fn channel_sessions_are_listed_and_found_by_their_words() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    stage.model.push(Reply::say("Hello from elsewhere."));
    let other = play.tell("main", "desk", "a zebra on the desk").await;
    play.ended("main", other["item_id"].as_str().unwrap()).await;

    let page = get(&play, "/api/v1/agents/main/sessions?limit=1").await;
    assert_eq!(page["sessions"][0]["session_key"], "desk");
    let next =
        format!("/api/v1/agents/main/sessions?limit=1&after={}", page["after"].as_str().unwrap());
    let page = get(&play, &next).await;
    let main = &page["sessions"][0];
    assert_eq!(main["title"], "What is in the files of the zebra?");
    assert_eq!((&main["messages"], &main["current"]), (&json!(7), &json!(true)));
    assert!(main["tokens"].as_i64().unwrap() > 0);
    let path = format!("/api/v1/agents/main/sessions/{}", main["id"].as_str().unwrap());
    assert_eq!(get(&play, &path).await, *main);

    let places = async |query: &str| {
        let page = get(&play, &format!("/api/v1/search?{query}")).await;
        let hits = page["hits"].as_array().unwrap().iter();
        hits.map(|hit| (hit["session_key"].clone(), hit["seq"].as_i64().unwrap()))
            .collect::<Vec<_>>()
    };
    let at = |key: &str, seq| (json!(key), seq);
    assert_eq!(places("q=zebra").await, [at("desk", 1), at("main", 5), at("main", 1)]);
    assert_eq!(places("q=ARGER%20zebra").await, [at("main", 5)]);
    assert_eq!(places("q=%22the%20files%22").await, [at("main", 1)]);
    // What a tool read is not what anybody said.
    assert_eq!(places("q=alpha").await, []);
    assert_eq!(places("q=zebra&agent=plain").await, []);
    let page = get(&play, "/api/v1/search?q=zebra&limit=2").await;
    let older = format!("q=zebra&limit=2&before={}", page["before"]);
    assert_eq!(places(&older).await, [at("main", 1)]);
    let hit = &get(&play, "/api/v1/search?q=arger").await["hits"][0];
    assert_eq!(hit["excerpt"], "The file says Ärger about a zebra.");
    assert_eq!((&hit["marks"], &hit["role"]), (&json!([[14, 5]]), &json!("assistant")));

    for (query, code, part) in [
        ("q=", "bad_query", "at least one word"),
        ("q=%22open", "bad_query", "not closed"),
        ("q=a*", "bad_query", "at least 3 letters"),
        ("q=x&limit=0", "invalid_query", "between 1 and 100"),
        ("q=x&agent=nobody", "unknown_agent", "nobody"),
        ("limit=5", "invalid_query", "q"),
    ] {
        let answer = play.api().get(&format!("/api/v1/search?{query}")).await.unwrap();
        assert!((400..405).contains(&answer.status), "{query}: {}", answer.status);
        assert_eq!(answer.json["code"], code, "{query}");
        assert!(answer.json["detail"].as_str().unwrap().contains(part), "{query}: {}", answer.json);
    }

    let shown = skep(&stage, &["history", "search", "zebra", "-desk"]).await;
    assert!(shown.stdout.contains("main/main #5 assistant"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("main/desk"), "{}", shown.stdout);
    // Never searched for in silence.
    let refused = skep(&stage, &["history", "search", "zebra", "--agent", "main"]).await;
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("put options before the words"), "{}", refused.stderr);
    let shown = skep(&stage, &["session", "list"]).await;
    assert!(shown.stdout.contains("What is in the files of the zebra?"), "{}", shown.stdout);
}

#[tokio::test]
async fn channel_history_is_read_forwards_too() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    let seqs = |page: &Value| -> Vec<i64> {
        let rows = page["messages"].as_array().unwrap();
        rows.iter().map(|row| row["seq"].as_i64().unwrap()).collect()
    };
    let page = get(&play, "/api/v1/agents/main/history?view=full&after=0&limit=3").await;
    assert_eq!(
        (seqs(&page), &page["after"], &page["before"]),
        (vec![1, 2, 3], &json!(3), &Value::Null)
    );
    let page = get(&play, "/api/v1/agents/main/history?view=full&after=3&limit=50").await;
    assert_eq!(
        (seqs(&page), &page["after"], &page["before"]),
        (vec![4, 5, 6, 7], &Value::Null, &json!(4))
    );
    let page = get(&play, "/api/v1/agents/main/history?after=1&limit=2").await;
    assert_eq!(seqs(&page), [2, 5]);
    let both = play.api().get("/api/v1/agents/main/history?after=1&before=2").await.unwrap();
    assert_eq!((both.status, &both.json["code"]), (400, &json!("invalid_query")));
}

#[tokio::test]
async fn channel_a_fork_goes_on_where_it_was_cut() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    let before = stage.model.requests().pop().unwrap().body;
    let id = session(&play, "main").await["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/agents/main/sessions/{id}/fork");
    let refused = play.api().post(&path, &json!({"at": 3})).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("inside_a_call")));
    let detail = refused.json["detail"].as_str().unwrap();
    assert!(detail.contains("fork at 1 or at 4"), "{detail}");

    let made = play.api().post(&path, &json!({"at": 5, "session_key": "again"})).await.unwrap();
    assert_eq!(made.status, 201);
    assert_eq!(made.json["forked_from"], json!({"session": id, "at": 5}));
    stage.model.push(Reply::say("No zebra."));
    let sent = play.tell("main", "again", "and now?").await;
    play.ended("main", sent["item_id"].as_str().unwrap()).await;
    // The model sees the first five messages exactly as it did before.
    let after = stage.model.requests().pop().unwrap().body;
    let strip = |messages: &Value| {
        let text = messages.to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        serde_json::from_str::<Vec<Value>>(&text).unwrap()
    };
    let (before, after) = (strip(&before["messages"]), strip(&after["messages"]));
    assert_eq!(before.len(), after.len());
    assert_eq!(before[..4], after[..4]);
    assert_ne!(before[4], after[4]);
    // The original is as it was.
    assert_eq!(play.history("main", "main").await.len(), 7);
    let rows = play.history("main", "again").await;
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[6]["content"][0]["text"], "No zebra.");

    let by_cli = skep(&stage, &["session", "fork", &id, "--at", "1", "--key", "cli"]).await;
    assert!(by_cli.stdout.contains(&format!("fork of {id} at 1")), "{}", by_cli.stdout);
    let lost = skep(&stage, &["session", "fork", "nothing", "--at", "1"]).await;
    assert_eq!(lost.code, Some(1));
    assert!(lost.stderr.contains("skep session list"), "{}", lost.stderr);
}

fn exported(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder.join("history"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn channel_an_export_becomes_the_same_session_in_another_hive() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    let out = stage.folder().join("out");
    let done = skep(&stage, &["history", "export", "--out", out.to_str().unwrap()]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let files = exported(&out);
    let id = session(&play, "main").await["id"].as_str().unwrap().to_owned();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].0, format!("main-{id}.jsonl"));
    let lines: Vec<Value> =
        files[0].1.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, play.history("main", "main").await);
    assert!(files[0].1.contains("\"signature\":"), "{}", files[0].1);

    let other = Stage::new().await;
    let elsewhere = other.up().await;
    let file = out.join("history").join(&files[0].0);
    let file = file.to_str().unwrap();
    for (round, said) in ["7 messages imported", "was there already, the same"].iter().enumerate() {
        let done = skep(&other, &["history", "import", file, "--session", "old"]).await;
        assert_eq!(done.code, Some(0), "{round}: {}", done.stderr);
        assert!(done.stdout.contains(said), "{round}: {}", done.stdout);
    }
    assert_eq!(elsewhere.history("main", "old").await, lines);
    let again = other.folder().join("again");
    let key = ["history", "export", "main", "--session", "old", "--out", again.to_str().unwrap()];
    assert_eq!(skep(&other, &key).await.code, Some(0));
    assert_eq!(exported(&again), files);
    let found = get(&elsewhere, "/api/v1/search?q=zebra%20arger").await;
    assert_eq!(found["hits"][0]["session"], id);

    // A file that names its agent goes to no other.
    let refused = skep(&other, &["history", "import", file, "--agent", "plain"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    let why = "it belongs to the agent main, not to plain";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    let nobody = skep(&other, &["history", "import", file, "--agent", "nobody"]).await;
    assert_eq!(nobody.code, Some(1), "{}", nobody.stdout);

    // The conversation goes on there, on a fork.
    other.model.push(Reply::say("Still here."));
    let fork = skep(&other, &["session", "fork", &id, "--key", "main"]).await;
    assert_eq!(fork.code, Some(0), "{}", fork.stderr);
    assert_eq!(elsewhere.ask("main", "are you there?").await["response"]["content"], "Still here.");

    let broken = other.folder().join("broken.jsonl");
    fs::write(&broken, files[0].1.replacen("thank you", "no thanks", 1)).unwrap();
    let refused = skep(&other, &["history", "import", broken.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("its message 6 differs"), "{}", refused.stderr);
    fs::write(&broken, files[0].1.replace(&id, "new-id").replacen("\"seq\":5", "\"seq\":6", 1))
        .unwrap();
    let refused = skep(&other, &["history", "import", broken.to_str().unwrap()]).await;
    assert!(refused.stderr.contains("line 5: `seq` is 6, but 5 comes next"), "{}", refused.stderr);
    let page = get(&elsewhere, "/api/v1/agents/main/sessions").await;
    let ids: Vec<&str> =
        page["sessions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(!ids.contains(&"new-id"), "{ids:?}");
}

/// Users find, list, fork and export their own sessions alone.
#[tokio::test]
async fn attack_channel_sessions_of_others_are_out_of_reach() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    let body = json!({"name": "ann", "role": "user"});
    let token = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let user = play.hive.api(token["token"].as_str()).unwrap();
    stage.model.push(Reply::say("A user's zebra."));
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    user.post(path, &json!({"message": "mine"})).await.unwrap().good().unwrap();

    let hits = user.get("/api/v1/search?q=zebra").await.unwrap().good().unwrap();
    let texts: Vec<&Value> =
        hits["hits"].as_array().unwrap().iter().map(|it| &it["excerpt"]).collect();
    assert_eq!(texts, ["A user's zebra."]);
    let listed = user.get("/api/v1/agents/main/sessions").await.unwrap().good().unwrap();
    let titles: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert_eq!(titles, ["mine"]);
    let foreign = session(&play, "main").await["id"].as_str().unwrap().to_owned();
    let base = format!("/api/v1/agents/main/sessions/{foreign}");
    for path in [base.clone(), format!("{base}/export")] {
        let answer = user.get(&path).await.unwrap();
        assert_eq!(
            (answer.status, &answer.json["code"]),
            (404, &json!("unknown_session")),
            "{path}"
        );
    }
    let answer = user.post(&format!("{base}/fork"), &json!({})).await.unwrap();
    assert_eq!((answer.status, &answer.json["code"]), (404, &json!("unknown_session")));
    let own = listed["sessions"][0]["id"].as_str().unwrap();
    let path = format!("/api/v1/agents/main/sessions/{own}/fork");
    let made = user.post(&path, &json!({"session_key": "main2"})).await.unwrap().good().unwrap();
    assert!(made["session_key"].as_str().unwrap().ends_with("/main2"), "{made}");
}

/// The bytes of a file travel with its session, and a fork shows them too.
#[tokio::test]
async fn channel_files_go_where_their_session_goes() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    stage.model.push(Reply::say("I read it."));
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let body = json!({"message": "look", "attachments": [{"name": "a.txt", "data": "YWJj"}]});
    play.api().post(path, &body).await.unwrap().good().unwrap();
    let id = session(&play, "main").await["id"].as_str().unwrap().to_owned();
    let export = format!("/api/v1/agents/main/sessions/{id}/export");
    let lines = play.api().get(&export).await.unwrap().text;
    assert!(lines.contains(r#""data":"YWJj""#), "{lines}");
    let fork = format!("/api/v1/agents/main/sessions/{id}/fork");
    let fork = play.api().post(&fork, &json!({})).await.unwrap().good().unwrap();
    let export_of_fork =
        format!("/api/v1/agents/main/sessions/{}/export", fork["id"].as_str().unwrap());
    let of_fork = play.api().get(&export_of_fork).await.unwrap().text;
    assert_eq!(of_fork, lines.replace(&id, fork["id"].as_str().unwrap()));

    let other = Stage::new().await;
    let elsewhere = other.up().await;
    let file = other.folder().join("in.jsonl");
    fs::write(&file, &lines).unwrap();
    for _ in 0..2 {
        let done = skep(&other, &["history", "import", file.to_str().unwrap()]).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    assert_eq!(elsewhere.api().get(&export).await.unwrap().text, lines);
}

/// Out as a seed and in again, by the command line: the same words, calls, results and usage.
#[tokio::test]
async fn channel_a_session_in_the_seed_s_form_goes_out_and_comes_in() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    talk(&stage, &play).await;
    let out = |name: &str| stage.folder().join(name).to_str().unwrap().to_owned();
    let export = ["history", "export", "main", "--format", "seed", "--out"];
    let done = skep(&stage, &[&export[..], &[&out("a")]].concat()).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let (name, seed) = exported(Path::new(&out("a"))).remove(0);
    for line in seed.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["seq"], &line["turn"]), (&Value::Null, &Value::Null), "{line}");
    }
    let other = Stage::new().await;
    let elsewhere = other.up().await;
    let file = format!("{}/history/{name}", out("a"));
    let nobody = skep(&other, &["history", "import", &file]).await;
    assert!(nobody.code == Some(1) && nobody.stderr.contains("--agent"), "{}", nobody.stderr);
    let import = ["history", "import", &file, "--agent", "main", "--session", "old"];
    for said in ["7 messages imported", "was there already, the same"] {
        let done = skep(&other, &import).await;
        assert!(done.stdout.contains(said), "{} {}", done.stdout, done.stderr);
    }
    let parts = |rows: Vec<Value>| -> Vec<Value> {
        let keys = ["role", "content", "meta", "toolCallId", "toolName", "isError", "timestamp"];
        rows.iter().map(|row| keys.iter().map(|key| row[*key].clone()).collect()).collect()
    };
    let there = elsewhere.history("main", "old").await;
    assert_eq!(parts(there), parts(play.history("main", "main").await));
    let folder = out("b");
    let again = [&export[..], &[&folder], &["--session", "old"]].concat();
    assert_eq!(skep(&other, &again).await.code, Some(0));
    assert_eq!(exported(Path::new(&out("b")))[0].1, seed);
}

#[tokio::test]
async fn channel_a_break_of_the_cache_is_explained() {
    let stage = Stage::new().await;
    let said = |read, made| {
        let (input, output) = (Some(10), Some(5));
        Reply::say("well").usage(Usage {
            input_tokens: input,
            output_tokens: output,
            cache_creation_input_tokens: made,
            cache_read_input_tokens: read,
        })
    };
    stage.model.push_all([said(0, 5000), said(5000, 100), said(0, 5300)]);
    let play = stage.up().await;
    play.ask("main", "one").await;
    play.ask("main", "two").await;
    let rules = "allowed_tools: ['*']\nmax_steps: 7\n";
    crate::fault_config::change(&play, || stage.write("teams/main/config.yaml", rules)).await;
    play.ask("main", "three").await;
    let id = session(&play, "main").await["id"].as_str().unwrap().to_owned();
    let info = get(&play, &format!("/api/v1/agents/main/sessions/{id}")).await;
    let breaks = info["cache_breaks"].as_array().unwrap();
    assert_eq!(breaks.len(), 1, "{info}");
    let broke = (&breaks[0]["seq"], &breaks[0]["part"], &breaks[0]["tokens"]);
    assert_eq!(broke, (&json!(6), &json!("settings"), &json!(5110)), "{info}");
    let shown = skep(&stage, &["history", "show", "main", "--view", "full"]).await;
    let line = "5110 tokens were read anew: tools, rules or settings of the agent changed, ";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
}
