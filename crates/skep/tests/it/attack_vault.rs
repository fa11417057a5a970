//! Entries of the vault at work: used by whom they are for, where they may go, and seen nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};
use skep_core::file::FileData;
use skep_testkit::Reply;
use skep_testkit::canary::Canary;
use skep_testkit::http::{Answer, Api, answer};
use skep_testkit::wait::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::stage::{Play, Stage};

/// A site that says what it was sent.
struct Site {
    host: String,
    heard: Arc<Mutex<String>>,
}

impl Site {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let heard = Arc::<Mutex<String>>::default();
        let hears = Arc::clone(&heard);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 64 << 10];
                let count = stream.read(&mut bytes).await.unwrap();
                let request = String::from_utf8_lossy(&bytes[..count]).into_owned();
                hears.lock().unwrap().push_str(&request);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length:";
                let answer = format!("{head} {}\r\n\r\n{request}", request.len());
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { host, heard }
    }

    fn has_heard(&self, text: &str) -> bool {
        self.heard.lock().unwrap().contains(text)
    }
}

async fn put(api: &Api, path: &str, body: &Value) -> Answer {
    answer(api.request(Method::PUT, path).json(body)).await.unwrap()
}

/// Agents `main` and `other`, with the same tools and the site in their network.
async fn stage(site: &Site) -> Stage {
    let stage = Stage::new().await;
    for agent in ["main", "other"] {
        let config = format!(
            "allowed_tools: ['@vault', '@files', bash, web_fetch]\n\
             network: {{ private: ['{}'] }}\n",
            site.host
        );
        stage.write(&format!("teams/{agent}/config.yaml"), &config);
    }
    stage
}

/// Lets the model make one call; its result as the model reads it.
async fn call(stage: &Stage, play: &Play, agent: &str, tool: &str, arguments: Value) -> String {
    stage.model.push(Reply::call(tool, arguments));
    stage.model.push(Reply::say("done"));
    play.ask(agent, "go on").await;
    let requests = stage.model.requests();
    let results = requests.last().unwrap().last_tool_results();
    format!("{:?}", results.last().unwrap())
}

async fn nowhere(stage: &Stage, mut play: Play, canaries: &[&Canary]) {
    let mut seen = String::new();
    for path in [
        "/api/v1/agents/main/history?view=full&limit=500",
        "/api/v1/agents/other/history?view=full&limit=500",
        "/api/v1/vault",
        "/api/v1/state",
        "/api/v1/audit?limit=500",
        "/api/v1/logs?limit=1000",
        "/api/v1/audit/export",
    ] {
        seen.push_str(&play.api().get(path).await.unwrap().text);
    }
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    seen.push_str(&play.hive.stdout());
    seen.push_str(&play.hive.stderr());
    for canary in canaries {
        assert_eq!(canary.find_in(seen.as_bytes()), None, "{seen}");
        assert_eq!(canary.find_below(stage.home()).unwrap(), []);
    }
}

