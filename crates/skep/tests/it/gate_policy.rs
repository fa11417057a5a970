//! Rules through the product: in force at once, explained, and closed when they cannot be read.

use serde_json::{Value, json};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::gate_changed;
use crate::stage::{Play, Stage};

pub async fn said(stage: &Stage, words: &[&str]) -> Finished {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key-of-the-rig");
    words.iter().fold(start, |start, word| start.argument(*word)).finish().await.unwrap()
}

/// The model calls the tool named by the message, once, and says what came of it.
pub fn obeys(stage: &Stage) {
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            let wish = text.rsplit('\n').next().unwrap().to_owned();
            let (tool, arguments) = wish.split_once(' ').unwrap();
            Reply::new().tool(tool, serde_json::from_str(arguments).unwrap())
        }
        [result, ..] => Reply::say(&result.text),
    });
}

pub async fn answer(play: &Play, text: &str) -> String {
    play.ask("main", text).await["response"]["content"].as_str().unwrap().to_owned()
}

const RULES: &str = "allowed_tools: ['*']
policy:
  - {effect: deny, tool: '*', path: 'secrets/**'}
  - {effect: ask, tool: bash}
  - {effect: allow, tool: bash, command: echo}
";

#[tokio::test]
async fn gate_policy_acts_explains_itself_and_fails_closed() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", RULES);
    stage.write("teams/main/work/secrets/key", "shh");
    std::os::unix::fs::symlink("secrets", stage.home().join("teams/main/work/link")).unwrap();
    obeys(&stage);
    let play = stage.up().await;
    // By every spelling of the path.
    for path in ["secrets/key", "./x/../secrets/key", "link/key"] {
        let said = answer(&play, &format!("read {{\"file_path\": \"{path}\"}}")).await;
        let denied = "policy_deny: the call of `read` was not run: denied by \
                      teams/main/config.yaml:3: deny * path secrets/**";
        assert!(said.starts_with(denied), "{path}: {said}");
    }
    assert_eq!(answer(&play, r#"bash {"command": "echo hi"}"#).await, "hi\n[exit code 0]");
    let why = said(&stage, &["why", "main", "bash", r#"{"command": "echo a; date"}"#]).await;
    assert_eq!(why.code, Some(0), "{why:?}");
    let told = [
        "ask: command date: asked for by teams/main/config.yaml:4: ask bash",
        "+ teams/main/config.yaml:5  allow bash command echo: matches",
        "- teams/main/config.yaml:5  allow bash command echo: `date` is another word",
    ];
    for line in told {
        assert!(why.stdout.contains(line), "{line} not in {}", why.stdout);
    }
    // What runs is what was judged; what is not plain is asked for, and nothing of it has run.
    let why = said(&stage, &["why", "main", "bash", r#"{"command": "echo \"a b\" # c"}"#]).await;
    assert!(why.stdout.contains("runs: 'echo' 'a b'"), "{}", why.stdout);
    let trick = r#"{"command": "echo \"$'\" ; touch ran; echo \"'\""}"#;
    let why = said(&stage, &["why", "main", "bash", trick]).await;
    assert!(
        why.stdout.contains("it uses $, and an allowing rule with a command"),
        "{}",
        why.stdout
    );
    let trick = play.item("main", "trick", &format!("bash {trick}")).await;
    play.until_state("main", &trick, "waiting").await;
    let open = play.questions().await.remove(0);
    play.answer(&open, "deny").await.good().unwrap();
    play.ended("main", &trick).await;
    assert!(!stage.home().join("teams/main/work/ran").exists());
    let row = play.audit("outcome=ok&tool=bash").await.remove(0);
    assert_eq!(row["arguments"], json!({"command": "echo hi"}));
    let runs = "allow by teams/main/config.yaml:5; runs: 'echo' hi";
    assert!(row["decision"].to_string().contains(runs), "{row}");
    // Granted for a while, then taken back.
    let grant =
        ["grant", "new", "main", "bash", "--command", "date +%Y", "--minutes", "5", "--json"];
    let made: Value = serde_json::from_str(&said(&stage, &grant).await.stdout).unwrap();
    assert!(answer(&play, r#"bash {"command": "date +%Y"}"#).await.ends_with("[exit code 0]"));
    let list = said(&stage, &["grant", "list"]).await.stdout;
    assert!(list.contains("main may bash command date +%Y until "), "{list}");
    let id = made["id"].as_str().unwrap();
    assert_eq!(said(&stage, &["grant", "revoke", id]).await.code, Some(0));
    let item = play.item("main", "other", r#"bash {"command": "date +%Y"}"#).await;
    play.until_state("main", &item, "waiting").await;

    // The terminal: a list, and an answer by id.
    let listed = said(&stage, &["approve"]).await;
    assert_eq!(listed.code, Some(2), "{listed:?}");
    assert!(listed.stdout.contains("to run date +%Y\n  date +%Y\n"), "{}", listed.stdout);
    let open = play.questions().await.remove(0);
    let id = open["id"].as_str().unwrap();
    assert_eq!(said(&stage, &["approve", id, "--always"]).await.code, Some(2), "needs a pattern");
    let done = said(&stage, &["approve", id]).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "approved once: date +%Y\n"));
    play.ended("main", &item).await;
    let late = said(&stage, &["deny", id, "--note", "no"]).await;
    assert!(late.code == Some(1) && late.stderr.contains("was approved by operator"), "{late:?}");

    // A policy that cannot be read denies everything and says where; mended, it is in force.
    for broken in ["policy:\n  - {effect: perhaps, tool: bash}\n", "policy: [\n"] {
        stage.write("teams/main/config.yaml", &format!("allowed_tools: ['*']\n{broken}"));
        until(&play, true).await;
        let said = answer(&play, "look {}").await;
        let denied = "policy_deny: the call of `look` was not run: the policy cannot be read";
        assert!(said.starts_with(denied) && said.contains("config.yaml:"), "{said}");
        stage.write("teams/main/config.yaml", RULES);
        until(&play, false).await;
        assert_eq!(answer(&play, r#"look {"text": "it"}"#).await, "looked at it");
    }
    // Another mistake leaves the version before it in force.
    stage.write("teams/main/config.yaml", &format!("{RULES}max_stepz: 3\n"));
    wait::until_async("the mistake is told", PATIENCE, async || {
        let state = play.state().await;
        (!state["hive"]["config"]["problems"].as_array().unwrap().is_empty()).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(answer(&play, r#"look {"text": "it"}"#).await, "looked at it");
    stage.write("skep.yaml", "defaults: {policy: {read: perhaps}}\n");
    until(&play, true).await;
    let said = answer(&play, "look {}").await;
    assert!(said.contains("the policy cannot be read") && said.contains("skep.yaml:1"), "{said}");
    // The policy can be read again, the file as a whole cannot: what was in force decides.
    stage.write("skep.yaml", "limits: {stepz: 3}\n");
    until(&play, false).await;
    assert_eq!(answer(&play, r#"look {"text": "it"}"#).await, "looked at it");
}

/// Until the policy of main is broken, or is not any more.
async fn until(play: &Play, broken: bool) {
    let looked = wait::until_async("the policy to be read again", PATIENCE, async || {
        let policy = play.api().get("/api/v1/agents/main/policy").await.unwrap().good().unwrap();
        (policy["broken"].is_string() == broken).then_some(())
    });
    looked.await.unwrap();
}

/// Every call of these rows had its effect once, and nothing else had one.
fn agree(stage: &Stage, ran: &[Value]) {
    let name = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let named = ran.iter().map(|row| format!("{}/{}", name(row, "turn"), name(row, "call_id")));
    let mut allowed: Vec<String> = named.collect();
    allowed.sort();
    let effects = stage.effects.counts().unwrap();
    let mut counted: Vec<String> = effects.keys().cloned().collect();
    counted.sort();
    assert_eq!(counted, allowed);
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

/// What had an effect is what was allowed, and what was refused had none: over every way in.
#[tokio::test]
async fn gate_effects_are_the_allowed_rows_and_nothing_else() {
    let stage = Stage::new().await;
    stage.write(
        "teams/main/config.yaml",
        "allowed_tools: [effect, reach, shape, look]\npolicy:\n  - {effect: ask, tool: reach}\n  - \
         {effect: deny, tool: shape}\n",
    );
    // Three calls at once: one allowed, one refused, one asked about.
    stage.model.answer_with(|request| match request.steps_done() {
        0 if !request.last_user_text().contains("go on") => {
            Reply::new().tool("effect", json!({})).tool("shape", json!({})).tool("reach", json!({}))
        }
        _ => Reply::say("done"),
    });
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    let rest = play.item("main", "rest", "go").await;
    client.say("m1", "go").await.unwrap();
    // Queued behind a turn that waits; and a command that begins a session.
    let queued = play.item("main", "rest", "go on").await;
    let mut other = play.ws().await;
    other.say("m2", "/new go").await.unwrap();
    let open = wait::until_async("three questions", PATIENCE, async || {
        let open = play.questions().await;
        (open.len() == 3).then_some(open)
    });
    let open = open.await.unwrap();
    assert_eq!(stage.effects.total().unwrap(), 3);
    play.hive.kill().await.unwrap();
    play = stage.up().await;
    for (number, question) in open.iter().enumerate() {
        let decision = if number == 0 { "deny" } else { "approve" };
        play.answer(question, decision).await.good().unwrap();
    }
    play.ended("main", &rest).await;
    play.ended("main", &queued).await;
    quiet(&play).await;
    let rows = async |query: &str| {
        let path = format!("/api/v1/audit?kind=call&limit=500&{query}");
        let page = play.api().get(&path).await.unwrap().good().unwrap();
        page["rows"].as_array().unwrap().clone()
    };
    let (ran, refused) = (rows("outcome=ok").await, rows("outcome=refused").await);
    agree(&stage, &ran);
    // Three turns: one effect each, two approved reaches; three denied shapes and one denied reach.
    assert_eq!((ran.len(), refused.len()), (5, 4), "{refused:?}");
    assert_eq!(rows("").await.len(), 9);
    let path = "/api/v1/audit?kind=decision&limit=500";
    let decisions = play.api().get(path).await.unwrap().good().unwrap();
    assert_eq!(decisions["rows"].as_array().unwrap().len(), 3);
}

/// The same of calls that run later than they were made: approved after their time, run again
/// after a crash, and behind hooks.
#[tokio::test]
async fn gate_effects_of_calls_that_run_later_are_the_allowed_rows() {
    let stage = Stage::new().await;
    let settings = "allowed_tools: [effect, reach]\npolicy:\n  - {effect: ask, tool: reach}\n";
    stage.write("teams/main/config.yaml", settings);
    stage.model.push(Reply::call("reach", json!({"text": "late"})));
    let mut play = stage.run(stage.hooked()).await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    gate_changed::a_day_later(&stage);
    stage.model.answer_with(|_| Reply::say("done"));
    let mut play = stage.run(stage.hooked()).await;
    play.ended("main", &item).await;
    let path = format!("/api/v1/approvals/{}/reopen", asked["id"].as_str().unwrap());
    let open = play.api().post(&path, &json!({})).await.unwrap().good().unwrap();
    play.answer(&open, "approve").await.good().unwrap();
    let ran = async || (stage.effects.total().unwrap() == 1).then_some(());
    wait::until_async("the approved call", PATIENCE, ran).await.unwrap();
    quiet(&play).await;
    // Cut off in the middle of its effect.
    stage.model.push(Reply::call("effect", json!({"text": "mail", "ms": 5000})));
    let item = play.item("main", "main", "act").await;
    let begun = async || (stage.effects.total().unwrap() == 2).then_some(());
    wait::until_async("the effect", PATIENCE, begun).await.unwrap();
    play.hive.kill().await.unwrap();
    let play = stage.run(stage.hooked()).await;
    play.ended("main", &item).await;
    let list = play.api().get("/api/v1/calls/unknown").await.unwrap().good().unwrap();
    let part = |key: &str| list["calls"][0][key].as_str().unwrap().to_owned();
    let path = format!("/api/v1/calls/unknown/{}/{}", part("turn"), part("call_id"));
    play.api().post(&path, &json!({"outcome": "run_again"})).await.unwrap().good().unwrap();
    let again = async || (stage.effects.total().unwrap() == 3).then_some(());
    wait::until_async("the same call again", PATIENCE, again).await.unwrap();
    quiet(&play).await;
    // A veto is a refusal like any other.
    stage.hook("second", "before", &json!({"veto": "no"}));
    stage.model.push(Reply::call("effect", json!({})));
    play.ask("main", "once more").await;

    let of = async |outcome: &str| play.audit(&format!("kind=call&outcome={outcome}")).await;
    let (mut ran, unknown, refused) = (of("ok").await, of("unknown").await, of("refused").await);
    // The one that expired, and the one that was vetoed.
    assert_eq!((ran.len(), unknown.len(), refused.len()), (2, 1, 2), "{refused:?}");
    ran.extend(unknown);
    agree(&stage, &ran);
}

async fn quiet(play: &Play) {
    let quiet = wait::until_async("every turn to end", PATIENCE, async || {
        let state = play.state().await;
        (state["turns"] == json!([]) && state["work"]["queued"] == 0).then_some(())
    });
    quiet.await.unwrap();
}
