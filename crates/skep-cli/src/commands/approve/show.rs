//! An approval as lines of text: what the agent wants, the call whole, then the facts.

use serde_json::Value;
use skep_core::visible::{bounded_text, shown_arguments, visible};

use crate::print::output::{Tone, toned};
use crate::print::{items, shortened, stamp};

/// Columns of the rule, which may repeat the call; the details have it whole.
const RULE: usize = 68;
/// Characters of the agent's words; the dashboard shows more.
const WORDS: usize = 300;

/// `main wants to run psql …`
pub fn title(question: &Value) -> String {
    let agent = field(&question["agent"]);
    let about = match question["summary"].as_str().unwrap_or_default() {
        "" => field(&question["tool"]),
        summary => one_line(summary),
    };
    let verb = match question["class"].as_str() {
        Some("run") => "run",
        Some("read") => "read",
        Some("write") => "change",
        Some("reach") => "reach",
        Some("shape") => "change the hive:",
        _ => "use",
    };
    format!("{agent} wants to {verb} {about}")
}

/// The call, complete and with hidden characters named: its command first, then every other
/// argument.
pub fn call(question: &Value) -> Vec<String> {
    let mut rest = question["arguments"].clone();
    let command = rest.as_object_mut().and_then(|rest| rest.remove("command"));
    let (command, rest) = match command {
        Some(Value::String(command)) => (visible(&command), rest),
        _ => (String::new(), question["arguments"].clone()),
    };
    let others = shown_arguments(&rest);
    let lines = command.trim_end().lines().chain(others.lines());
    lines.map(|line| line.replace('\t', "    ")).collect()
}

/// What a decision depends on besides the call.
pub fn facts(question: &Value) -> Vec<String> {
    let mut lines: Vec<String> = host(question).into_iter().collect();
    lines.extend([
        walls(question),
        format!("rule     {}", shortened(&field(&question["why"]["why"]), RULE)),
        format!("folder   {}", field(&question["cwd"])),
        format!("until    {}", stamp(&question["expires_at"])),
    ]);
    let pinned = items(&question["files"]).iter().filter(|file| file["kind"] == "file");
    let pinned: Vec<String> = pinned.map(|file| field(&file["path"])).collect();
    if !pinned.is_empty() {
        lines.push(format!("files    {}", pinned.join(", ")));
    }
    if question["bound"] == "nothing" {
        lines.push("files are not bound: the workspace has too many; approve once only".to_owned());
    }
    if let Some(words) = question["words"].as_str() {
        let short = bounded_text(words, WORDS).replace('\n', " ");
        lines.push(format!("{}: \"{short}\"", field(&question["agent"])));
    }
    if let Some(why) = question["refused"].as_str() {
        lines.push(format!("you may not decide this: {}", one_line(why)));
    }
    lines
}

/// The rest of what is known.
pub fn details(question: &Value) -> Vec<String> {
    let asked_by: Vec<String> = items(&question["asked_by"]).iter().map(field).collect();
    let why = field(&question["why"]["why"]);
    let because = (shortened(&why, RULE) != why).then(|| format!("because  {why}"));
    let mut lines: Vec<String> = because.into_iter().collect();
    lines.extend([
        format!("id       {}", field(&question["id"])),
        format!("session  {}", field(&question["session_key"])),
        format!("asked    {} by {}", stamp(&question["asked_at"]), asked_by.join(", ")),
        format!("decides  {}", approvers(&question["approvers"])),
    ]);
    for file in items(&question["files"]) {
        let target = file["target"].as_str().map(|to| format!(" -> {}", one_line(to)));
        let hash: String = file["sha256"].as_str().unwrap_or("").chars().take(12).collect();
        let (kind, path) = (field(&file["kind"]), field(&file["path"]));
        lines.push(format!("{kind:<9}{path}{} {hash}", target.unwrap_or_default()));
    }
    lines
}

/// What it connects to, in the one spelling that is dialled.
fn host(question: &Value) -> Option<String> {
    let host = &question["why"]["host"];
    let (name, port) = (host["host"].as_str()?, &host["port"]);
    let standing = match host["standing"].as_str() {
        Some("listed") => "listed",
        Some("denied") => "denied",
        _ => "not listed",
    };
    Some(format!("host     {}, port {port}, {standing}", one_line(name)))
}

/// Where it runs, and what it can connect to.
fn walls(question: &Value) -> String {
    let level = match question["sandbox"].as_str() {
        Some("confined") => "confined",
        Some("host") => "host: the rights of the hive itself",
        _ => "the agent is not there any more",
    };
    let network = match question["network"].as_str() {
        Some("none") => ", no network".to_owned(),
        Some("listed") => {
            match &items(&question["hosts"]).iter().map(field).collect::<Vec<_>>()[..] {
                [] => ", no network (no host is listed)".to_owned(),
                hosts => format!(", network: {}", hosts.join(", ")),
            }
        }
        Some("host") => ", network: one host".to_owned(),
        Some("open") => toned(", network: whatever this machine reaches", Tone::Bad),
        _ => String::new(),
    };
    format!("sandbox  {level}{network}")
}

/// One of each list.
fn approvers(lists: &Value) -> String {
    let names = |list: &Value| {
        let names: Vec<String> = items(list).iter().map(field).collect();
        names.join(" or ")
    };
    items(lists).iter().map(names).collect::<Vec<_>>().join(", and ")
}

fn field(value: &Value) -> String {
    one_line(value.as_str().unwrap_or("?"))
}

/// Shows hidden characters and line breaks, so that no detail can imitate another line.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "‹U+000A›")
}
