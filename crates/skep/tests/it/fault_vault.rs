//! The vault under faults: keys that are missing or wrong, rotations that are killed, secrets that
//! are moved in from files.

use std::fs;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::canary::Canary;
use skep_testkit::http::answer;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::PATIENCE;

use crate::stage::{Play, Stage};

const ENTRIES: usize = 5;

fn key_file(stage: &Stage) -> PathBuf {
    stage.folder().join(".config/skep/key")
}

/// `main` asks with a key of the vault, `plain` with one of the environment.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    let profile = |name: &str, key: &str| {
        format!(
            "  {name}:\n    provider: anthropic\n    model: scripted\n    api_url: {}\n    \
             api_key: {key}\n    timeouts: {{ connect: 600, first: 600, idle: 600 }}\n",
            stage.model.base_url()
        )
    };
    let sealed = profile("sealed", "vault:model");
    let usual = profile("default", "${RIG_KEY}");
    stage.write("providers.yaml", &format!("profiles:\n{usual}{sealed}"));
    stage.write("teams/main/config.yaml", "profile: sealed\n");
    stage.write("teams/plain/config.yaml", "engine: native\n");
    stage
}

async fn set(play: &Play, name: &str, value: &str) {
    let path = format!("/api/v1/vault/entries/{name}");
    let request = play.api().request(Method::PUT, &path).json(&json!({"value": value}));
    let done = answer(request).await.unwrap();
    assert_eq!(done.status, 204, "{}", done.text);
}

async fn vault(play: &Play) -> Value {
    play.api().get("/api/v1/vault").await.unwrap().good().unwrap()
}

/// The key that the model was asked with.
async fn asked_with(stage: &Stage, play: &Play, agent: &str) -> Option<String> {
    stage.model.push(Reply::say("yes"));
    let before = stage.model.asked();
    play.ask(agent, "hello").await;
    let requests = stage.model.requests();
    requests.get(before).and_then(|request| request.key()).map(str::to_owned)
}

/// Why the agent cannot run.
async fn failure(play: &Play, agent: &str) -> String {
    let listed = play.api().get("/api/v1/agents").await.unwrap().text;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let agents = listed["agents"].as_array().unwrap();
    agents.iter().find(|it| it["name"] == agent).unwrap().to_string()
}

