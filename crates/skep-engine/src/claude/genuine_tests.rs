//! The genuine program against the scripted model. They run where `SKEP_CLAUDE` names the program,
//! in a network that is loopback alone; elsewhere there is nothing to run.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use skep_core::settings::SandboxLevel;
use skep_testkit::{Reply, ScriptedModel, wait};

use super::bench::{Bench, PATIENCE, Turn, Verdict, always};

struct Scene {
    model: ScriptedModel,
    bench: Bench,
}

impl Scene {
    async fn new(replies: Vec<Reply>) -> Option<Self> {
        let program = PathBuf::from(std::env::var_os("SKEP_CLAUDE")?);
        let model = ScriptedModel::start().await.unwrap();
        model.push_all(replies);
        let bench = Bench::new(program, &model.base_url());
        Some(Self { model, bench })
    }

    async fn turn(&self, resume: Option<&str>) -> Turn {
        let resume = resume.map(|id| (id, 0));
        let turn = self.bench.turn(&["do it"], resume).await;
        assert_eq!(self.model.refusals(), Vec::<String>::new(), "{:#?}", turn.told);
        turn
    }
}

fn bash(command: &str) -> Reply {
    Reply::new().text("I run it.").tool("Bash", json!({"command": command, "description": "x"}))
}

fn said(turn: &Turn, line: &str) -> bool {
    turn.told.iter().any(|told| told == line)
}

fn count(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn genuine_claude_says_and_thinks() {
    let reply = Reply::new().thinking("I think.").text("Hello.");
    let Some(scene) = Scene::new(vec![reply]).await else { return };
    let turn = scene.turn(None).await;
    let told = ["call", "thinks I think.", "signed", "says Hello.", "used", "session", "finished"];
    assert_eq!(turn.told, told);
    let request = &scene.model.requests()[0];
    let tools = ["Bash", "Edit", "Glob", "Grep", "Read", "Write"];
    let ours = ["mcp__skep__hive_list", "mcp__skep__hive_ping"];
    assert_eq!(request.tool_names(), [&tools[..], &ours[..]].concat());
    assert!(request.system_text().contains("You are\n\na test."), "{}", request.system_text());
    assert_eq!(request.last_user_text(), "do it");
    assert_eq!(scene.model.asked(), 1);
}

#[tokio::test]
async fn genuine_claude_runs_what_it_may_and_nothing_else() {
    for (verdict, runs) in [
        (Verdict::Allow, 1),
        (Verdict::Deny, 0),
        (Verdict::Ask(true), 1),
        (Verdict::Ask(false), 0),
        (Verdict::With(json!({"command": "echo changed >> effect", "description": "x"})), 1),
    ] {
        let replies = vec![bash("echo x >> effect"), Reply::say("Done.")];
        let Some(mut scene) = Scene::new(replies).await else { return };
        scene.bench.policy = always(verdict.clone());
        let turn = scene.turn(None).await;
        assert_eq!(count(&scene.bench.work("effect")), runs, "{verdict:?}: {:#?}", turn.told);
        assert!(said(&turn, "tool Bash echo x >> effect") && said(&turn, "finished"));
        let refused =
            turn.told.iter().any(|told| told.starts_with("error ") && told.contains("policy_deny"));
        assert_eq!(refused, runs == 0, "{verdict:?}: {:#?}", turn.told);
        if let Verdict::With(_) = verdict {
            let text = std::fs::read_to_string(scene.bench.work("effect")).unwrap();
            assert_eq!(text, "changed\n");
        }
        assert_eq!(scene.bench.asked()[0], "permit Bash as bash");
    }
}

#[tokio::test]
async fn genuine_claude_asks_for_each_of_its_own_tools() {
    let Some(mut scene) = Scene::new(Vec::new()).await else { return };
    let file = scene.bench.work("file");
    std::fs::write(&file, "canary\n").unwrap();
    let path = file.to_str().unwrap();
    let calls = Reply::new()
        .tool("Read", json!({"file_path": path}))
        .tool("Glob", json!({"pattern": "*"}))
        .tool("Grep", json!({"pattern": "canary"}))
        .tool("Write", json!({"file_path": path, "content": "new"}))
        .tool("Edit", json!({"file_path": path, "old_string": "canary", "new_string": "new"}))
        .tool("Bash", json!({"command": "cat file", "description": "x"}))
        .tool("mcp__skep__hive_ping", json!({"msg": "x"}));
    scene.model.push_all([calls, Reply::say("Done.")]);
    scene.bench.policy = always(Verdict::Deny);
    let turn = scene.turn(None).await;
    let asked = [
        "Read as read",
        "Glob as glob",
        "Grep as grep",
        "Write as write",
        "Edit as edit",
        "Bash as bash",
        "hive_ping as ours",
    ];
    let asked: Vec<String> = asked.iter().map(|asked| format!("permit {asked}")).collect();
    assert_eq!(scene.bench.asked(), asked, "{:#?}", turn.told);
    assert!(!turn.told.iter().any(|told| told.starts_with("result ")), "{:#?}", turn.told);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "canary\n");
    assert!(said(&turn, "finished"));
}

