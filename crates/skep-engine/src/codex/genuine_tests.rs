//! The genuine program, where `SKEP_TEST_CODEX` names it, against the scripted model. It belongs
//! where only loopback is reachable: `unshare -n`, with `lo` up.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use skep_core::engine::EngineEvent;
use skep_core::settings::Think;
use skep_testkit::{Reply, ScriptedModel};

use super::bench::{Bench, Ride, Says, user};

const HOOKS: &str = r#"{"hooks":{"SessionStart":[{"hooks":[
    {"type":"command","command":"touch EVIL"}]}]}}"#;

struct Genuine {
    bench: Bench,
    model: ScriptedModel,
}

/// Nothing where the program is not installed.
async fn genuine() -> Option<Genuine> {
    let program = PathBuf::from(skep_guard::environment::var("SKEP_TEST_CODEX")?);
    let model = ScriptedModel::start().await.unwrap();
    model.require_key("right-key");
    let address = format!("http://{}", model.address());
    let bench = Bench::new(|_| program.clone(), &address);
    // Each of these would be run, read or obeyed by the program in a folder that it trusts.
    let work = bench.work();
    for (path, text) in [
        (".codex/config.toml", "[mcp_servers.evil]\ncommand = \"touch\"\nargs = [\"EVIL\"]\n"),
        (".codex/hooks.json", HOOKS),
        (".agents/skills/evil/SKILL.md", "---\nname: evil\ndescription: EVIL\n---\nEVIL"),
        ("AGENTS.md", "EVIL"),
    ] {
        std::fs::create_dir_all(work.join(path).parent().unwrap()).unwrap();
        std::fs::write(work.join(path), text).unwrap();
    }
    Some(Genuine { bench, model })
}

impl Genuine {
    fn ride(&self, text: &str) -> Ride {
        self.bench.ride(vec![user(1, text)], None)
    }

    async fn course(&self, gate: impl FnMut(&str) -> Says) -> Vec<String> {
        let course = self.ride("hello $evil").course(gate).await;
        assert_eq!(self.model.refusals(), Vec::<String>::new());
        assert!(!self.bench.work().join("EVIL").exists());
        course
    }

    fn shell(line: &str) -> Reply {
        Reply::call("exec_command", json!({ "cmd": line }))
    }
}

fn nobody(line: &str) -> Says {
    panic!("nobody is to be asked: {line}");
}

/// Whether a process runs with this word in its command line.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(word))
}

#[tokio::test]
async fn text_thinking_and_what_it_sends() {
    let Some(mut it) = genuine().await else { return };
    it.bench.think = Some(Think::Low);
    it.model.push(Reply::new().thinking("I wonder").text("Hello there."));
    let course = it.course(nobody).await;
    assert!(course.contains(&"thinks I wonder".to_owned()), "{course:#?}");
    assert!(course.contains(&"text Hello there.".to_owned()), "{course:#?}");
    assert_eq!(course.last().unwrap(), "Finished");
    let request = &it.model.requests()[0];
    let body = request.body.to_string();
    assert!(!body.contains("EVIL"), "{body}");
    let tools = request.body["tools"].as_array().unwrap();
    let tools: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["exec_command", "write_stdin", "apply_patch", "hive_send"]);
    assert_eq!(request.body["reasoning"]["effort"], "low");
    assert_eq!(request.body["model"], "gpt-test");
}

#[tokio::test]
async fn its_shell_allowed_denied_and_asked() {
    let Some(it) = genuine().await else { return };
    it.model.push_all([Genuine::shell("echo made > a.txt"), Reply::say("done")]);
    let course = it.course(|_| Says::Allow).await;
    assert!(course.iter().any(|line| line.contains("asks") && line.contains("echo made")));
    assert_eq!(std::fs::read_to_string(it.bench.work().join("a.txt")).unwrap(), "made\n");

    it.model.push_all([Genuine::shell("echo made > b.txt"), Reply::say("well")]);
    let course = it.course(|_| Says::Deny("not on a Sunday")).await;
    assert!(!it.bench.work().join("b.txt").exists());
    assert_eq!(course.last().unwrap(), "Finished", "{course:#?}");
    let told = it.model.requests().pop().unwrap().body["input"].to_string();
    assert!(told.contains("not on a Sunday"), "{told}");

    it.model.push_all([Genuine::shell("echo once >> c.txt"), Reply::say("done")]);
    let course = it.course(|_| Says::Later(Duration::from_secs(2))).await;
    assert_eq!(std::fs::read_to_string(it.bench.work().join("c.txt")).unwrap(), "once\n");
    assert_eq!(course.last().unwrap(), "Finished", "{course:#?}");
}

