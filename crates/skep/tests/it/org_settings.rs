//! An agent's file over REST: shown without secrets, checked, replaced as every change of settings
//! is: read as the hive reads it, committed first, in force at once.

use std::fs;
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::{self, Answer, Api};

use crate::stage::{Play, Stage};

const PATH: &str = "/api/v1/agents/books/settings";
const FILE: &str = "teams/books/config.yaml";
const FIRST: &str = "# Mine.\ndescription: Keeps the books\nparent: main\nallowed_tools: [read]\n";

async fn scene() -> (Stage, Play) {
    let stage = Stage::new().await;
    stage.write(FILE, FIRST);
    let play = stage.up().await;
    (stage, play)
}

async fn shown(api: &Api) -> Value {
    api.get(PATH).await.unwrap().good().unwrap()
}

async fn check(api: &Api, text: &str) -> Answer {
    api.post(&format!("{PATH}/check"), &json!({ "text": text })).await.unwrap()
}

async fn save(api: &Api, text: &str, hash: &Value) -> Answer {
    let body = json!({ "text": text, "hash": hash });
    http::answer(api.request(Method::PUT, PATH).json(&body)).await.unwrap()
}

fn refusal(answer: Answer) -> (u16, String, String) {
    let problem: Value = serde_json::from_str(&answer.text).unwrap();
    let word = |name: &str| problem[name].as_str().unwrap().to_owned();
    (answer.status, word("code"), word("detail"))
}

