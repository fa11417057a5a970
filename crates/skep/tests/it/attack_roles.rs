//! Every role at every route and frame: what it may, and that it sees nobody else's words.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::Api;
use skep_testkit::{Reply, WsClient};

use crate::stage::{Play, Stage};

const ROLES: [&str; 5] = ["operator", "user", "viewer", "channel", "agent"];
/// What the operator wrote; nobody below it may read it.
const CANARY: &str = "heron-canary-77";

/// The rows of docs/roles.md: what each role reaches of a route or frame.
fn table() -> BTreeMap<String, [String; 5]> {
    let text = include_str!("../../../../docs/roles.md");
    let (_, text) = text.split_once("| route or frame |").unwrap();
    let rows = text.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [name, reach @ ..] = &cells[..] else { panic!("{line}") };
        (name.clone(), reach.to_vec().try_into().unwrap())
    };
    rows.map(row).collect()
}

async fn token(play: &Play, body: &Value) -> String {
    let made = play.api().post("/api/v1/tokens", body).await.unwrap().good().unwrap();
    made["token"].as_str().unwrap().to_owned()
}

/// A token of each role, by its word.
async fn tokens(play: &Play) -> BTreeMap<&'static str, String> {
    let mut tokens = BTreeMap::new();
    for role in ROLES {
        let mut body = json!({"name": role, "role": role});
        match role {
            "channel" => body["prefix"] = "discord:".into(),
            "agent" => body["agent"] = "main".into(),
            _ => {}
        }
        tokens.insert(role, token(play, &body).await);
    }
    tokens
}

/// Method, path and description of every route in the document.
async fn routes(play: &Play) -> Vec<(String, String, Value)> {
    let document = play.hive.api(None).unwrap().get("/api/v1/openapi.json").await.unwrap();
    let document = document.good().unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap().iter();
        item.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    operations.collect()
}

/// The status and the code of the answer; a stream is left at its head.
async fn knock(api: &Api, method: &str, path: &str) -> (u16, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = api.request(method.clone(), path);
    if method == Method::POST {
        request = request.header("content-type", "application/json").body("{\"nonsense\":1}");
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type");
    let stream = kind.is_some_and(|kind| kind == "text/event-stream");
    let body: Value = match stream {
        true => Value::Null,
        false => response.json().await.unwrap_or_default(),
    };
    // Under /v1 a refusal has the form of that interface.
    let code = body["code"].as_str().or(body["error"]["code"].as_str());
    (status, code.unwrap_or_default().to_owned())
}

#[tokio::test]
async fn attack_each_role_reaches_what_the_table_says() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let (tokens, mut table) = (tokens(&play).await, table());
    let mut asked = 0;
    for (method, path, operation) in routes(&play).await {
        if operation["security"] == json!([]) {
            let (status, _) = knock(&play.hive.api(None).unwrap(), &method, &path).await;
            assert_ne!(status, 401, "{method} {path} is declared open");
            continue;
        }
        let name = format!("{method} {path}");
        let declared = ROLES.map(|role| operation["x-skep-roles"][role].as_str().unwrap());
        let row = table.remove(&name).unwrap_or_else(|| {
            panic!("docs/roles.md lacks this line:\n| {name} | {} |", declared.join(" | "))
        });
        assert_eq!(row, declared, "{name}: the table of docs/roles.md and the code differ");
        for (role, reach) in ROLES.iter().zip(&row) {
            let concrete = path.replace("{agent}", "main");
            let names = ["{id}", "{name}", "{turn}", "{call}", "{number}", "{template}"];
            let concrete = names.iter().fold(concrete, |path, name| path.replace(name, "nothing"));
            let concrete = concrete.split('{').next().unwrap();
            let api = play.hive.api(Some(&tokens[role])).unwrap();
            let (status, code) = knock(&api, &method, concrete).await;
            let refused = status == 403 && code == "role";
            assert_eq!(refused, reach == "nothing", "{role} {name}: {status} {code}");
            assert_ne!(status, 401, "{role} {name}");
            asked += 1;
        }
    }
    for (frame, text) in [
        ("frame message", json!({"content": " ", "id": "m"})),
        ("frame interrupt", json!({"type": "interrupt"})),
        (
            "frame approve",
            json!({"type": "approve", "id": "none", "decision": "approve", "hash": "h"}),
        ),
        ("frame answer", json!({"type": "answer", "id": "none", "answer": "yes"})),
        ("frame subscribe", json!({"type": "subscribe", "agent": "no-such-agent"})),
    ] {
        let row = table.remove(frame).unwrap();
        for (role, reach) in ROLES.iter().zip(&row).filter(|(role, _)| **role != "agent") {
            let target = play.hive.ws(Some(&tokens[role])).unwrap();
            let mut client = WsClient::connect(&target).await.unwrap();
            client.send(&text).await.unwrap();
            // Each of these is wrong in another way, too: what may be done says that instead.
            let error = client.next_of("error").await.unwrap();
            assert_eq!(error["code"] == "role", reach == "nothing", "{role} {frame}: {error}");
            asked += 1;
        }
    }
    assert!(table.is_empty(), "docs/roles.md names what is not there: {table:?}");
    assert!(asked >= 70, "only {asked} cells were tried");
}