#[tokio::test]
async fn a_missing_or_wrong_vault_key_fails_the_profiles_that_need_it_alone() {
    let stage = stage().await;
    let mut play = stage.up().await;
    // An entry that is not there yet is a reason too, and one that is set counts at once.
    assert!(failure(&play, "main").await.contains("there is no vault entry model"));
    set(&play, "model", "the-key-of-the-model-1").await;
    let key = asked_with(&stage, &play, "main").await;
    assert_eq!(key.as_deref(), Some("the-key-of-the-model-1"));
    set(&play, "model", "the-key-of-the-model-2").await;
    let key = asked_with(&stage, &play, "main").await;
    assert_eq!(key.as_deref(), Some("the-key-of-the-model-2"));
    let good = fs::read_to_string(key_file(&stage)).unwrap();
    let id = good.lines().last().unwrap().split_once(' ').unwrap().0.to_owned();
    let other = format!("{id} AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
    let cases = [
        (None, "the key file of the vault is missing"),
        (Some(other), "does not open with the key"),
        (Some("nonsense\n".to_owned()), "has a line that is no key"),
    ];
    for (text, why) in cases {
        play.hive.terminate().unwrap();
        play.hive.wait(PATIENCE).await.unwrap();
        match text {
            None => fs::remove_file(key_file(&stage)).unwrap(),
            Some(text) => fs::write(key_file(&stage), text).unwrap(),
        }
        play = stage.up().await;
        let told = failure(&play, "main").await;
        assert!(told.contains(why), "{told}");
        let providers = play.api().get("/api/v1/providers").await.unwrap().text;
        assert!(providers.contains(why), "{providers}");
        let key = asked_with(&stage, &play, "plain").await;
        assert_eq!(key.as_deref(), Some("rig-key-canary-1f7c"));
        // The right file counts as soon as somebody looks.
        fs::write(key_file(&stage), &good).unwrap();
        std::process::Command::new("chmod").arg("600").arg(key_file(&stage)).status().unwrap();
        assert_eq!(vault(&play).await["entries"][0].get("problem"), None);
        let key = asked_with(&stage, &play, "main").await;
        assert_eq!(key.as_deref(), Some("the-key-of-the-model-2"), "{why}");
    }
}

#[tokio::test]
async fn a_rotation_killed_at_any_file_operation_loses_nothing() {
    let stage = stage().await;
    let mut play = stage.up().await;
    set(&play, "model", "the-key-of-the-model-1").await;
    for number in 1..ENTRIES {
        set(&play, &format!("E{number}"), &format!("value-of-entry-{number}")).await;
    }
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    let shim = Shim::new(stage.folder()).unwrap();
    let mut killed = 0;
    for at in 1.. {
        shim.prepare(End::Never).unwrap();
        let mut play = stage.run(stage.start().shim(&shim)).await;
        // Everything opens, whatever was on the disk by then.
        let listed = vault(&play).await;
        let entries = listed["entries"].as_array().unwrap();
        assert_eq!(entries.len(), ENTRIES);
        for entry in entries {
            assert_eq!(entry.get("problem"), None, "{at}: {entry}");
            assert_eq!(entry["key"], listed["key"], "{at}: sealed with the newest key: {listed}");
        }
        let key = asked_with(&stage, &play, "main").await;
        assert_eq!(key.as_deref(), Some("the-key-of-the-model-1"), "{at}");
        shim.end_from_now(End::Kill(at)).unwrap();
        let rotated = play.api().post("/api/v1/vault/rotate", &json!({})).await;
        if rotated.is_ok_and(|answer| answer.status == 200) {
            shim.end_from_now(End::Never).unwrap();
            break;
        }
        play.hive.wait(PATIENCE).await.unwrap();
        killed += 1;
    }
    assert!(killed > 8, "only {killed} operations");
    println!("killed at {killed} operations");
}

/// Turns that use an entry, and changes of others, while one key follows the other.
#[tokio::test]
async fn a_rotation_under_load_loses_nothing() {
    const ROUNDS: usize = 12;
    let stage = stage().await;
    let mut play = stage.up().await;
    set(&play, "model", "the-key-of-the-model-1").await;
    let turns = async {
        for _ in 0..ROUNDS {
            let key = asked_with(&stage, &play, "main").await;
            assert_eq!(key.as_deref(), Some("the-key-of-the-model-1"));
        }
    };
    let changes = async {
        for number in 0..4 * ROUNDS {
            set(&play, &format!("E{number}"), &format!("value-of-entry-{number}")).await;
        }
    };
    let rotations = async {
        for _ in 0..ROUNDS {
            let done = play.api().post("/api/v1/vault/rotate", &json!({})).await.unwrap();
            assert_eq!(done.status, 200, "{}", done.text);
        }
    };
    tokio::join!(turns, changes, rotations);
    for restarted in [false, true] {
        if restarted {
            play.hive.kill().await.unwrap();
            play = stage.up().await;
        }
        let listed = vault(&play).await;
        let entries = listed["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1 + 4 * ROUNDS);
        for entry in entries {
            assert_eq!((entry.get("problem"), &entry["key"]), (None, &listed["key"]), "{entry}");
        }
        let key = asked_with(&stage, &play, "main").await;
        assert_eq!(key.as_deref(), Some("the-key-of-the-model-1"));
    }
}

#[tokio::test]
async fn secrets_in_files_are_moved_into_the_vault() {
    let stage = Stage::new().await;
    let (literal, given) = (Canary::new("literal"), Canary::new("given"));
    let url = stage.model.base_url();
    stage.write(
        "providers.yaml",
        &format!(
            "# kept\nprofiles:\n  default: {{provider: anthropic, model: m, api_url: '{url}', \
             api_key: {literal}}} # kept\n  other:\n    provider: anthropic\n    model: m\n    \
             api_url: {url}\n    api_key: \"${{SKEP_KEY_OTHER}}\"\n    \
             extra_headers: {{X-Auth: 'v1 ${{SKEP_KEY_OTHER}}', X-Rig: '${{RIG_KEY}}'}}\n",
            literal = literal.value(),
        ),
    );
    stage.write("keys.env", &format!("# kept\nSKEP_KEY_OTHER={}\n", given.value()));
    stage.write("teams/main/config.yaml", "{}\n");
    stage.write("teams/plain/config.yaml", "profile: other\nengine: native\n");
    let mut play = stage.up().await;
    assert!(play.hive.stderr().contains("`skep vault move` moves it"), "{}", play.hive.stderr());
    assert_eq!(vault(&play).await["in_files"], json!(["default", "other"]));
    let moved = play.api().post("/api/v1/vault/move", &json!({})).await.unwrap();
    let expected = json!({"entries": ["SKEP_KEY_OTHER", "profile.default.api_key"]});
    assert_eq!(moved.json, expected, "{}", moved.text);
    let written = fs::read_to_string(stage.home().join("providers.yaml")).unwrap();
    let expected = format!(
        "# kept\nprofiles:\n  default: {{provider: anthropic, model: m, api_url: '{url}', \
         api_key: \"vault:profile.default.api_key\"}} # kept\n  other:\n    \
         provider: anthropic\n    model: m\n    api_url: {url}\n    \
         api_key: \"vault:SKEP_KEY_OTHER\"\n    \
         extra_headers: {{X-Auth: \"v1 {{{{vault:SKEP_KEY_OTHER}}}}\", X-Rig: '${{RIG_KEY}}'}}\n"
    );
    assert_eq!(written, expected);
    assert_eq!(fs::read_to_string(stage.home().join("keys.env")).unwrap(), "# kept\n");
    for (canary, agent) in [(&literal, "main"), (&given, "plain")] {
        let key = asked_with(&stage, &play, agent).await;
        assert_eq!(key.as_deref(), Some(canary.value()));
    }
    let requests = stage.model.requests();
    let header = requests.last().unwrap().header("x-auth").map(str::to_owned);
    assert_eq!(header, Some(format!("v1 {}", given.value())));
    // Once more there is nothing to do, and a start finds everything in its place.
    let again = play.api().post("/api/v1/vault/move", &json!({})).await.unwrap();
    assert_eq!(again.json, json!({"entries": []}));
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    for canary in [&literal, &given] {
        assert_eq!(canary.find_below(stage.home()).unwrap(), []);
    }
    let play = stage.up().await;
    let key = asked_with(&stage, &play, "plain").await;
    assert_eq!(key.as_deref(), Some(given.value()));
}

/// Names that would be the same once they are names of entries.
#[tokio::test]
async fn secrets_that_are_moved_keep_apart() {
    let stage = Stage::new().await;
    let headers = ["X-Secret!Key", "X-Secret~Key", "X-Secret_Key"];
    let written = headers.map(|name| format!("\"{name}\": value-of-{name}"));
    let written =
        written.join(", ").replace("of-X-Secret!", "of-1-").replace("of-X-Secret~", "of-2-");
    let profile = format!(
        "profiles:\n  default:\n    provider: anthropic\n    model: m\n    api_url: {}\n    \
         api_key: ${{RIG_KEY}}\n    extra_headers: {{{written}}}\n",
        stage.model.base_url()
    );
    stage.write("providers.yaml", &profile);
    let play = stage.up().await;
    let moved = play.api().post("/api/v1/vault/move", &json!({})).await.unwrap();
    assert_eq!(moved.json["entries"].as_array().map(Vec::len), Some(3), "{}", moved.text);
    asked_with(&stage, &play, "main").await;
    let requests = stage.model.requests();
    let sent = headers.map(|name| requests.last().unwrap().header(name).map(str::to_owned));
    let expected = ["value-of-1-Key", "value-of-2-Key", "value-of-X-Secret_Key"];
    assert_eq!(sent, expected.map(|value| Some(value.to_owned())));
    let again = play.api().post("/api/v1/vault/move", &json!({})).await.unwrap();
    assert_eq!(again.json, json!({"entries": []}));
}
