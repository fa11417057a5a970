//! Teams from templates: made whole or not at all, and their first task from a person's message to
//! the last word, with the rehearsal model.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::http::{self, Answer, Api};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Hive, Reply, locate};

use crate::stage::Stage;

/// A hive with the rehearsal model, as the first start makes it.
struct Bare {
    home: PathBuf,
    hive: Hive,
    /// Holds the home.
    _folder: tempfile::TempDir,
}

impl Bare {
    async fn up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let hive = Start::up(&locate::skep().unwrap(), &home).listening().await.unwrap();
        Self { home, hive, _folder: folder }
    }

    fn api(&self) -> Api {
        self.hive.socket_api().unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        self.api().get(path).await.unwrap().good().unwrap()
    }

    async fn make(&self, template: &str, body: &Value) -> Answer {
        self.api().post(&format!("/api/v1/templates/{template}"), body).await.unwrap()
    }

    async fn skep(&self, words: &[&str]) -> Finished {
        run(&self.home, words).await
    }

    /// Sends the first task that the template names; the id of its item.
    async fn begin(&self, made: &Value) -> String {
        let (lead, request) = (made["agents"][0]["agent"].as_str(), &made["request"]);
        let path = format!("/api/v1/agents/{}/messages", lead.unwrap());
        let sent = self.api().post(&path, &json!({"message": request})).await.unwrap();
        sent.good().unwrap()["item_id"].as_str().unwrap().to_owned()
    }

    /// Waits until nothing that the message led to is open; its tasks, one line each.
    async fn ended(&self, root: &str, lead: &str) -> Vec<String> {
        let chain = format!("/api/v1/inbox/{root}");
        let inbox = format!("/api/v1/inbox?agent={lead}&limit=100");
        let tasks = wait::until_async("the end of the first task", PATIENCE, || async {
            let tasks = async || self.get(&chain).await["chain"].as_array().cloned();
            let before = tasks().await.unwrap_or_default();
            let items = self.get(&inbox).await["items"].as_array().cloned().unwrap();
            let ended = before.iter().all(|task| task["ended_at"].is_i64());
            let open = |item: &Value| item["finished_at"].is_null();
            let is_over = ended && !before.is_empty() && !items.iter().any(open);
            // Between the two answers the lead may have given work.
            if !is_over || tasks().await? != before {
                return None;
            }
            Some(before)
        });
        let tasks = tasks.await.unwrap();
        let word = |task: &Value, key: &str| task[key].as_str().unwrap_or_default().to_owned();
        let line = |task: &Value| {
            let [from, to, state] = ["from", "agent", "state"].map(|key| word(task, key));
            format!("{from} → {to}: {state}")
        };
        tasks.iter().map(line).collect()
    }

    /// What the lead said last.
    async fn last_word(&self, lead: &str) -> String {
        let page = self.get(&format!("/api/v1/agents/{lead}/history")).await;
        let rows = page["messages"].as_array().unwrap();
        let last = rows.iter().rfind(|row| row["role"] == "assistant").unwrap();
        last["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn file(&self, path: &str) -> String {
        fs::read_to_string(self.home.join("teams").join(path)).unwrap()
    }

    /// The agents that there are.
    async fn agents(&self) -> Vec<String> {
        let listed = self.get("/api/v1/agents").await;
        let names = listed["agents"].as_array().unwrap().iter();
        names.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
    }
}

async fn run(home: &Path, words: &[&str]) -> Finished {
    let start = Start::new(&locate::skep().unwrap(), home);
    words.iter().fold(start, |start, word| start.argument(*word)).finish().await.unwrap()
}