#[tokio::test]
async fn attack_a_vault_entry_works_and_is_seen_nowhere() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let play = stage.run(stage.start().env("SKEP_LOG", "trace")).await;
    let (api, value) = (play.api(), Canary::new("entry"));
    let path = "/api/v1/vault/entries/TOKEN?agent=main";
    let set = put(&api, path, &json!({"value": value.value(), "hosts": [site.host]})).await;
    assert_eq!(set.status, 204, "{}", set.text);
    let key = stage.folder().join(".config/skep/key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let fetch = |name: &str| {
        let headers = json!({"Authorization": format!("Bearer {{{{vault:{name}}}}}")});
        json!({"url": format!("http://{}/", site.host), "headers": headers})
    };
    // It arrives, and what the site repeats is its name.
    let said = call(&stage, &play, "main", "web_fetch", fetch("TOKEN")).await;
    assert!(site.has_heard(&format!("Bearer {}", value.value())), "{said}");
    assert!(said.contains("Bearer [secret:vault.TOKEN]"), "{said}");
    let listed = api.get("/api/v1/vault").await.unwrap().json;
    assert!(listed["entries"][0]["used_at"].is_number(), "{listed}");
    // Nobody else has it, and nobody is shown it.
    let said = call(&stage, &play, "other", "web_fetch", fetch("TOKEN")).await;
    assert!(said.contains("vault_unknown"), "{said}");
    let said = call(&stage, &play, "main", "vault_get", json!({"key": "TOKEN"})).await;
    assert!(said.contains("{{vault:TOKEN}}"), "{said}");
    let own = json!({"key": "TOKEN", "value": "mine-0123456789ab"});
    let said = call(&stage, &play, "main", "vault_set", own).await;
    assert!(said.contains("vault_refused"), "{said}");
    // Under a name that is as long as a secret, which then stands in the place of the value.
    let own = json!({"key": "DEPLOY_TOKEN", "value": "mine-0123456789ab"});
    let said = call(&stage, &play, "main", "vault_set", own).await;
    assert!(said.contains("kept DEPLOY_TOKEN"), "{said}");
    // What a model writes of it does not reach a program or a file.
    for (tool, arguments) in [
        ("bash", json!({"command": format!("echo {}", value.value())})),
        ("write", json!({"file_path": "a.txt", "content": value.value()})),
        ("write", json!({"file_path": "a.txt", "content": "[secret:anything]"})),
        ("vault_set", json!({"key": "COPY", "value": "[secret:vault.TOKEN]"})),
    ] {
        let said = call(&stage, &play, "main", tool, arguments).await;
        let refused = said.contains("secret_in_arguments") || said.contains("vault_invalid");
        assert!(refused, "{tool}: {said}");
    }
    // A host outside its list: also one that the agent may reach.
    put(&api, path, &json!({"hosts": ["other.test"]})).await;
    let said = call(&stage, &play, "main", "web_fetch", fetch("TOKEN")).await;
    assert!(said.contains("vault_host"), "{said}");
    let requests = stage.model.requests();
    let asked: String = requests.iter().map(|request| request.body.to_string()).collect();
    let shown = asked.matches(value.value()).count();
    assert_eq!(shown, 0, "the model was shown it");
    nowhere(&stage, play, &[&value]).await;
    // The home alone opens nothing.
    fs::remove_file(&key).unwrap();
    let play = stage.up().await;
    let listed = play.api().get("/api/v1/vault").await.unwrap().json;
    let problem = listed["entries"][0]["problem"].as_str().unwrap();
    assert!(problem.starts_with("the key file of the vault is missing"), "{problem}");
}

/// Arguments that do not fit are refused, and are on no record all the same.
#[tokio::test]
async fn attack_a_value_in_the_wrong_place_of_a_call_is_on_no_record() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let play = stage.run(stage.start().env("SKEP_LOG", "trace")).await;
    let values: Vec<Canary> = (0..10).map(|n| Canary::new(&format!("misfit{n}"))).collect();
    let calls = [
        json!({"key": "A", "secret": values[0].value()}),
        json!({"A": values[1].value()}),
        json!({"key": format!("/{}", values[2].value()), "value": "A"}),
        json!({"key": "A", "value": {"text": [values[3].value()]}}),
        json!({"key": ["A"], "value": values[4].value(), "note": "x"}),
        json!({values[5].value(): "A"}),
        // The name where the value belongs, and the other way round.
        json!({"key": values[6].value(), "value": "A"}),
        json!({"key": &values[7].value()[..20], "value": values[7].value()}),
    ];
    for arguments in calls {
        let said = call(&stage, &play, "main", "vault_set", arguments).await;
        let expected = ["vault_set takes key and value", "vault_invalid", "kept A"];
        assert!(expected.iter().any(|word| said.contains(word)), "{said}");
    }
    for (tool, n) in [("Vault_Set", 8), ("vault.set", 9)] {
        let arguments = json!({"key": "A", "value": values[n].value()});
        call(&stage, &play, "main", tool, arguments).await;
    }
    call(&stage, &play, "main", "vault_get", json!({"key": values[6].value()})).await;
    nowhere(&stage, play, &values.iter().collect::<Vec<_>>()).await;
}

/// A phrase is not hidden where it is said; what `vault_get` answered is on no record.
#[tokio::test]
async fn attack_a_phrase_that_an_agent_keeps_is_on_no_record() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let play = stage.run(stage.start()).await;
    let phrase = "seven quiet herons stand";
    let set = call(&stage, &play, "main", "vault_set", json!({"key": "P", "value": phrase})).await;
    assert!(set.contains("not hidden"), "{set}");
    let said = call(&stage, &play, "main", "vault_get", json!({"key": "P"})).await;
    assert!(said.contains(phrase), "{said}");
    call(&stage, &play, "main", "vault_list", json!({})).await;
    let later = stage.model.requests().last().unwrap().body.to_string();
    assert!(!later.contains(phrase) && later.contains("[secret:vault.P]"), "{later}");
    let history = play.api().get("/api/v1/agents/main/history?view=full&limit=500").await.unwrap();
    assert!(!history.text.contains(phrase), "{}", history.text);
}

