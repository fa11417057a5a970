//! What the genuine program said, said again by a small script: it says the recorded lines and
//! reads one line of ours wherever it was told one.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use skep_testkit::wait;

use super::bench::{Bench, PATIENCE, Verdict, always};

/// Plays the lines of the file beside it; what it is told it keeps.
const PLAYER: &str = r#"#!/bin/sh
exec 3< "$0.script"
while IFS= read -r line <&3; do
    case "$line" in
    '>'*) printf '%s\n' "${line#>}" ;;
    *) IFS= read -r told && printf '%s\n' "$told" >> "$0.told" ;;
    esac
done
exec cat >> "$0.told"
"#;

struct Player {
    folder: tempfile::TempDir,
}

impl Player {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("claude");
        std::fs::write(&program, PLAYER).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("claude.script"), script).unwrap();
        Self { folder }
    }

    fn bench(&self) -> Bench {
        Bench::new(self.folder.path().join("claude"), "http://nowhere")
    }

    /// Lines that it is told before the recorded interrupt.
    fn reads_before_interrupt(&self, name: &str) -> usize {
        let starts = script(name).starts_with("<\n>") && recorded(name)[0]["msg"]["type"] == "user";
        let told = recorded(name).into_iter().filter(|line| line["dir"] == "in");
        let before = told.take_while(|line| line["msg"]["request"]["subtype"] != "interrupt");
        before.count() + usize::from(starts)
    }

    fn told(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("claude.told"));
        let lines = text.unwrap_or_default();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn recorded(name: &str) -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/claude");
    let text = std::fs::read_to_string(folder.join(name).with_extension("jsonl")).unwrap();
    // The recordings call our server otherwise.
    let text = text.replace("\"hive\"", "\"skep\"").replace("mcp__hive__", "mcp__skep__");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn says(message: &Value) -> String {
    format!(">{message}\n")
}

fn started(version: &str) -> String {
    let response = json!({"claude_code_version": version, "hooks_applied": true});
    let response = json!({"subtype": "success", "request_id": "initialize", "response": response});
    "<\n".to_owned() + &says(&json!({"type": "control_response", "response": response}))
}

/// The first turn of a recording as a script. Where the stream was not recorded, it is made of the
/// blocks, as it comes with the options of today.
fn script(name: &str) -> String {
    let mut lines: Vec<(bool, Value)> = Vec::new();
    for line in recorded(name) {
        match line.get("dir") {
            Some(dir) => lines.push((dir == "in", line["msg"].clone())),
            None => lines.push((false, line)),
        }
    }
    // Hooks that we do not ask for, and what they were answered.
    let others = lines.iter().filter_map(|(_, line)| {
        let event = line["request"]["input"]["hook_event_name"].as_str()?;
        (event != "PreToolUse").then(|| line["request_id"].clone())
    });
    let foreign: Vec<Value> = others.collect();
    lines.retain(|(_, line)| {
        !foreign.contains(&line["request_id"]) && !foreign.contains(&line["response"]["request_id"])
    });
    let streams = lines.iter().any(|(_, line)| line["type"] == "stream_event");
    let mut script = String::new();
    let starts = lines
        .first()
        .is_some_and(|(told, line)| *told && line["request"]["subtype"] == "initialize");
    if !starts {
        script.push_str(&started("2.1.325"));
    }
    if !lines.iter().any(|(told, _)| *told) {
        script.push_str("<\n");
    }
    let mut open: Option<Value> = None;
    // We answer once the message is complete; the program does not wait for that.
    let mut answers = 0;
    let complete = |answers: &mut usize| "<\n".repeat(std::mem::take(answers));
    for (at, (told, line)) in lines.iter().enumerate() {
        if *told {
            match open {
                Some(_) if line["request"]["subtype"] != "interrupt" => answers += 1,
                _ => script.push_str("<\n"),
            }
            continue;
        }
        let mut line = line.clone();
        if line["response"]["request_id"] == "r1" {
            line["response"]["request_id"] = json!("initialize");
        }
        if !streams && line["type"] == "assistant" && line["message"]["model"] != "<synthetic>" {
            let id = line["message"]["id"].clone();
            if open.as_ref() != Some(&id) {
                script.push_str(&streamed(json!({"type": "message_start", "message": {"id": id}})));
                open = Some(id.clone());
            }
            for block in line["message"]["content"].as_array().unwrap() {
                script.push_str(&block_of(block));
            }
            script.push_str(&says(&line));
            let goes_on = lines[at + 1..].iter().any(|(_, it)| it["message"]["id"] == id);
            if !goes_on {
                script.push_str(&streamed(json!({"type": "message_stop"})));
                script.push_str(&complete(&mut answers));
                open = None;
            }
            continue;
        }
        script.push_str(&says(&line));
        match line["event"]["type"].as_str() {
            Some("message_start") => open = Some(Value::Null),
            Some("message_stop") => {
                script.push_str(&complete(&mut answers));
                open = None;
            }
            _ => {}
        }
        if line["type"] == "result" {
            break;
        }
    }
    script
}