/// Author and message of each commit of an agent's settings, newest first.
fn commits(stage: &Stage, agent: &str) -> Vec<String> {
    let folder = stage.home().join("run/config.git");
    let log = ["log", "--format=%an: %s", agent];
    let said = Command::new("git").arg("--git-dir").arg(folder).args(log).output().unwrap();
    String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn org_settings_are_shown_checked_and_replaced() {
    let (stage, play) = scene().await;
    let api = play.api();
    let first = shown(&api).await;
    assert_eq!((&first["path"], &first["text"]), (&json!(FILE), &json!(FIRST)));
    assert_eq!(first["written"], json!(["allowed_tools", "description", "parent"]));
    assert_eq!(first["problems"], json!([]));
    let effective = &first["effective"];
    assert_eq!((&effective["engine"], &effective["parent"]), (&json!("native"), &json!("main")));
    assert_eq!((&effective["tools"], &effective["parallel"]), (&json!(["read"]), &json!("one")));
    assert!(effective["tools_known"].as_u64() > Some(10), "{effective}");

    let text = FIRST.replace("[read]", "[read, grep]") + "budgets: {cost_per_day: 4}\n";
    let checked = check(&api, &text).await.good().unwrap();
    assert_eq!((&checked["problems"], &checked["hash"]), (&json!([]), &first["hash"]));
    let diff = checked["diff"].as_str().unwrap();
    assert!(diff.contains("-allowed_tools: [read]\n+allowed_tools: [read, grep]\n"), "{diff}");
    assert_eq!(fs::read_to_string(stage.home().join(FILE)).unwrap(), FIRST);
    assert_eq!(commits(&stage, "books"), Vec::<String>::new());

    let second = save(&api, &text, &first["hash"]).await.good().unwrap();
    assert_eq!(fs::read_to_string(stage.home().join(FILE)).unwrap(), text);
    assert_eq!(second, shown(&api).await);
    // As the hive has them, not as the file names them.
    assert_eq!(second["effective"]["tools"], json!(["grep", "read"]));
    assert_eq!(second["effective"]["budgets"], json!({ "cost_per_day": 4.0 }));
    let made = commits(&stage, "books");
    let [change, found] = &made[..] else { panic!("{made:?}") };
    assert!(change.ends_with(": settings changed on the dashboard"), "{change}");
    assert!(!change.starts_with("operator:"), "in the name of who did it: {change}");
    assert_eq!(found, "operator: settings as they were found");
    let rows = play.api().get("/api/v1/audit?limit=20").await.unwrap().good().unwrap();
    assert!(rows.to_string().contains("agent_settings_written"), "{rows}");
    let state = play.state().await;
    let agents = state["agents"].as_array().unwrap();
    let books = agents.iter().find(|agent| agent["name"] == "books").unwrap();
    assert_eq!(books["today"]["cost_per_day"], json!(4.0), "{books}");
    // The same text once more is no change.
    save(&api, &text, &second["hash"]).await.good().unwrap();
    assert_eq!(commits(&stage, "books").len(), 2);
}

#[tokio::test]
async fn org_settings_that_the_loader_refuses_are_not_written() {
    let (stage, play) = scene().await;
    let api = play.api();
    let hash = shown(&api).await["hash"].clone();
    let table = [
        ("description: x\nparnt: main\n", "parnt", Some(2)),
        ("allowed_tools: [read\n", "YAML", Some(1)),
        ("engine: warp\n", "engine", Some(1)),
        ("profile: nobody\n", "profile", Some(1)),
        ("parent: nobody\n", "nobody", Some(1)),
        ("parent: books\n", "books", None),
        ("workspace: /\n", "workspace", Some(1)),
        ("name: other\n", "name", Some(1)),
        ("description: vault:KEY\n", "vault", Some(1)),
        ("", "empty", None),
        ("description: x\nparent: *main\n", "an alias names no anchor", Some(2)),
    ];
    for (text, word, line) in table {
        let checked = check(&api, text).await.good().unwrap();
        let problem = &checked["problems"][0];
        let said = problem["text"].as_str().unwrap_or_else(|| panic!("{text}: {checked}"));
        assert!(said.starts_with(FILE) && said.contains(word), "{text}: {said}");
        assert_eq!(problem["line"].as_u64(), line, "{text}: {problem}");
        assert!(!said.contains(&stage.home().display().to_string()), "{said}");
        let (status, code, detail) = refusal(save(&api, text, &hash).await);
        assert_eq!((status, code.as_str(), detail.as_str()), (400, "invalid_settings", said));
    }
    let large = format!("description: {}\n", "x".repeat(300_000));
    assert_eq!(refusal(save(&api, &large, &hash).await).1, "invalid_settings");
    // Who is above it comes to be below it.
    let above = "/api/v1/agents/main/settings";
    let main = api.get(above).await.unwrap().good().unwrap();
    let body = json!({ "text": "parent: books\n", "hash": main["hash"] });
    let answer = http::answer(api.request(Method::PUT, above).json(&body)).await.unwrap();
    let (status, code, detail) = refusal(answer);
    assert_eq!((status, code.as_str()), (400, "invalid_settings"), "{detail}");
    assert_eq!(fs::read_to_string(stage.home().join(FILE)).unwrap(), FIRST);
    assert_eq!(commits(&stage, "books"), Vec::<String>::new());
    assert_eq!(shown(&api).await["effective"]["tools"], json!(["read"]));
}

#[tokio::test]
async fn org_settings_of_somebody_else_are_not_overwritten() {
    let (stage, play) = scene().await;
    let api = play.api();
    let hash = shown(&api).await["hash"].clone();
    let by_hand = FIRST.replace("Mine", "By hand");
    stage.write(FILE, &by_hand);
    let (status, code, _) = refusal(save(&api, "description: new\n", &hash).await);
    assert_eq!((status, code.as_str()), (409, "settings_changed"));
    assert_eq!(fs::read_to_string(stage.home().join(FILE)).unwrap(), by_hand);
    // Of many that began with the same text, one is written.
    let hash = shown(&api).await["hash"].clone();
    let texts: Vec<String> = (0..6).map(|at| format!("description: number {at}\n")).collect();
    let answers =
        futures_util::future::join_all(texts.iter().map(|text| save(&api, text, &hash))).await;
    let (good, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((good.len(), refused.len()), (1, 5));
    for answer in refused {
        assert_eq!(refusal(answer).1, "settings_changed");
    }
    let written = fs::read_to_string(stage.home().join(FILE)).unwrap();
    assert!(texts.contains(&written), "{written}");
    assert_eq!(shown(&api).await["text"], json!(written));
    assert_eq!(commits(&stage, "books").len(), 2);
}

#[tokio::test]
async fn org_a_broken_agent_is_repaired_and_a_broken_hive_is_said() {
    let (stage, play) = scene().await;
    stage.write("teams/lab/config.yaml", "description: x\nengine: warp\n");
    let api = play.api();
    let path = "/api/v1/agents/lab/settings";
    let lab = loop {
        let answer = api.get(path).await.unwrap();
        if answer.status == 200 {
            break answer.good().unwrap();
        }
    };
    assert_eq!(lab["effective"], Value::Null);
    assert_eq!(lab["problems"][0]["line"], 2, "{lab}");
    let body = json!({ "text": "description: x\n", "hash": lab["hash"] });
    let put = || http::answer(api.request(Method::PUT, path).json(&body));
    let repaired = put().await.unwrap().good().unwrap();
    assert_eq!(
        (&repaired["problems"], &repaired["effective"]["engine"]),
        (&json!([]), &json!("native"))
    );

    stage.write("skep.yaml", "limits: {stepps: 3}\n");
    loop {
        let config = &play.state().await["hive"]["config"];
        if !config["problems"].as_array().unwrap().is_empty() {
            break;
        }
    }
    let hash = shown(&api).await["hash"].clone();
    let (status, code, detail) = refusal(save(&api, "description: new\n", &hash).await);
    assert_eq!((status, code.as_str()), (400, "invalid_settings"), "{detail}");
    assert!(detail.contains("the hive's own files have a mistake"), "{detail}");
    assert_eq!(fs::read_to_string(stage.home().join(FILE)).unwrap(), FIRST);
}

#[tokio::test]
async fn org_settings_show_and_take_no_secret() {
    let (stage, play) = scene().await;
    let api = play.api();
    let secret = "rig-key-canary-1f7c";
    let hash = shown(&api).await["hash"].clone();
    let text = format!("description: {secret}\n");
    assert_eq!(refusal(check(&api, &text).await).1, "secret");
    assert_eq!(refusal(save(&api, &text, &hash).await).1, "secret");
    stage.write(FILE, &format!("{FIRST}# {secret}\n"));
    let found = shown(&api).await;
    assert!(!found.to_string().contains(secret), "{found}");
    assert_eq!(found["hash"], Value::Null);
    // Neither what is shown of it nor another text takes its place.
    for text in [found["text"].as_str().unwrap(), "description: new\n"] {
        let answer = save(&api, text, &hash).await;
        let (_, code, _) = refusal(answer);
        assert!(["secret", "file_holds_secret"].contains(&code.as_str()), "{code}");
        assert_ne!(check(&api, text).await.status, 200, "{text}");
    }
    assert_eq!(
        fs::read_to_string(stage.home().join(FILE)).unwrap(),
        format!("{FIRST}# {secret}\n")
    );
    // A link is no file of the settings.
    fs::remove_file(stage.home().join(FILE)).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", stage.home().join(FILE)).unwrap();
    let (status, code, _) = refusal(api.get(PATH).await.unwrap());
    assert_eq!((status, code.as_str()), (409, "settings_unreadable"));
}

#[tokio::test]
async fn org_settings_are_read_by_viewers_and_written_by_operators() {
    let (_stage, play) = scene().await;
    let hash = shown(&play.api()).await["hash"].clone();
    for (role, reads) in [("viewer", 200), ("user", 403)] {
        let body = json!({ "name": role, "role": role });
        let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
        let api = play.hive.api(made["token"].as_str()).unwrap();
        assert_eq!(api.get(PATH).await.unwrap().status, reads, "{role}");
        assert_eq!(check(&api, "description: new\n").await.status, 403, "{role}");
        assert_eq!(save(&api, "description: new\n", &hash).await.status, 403, "{role}");
    }
    let (status, code, _) =
        refusal(play.api().get("/api/v1/agents/nobody/settings").await.unwrap());
    assert_eq!((status, code.as_str()), (404, "unknown_agent"));
}