#[tokio::test]
async fn genuine_claude_calls_our_tools_inside_of_its_own_lines() {
    for verdict in [Verdict::Allow, Verdict::Ask(true)] {
        let call = Reply::new().tool("mcp__skep__hive_ping", json!({"msg": "x"}));
        let Some(mut scene) = Scene::new(vec![call, Reply::say("Done.")]).await else { return };
        scene.bench.policy = always(verdict);
        let turn = scene.turn(None).await;
        let ran = "ran hive_ping {\"msg\":\"x\"}";
        assert_eq!(scene.bench.asked(), ["permit hive_ping as ours", ran]);
        assert!(said(&turn, "tool hive_ping x") && said(&turn, &format!("result {ran}")));
        assert!(said(&turn, "finished"), "{:#?}", turn.told);
    }
}

#[tokio::test]
async fn genuine_claude_refuses_bad_calls_itself_and_the_turn_goes_on() {
    let calls = Reply::new()
        .tool("WebFetch", json!({"url": "http://127.0.0.1:1/", "prompt": "x"}))
        .tool("Bash", json!({"description": "no command"}))
        .tool("Bash", json!({"command": "sleep 60", "run_in_background": true}));
    let Some(scene) = Scene::new(vec![calls, Reply::say("Done.")]).await else { return };
    let turn = scene.turn(None).await;
    assert!(said(&turn, "finished"), "{:#?}", turn.told);
    assert!(!turn.told.iter().any(|told| told.starts_with("result ")), "{:#?}", turn.told);
    for asked in scene.bench.asked() {
        assert!(asked.ends_with("claude.refused"), "{asked}");
    }
}

#[tokio::test]
async fn genuine_claude_is_interrupted_in_its_text_and_goes_on_later() {
    let half = Reply::new().open_text().delta("one ").gate("half").delta("two").close();
    let Some(scene) = Scene::new(vec![half, Reply::say("Again.")]).await else { return };
    let mut turn = scene.bench.start(&["do it"], None);
    turn.until(|told| told.starts_with("says one")).await;
    turn.interrupt();
    turn.to_end().await;
    assert_eq!(turn.told.last().unwrap(), "cancelled", "{:#?}", turn.told);
    scene.model.gate("half").open();
    let session = turn.session.clone().unwrap();
    let turn = scene.turn(Some(&session)).await;
    assert!(said(&turn, "says Again."), "{:#?}", turn.told);
    let request = scene.model.requests().pop().unwrap();
    assert!(request.body.to_string().contains("one "), "{}", request.body);
}

#[tokio::test]
async fn genuine_claude_is_interrupted_in_a_command_which_really_ends() {
    let command = "for i in 1 2 3 4 5 6 7 8 9; do echo $i >> effect; sleep 0.3; done";
    let Some(scene) = Scene::new(vec![bash(command)]).await else { return };
    let mut turn = scene.bench.start(&["do it"], None);
    turn.until(|told| told.starts_with("tool Bash")).await;
    let effect = scene.bench.work("effect");
    wait::until_true("an effect", PATIENCE, || count(&effect) > 1).await.unwrap();
    turn.interrupt();
    turn.to_end().await;
    assert_eq!(turn.told.last().unwrap(), "cancelled", "{:#?}", turn.told);
    let done = count(&effect);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count(&effect), done);
    assert!(done < 9);
    let children = scene.bench.folder.path().join("children");
    assert_eq!(std::fs::read_dir(children).unwrap().count(), 0);
}