/// What is given back as it came holds no secret.
#[tokio::test]
async fn attack_no_name_is_a_secret() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let play = stage.run(stage.start()).await;
    let value = Canary::new("named");
    let put = |name: &str, value: &str| {
        let path = format!("/api/v1/vault/entries/{name}");
        answer(play.api().request(Method::PUT, &path).json(&json!({"value": value})))
    };
    assert_eq!(put("SAME-as-the-value", "SAME-as-the-value").await.unwrap().status, 400);
    assert_eq!(put("N", value.value()).await.unwrap().status, 204);
    assert_eq!(put(value.value(), "something-else").await.unwrap().status, 400);
    let refused = |request: reqwest::RequestBuilder| async move {
        let told = answer(request).await.unwrap();
        assert_eq!(
            (told.status, told.json["code"].as_str()),
            (400, Some("secret")),
            "{}",
            told.text
        );
    };
    let post = |path: &str, body: Value| play.api().request(Method::POST, path).json(&body);
    let message = || post("/api/v1/agents/main/messages", json!({"message": "hello"}));
    refused(message().header("Idempotency-Key", value.value())).await;
    let keyed = json!({"message": "hello", "session_key": value.value()});
    refused(post("/api/v1/agents/main/messages", keyed)).await;
    let plain = "lower-case-secret-77aa88bb";
    assert_eq!(put("LOW", plain).await.unwrap().status, 204);
    refused(post("/api/v1/agents", json!({"name": plain}))).await;
    let grant = json!({"tool": "read", "path": format!("{}/*", value.value()), "minutes": 5});
    refused(post("/api/v1/agents/main/grants", grant)).await;
    refused(post("/api/v1/tokens", json!({"name": value.value(), "role": "viewer"}))).await;
    nowhere(&stage, play, &[&value]).await;
}

/// What cannot be replaced in a file is not taken, and no name is found by letters of a secret.
#[tokio::test]
async fn attack_files_tell_nothing_of_a_secret() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let value = Canary::new("file");
    let play = stage.run(stage.start()).await;
    let entry = json!({"value": value.value()});
    put(&play.api(), "/api/v1/vault/entries/FILE", &entry).await.good().unwrap();
    let picture = [b"\x89PNG\r\n\x1a\n\xff\0tEXt", value.value().as_bytes()].concat();
    let file = json!({"name": "p.png", "data": FileData(picture.into()).to_base64()});
    let body = json!({"message": "look", "attachments": [file]});
    let refused = play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("secret")));
    stage.write(&format!("teams/main/work/f-{}.log", value.value()), "");
    let (begin, end) = value.value().split_at(6);
    for (filter, found) in [("f-", 1), (".log", 1), (begin, 0), (&end[..4], 0)] {
        let path = format!("/api/v1/agents/main/workspace?filter={filter}");
        let entries = play.api().get(&path).await.unwrap().good().unwrap()["entries"].clone();
        assert_eq!(entries.as_array().unwrap().len(), found, "{filter}");
    }
}

/// An agent that knows an id takes it from nobody.
#[tokio::test]
async fn attack_a_value_of_an_agent_hides_no_id() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let asks = "allowed_tools: [bash]\npolicy:\n  - {effect: ask, tool: bash}\n";
    stage.write("teams/other/config.yaml", asks);
    let play = stage.run(stage.start()).await;
    stage.model.push(Reply::call("bash", json!({"command": "true"})));
    let item = play.item("other", "s", "run it").await;
    play.until_state("other", &item, "waiting").await;
    let open = || async {
        let page = play.api().get("/api/v1/approvals?state=open").await.unwrap().good().unwrap();
        page["approvals"][0].clone()
    };
    let asked = open().await;
    let id = asked["id"].as_str().unwrap();
    let bare = id.replace('-', "");
    let names = [&format!("{bare}/main"), &format!("seed-{bare}"), "buildserver2024x", &site.host];
    let ids = [&id[19..], id, &format!("approvals/{id}"), &format!("x={id}")];
    for value in ids.into_iter().chain(names) {
        let set = json!({"key": "HAP", "value": value});
        let said = call(&stage, &play, "main", "vault_set", set).await;
        assert!(said.contains("not hidden"), "{said}");
    }
    // One that is hidden where it stands alone.
    let own = format!("{}-aB3dE5gH7jK9mN", &id[19..]);
    let said = call(&stage, &play, "main", "vault_set", json!({"key": "OWN", "value": own})).await;
    assert!(said.contains("[secret:vault.OWN]"), "{said}");
    assert_eq!(open().await, asked);
    stage.model.push(Reply::say("so be it"));
    play.answer(&asked, "deny").await.good().unwrap();
    play.ended("other", &item).await;
}

