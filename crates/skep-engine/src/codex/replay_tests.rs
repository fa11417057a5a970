//! Turns against what was recorded of the genuine program: a small program plays its lines, and
//! waits where it waited then.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::bench::{Bench, Says, user};

/// Plays `script` beside it: a line with `<` waits for a message of that kind, any other line is
/// said. What was not waited for, and whatever comes in the end, gets an empty answer.
const PLAYER: &str = r#"#!/bin/bash
folder=${0%/*}
answer() {
  case "$1" in *'"method"'*'"id"'*|'{"id"'*'"method"'*) ;; *) return ;; esac
  id=${1#*'"id":'}; printf '{"id":%s,"result":{}}\n' "${id%%,*}"
}
while IFS= read -r step <&3; do
  case "$step" in
    '<'*)
      while IFS= read -r said || exit 0; do
        printf '%s\n' "$said" >> "$folder/said"
        case "$said" in *"\"${step#<}\""*) break ;; *) answer "$said" ;; esac
      done ;;
    *) printf '%s\n' "$step" ;;
  esac
done 3< "$folder/script"
while IFS= read -r said; do printf '%s\n' "$said" >> "$folder/said"; answer "$said"; done
"#;

fn recorded(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/codex").join(name);
    let text = std::fs::read_to_string(path.with_extension("jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What was recorded, as the program would have said it in this workspace and under this adapter's
/// settings. Of the servers of tools that some were recorded with, it says nothing then.
fn script(name: &str, work: &Path) -> String {
    let work = work.to_str().unwrap();
    let mut script = String::new();
    for line in recorded(name) {
        let message = &line["msg"];
        let kind = message["method"].as_str();
        if line["dir"] == "in" {
            let kind = kind.unwrap_or("result");
            if kind != "initialized" {
                script.push_str(&format!("<{kind}\n"));
            }
            continue;
        }
        if kind.is_some_and(|kind| kind.starts_with("mcpServer/")) {
            continue;
        }
        let text = message.to_string();
        let text = text.replace("\"/home/demo/codex\"", &format!("\"{work}\""));
        let text = text.replace("/home/demo/codex/", &format!("{work}/"));
        let text = text.replace("/bin/bash -lc ", "/bin/bash -c ");
        let text = text.replace("\"modelProvider\":\"mock\"", "\"modelProvider\":\"skep\"");
        let text = text.replace("\"approvalPolicy\":\"never\"", "\"approvalPolicy\":\"untrusted\"");
        script.push_str(&text);
        script.push('\n');
    }
    script
}

fn player(folder: &Path) -> PathBuf {
    let path = folder.join("codex");
    std::fs::write(&path, PLAYER).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn played(script: impl Fn(&Path) -> String) -> Bench {
    let bench = Bench::new(player, "http://127.0.0.1:9");
    let folder = bench.folder.path().join("program");
    std::fs::write(folder.join("script"), script(&bench.work())).unwrap();
    bench
}

fn of(name: &str) -> Bench {
    played(|work| script(name, work))
}

/// What the adapter said, in messages of this method.
fn said(bench: &Bench, method: &str) -> Vec<Value> {
    let said = std::fs::read_to_string(bench.folder.path().join("program/said")).unwrap();
    let said = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    said.filter(|message| message["method"] == method).collect()
}

async fn course(bench: &Bench, gate: impl FnMut(&str) -> Says) -> Vec<String> {
    bench.ride(vec![user(1, "hello")], None).course(gate).await
}

fn nobody(line: &str) -> Says {
    panic!("nobody is to be asked: {line}");
}

#[tokio::test]
async fn text_is_told_as_it_comes_and_the_thread_is_named() {
    let bench = of("app_success");
    let course = course(&bench, nobody).await;
    let expected = [
        "profile default",
        "session",
        "call",
        "text Hello from the mock model. Echo: one [[text]]",
        "used 110+50 42",
        "Finished",
    ];
    assert_eq!(course, expected);
    let start = &said(&bench, "thread/start")[0]["params"];
    assert_eq!(start["approvalPolicy"], "untrusted");
    assert_eq!(start["baseInstructions"], "shared");
    assert_eq!(start["developerInstructions"], "you are bee 7");
    // It has a shell of its own: ours is not offered beside it.
    assert_eq!(start["dynamicTools"].as_array().unwrap().len(), 1);
    assert_eq!(said(&bench, "turn/start")[0]["params"]["input"][0]["text"], "hello");
}

#[tokio::test]
async fn thinking_is_told_in_parts() {
    let course = course(&of("app_reasoning"), |_| Says::Allow).await;
    let thoughts: Vec<&String> = course.iter().filter(|it| it.starts_with("thinks")).collect();
    assert_eq!(
        thoughts,
        ["thinks **Looking** I think about it.", "thinks **Done** enough.raw chain text"]
    );
}

#[tokio::test]
async fn its_shell_asks_and_runs_once() {
    let bench = of("app_perm_untrusted_accept");
    let course = course(&bench, |_| Says::Allow).await;
    let asks = "asks call_fc_mock00147 shell bash {\"command\":\"touch perm.txt && echo made\"}";
    let expected = [
        "profile default",
        "session",
        "call",
        "text Running a tool.",
        asks,
        "result call_fc_mock00147 made\n[exit code 0]",
        "used 110+50 42",
        "call",
        "text Tool finished; all done.",
        "used 110+50 42",
        "Finished",
    ];
    assert_eq!(course, expected);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_reason() {
    let bench = of("app_perm_untrusted_decline");
    let course = course(&bench, |_| Says::Deny("not on a Sunday")).await;
    assert!(course.iter().any(|line| line.ends_with(" error [it was not run]")), "{course:#?}");
    assert_eq!(course.last().unwrap(), "Finished");
    let steer = &said(&bench, "turn/steer")[0]["params"];
    assert_eq!(steer["input"][0]["text"], "[not permitted] not on a Sunday");
}

#[tokio::test]
async fn what_a_person_decides_is_waited_for() {
    let bench = of("app_perm_untrusted_accept");
    let course = course(&bench, |_| Says::Later(Duration::from_millis(50))).await;
    assert_eq!(course.last().unwrap(), "Finished");
    assert!(course.contains(&"result call_fc_mock00147 made\n[exit code 0]".to_owned()));
}

#[tokio::test]
async fn a_patch_asks_for_its_files() {
    let bench = of("app_patch_untrusted_accept");
    let course = course(&bench, |_| Says::Allow).await;
    let asks = "asks call_ctc_mock00173 apply_patch write \
                {\"file_path\":\"notes.txt\",\"content\":\"hello\\nworld\\n\"}";
    assert_eq!(course[4..6], [asks, "result call_ctc_mock00173 applied"]);
    let bench = of("app_patch_untrusted_decline");
    let course = super::replay::course(&bench, |_| Says::Deny("no")).await;
    assert_eq!(course[5], "result call_ctc_mock00178 error the patch was not applied");
}

#[tokio::test]
async fn a_running_command_takes_no_input() {
    for name in ["app_write_stdin_escalated_decline", "app_write_stdin_escalated_accept"] {
        let bench = of(name);
        let course = course(&bench, |_| Says::Allow).await;
        let asked = course.iter().filter(|line| line.starts_with("asks")).count();
        let refused = course.iter().filter(|line| line.starts_with("notice")).count();
        assert_eq!((asked, refused), (1, 2), "{course:#?}");
    }
}

#[tokio::test]
async fn a_command_that_goes_on_while_the_model_speaks_has_its_result_later() {
    let course = course(&of("app_write_stdin_notty"), |_| Says::Allow).await;
    let at = |start: &str| course.iter().position(|line| line.starts_with(start)).unwrap();
    assert!(at("used") < at("result call_fc_mock00202 late\n[exit code 0]"), "{course:#?}");
    assert_eq!(course.last().unwrap(), "Finished");
}

#[tokio::test]
async fn calls_side_by_side_are_asked_for_one_by_one() {
    let course = course(&of("app_parallel_exec"), |_| Says::Allow).await;
    let results: Vec<&String> = course.iter().filter(|it| it.starts_with("result")).collect();
    let expected = [
        "result call_fc_mock00342 two\n[exit code 0]",
        "result call_fc_mock00341 one\n[exit code 0]",
    ];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn tools_of_ours_are_run_by_the_gate() {
    let course = course(&of("app_dyn"), |_| Says::Result("delivered")).await;
    assert_eq!(course[4], "runs call_fc_mock00165 hive_send {\"to\":\"bee2\"}");
    assert_eq!(course.last().unwrap(), "Finished");
}

#[tokio::test]
async fn what_nobody_was_asked_for_is_told_as_started() {
    // Recorded with a policy that asks for nothing.
    let run = course(&of("app_tool"), nobody).await;
    assert!(run.iter().any(|line| line.starts_with("started call_") && line.contains("shell")));
    // Tools that are off here.
    let others = course(&of("app_own_ungated"), nobody).await;
    assert!(others.last().unwrap().starts_with("failed engine_crashed"), "{others:#?}");
    assert!(others.contains(&"started call_fc_mock00333 imageView {}".to_owned()));
    let agents = course(&of("app_spawn_agent"), |_| Says::Allow).await;
    let last = agents.last().unwrap();
    assert!(last.starts_with("failed engine_crashed") && last.contains("a second thread"));
}

#[tokio::test]
async fn a_server_of_tools_ends_the_turn() {
    let line = "{\"method\":\"mcpServer/startupStatus/updated\",\"params\":{}}\n<turn/start\n";
    let bench = played(|work| script("app_success", work).replacen("<turn/start\n", line, 1));
    let course = course(&bench, nobody).await;
    assert!(course.last().unwrap().contains("mcpServer"), "{course:#?}");
}

#[tokio::test]
async fn errors_have_our_words() {
    for (name, end) in [
        ("app_err_err500", "later unavailable: We’re currently experiencing high demand"),
        ("app_err_overloaded", "later overloaded: Selected model is at capacity"),
        ("app_err_toolong", "failed context_too_long: Codex ran out of room"),
    ] {
        let course = course(&of(name), nobody).await;
        assert!(course.last().unwrap().starts_with(end), "{name}: {course:#?}");
        // One that is tried again is no end.
        let again = course.iter().any(|line| line.starts_with("again"));
        assert_eq!(again, name == "app_err_err500", "{course:#?}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_in_a_text_in_a_question_and_in_a_command() {
    let bench = of("app_interrupt");
    let mut ride = bench.ride(vec![user(1, "go")], None);
    let ticks = |line: &str| line.contains("tick4");
    let course = ride.course_until(nobody, ticks).await;
    assert_eq!(course.last().unwrap(), "Cancelled");
    assert_eq!(said(&bench, "turn/interrupt").len(), 1);

    let bench = of("app_interrupt_pending_approval");
    let course = bench.ride(vec![user(1, "go")], None).course(|_| Says::Interrupt).await;
    assert_eq!(course.last().unwrap(), "Cancelled");

    let bench = of("app_interrupt_terminals");
    let mut ride = bench.ride(vec![user(1, "go")], None);
    let course = ride.course_until(|_| Says::Allow, |line| line.starts_with("asks")).await;
    assert_eq!(course.last().unwrap(), "Cancelled", "{course:#?}");
    assert_eq!(said(&bench, "thread/backgroundTerminals/clean").len(), 1);
}

#[tokio::test]
async fn a_message_joins_the_turn_or_begins_the_next_one() {
    let bench = of("app_steer");
    let mut ride = bench.ride(vec![user(1, "go")], None);
    let steer = ride.handle.steer.take().unwrap();
    let mut told = false;
    let mut lines = Vec::new();
    while let Some(event) = ride.handle.events.recv().await {
        let begun = matches!(event, skep_core::engine::EngineEvent::CallStart);
        if begun && !std::mem::replace(&mut told, true) {
            steer.messages.send(user(2, "steered!")).await.unwrap();
        }
        lines.push(event);
    }
    let end = skep_core::engine::EngineEvent::End(skep_core::engine::TurnEnd::Finished);
    assert_eq!(lines.last(), Some(&end));
    assert_eq!(said(&bench, "turn/steer")[0]["params"]["input"][0]["text"], "steered!");
}

#[tokio::test]
async fn a_thread_goes_on_with_what_is_new_to_it() {
    let bench = of("app_dyn_resume_new");
    let thread = recorded("app_dyn_resume_new")
        .iter()
        .find_map(|line| line["msg"]["result"]["thread"]["id"].as_str().map(str::to_owned))
        .unwrap();
    let messages = vec![user(1, "old"), user(2, "new")];
    let ride = bench.ride(messages, Some(&thread));
    let course = ride.course(|_| Says::Result("delivered")).await;
    assert_eq!(course.last().unwrap(), "Finished");
    let input = &said(&bench, "turn/start")[0]["params"]["input"];
    assert_eq!(input.as_array().unwrap().len(), 1);
    assert_eq!(input[0]["text"], "new");
    assert!(said(&bench, "thread/resume")[0]["params"]["dynamicTools"].is_null());
}

#[tokio::test]
async fn a_thread_that_is_not_known_is_stale() {
    let refusal = "{\"error\":{\"code\":-32600,\"message\":\"no rollout found\"},\"id\":2}\n";
    let bench = played(|work| {
        let script = script("app_success", work);
        let begin = script.split_inclusive('\n').take_while(|line| *line != "<thread/start\n");
        begin.collect::<String>() + "<thread/resume\n" + refusal
    });
    let course = bench.ride(vec![user(1, "hello")], Some("gone")).course(nobody).await;
    assert_eq!(course, ["StaleSession"]);
}

#[tokio::test]
async fn a_history_is_put_into_a_new_thread() {
    use serde_json::json;
    use skep_core::ids::CallId;
    use skep_core::message::{Block, Body};

    let bench = of("app_inject_items");
    let call = Block::ToolCall {
        id: CallId::new("c1"),
        name: "shell".to_owned(),
        arguments: json!({"command": "ls"}),
    };
    let spoken = Body::assistant(vec![Block::text("I look"), call], None);
    let messages =
        vec![user(1, "earlier question"), super::bench::row(2, spoken), user(3, "later question")];
    let course = bench.ride(messages, None).course(nobody).await;
    assert_eq!(course.last().unwrap(), "Finished");
    let items = &said(&bench, "thread/inject_items")[0]["params"]["items"];
    let kinds: Vec<&str> =
        items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    // A call without a result in history has one here.
    assert_eq!(kinds, ["message", "message", "function_call", "function_call_output"]);
    let input = &said(&bench, "turn/start")[0]["params"]["input"];
    assert_eq!(input[0]["text"], "later question");
}

#[tokio::test]
async fn steps_are_counted_and_the_last_one_ends_the_turn() {
    let mut bench = of("app_perm_untrusted_accept");
    bench.steps = 1;
    let course = course(&bench, |_| Says::Allow).await;
    assert_eq!(course.last().unwrap(), "StepLimit");
}

#[tokio::test]
async fn what_is_no_message_ends_the_turn() {
    for (line, why) in [
        ("hello", "a line that is no message"),
        ("{}", "neither a request nor an answer"),
        ("{\"id\":99,\"result\":{}}", "an answer to nobody"),
        ("{\"method\":\"item/started\",\"params\":{}}", "item/started"),
        ("{\"method\":\"hook/started\",\"params\":{}}", "hook/started"),
    ] {
        let bench = played(|work| {
            let script = script("app_success", work);
            let begin = script.split_inclusive('\n').take_while(|line| *line != "<turn/start\n");
            format!("{}<turn/start\n{line}\n", begin.collect::<String>())
        });
        let course = course(&bench, nobody).await;
        let last = course.last().unwrap();
        assert!(last.starts_with("failed engine_crashed") && last.contains(why), "{last}");
    }
}

#[tokio::test]
async fn a_process_that_dies_is_told_with_its_last_words() {
    let bench = Bench::new(
        |folder| {
            let path = folder.join("codex");
            std::fs::write(&path, "#!/bin/bash\necho 'no luck' >&2\nexit 3\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        },
        "http://127.0.0.1:9",
    );
    let course = course(&bench, nobody).await;
    let last = course.last().unwrap();
    assert!(last.starts_with("later engine_crashed") && last.contains("no luck"), "{last}");
    let missing = Bench::new(|folder| folder.join("nothing"), "http://127.0.0.1:9");
    let last = super::replay::course(&missing, nobody).await.pop().unwrap();
    assert!(last.contains("engine_missing") && last.contains("npm install"), "{last}");
}

#[tokio::test]
async fn another_version_is_taken_only_where_the_agent_says_so() {
    let other = |work: &Path| script("app_success", work).replace("hive/0.166.0", "skep/0.167.0");
    let mut bench = played(other);
    let last = course(&bench, nobody).await.pop().unwrap();
    assert!(last.contains("engine_version") && last.contains("0.167.0"), "{last}");
    bench = played(other);
    bench.options.insert("any_version".to_owned(), true.into());
    assert_eq!(course(&bench, nobody).await.last().unwrap(), "Finished");
}

#[tokio::test]
async fn a_process_is_kept_for_the_next_turn_of_its_session() {
    // Between the turns commands are ended, which is a question more.
    let twice = |work: &Path| script("app_success", work).replace("{\"id\":4,", "{\"id\":5,");
    let mut bench = played(twice);
    bench.options.insert("idle_minutes".to_owned(), 1.into());
    assert_eq!(course(&bench, nobody).await.last().unwrap(), "Finished");
    let thread = recorded("app_success")
        .iter()
        .find_map(|line| line["msg"]["result"]["thread"]["id"].as_str().map(str::to_owned))
        .unwrap();
    let ride = bench.ride(vec![user(1, "hello"), user(2, "again")], Some(&thread));
    assert_eq!(ride.course(nobody).await.last().unwrap(), "Finished");
    assert_eq!(said(&bench, "initialize").len(), 1);
    assert_eq!(said(&bench, "turn/start").len(), 2);
}