#[tokio::test]
async fn genuine_claude_is_interrupted_while_a_person_is_asked() {
    let Some(mut scene) = Scene::new(vec![bash("echo x >> effect")]).await else { return };
    scene.bench.policy = always(Verdict::Silence);
    let mut turn = scene.bench.start(&["do it"], None);
    turn.until(|told| told.starts_with("tool Bash")).await;
    scene.bench.heard.notified().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    turn.interrupt();
    turn.to_end().await;
    assert_eq!(turn.told.last().unwrap(), "cancelled", "{:#?}", turn.told);
    assert_eq!(count(&scene.bench.work("effect")), 0);
}

#[tokio::test]
async fn genuine_claude_goes_on_with_its_session() {
    for process in ["live", "per_turn"] {
        let replies = vec![Reply::say("One."), Reply::say("Two.")];
        let Some(mut scene) = Scene::new(replies).await else { return };
        scene.bench.options.insert("process".to_owned(), process.into());
        let first = scene.turn(None).await;
        let session = first.session.unwrap();
        let children = || {
            let records = std::fs::read_dir(scene.bench.folder.path().join("children")).unwrap();
            let text = |record: std::fs::DirEntry| std::fs::read_to_string(record.path()).unwrap();
            records.map(|record| text(record.unwrap())).collect::<Vec<_>>()
        };
        let kept = children();
        assert_eq!(kept.len(), usize::from(process == "live"));
        let mut turn = scene.bench.start(&["do it"], Some((&session, 0)));
        turn.until(|told| told == "call").await;
        assert_eq!(children() == kept, process == "live");
        turn.to_end().await;
        assert!(said(&turn, "says Two.") && said(&turn, "finished"), "{:#?}", turn.told);
        assert_eq!(turn.session.as_ref(), Some(&session));
        let request = scene.model.requests().pop().unwrap().body.to_string();
        assert!(request.contains("One."), "{request}");
    }
}

#[tokio::test]
async fn genuine_claude_that_knows_no_such_session_says_so() {
    let Some(scene) = Scene::new(Vec::new()).await else { return };
    let turn = scene.turn(Some("11111111-2222-4333-8444-555555555555")).await;
    assert_eq!(turn.told, ["stalesession"]);
}

#[tokio::test]
async fn genuine_claude_takes_messages_at_a_tool() {
    let replies = vec![bash("sleep 1.5"), Reply::say("Both."), Reply::say("Late.")];
    let Some(scene) = Scene::new(replies).await else { return };
    let mut turn = scene.bench.start(&["do it"], None);
    turn.until(|told| told.starts_with("tool Bash")).await;
    scene.bench.heard.notified().await;
    let steer = turn.handle.steer.take().unwrap();
    steer.messages.send(super::bench::row(5, "and this")).await.unwrap();
    turn.to_end().await;
    assert!(said(&turn, "says Both.") && said(&turn, "finished"), "{:#?}", turn.told);
    let request = scene.model.requests().pop().unwrap().body.to_string();
    assert!(request.contains("and this"), "{request}");
}

#[tokio::test]
async fn genuine_claude_answers_a_message_that_joins_too_late_in_the_same_run() {
    let half = Reply::new().open_text().delta("one ").gate("half").delta("two").close();
    let Some(scene) = Scene::new(vec![half, Reply::say("Late.")]).await else { return };
    let mut turn = scene.bench.start(&["do it"], None);
    turn.until(|told| told.starts_with("says one")).await;
    let steer = turn.handle.steer.take().unwrap();
    steer.messages.send(super::bench::row(5, "and this")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    scene.model.gate("half").open();
    turn.to_end().await;
    assert!(said(&turn, "says Late.") && said(&turn, "finished"), "{:#?}", turn.told);
}

#[tokio::test]
async fn genuine_claude_loads_nothing_of_a_workspace() {
    let replies = (0..3).map(|_| [bash("true"), Reply::say("Done.")]).collect::<Vec<_>>().concat();
    let Some(mut scene) = Scene::new(replies).await else { return };
    scene.bench.options.insert("process".to_owned(), "per_turn".into());
    let plant = |folder: &Path| {
        let hook = |event: &str| {
            let command = format!("touch {}/{event}", scene.bench.folder.path().display());
            json!([{"matcher": "", "hooks": [{"type": "command", "command": command}]}])
        };
        let hooks = json!({"SessionStart": hook("SessionStart"), "PreToolUse": hook("PreToolUse"),
                           "UserPromptSubmit": hook("Submit"), "Stop": hook("Stop")});
        let allow = json!({"allow": ["Bash"]});
        let settings = json!({"hooks": hooks, "permissions": allow, "env": {"PLANTED": "1"}});
        let command = format!("{}/server", scene.bench.folder.path().display());
        let server = json!({"command": "touch", "args": [command]});
        let servers =
            json!({"mcpServers": {"planted": server}, "enableAllProjectMcpServers": true});
        std::fs::create_dir_all(folder.join(".claude/commands")).unwrap();
        for file in [".claude/settings.json", ".claude/settings.local.json", "settings.json"] {
            std::fs::write(folder.join(file), settings.to_string()).unwrap();
        }
        for file in [".mcp.json", ".claude.json"] {
            std::fs::write(folder.join(file), servers.to_string()).unwrap();
        }
        for file in ["CLAUDE.md", ".claude/CLAUDE.md"] {
            std::fs::write(folder.join(file), "PLANTED NOTES").unwrap();
        }
    };
    let before = scene.bench.folder.path().join("work");
    plant(&before);
    let first = scene.turn(None).await;
    // It may have written into its own folder as well.
    plant(&scene.bench.folder.path().join("engines/claude/1"));
    let second = scene.turn(first.session.as_deref()).await;
    let third = scene.turn(None).await;
    for turn in [&first, &second, &third] {
        assert!(said(turn, "finished"), "{:#?}", turn.told);
    }
    assert_eq!(scene.bench.asked(), ["permit Bash as bash"; 3]);
    let there = std::fs::read_dir(scene.bench.folder.path()).unwrap();
    let mut there: Vec<_> =
        there.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, ["children", "engines", "work"]);
    for request in scene.model.requests() {
        assert!(!request.body.to_string().contains("PLANTED NOTES"));
    }
}