fn streamed(event: Value) -> String {
    says(&json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}))
}

fn block_of(block: &Value) -> String {
    let delta = |delta: Value| streamed(json!({"type": "content_block_delta", "delta": delta}));
    match block["type"].as_str().unwrap() {
        "text" => delta(json!({"type": "text_delta", "text": block["text"]})),
        "thinking" => {
            let thinking = json!({"type": "thinking_delta", "thinking": block["thinking"]});
            let signature = json!({"type": "signature_delta", "signature": block["signature"]});
            delta(thinking) + &delta(signature)
        }
        "redacted_thinking" => {
            streamed(json!({"type": "content_block_start", "content_block": block}))
        }
        _ => String::new(),
    }
}

async fn replay(name: &str, verdict: Verdict) -> (Vec<String>, Vec<String>) {
    let player = Player::new(&script(name));
    let bench = Bench { policy: always(verdict), ..player.bench() };
    let turn = bench.turn(&["go"], None).await;
    (turn.told.clone(), bench.asked())
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// What the turn is told, and before `--` what the gate is asked.
async fn check(name: &str, verdict: Verdict, expected: &str) {
    let (asked, told) = expected.split_once("--").unwrap();
    let (heard, gate) = replay(name, verdict).await;
    let heard: Vec<&str> = heard.iter().map(|line| line.trim()).collect();
    assert_eq!(heard, lines(told), "{name}");
    assert_eq!(gate, lines(asked), "{name}");
}

#[tokio::test]
async fn claude_recorded_text_and_thinking() {
    let hello = "--
        call
        says Hello from the mock model. Echo: say hello [[text]]
        used
        finished";
    check("success", Verdict::Allow, hello).await;
    let thinks = "permit Bash as bash
        --
        call
        thinks I
        thinks should
        thinks look
        thinks first.
        signed
        says Looking.
        tool Bash echo hi
        used
        result hi
        call
        thinks That
        thinks is
        thinks enough.
        signed
        thinks in secret
        says Done.
        used
        finished";
    check("bidi_thinking_partial", Verdict::Allow, thinks).await;
}

const MADE: &str = "mkdir -p zz && touch zz/y && echo done";

#[tokio::test]
async fn claude_recorded_own_tools() {
    let ran = |text: &str, result: &str, after: &str| {
        format!(
            "permit Bash as bash
            --
            call
            says {text}
            tool Bash {MADE}
            used
            {result}
            call
            says {after}
            used
            finished"
        )
    };
    let (running, done) = ("Running a tool.", "Tool finished; all done.");
    let refused = "error operator said no";
    for (name, verdict, expected) in [
        ("bidi_perm_allow", Verdict::Allow, ran(running, "result done", done)),
        ("bidi_perm_deny", Verdict::Deny, ran(running, refused, done)),
        ("bidi_hook_ask_allow", Verdict::Ask(true), ran("Running.", "result done", "Done.")),
        ("bidi_hook_ask_deny", Verdict::Ask(false), ran("Running.", refused, "Done.")),
    ] {
        // A call that was allowed or denied at once is asked for again, and hears the same.
        let again = matches!(verdict, Verdict::Allow | Verdict::Deny);
        let first = if again { "permit Bash as bash\n" } else { "" };
        check(name, verdict, &format!("{first}{expected}")).await;
    }
    let two = "permit Bash as bash
        permit Bash as bash
        --
        call
        says Two.
        tool Bash touch a1; echo one
        tool Bash touch a2; echo two
        used
        result one
        result two
        call
        says Done.
        used
        finished";
    check("bidi_parallel_bash", Verdict::Ask(true), two).await;
    let changed = "permit Bash as bash
        --
        call
        tool Bash echo original
        used
        result REWRITTEN
        call
        says Done.
        used
        finished";
    let other = Verdict::With(json!({"command": "echo REWRITTEN", "description": "d"}));
    check("bidi_hook_rewrite", other, changed).await;
}

#[tokio::test]
async fn claude_recorded_calls_of_our_tools() {
    let ran = "permit hive_ping as ours
        ran hive_ping {\"msg\":\"in-band\"}
        --
        call
        says Calling.
        tool hive_ping in-band
        used
        result pong:in-band
        call
        says Done.
        used
        finished";
    check("bidi_sdkmcp_hook_allow", Verdict::Allow, ran).await;
    check("bidi_sdkmcp_hook_perm", Verdict::Ask(true), ran).await;
    let two = "permit hive_ping as ours
        ran hive_ping {\"msg\":\"a\"}
        permit hive_ping as ours
        ran hive_ping {\"msg\":\"b\"}
        --
        call
        says Two.
        tool hive_ping a
        tool hive_ping b
        used
        result pong:a
        result pong:b
        call
        says Done.
        used
        finished";
    check("bidi_parallel_sdkmcp", Verdict::Ask(true), two).await;
}

#[tokio::test]
async fn claude_recorded_ends() {
    let said = "the model did not answer";
    let retried = |code: &str, why: &str| format!("retry {code}: {said}: {why}");
    for (name, tries, ends) in [
        ("err500", vec![retried("Unavailable", "server_error (500)"); 2], "again Unavailable: "),
        ("err429", vec![retried("RateLimited", "rate_limit (429)"); 2], "again RateLimited: "),
        ("overloaded", vec![retried("Overloaded", "overloaded (529)"); 2], "again Overloaded: "),
        ("bidi_err", vec![retried("Unavailable", "server_error (500)")], "again Unavailable: "),
        ("bidi_toolong", Vec::new(), "failed ContextTooLong: Prompt is too long"),
        ("resume_missing", Vec::new(), "stalesession"),
    ] {
        let (told, asked) = replay(name, Verdict::Allow).await;
        let (last, before) = told.split_last().unwrap();
        assert_eq!((before, asked.len()), (&tries[..], 0), "{name}");
        assert!(last.starts_with(ends), "{name}: {last}");
    }
    for (name, last) in [("drop", "finished"), ("maxturns", "steplimit")] {
        assert_eq!(replay(name, Verdict::Allow).await.0.last().unwrap(), last, "{name}");
    }
    // Agents of its own are not offered: where there is one all the same, the turn ends.
    let (told, asked) = replay("bidi_subagent", Verdict::Allow).await;
    assert_eq!(asked[0], "permit Agent as claude.refused");
    assert!(told.last().unwrap().ends_with("an agent of its own"), "{told:?}");
}

#[tokio::test]
async fn claude_recorded_interrupts() {
    for (name, verdict, asks, result) in [
        ("bidi_interrupt", Verdict::Allow, 0, None),
        ("bidi_interrupt_bash", Verdict::Allow, 2, Some("error The user doesn't want")),
        ("bidi_interrupt_two", Verdict::Allow, 2, Some("error The user doesn't want")),
        ("bidi_interrupt_pending_perm", Verdict::Silence, 1, Some("error The user doesn't want")),
    ] {
        let player = Player::new(&script(name));
        let bench = Bench { policy: always(verdict), ..player.bench() };
        let mut turn = bench.start(&["go"], None);
        if asks == 0 {
            turn.until(|told| told.ends_with("tick5 ")).await;
        }
        let asked = || bench.asked.lock().unwrap().len() >= asks;
        wait::until_true("the questions", PATIENCE, asked).await.unwrap();
        let reads = player.reads_before_interrupt(name);
        wait::until_true("the answers", PATIENCE, || player.told().len() >= reads).await.unwrap();
        turn.interrupt();
        let told = turn.to_end().await;
        assert_eq!(told.last().unwrap(), "cancelled", "{name}: {told:?}");
        let ended = |line: &String| result.is_some_and(|result| line.starts_with(result));
        assert_eq!(told.iter().any(ended), result.is_some(), "{name}: {told:?}");
        let said = player.told();
        assert!(said.iter().any(|said| said["request"]["subtype"] == "interrupt"), "{name}");
    }
}

#[tokio::test]
async fn claude_that_is_another_version_is_not_used() {
    let player = Player::new(&started("2.1.197"));
    let bench = player.bench();
    let turn = bench.turn(&["go"], None).await;
    assert_eq!(turn.told.len(), 1);
    let said = &turn.told[0];
    assert!(said.starts_with("failed AgentUnavailable: engine_version: Claude Code is 2.1.197"));
    assert!(said.contains("npm install -g @anthropic-ai/claude-code@2.1.325"), "{said}");
}

#[tokio::test]
async fn claude_that_is_missing_says_how_to_install_it() {
    let bench = Bench::new(PathBuf::from("/nowhere/claude"), "http://nowhere");
    let turn = bench.turn(&["go"], None).await;
    let said = "failed AgentUnavailable: engine_missing: Claude Code is not at /nowhere/claude. \
                Install it: `npm install -g @anthropic-ai/claude-code@2.1.325`";
    assert_eq!(turn.told, [said]);
}

/// After the start, a process that says this.
async fn surprised(script: &str) -> Vec<String> {
    let player = Player::new(&(started("2.1.325") + "<\n" + script));
    let bench = player.bench();
    bench.turn(&["go"], None).await.told.clone()
}

#[tokio::test]
async fn claude_that_says_what_nobody_expects_is_ended() {
    let ended = "failed EngineCrashed: Claude Code was ended, as it said what nobody expected: ";
    let agent = json!({"type": "user", "parent_tool_use_id": "toolu_1",
                       "message": {"content": []}});
    let block = json!({"type": "tool_use", "id": "a", "name": "Bash", "input": {}});
    let call = json!({"type": "assistant", "message": {"id": "m", "model": "x",
                      "content": [block]}});
    for (script, why) in [
        (">hello\n".to_owned(), "a line that cannot be read: "),
        (">{\"type\": \"news\"}\n".to_owned(), "a line that cannot be read: "),
        (says(&agent), "an agent of its own"),
        (says(&call), "a call in a message that did not stream"),
    ] {
        let told = surprised(&script).await;
        assert!(told[0].starts_with(&format!("{ended}{why}")), "{script}: {told:?}");
    }
}

#[tokio::test]
async fn claude_that_dies_lets_the_turn_go_on_with_its_next_try() {
    let player = Player::new(&(started("2.1.325") + "<\n"));
    let program = player.folder.path().join("claude");
    let dies = PLAYER.replace("exec cat >> \"$0.told\"", "printf half; echo why >&2; exit 7");
    std::fs::write(&program, dies).unwrap();
    let told = player.bench().turn(&["go"], None).await.told.clone();
    let expected = "again EngineCrashed: Claude Code ended in the middle of a turn (exit code 7). \
                    It said: why";
    assert_eq!(told, [expected]);
}

#[tokio::test]
async fn claude_is_ended_by_a_cancel_at_once() {
    let player = Player::new(&(started("2.1.325") + "<\n"));
    let bench = player.bench();
    let mut turn = bench.start(&["go"], None);
    wait::until_true("the message", PATIENCE, || player.told().len() > 1).await.unwrap();
    turn.cancel.cancel();
    assert_eq!(turn.to_end().await, ["cancelled"]);
    assert_eq!(std::fs::read_dir(bench.folder.path().join("children")).unwrap().count(), 0);
}

#[tokio::test]
async fn claude_is_told_the_message_once_it_is_ready() {
    let player = Player::new(&script("success"));
    let bench = player.bench();
    bench.turn(&["first", "< yes", "second"], None).await;
    let told = player.told();
    assert_eq!(told[0]["request"]["hooks"]["PreToolUse"][0]["matcher"], Value::Null);
    let content = told[1]["message"]["content"].as_array().unwrap();
    assert!(content[0]["text"].as_str().unwrap().contains(r#"{"from":"user","text":"first"}"#));
    assert_eq!(content[1], json!({"type": "text", "text": "second"}));
}
