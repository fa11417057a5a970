//! An approval as lines of text: what the agent wants, the call whole, then the facts.

use serde_json::Value;
use skep_core::visible::{bounded_text, shown_arguments, visible};

use crate::print::{Colour, Style, TextLine, TextSpan, items, shortened, stamp};

/// Columns of the rule where it takes one line; it may repeat the call.
pub const RULE: usize = 68;
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
        // Said with its verb.
        Some("shape") => return format!("{agent} wants to {about}"),
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

/// What a decision depends on besides the call, the rule in so many columns. What is dangerous is
/// red, the rest plain.
pub fn facts(question: &Value, rule: usize) -> Vec<TextLine> {
    let plain = |text: String| vec![TextSpan::plain(text)];
    let mut lines: Vec<TextLine> = host(question).map(plain).into_iter().collect();
    lines.push(walls(question));
    lines.extend(others(question, rule).into_iter().map(plain));
    lines
}

fn others(question: &Value, rule: usize) -> Vec<String> {
    let mut lines = vec![
        format!("rule     {}", shortened(&field(&question["why"]["why"]), rule)),
        format!("folder   {}", field(&question["cwd"])),
        format!("until    {}", stamp(&question["expires_at"])),
    ];
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

/// The rule whole, where one line cuts it.
pub fn because(question: &Value) -> Option<String> {
    let why = field(&question["why"]["why"]);
    (shortened(&why, RULE) != why).then(|| format!("because  {why}"))
}

/// The rest of what is known.
pub fn details(question: &Value) -> Vec<String> {
    let asked_by: Vec<String> = items(&question["asked_by"]).iter().map(field).collect();
    let mut lines = vec![
        format!("id       {}", field(&question["id"])),
        format!("session  {}", field(&question["session_key"])),
        format!("asked    {} by {}", stamp(&question["asked_at"]), asked_by.join(", ")),
        format!("decides  {}", approvers(&question["approvers"])),
    ];
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
fn walls(question: &Value) -> TextLine {
    let bad = |text: &str| TextSpan::new(text, Style::of(Colour::Red));
    let level = match question["sandbox"].as_str() {
        Some("confined") => TextSpan::plain("confined"),
        Some("host") => bad("host: the rights of the hive itself"),
        _ => TextSpan::plain("the agent is not there any more"),
    };
    let network = match question["network"].as_str() {
        Some("none") => TextSpan::plain(", no network"),
        Some("listed") => {
            match &items(&question["hosts"]).iter().map(field).collect::<Vec<_>>()[..] {
                [] => TextSpan::plain(", no network (no host is listed)"),
                hosts => TextSpan::plain(format!(", network: {}", hosts.join(", "))),
            }
        }
        Some("host") => TextSpan::plain(", network: one host"),
        Some("open") => bad(", network: whatever this machine reaches"),
        _ => TextSpan::plain(""),
    };
    vec![TextSpan::plain("sandbox  "), level, network]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Its text, and what of it is red.
    fn walls_of(level: &str, network: &str) -> (String, String) {
        let question = json!({"sandbox": level, "network": network, "hosts": ["a.test"]});
        let line = walls(&question);
        let text = |of: &dyn Fn(&TextSpan) -> bool| {
            line.iter().filter(|span| of(span)).map(|span| span.text.as_str()).collect()
        };
        (text(&|_| true), text(&|span| span.style.colour == Some(Colour::Red)))
    }

    #[test]
    fn what_has_no_walls_is_red_and_no_text_carries_colour_codes() {
        let open = ", network: whatever this machine reaches";
        let host = "host: the rights of the hive itself";
        let cases = [
            ("confined", "none", "confined, no network".to_owned(), String::new()),
            ("confined", "listed", "confined, network: a.test".to_owned(), String::new()),
            ("confined", "open", format!("confined{open}"), open.to_owned()),
            ("host", "open", format!("{host}{open}"), format!("{host}{open}")),
        ];
        for (level, network, text, red) in cases {
            assert_eq!(walls_of(level, network), (format!("sandbox  {text}"), red));
        }
    }

    #[test]
    fn the_rule_is_whole_or_takes_one_line_which_the_details_complete() {
        let why = format!("rule `bash` asks: {}", "cargo build ".repeat(20).trim_end());
        let question = json!({"why": {"why": why}});
        let rule = |columns| -> String {
            let lines = facts(&question, columns).into_iter();
            let mut lines = lines.map(|line| line.into_iter().map(|span| span.text).collect());
            lines.find(|line: &String| line.starts_with("rule")).unwrap_or_default()
        };
        assert_eq!(rule(usize::MAX), format!("rule     {why}"));
        assert!(rule(RULE).ends_with('…'), "{}", rule(RULE));
        assert_eq!(because(&question), Some(format!("because  {why}")));
        assert!(!details(&question).iter().any(|line| line.contains(&why)));
    }
}