#[tokio::test]
async fn genuine_claude_maps_what_its_vendor_says() {
    let again = |reply: fn() -> Reply| vec![reply(), reply(), reply(), reply()];
    for (replies, ends) in [
        (again(Reply::unauthorized), "failed ProviderAuth"),
        (again(Reply::server_error), "again Unavailable"),
        (again(Reply::overloaded), "again Overloaded"),
        (again(|| Reply::rate_limited(None)), "again RateLimited"),
        (again(Reply::context_too_long), "failed ContextTooLong"),
        (again(|| Reply::bad_request("over the budget [limit_cost]")), "failed LimitCost"),
    ] {
        let Some(scene) = Scene::new(replies).await else { return };
        let turn = scene.turn_of_failures().await;
        let last = turn.told.last().unwrap();
        assert!(last.starts_with(ends), "{ends}: {:#?}", turn.told);
    }
}

impl Scene {
    async fn turn_of_failures(&self) -> Turn {
        self.bench.turn(&["do it"], None).await
    }
}

#[tokio::test]
async fn genuine_claude_stops_at_the_last_step() {
    let replies = vec![bash("true"), bash("true"), bash("echo x >> effect")];
    let Some(mut scene) = Scene::new(replies).await else { return };
    scene.bench.steps = 2;
    let turn = scene.turn(None).await;
    assert_eq!(turn.told.last().unwrap(), "steplimit", "{:#?}", turn.told);
    assert_eq!(count(&scene.bench.work("effect")), 0);
}

/// It reaches its model by the one service of its network, its own folder and the workspace.
#[tokio::test]
async fn genuine_claude_runs_behind_walls() {
    let Some(program) = std::env::var_os("SKEP_CLAUDE").map(PathBuf::from) else { return };
    let model = ScriptedModel::start().await.unwrap();
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("canary");
    std::fs::write(&canary, "canary").unwrap();
    let command = format!("echo x >> effect; cat {}; ls /etc/shadow", canary.display());
    model.push_all([bash(&command), Reply::say("Done."), Reply::say("Again.")]);
    let bench = Bench::at(SandboxLevel::Confined, program, &model.base_url());
    let turn = bench.turn(&["do it"], None).await;
    assert!(said(&turn, "finished"), "{:#?}", turn.told);
    assert_eq!(count(&bench.work("effect")), 1);
    let request = model.requests().pop().unwrap();
    let result = request.last_tool_results().pop().unwrap();
    assert!(result.text.lines().all(|line| line != "canary"), "{}", result.text);
    let session = turn.session.unwrap();
    let turn = bench.turn(&["do it"], Some((&session, 0))).await;
    assert!(said(&turn, "says Again.") && said(&turn, "finished"), "{:#?}", turn.told);
    assert_eq!(model.refusals(), Vec::<String>::new());
}