/// A file of one agent decides nothing about the calls of another: under a name that is none a call
/// still means the tool.
#[tokio::test]
async fn attack_a_subagent_of_others_takes_no_secret_out_of_hiding() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    for name in ["s-vault-set", "vaultset", "functions-vault-set"] {
        stage.write(&format!("teams/other/subagents/{name}.md"), "# Role\nYou are odd.");
    }
    let play = stage.run(stage.start()).await;
    for (number, tool) in ["functions.vault_set", "vaultset", "Vault-Set"].iter().enumerate() {
        let value = Canary::new(&format!("misnamed{number}"));
        let set = json!({"key": "OWN", "value": value.value()});
        stage.model.push(Reply::new().tool(tool, set));
        stage.model.push(Reply::say("done"));
        play.ask("main", &format!("try {number}")).await;
        let kept = play.told("main", "main").await.join("\n");
        assert!(kept.contains("[secret:vault.OWN]"), "{tool}: {kept}");
        assert!(!kept.contains(value.value()), "{tool}: {kept}");
    }
}

#[tokio::test]
async fn attack_a_value_is_hidden_the_first_time_an_agent_sets_it() {
    let site = Site::start().await;
    let stage = stage(&site).await;
    let play = stage.run(stage.start().env("SKEP_LOG", "trace")).await;
    let value = Canary::new("own");
    let mut events = play.api().events("/api/v1/events?since=0").await.unwrap();
    // Said before the call, too: nobody knew by then.
    let set = json!({"key": "OWN", "value": value.value()});
    let text = format!("I keep {} now", value.value());
    stage.model.push(Reply::new().text(&text).tool("vault_set", set));
    stage.model.push(Reply::call("vault_get", json!({"key": "OWN"})));
    stage.model.push(Reply::say("done"));
    play.ask("main", "keep it").await;
    // The model reads its own value in this turn; every record has the name.
    let results = stage.model.requests()[2].last_tool_results();
    assert!(format!("{results:?}").contains(value.value()), "{results:?}");
    let said = call(&stage, &play, "main", "vault_list", json!({})).await;
    assert!(said.contains("OWN: set by this agent"), "{said}");
    let later = stage.model.requests().last().unwrap().body.to_string();
    assert!(!later.contains(value.value()), "{later}");
    assert!(later.contains("[secret:vault.OWN]"), "{later}");
    let said = call(&stage, &play, "other", "vault_get", json!({"key": "OWN"})).await;
    assert!(said.contains("vault_unknown"), "{said}");
    // Without its folder the agent keeps its entries, and people can remove them.
    stage.take_out("teams/main");
    let gone = || async {
        let listed = play.api().get("/api/v1/vault").await.unwrap().json;
        let agent = listed["entries"][0]["agent"].as_str()?.to_owned();
        agent.starts_with("id:").then_some(agent)
    };
    let agent = skep_testkit::wait::until_async("the agent to go", PATIENCE, gone).await.unwrap();
    let path = format!("/api/v1/vault/entries/OWN?agent={agent}");
    let removed = answer(play.api().request(Method::DELETE, &path)).await.unwrap();
    assert_eq!(removed.status, 204, "{}", removed.text);
    let listed = play.api().get("/api/v1/vault").await.unwrap().json;
    assert_eq!(listed["entries"], json!([]));
    nowhere(&stage, play, &[&value]).await;
    // What was told live came from the model before the call; what is kept of it did not.
    while let Ok(Some(event)) = events.next().await {
        let told = format!("{event:?}");
        assert!(event.id.is_none() || value.find_in(told.as_bytes()).is_none(), "{told}");
    }
}