fn good(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

fn teams(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("teams")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn org_template_engineering_writes_and_reviews() {
    let bare = Bare::up().await;
    let made = bare.skep(&["agent", "new", "--template", "engineering", "--json"]).await;
    let made = good(&made);
    assert_eq!(made["running"], true);
    let root = bare.begin(&made).await;
    let tasks = bare.ended(&root, "engineering").await;
    let expected =
        ["engineering → engineering-coder: done", "engineering → engineering-reviewer: done"];
    assert_eq!(tasks, expected);
    let last = bare.last_word("engineering").await;
    assert_eq!(
        last,
        "engineering-coder is done with greet.sh. engineering-reviewer says: accept. One file, \
         one line of output, no finding."
    );
    let script = bare.file("engineering/work/greet.sh");
    assert_eq!(script, "#!/bin/sh\necho \"Hello from the hive\"\n");
    assert_eq!(bare.get("/api/v1/audit?outcome=refused").await["rows"], json!([]));
}

#[tokio::test]
async fn org_template_research_answers_with_a_report() {
    let bare = Bare::up().await;
    let made = bare.skep(&["agent", "new", "--template", "research", "--name", "bees", "--json"]);
    let made = good(&made.await);
    let names: Vec<_> = made["agents"].as_array().unwrap().iter().map(|it| &it["agent"]).collect();
    assert_eq!(names, ["bees", "bees-scout", "bees-checker"]);
    let root = bare.begin(&made).await;
    let tasks = bare.ended(&root, "bees").await;
    assert_eq!(tasks, ["bees → bees-scout: done", "bees → bees-checker: done"]);
    let last = bare.last_word("bees").await;
    assert!(last.starts_with("This stands in the sources: sources/bees.md:"), "{last}");
    assert!(last.ends_with("The report is in reports/answer.md."), "{last}");
    let report = bare.file("bees/work/reports/answer.md");
    assert!(report.contains("both from sources/bees.md: scouts dance for places"), "{report}");
    assert!(bare.file("bees/work/notes/nest.md").contains("a quorum at one place decides"));
}

#[tokio::test]
async fn org_template_support_asks_and_waits_for_an_approval() {
    let bare = Bare::up().await;
    let made = good(&bare.skep(&["agent", "new", "--template", "support", "--json"]).await);
    let root = bare.begin(&made).await;
    let asked = wait::until_async("the question", PATIENCE, || async {
        bare.get("/api/v1/questions").await["questions"].as_array()?.first().cloned()
    });
    let id = asked.await.unwrap()["id"].as_str().unwrap().to_owned();
    let answered = bare.skep(&["ask", &id, "--option", "ask for the bank statement first"]).await;
    assert_eq!(answered.code, Some(0), "{}", answered.stderr);
    let waits = wait::until_async("the approval", PATIENCE, || async {
        bare.get("/api/v1/approvals").await["approvals"].as_array()?.first().cloned()
    });
    let waits = waits.await.unwrap();
    assert_eq!((&waits["agent"], &waits["tool"]), (&json!("support-writer"), &json!("write")));
    let draft = bare.file("support/work/drafts/order-1207.md");
    assert!(draft.contains("Decided: ask for the bank statement first"), "{draft}");
    let reply = bare.home.join("teams/support/work/replies/order-1207.md");
    assert!(!reply.exists());
    let approved = bare.skep(&["approve", waits["id"].as_str().unwrap()]).await;
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    let tasks = bare.ended(&root, "support").await;
    let expected = [
        "support → support-finder: done",
        "support → operator: done",
        "support → support-writer: done",
    ];
    assert_eq!(tasks, expected);
    let last = bare.last_word("support").await;
    let said = "support-writer on order 1207: The reply is replies/order-1207.md";
    assert!(last.starts_with(said), "{last}");
    assert!(fs::read_to_string(reply).unwrap().contains("the second charge back in full"));
}

/// A team whose first task goes wrong in a file of one of its agents; what its lead says last.
async fn goes_wrong(template: &str, agent: &str, file: &str, text: &str) -> String {
    let mut bare = Bare::up().await;
    let made = good(&bare.skep(&["agent", "new", "--template", template, "--json"]).await);
    assert_eq!(bare.skep(&["down"]).await.code, Some(0));
    bare.hive.wait(PATIENCE).await.unwrap();
    let path = bare.home.join("teams").join(agent).join(file);
    let before =
        if file == "config.yaml" { fs::read_to_string(&path).unwrap() } else { String::new() };
    fs::write(&path, before + text).unwrap();
    bare.hive = Start::up(&locate::skep().unwrap(), &bare.home).listening().await.unwrap();
    let root = bare.begin(&made).await;
    bare.ended(&root, template).await;
    bare.last_word(template).await
}

#[tokio::test]
async fn org_template_says_who_failed() {
    let script = "#rehearsal\non task\nfail auth\n";
    let said = async |template, agent| {
        goes_wrong(template, agent, "team-rules/rehearsal.md", script).await
    };
    let last = said("engineering", "engineering-coder").await;
    assert!(last.starts_with("It is not done: engineering-coder has failed. "), "{last}");
    let last = said("research", "research-scout").await;
    assert!(last.starts_with("There is no report, because nothing was found: "), "{last}");
    assert!(last.ends_with(" (provider_auth)"), "{last}");
}

#[tokio::test]
async fn org_template_does_not_tell_a_refused_write_as_written() {
    let denies = "policy:\n  - {effect: deny, tool: write}\n";
    let last = goes_wrong("engineering", "engineering-coder", "config.yaml", denies).await;
    let said = "It is not done. engineering-coder says: greet.sh was not written: ";
    assert!(last.starts_with(said), "{last}");
}

#[tokio::test]
async fn org_templates_are_made_whole_or_not_at_all() {
    let bare = Bare::up().await;
    let new = async |words: &[&str]| {
        bare.skep(&[&["agent", "new", "--template", "support"], words].concat()).await
    };
    // A name of the team that is taken, by the last of them.
    let taken = bare.skep(&["agent", "new", "support-writer"]).await;
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    let before = teams(&bare.home);
    let refusals: [(&[&str], i32, &str); 6] = [
        (&[], 1, "the agent support-writer is there already"),
        (&["--name", "Shop"], 2, "`Shop` cannot be an agent's name"),
        (&["--name", "operator"], 2, "`operator` cannot be an agent's name"),
        (&["--name", "shop", "--profile", "large"], 2, "there is no profile `large`"),
        (&["--name", "shop", "--parent", "nobody"], 2, "there is no agent `nobody`"),
        (&["--name", "shop", "--parent", "main"], 2, "main lacks delegate_task, query_team"),
    ];
    for (words, code, why) in refusals {
        let refused = new(words).await;
        assert_eq!(refused.code, Some(code), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
        assert_eq!(teams(&bare.home), before, "{words:?}");
    }
    // Below an agent that has the tools.
    let settings = bare.home.join("teams/main/config.yaml");
    fs::write(settings, "allowed_tools: ['*']\n").unwrap();
    let made = new(&["--name", "shop", "--parent", "main"]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let expected = "created the team shop from the template support:\n\
                    agent        what it is for\n\
                    shop         Sorts requests of customers, looks up what applies, and has \
                    replies written.\n";
    assert!(made.stdout.starts_with(expected), "{}", made.stdout);
    let agents = bare.agents().await;
    assert_eq!(agents, ["main", "shop", "shop-finder", "shop-writer", "support-writer"]);
    let gone = bare.skep(&["agent", "rm", "shop", "--cascade"]).await;
    assert_eq!(gone.code, Some(0), "{}", gone.stderr);
    assert_eq!(teams(&bare.home), before);
}

#[tokio::test]
async fn org_templates_are_listed_and_made_over_rest() {
    let bare = Bare::up().await;
    let listed = bare.get("/api/v1/templates").await;
    let all = listed["templates"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|template| &template["name"]).collect();
    assert_eq!(names, ["engineering", "research", "support"]);
    let research = &all[1];
    assert_eq!(research["request"], "How does a swarm of bees find a new nest?");
    assert_eq!(research["agents"][0]["name"], "research");
    assert_eq!(research["agents"][2]["name"], "research-checker");
    assert_eq!(research["description"], research["agents"][0]["description"]);

    // The same request again is the same team.
    let wish = || {
        let path = "/api/v1/templates/research";
        let request = bare.api().request(Method::POST, path).header("idempotency-key", "lab-1");
        http::answer(request.json(&json!({ "name": "lab-a" })))
    };
    let made = wish().await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text);
    let again = wish().await.unwrap();
    assert_eq!((again.status, &again.text), (201, &made.text));
    let named = |name: &str, of: usize| {
        let about = &research["agents"][of]["description"];
        json!({ "name": name, "description": about })
    };
    let agents = [named("lab-a", 0), named("lab-a-scout", 1), named("lab-a-checker", 2)];
    let expected =
        json!({ "template": "research", "agents": agents, "request": research["request"] });
    assert_eq!(made.json, expected);
    // In force when it is answered, with the files that the command makes.
    assert_eq!(bare.agents().await, ["lab-a", "lab-a-checker", "lab-a-scout", "main"]);
    let by_command =
        bare.skep(&["agent", "new", "--template", "research", "--name", "lab-b"]).await;
    assert_eq!(by_command.code, Some(0), "{}", by_command.stderr);
    for file in ["config.yaml", "team-rules/rehearsal.md", "skills/judge-a-source/SKILL.md"] {
        let expected = bare.file(&format!("lab-b-scout/{file}")).replace("lab-b", "lab-a");
        assert_eq!(bare.file(&format!("lab-a-scout/{file}")), expected, "{file}");
    }
    let trail = bare.get("/api/v1/audit?limit=50").await;
    let rows = trail["rows"].as_array().unwrap().iter();
    let of_teams: Vec<_> = rows.filter(|row| row["outcome"] == "team_made").collect();
    let [row] = &of_teams[..] else { panic!("{of_teams:?}") };
    let names = r#"["lab-a","lab-a-scout","lab-a-checker"]"#;
    assert!(row.to_string().replace('\\', "").contains(names), "{row}");
    // Its first task runs.
    let task = json!({ "agents": [{ "agent": "lab-a" }], "request": made.json["request"] });
    let root = bare.begin(&task).await;
    assert_eq!(
        bare.ended(&root, "lab-a").await,
        ["lab-a → lab-a-scout: done", "lab-a → lab-a-checker: done"]
    );
}

#[tokio::test]
async fn org_templates_that_are_refused_over_rest_leave_nothing() {
    let bare = Bare::up().await;
    for name in ["support", "support-writer"] {
        let taken = bare.skep(&["agent", "new", name]).await;
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    }
    let before = (teams(&bare.home), bare.agents().await);
    let shop = |key: &str, value: &str| {
        let mut body = json!({ "name": "shop" });
        body[key] = json!(value);
        body
    };
    let long = "a".repeat(60);
    let table = [
        (
            "support",
            json!({}),
            409,
            "name_taken",
            "The team was not made: the agents support, support-writer are there already",
        ),
        ("sales", json!({}), 404, "unknown_template", "engineering, research, support"),
        ("support", shop("name", "Shop"), 400, "bad_name", "`Shop` cannot be an agent's name"),
        ("support", shop("name", ""), 400, "bad_name", "`` cannot be an agent's name"),
        ("support", shop("name", "../up"), 400, "bad_name", "cannot be an agent's name"),
        ("support", shop("name", "operator"), 400, "bad_name", "cannot be an agent's name"),
        ("support", shop("name", &long), 400, "bad_name", "-finder` cannot be"),
        ("support", shop("parent", "nobody"), 400, "invalid_settings", "no agent `nobody`"),
        ("support", shop("parent", "main"), 400, "invalid_settings", "main lacks delegate_task"),
        ("support", shop("folder", "x"), 400, "invalid_body", "folder"),
    ];
    for (template, body, status, code, why) in table {
        let refused = bare.make(template, &body).await;
        let found = (refused.status, refused.json["code"].as_str());
        assert_eq!(found, (status, Some(code)), "{body}: {}", refused.text);
        let detail = refused.json["detail"].as_str().unwrap();
        assert!(detail.contains(why), "{body}: {detail}");
        assert!(!detail.contains(bare.home.to_str().unwrap()), "{body}: {detail}");
        assert_eq!((teams(&bare.home), bare.agents().await), before, "{body}");
    }
    let viewer = json!({ "name": "Ines", "role": "viewer" });
    let token = bare.api().post("/api/v1/tokens", &viewer).await.unwrap().good().unwrap();
    let viewer = bare.hive.api(token["token"].as_str()).unwrap();
    assert_eq!(viewer.get("/api/v1/templates").await.unwrap().status, 200);
    let refused = viewer.post("/api/v1/templates/research", &json!({})).await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (403, &json!("role")));
    assert_eq!((teams(&bare.home), bare.agents().await), before);
    // What only shows once they are in force: agents that cannot run are taken back.
    let profile = "{provider: anthropic, model: large-1, api_key: 'vault:NOT_THERE'}";
    fs::write(bare.home.join("providers.yaml"), format!("profiles:\n  default: {profile}\n"))
        .unwrap();
    wait::until_async("the profile that cannot be used", PATIENCE, || async {
        let agents = bare.get("/api/v1/agents").await;
        (agents["agents"][0]["status"] == "failed").then_some(())
    })
    .await
    .unwrap();
    let refused = bare.make("research", &json!({})).await;
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("invalid_settings")));
    assert!(refused.text.contains("its profile default cannot be used"), "{}", refused.text);
    assert_eq!((teams(&bare.home), bare.agents().await), before);
    let trail = bare.get("/api/v1/audit?limit=50").await;
    assert!(!trail.to_string().contains("team_made"), "{trail}");
}