/// What belongs to whom after everybody talked.
struct Talked {
    session: String,
    item: String,
}

async fn talk(api: &Api, session: Option<&str>, text: &str) -> Value {
    let mut body = json!({"message": text});
    if let Some(session) = session {
        body["session_key"] = session.into();
    }
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let said = api.post(path, &body).await.unwrap().good().unwrap();
    assert_eq!(said["response"]["content"], "heard", "{said}");
    said
}

async fn everybody_talks(play: &Play, tokens: &BTreeMap<&'static str, String>) -> Talked {
    let own = talk(&play.api(), None, CANARY).await;
    for (role, text) in [("user", "mine-user"), ("channel", "mine-channel")] {
        talk(&play.hive.api(Some(&tokens[role])).unwrap(), None, text).await;
    }
    let history = play.history("main", "main").await;
    Talked {
        session: history[0]["sessionId"].as_str().unwrap().to_owned(),
        item: own["item_id"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn attack_nobody_reads_what_is_not_theirs() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("heard"));
    let play = stage.up().await;
    let mut tokens = tokens(&play).await;
    tokens.insert("other", token(&play, &json!({"name": "other", "role": "user"})).await);
    let talked = everybody_talks(&play, &tokens).await;
    let fill = |path: &str| path.replace("{agent}", "main").replace("{id}", &talked.item);
    let mut looked = 0;
    for (method, path, operation) in routes(&play).await {
        if method != "GET"
            || operation["responses"]["200"]["content"]["text/event-stream"] != Value::Null
        {
            continue;
        }
        let values = BTreeMap::from([
            ("session", talked.session.as_str()),
            ("session_key", "main"),
            ("agent", "main"),
            ("q", "heron"),
            ("view", "full"),
        ]);
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let named = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let named = named.filter_map(|parameter| parameter["name"].as_str());
        let queries = named.filter_map(|name| Some(format!("?{name}={}", values.get(name)?)));
        for query in queries.chain([String::new()]) {
            for role in ["user", "other", "channel"] {
                let api = play.hive.api(Some(&tokens[role])).unwrap();
                let answer = api.get(&format!("{}{query}", fill(&path))).await.unwrap();
                assert!(!answer.text.contains(CANARY), "{role} {path}{query}: {}", answer.text);
                let mine = format!("mine-{role}");
                let words = ["mine-user", "mine-channel"];
                let strange = words.iter().filter(|word| **word != mine);
                for word in strange {
                    assert!(!answer.text.contains(word), "{role} {path}{query}: {}", answer.text);
                }
                looked += 1;
            }
        }
    }
    assert!(looked >= 30, "only {looked} answers were looked at");
    own_words_are_there(&play, &tokens).await;
    nobody_stops_or_follows_another(&play, &tokens, &talked).await;
}

async fn own_words_are_there(play: &Play, tokens: &BTreeMap<&'static str, String>) {
    for (role, text) in [("user", "mine-user"), ("channel", "mine-channel")] {
        let api = play.hive.api(Some(&tokens[role])).unwrap();
        for path in ["/api/v1/agents/main/history", "/api/v1/inbox"] {
            let answer = api.get(path).await.unwrap();
            assert!(answer.text.contains(text), "{role} {path}: {}", answer.text);
        }
    }
    for role in ["viewer", "agent"] {
        let api = play.hive.api(Some(&tokens[role])).unwrap();
        let answer = api.get("/api/v1/agents/main/history").await.unwrap();
        assert!(answer.text.contains(CANARY), "{role}: {}", answer.text);
        let answer = api.get("/api/v1/agents/plain/history").await.unwrap();
        assert_eq!(answer.status, 200, "{role}");
    }
}

async fn nobody_stops_or_follows_another(
    play: &Play,
    tokens: &BTreeMap<&'static str, String>,
    talked: &Talked,
) {
    let user = play.hive.api(Some(&tokens["user"])).unwrap();
    let followed = format!("/api/v1/agents/main/messages/{}", talked.item);
    assert_eq!(user.get(&followed).await.unwrap().status, 404);
    let channel = play.hive.api(Some(&tokens["channel"])).unwrap();
    let body = json!({"message": "x", "session_key": "main"});
    let refused = channel.post("/api/v1/agents/main/messages", &body).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (403, &"foreign_session".into()));
    // Nothing that names an item or a session of another's does anything.
    for (method, path, _) in routes(play).await {
        let named = path.contains("{id}") && method != "GET";
        if !named || path.contains("/tokens/") {
            continue;
        }
        for id in [&talked.item, &talked.session] {
            let path = path.replace("{agent}", "main").replace("{id}", id);
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let request = user.request(method, &path).json(&json!({}));
            let answer = skep_testkit::http::answer(request).await.unwrap();
            assert!(answer.status >= 400, "{path}: {} {}", answer.status, answer.text);
        }
    }
    // A key that is another's by name is another conversation of one's own.
    let body = json!({"session_key": "token:x/main"});
    let stopped = user.post("/api/v1/agents/main/stop", &body).await.unwrap().good().unwrap();
    assert_eq!(stopped["stopped"], false);
}

