#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::{history, inbox, status};
use crate::{Exit, Failure};

#[test]
fn a_failure_says_what_why_and_what_next() {
    let failure = Failure::new(Exit::Refused, "start the hive", "one\ntwo").next("skep status");
    let text = "could not start the hive\n  one\n  two\n  next: skep status";
    assert_eq!(failure.to_string(), text);
    let codes = [Exit::Failed, Exit::Usage, Exit::Refused].map(Exit::code);
    assert_eq!(codes, [1, 2, 3]);
}

#[test]
fn status_shows_agents_work_and_unknown_calls() {
    let state = json!({
        "seq": 7,
        "hive": {
            "version": "0.1.0", "home": "/h", "uptime_ms": 61_000, "model_note": "rehearsal"
        },
        "agents": [
            {
                "name": "main", "description": "", "status": "active", "engine": "native",
                "model": "rehearsal", "work": { "running": 1, "waiting": 1, "queued": 2 }
            },
            { "name": "cto", "status": "failed", "error": "config.yaml:1:1: unknown key" },
            {
                "name": "ops", "status": "active", "engine": "native", "model": "m",
                "sandbox": "host",
            },
        ],
        "turns": [{
            "turn": "t", "agent": "main", "session_key": "main", "state": "waiting", "since": 0,
            "waiting_for": "a decision"
        }],
        "work": { "running": 1, "waiting": 1, "queued": 2 },
        "spend": {
            "calls": 3, "tokens": 1200, "cost": null, "known_cost": 0.25, "unpriced_calls": 1,
            "limits": { "cost_per_day": 10.0, "unpriced_tokens_per_day": 2_000_000 }
        },
        "unknown_calls": [
            { "turn": "t", "call_id": "c-1", "agent": "main", "tool": "pay", "at": 1000 }
        ],
    });
    let expected = "\
running skep 0.1.0, up 1m 1s
home   /h
model  rehearsal
work   1 running, 1 waiting, 2 queued
today  $0.2500 and 1 call of unknown price for 3 calls, 1200 tokens; daily limit: $10.00, \
2000000 tokens of unknown price

agent main  active  native · rehearsal  1 running, 1 waiting, 2 queued
agent cto  failed  config.yaml:1:1: unknown key
agent ops  active  native · m  on the host, without walls

turn  main/main  waiting  since 1970-01-01 00:00:00Z  waits for a decision

calls whose outcome is unknown (look what they did):
  main  pay  c-1  1970-01-01 00:00:01Z";
    assert_eq!(status::lines(&state).join("\n"), expected);
}

#[test]
fn history_shows_every_block() {
    let message = json!({
        "role": "assistant", "timestamp": 1000, "seq": 4,
        "content": [
            { "type": "thinking", "thinking": "hm" },
            { "type": "redacted_thinking", "data": "x" },
            { "type": "text", "text": "one\ntwo" },
            { "type": "toolCall", "id": "c", "name": "read", "arguments": { "file_path": "a" } },
        ],
    });
    let expected = "\
1970-01-01 00:00:01Z #4 assistant
  (thinks) hm
  (thinks, unseen)
  one
  two
  calls read {\"file_path\":\"a\"}
";
    assert_eq!(history::lines(&message).join("\n"), expected);
    let result = json!({
        "role": "toolResult", "timestamp": 0, "seq": 5, "toolName": "read", "isError": true,
        "content": [{ "type": "text", "text": "no such file" }],
    });
    let expected = "1970-01-01 00:00:00Z #5 result of read failed\n  no such file\n";
    assert_eq!(history::lines(&result).join("\n"), expected);
}

/// An agent that was wrong when the hive started has no version before it.
#[test]
fn status_says_what_is_in_force_instead_of_a_file_with_a_mistake() {
    let problem = |name: &str| json!({"file": format!("/h/teams/{name}/config.yaml"), "text": "x"});
    let state = json!({
        "hive": {"config": {"problems": [
            problem("cto"), problem("main"), {"file": "/h/teams/ops/config.yaml", "text": "y"},
        ]}},
        "agents": [
            {"name": "main", "status": "active"},
            {"name": "cto", "status": "failed"},
            {"name": "ops", "status": "active", "policy_error": "y"},
            {"name": "web", "status": "active", "policy_error": "y"},
        ],
    });
    let lines = status::lines(&state);
    let config: Vec<&String> = lines.iter().filter(|line| line.starts_with("config")).collect();
    let expected = [
        "config all tool calls of ops, web are denied: y",
        "config not in force, cto is disabled: x",
        "config not in force, the version before it goes on: x",
    ];
    assert_eq!(config, expected);
}

#[test]
fn tasks_of_a_chain_stand_below_the_one_in_whose_course_they_were_given() {
    let task = |id: &str, parent: Option<&str>, to: &str| {
        json!({"item_id": id, "parent_task": parent, "kind": "delegate", "from": "x", "agent": to,
               "state": "done", "hops": 0, "preview": "go"})
    };
    let tasks = [
        task("1", None, "a"),
        task("2", None, "b"),
        task("3", Some("1"), "c"),
        task("4", Some("3"), "operator"),
        task("5", Some("2"), "d"),
        task("6", Some("1"), "e"),
    ];
    let lines = inbox::lines(&json!({"chain": tasks}));
    let shown: Vec<&str> = lines
        .iter()
        .skip_while(|line| *line != "tasks:")
        .skip(1)
        .map(|line| line.trim_end_matches("  go"))
        .collect();
    let expected = [
        "  1 delegate x → a: done",
        "    3 delegate x → c: done",
        "      4 delegate x → operator: done",
        "    6 delegate x → e: done",
        "  2 delegate x → b: done",
        "    5 delegate x → d: done",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_task_shows_its_result_where_that_came_after_its_first_answer() {
    let task = json!({"item_id": "1", "kind": "delegate", "from": "main", "agent": "research",
                      "state": "done", "hops": 0, "preview": "look", "result": "all\nfound"});
    let item = json!({"item_id": "1", "response": "asked two", "chain": [task]});
    let lines = inbox::lines(&item);
    let at = lines.iter().position(|line| line == "tasks:").unwrap();
    let expected = [
        "tasks:",
        "  1 delegate main → research: done  look",
        "    = all found",
        "answer:",
        "  asked two",
        "result:",
        "  all",
        "  found",
    ];
    assert_eq!(lines[at..], expected);
}

#[test]
fn status_says_what_waits_for_a_person() {
    let asked = |state, asked| status::waits_for_you(&state, &asked);
    assert_eq!(asked(json!({"approvals": []}), json!(null)), None);
    let told = asked(json!({"approvals": [{}, {}]}), json!({"questions": [{}], "more": true}));
    let expected = "waits for you: 2 approvals (skep approve), more than 1 question (skep ask)";
    assert_eq!(told.unwrap(), expected);
}