#[tokio::test]
async fn org_templates_wait_for_the_next_start_of_a_hive_that_does_not_run() {
    let mut bare = Bare::up().await;
    assert_eq!(bare.skep(&["down"]).await.code, Some(0));
    bare.hive.wait(PATIENCE).await.unwrap();
    // What an attempt left that was killed is in nobody's way.
    fs::create_dir_all(bare.home.join("teams/.research-scout.new/work")).unwrap();
    let made = bare.skep(&["agent", "new", "--template", "research"]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(made.stdout.contains("the hive starts it at its next start: skep"), "{}", made.stdout);
    assert_eq!(teams(&bare.home), ["main", "research", "research-checker", "research-scout"]);
    let checked = bare.skep(&["config", "check"]).await;
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{}", checked.stdout);
    bare.hive = Start::up(&locate::skep().unwrap(), &bare.home).listening().await.unwrap();
    assert_eq!(bare.agents().await, ["main", "research", "research-checker", "research-scout"]);
}

#[tokio::test]
async fn org_templates_have_no_script_where_a_model_answers() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "rig-key-1f7c");
    let words = ["agent", "new", "--template", "support", "--json"];
    let made = words.iter().fold(start, |start, word| start.argument(*word)).finish().await;
    assert_eq!(good(&made.unwrap())["running"], true);
    stage.model.push(Reply::say("I sort it."));
    let answer = play.ask("support", "A customer writes: hello").await;
    assert_eq!(answer["response"]["content"], "I sort it.");
    let request = stage.model.requests().pop().unwrap();
    let system = request.system_text();
    for part in ["# How this team treats customers", "the workspace of `support`", "# The lead"] {
        assert!(system.contains(part), "{part}: {system}");
    }
    assert!(!system.contains("#rehearsal"), "{system}");
}