#[tokio::test]
async fn a_patch_asks_for_each_file() {
    let Some(it) = genuine().await else { return };
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+one\n\
                 *** Add File: b.txt\n+two\n*** End Patch\nEOF";
    it.model.push_all([Genuine::shell(patch), Reply::say("done")]);
    let course = it.course(|_| Says::Allow).await;
    let asked: Vec<&String> = course.iter().filter(|line| line.starts_with("asks")).collect();
    assert_eq!(asked.len(), 2, "{course:#?}");
    assert!(asked[0].contains("apply_patch write {\"file_path\":\"a.txt\""), "{asked:?}");
    assert!(it.bench.work().join("b.txt").exists());

    it.model.push_all([Genuine::shell(&patch.replace(".txt", ".md")), Reply::say("done")]);
    let course =
        it.course(|line| if line.contains("b.md") { Says::Deny("no") } else { Says::Allow }).await;
    assert!(!it.bench.work().join("a.md").exists() && !it.bench.work().join("b.md").exists());
    assert_eq!(course.last().unwrap(), "Finished", "{course:#?}");
}

#[tokio::test]
async fn a_tool_of_ours() {
    let Some(it) = genuine().await else { return };
    it.model.push_all([Reply::call("hive_send", json!({"to": "bee2"})), Reply::say("sent")]);
    let course = it.course(|_| Says::Result("delivered")).await;
    let runs = course.iter().find(|line| line.starts_with("runs")).unwrap();
    assert!(runs.ends_with("hive_send {\"to\":\"bee2\"}"), "{runs}");
    let told = it.model.requests().pop().unwrap().body["input"].to_string();
    assert!(told.contains("delivered"), "{told}");
    assert_eq!(course.last().unwrap(), "Finished");
}

#[tokio::test]
async fn an_interrupt_in_a_text_and_in_a_command() {
    let Some(it) = genuine().await else { return };
    it.model.push(Reply::new().text("one ").text("two ").then_silence());
    let mut ride = it.ride("go");
    let course = ride.course_until(nobody, |line| line.contains("one")).await;
    assert_eq!(course.last().unwrap(), "Cancelled", "{course:#?}");

    it.model.push(Genuine::shell("sleep 31731; echo over"));
    let mut ride = it.ride("go");
    let interrupt = ride.handle.interrupt.as_ref().unwrap().0.clone();
    tokio::spawn(async move {
        while !runs("sleep 31731") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        interrupt.cancel();
    });
    let course = ride.course_until(|_| Says::Allow, |_| false).await;
    assert_eq!(course.last().unwrap(), "Cancelled", "{course:#?}");
    assert!(!runs("31731"), "the command is gone before the end is told");
}

#[tokio::test]
async fn a_command_that_outlives_its_turn_ends_with_it() {
    let Some(it) = genuine().await else { return };
    let call = json!({"cmd": "sleep 31732; echo over", "yield_time_ms": 300});
    it.model.push_all([Reply::call("exec_command", call), Reply::say("I leave it")]);
    let course = it.course(|_| Says::Allow).await;
    assert!(course.iter().any(|line| line.ends_with("error [ended with the turn]")), "{course:#?}");
    assert!(!runs("31732"));
}

#[tokio::test]
async fn a_thread_goes_on_in_another_process_and_in_the_one_that_was_kept() {
    let Some(mut it) = genuine().await else { return };
    it.model.push(Reply::say("first"));
    let mut ride = it.ride("remember 4711");
    let mut thread = String::new();
    while let Some(event) = ride.handle.events.recv().await {
        if let EngineEvent::EngineSession { id } = event {
            thread = id;
        }
    }
    it.bench.options.insert("idle_minutes".to_owned(), 1.into());
    for text in ["second", "third"] {
        it.model.push(Reply::say(text));
        let ride = it.bench.ride(vec![user(1, "old"), user(2, text)], Some(&thread));
        let course = ride.course(nobody).await;
        assert_eq!(course.last().unwrap(), "Finished", "{course:#?}");
    }
    let input = it.model.requests().pop().unwrap().body["input"].to_string();
    for said in ["remember 4711", "first", "second", "third"] {
        assert!(input.contains(said), "{said} in {input}");
    }
    let gone = "01a1dc85-82a8-7053-96de-000000000000";
    let ride = it.bench.ride(vec![user(1, "old"), user(2, "new")], Some(gone));
    assert_eq!(ride.course(nobody).await, ["StaleSession"]);
}

#[tokio::test]
async fn what_the_vendor_refuses() {
    let Some(it) = genuine().await else { return };
    for (reply, end) in [
        (Reply::rate_limited(None), "later rate_limited"),
        (Reply::unauthorized(), "failed provider_auth"),
        (Reply::context_too_long(), "failed context_too_long"),
    ] {
        it.model.push_all([reply.clone(), reply.clone(), reply]);
        let course = it.ride("hello").course(nobody).await;
        let last = course.last().unwrap();
        assert!(last.starts_with(end), "{last}");
        while it.model.queued() > 0 {
            it.ride("hello").course(nobody).await;
        }
    }
}