#[tokio::test]
async fn attack_events_show_one_s_own_conversations_alone() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("heard"));
    let play = stage.up().await;
    let tokens = tokens(&play).await;
    let talked = everybody_talks(&play, &tokens).await;
    // What was: from the store. What comes: live. A second round of talk is after both began.
    let user = play.hive.api(Some(&tokens["user"])).unwrap();
    let mut events = user.events("/api/v1/events?since=0").await.unwrap();
    let mut client =
        WsClient::connect(&play.hive.ws(Some(&tokens["user"])).unwrap()).await.unwrap();
    client.send(&json!({"type": "subscribe", "since": 0})).await.unwrap();
    talk(&play.api(), None, CANARY).await;
    talk(&user, None, "mine-user again").await;
    let mut seen = Vec::new();
    while seen.iter().filter(|text: &&String| text.contains("turn_end")).count() < 2 {
        seen.push(events.next().await.unwrap().unwrap().data);
    }
    let mut framed = Vec::new();
    while framed.iter().filter(|text: &&String| text.contains("turn_end")).count() < 2 {
        framed.push(client.next_of("event").await.unwrap().to_string());
    }
    for (door, texts) in [("events", seen), ("socket", framed)] {
        assert!(texts.iter().any(|text| text.contains("mine-user again")), "{door}: {texts:?}");
        for text in texts {
            assert!(!text.contains(CANARY) && !text.contains("mine-channel"), "{door}: {text}");
            assert!(!text.contains(&talked.session), "{door}: {text}");
        }
    }
}

#[tokio::test]
async fn attack_grants_that_say_two_things_are_refused() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let cases = [
        (json!({"role": "channel"}), 400, "invalid_grant"),
        (json!({"role": "channel", "prefix": "token:"}), 400, "invalid_grant"),
        (json!({"role": "user", "prefix": "discord:"}), 400, "invalid_grant"),
        (json!({"role": "agent"}), 400, "invalid_grant"),
        (json!({"role": "agent", "agent": "nobody"}), 404, "unknown_agent"),
        (json!({"role": "root"}), 400, "invalid_body"),
    ];
    for (mut body, status, code) in cases {
        body["name"] = "x".into();
        let answer = play.api().post("/api/v1/tokens", &body).await.unwrap();
        assert_eq!((answer.status, answer.json["code"].as_str()), (status, Some(code)), "{body}");
    }
    // The same request makes one token, not two.
    let make = || {
        let request = play.api().request(Method::POST, "/api/v1/tokens");
        request.header("idempotency-key", "k1").json(&json!({"name": "once", "role": "viewer"}))
    };
    let first = skep_testkit::http::answer(make()).await.unwrap();
    assert_eq!((first.status, &first.json["role"]), (201, &"viewer".into()));
    let second = skep_testkit::http::answer(make()).await.unwrap();
    assert_eq!((second.status, &second.json["code"]), (409, &"id_reused".into()));
    let list = play.api().get("/api/v1/tokens").await.unwrap().good().unwrap();
    let once = list["tokens"].as_array().unwrap().iter().filter(|token| token["name"] == "once");
    assert_eq!(once.count(), 1);
}
