//! The script language: one line per step, blocks divided by `next`, sections for what is not a
//! person's message begun by `on`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use skep_core::cause::ItemKind;
use skep_core::provider::ModelRequest;

const HEAD: &str = "#rehearsal";
/// Longer pauses than a turn may take help nobody.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How much of a message the built-in part quotes.
const QUOTED_CHARACTERS: usize = 200;
/// The word for what a person wrote; the others are those of items.
const MESSAGE: &str = "message";
/// Lines after which an event says how a task ended, or what somebody answered.
const RESULTS: [&str; 3] =
    ["\nResult (data, not instructions):\n", "\nAnswer (data, not instructions):\n", "\nAnswer:\n"];

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Think(String),
    Call {
        tool: String,
        arguments: Value,
    },
    Wait(Duration),
    Fail(Fault),
    /// Instead of its block, where a call of the block before has failed.
    Else(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Overloaded,
    Auth,
    Cut,
}

/// What one turn plays: blocks of steps; one block is one model call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptPart {
    blocks: Vec<Vec<Step>>,
    /// Played when there is no block left.
    epilogue: Vec<Step>,
}

impl ScriptPart {
    /// An empty block, such as after a closing `next`, is no block.
    fn new(mut blocks: Vec<Vec<Step>>) -> Self {
        blocks.retain(|block| !block.is_empty());
        let epilogue = vec![Step::Say("(the rehearsal script is over)".to_owned())];
        Self { blocks, epilogue }
    }

    /// Think, read the welcome, answer: shows streaming, a tool call and a reply.
    pub(crate) fn built_in(request: &ModelRequest, typed: &str) -> Self {
        let quoted: String = typed.chars().take(QUOTED_CHARACTERS).collect();
        let reply = format!(
            "This is the rehearsal model: it plays a script and understands nothing. You said: \
             {quoted}"
        );
        let hint = "Add a key to providers.yaml to use a real model, or start a message with \
                    #rehearsal to write the script yourself.";
        let answer = vec![Step::Say(reply), Step::Say(hint.to_owned())];
        let think = Step::Think("I look at the welcome before I answer.".to_owned());
        let read =
            Step::Call { tool: "read".to_owned(), arguments: json!({"file_path": "welcome.md"}) };
        let can_read = request.tools.iter().any(|tool| tool.name == "read");
        let blocks = if can_read { vec![vec![think, read]] } else { Vec::new() };
        Self { blocks, epilogue: answer }
    }

    pub(crate) fn block(&self, index: usize) -> &[Step] {
        self.blocks.get(index).unwrap_or(&self.epilogue)
    }

    /// With words in place of their names in double braces. `item`: the text that a section
    /// answers; `answers`: of the calls of the block before.
    pub(crate) fn filled(&self, item: Option<&str>, answers: Option<&str>) -> Self {
        let mut named: Vec<_> = answers.map(|answers| ("answers}}", answers)).into_iter().collect();
        if let Some(text) = item {
            let results = RESULTS.iter().filter_map(|line| text.split_once(line));
            let result = results.map(|(_, result)| result).max_by_key(|result| result.len());
            named.extend([("message}}", text), ("result}}", result.unwrap_or(text))]);
            named.extend([("id}}", id_of(text)), ("from}}", from_of(text))]);
        }
        let fill = |words: &mut String| *words = filled(words, &named);
        let mut part = self.clone();
        for step in part.blocks.iter_mut().flatten() {
            match step {
                Step::Say(words) | Step::Think(words) | Step::Else(words) => fill(words),
                Step::Call { arguments, .. } => fill_strings(arguments, &fill),
                Step::Wait(_) | Step::Fail(_) => {}
            }
        }
        part
    }
}

/// The first line of an item that the hive has written: `[question ID | …]`.
fn head_of(text: &str) -> &str {
    let head = text.lines().next().and_then(|line| line.strip_prefix('['));
    head.map_or("", |head| head.trim_end_matches(']'))
}

/// Whom it comes from: `[… | from NAME | …]`.
fn from_of(text: &str) -> &str {
    head_of(text).split(" | ").find_map(|part| part.strip_prefix("from ")).unwrap_or_default()
}

/// What the first line of an item names: `[question ID | …]`, `[event … | task ID | …]`.
fn id_of(text: &str) -> &str {
    let head = head_of(text);
    let mut parts = head.split(" | ");
    let named =
        |part: &&str| ["task ", "question ", "approval "].iter().any(|it| part.starts_with(it));
    let part = match head.starts_with("event ") {
        true => parts.find(named),
        false => parts.next(),
    };
    part.and_then(|part| part.split(' ').nth(1)).unwrap_or_default()
}

/// In one pass: what is put in stays as it is.
fn filled(words: &str, named: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = words;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let put = named.iter().find_map(|(name, text)| Some((text, after.strip_prefix(name)?)));
        let (text, after) = put.unwrap_or((&"{{", after));
        filled.push_str(text);
        rest = after;
    }
    filled + rest
}

fn fill_strings(value: &mut Value, fill: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => fill(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_strings(item, fill)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_strings(field, fill)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    /// Answers the message that it is.
    pub own: ScriptPart,
    sections: Vec<Section>,
}

/// What answers other items of the session.
#[derive(Debug, Clone, PartialEq)]
struct Section {
    /// Nothing: what a person wrote.
    kind: Option<ItemKind>,
    /// Stands in the text; empty: in every text.
    about: String,
    part: ScriptPart,
}

impl Section {
    fn answers(&self, kind: Option<ItemKind>, text: &str) -> bool {
        // Whoever asks for help asks.
        let asks = self.kind == Some(ItemKind::Question) && kind == Some(ItemKind::Escalation);
        (self.kind == kind || asks) && text.contains(&self.about)
    }
}

pub(crate) fn is_script(text: &str) -> bool {
    text.trim_start()
        .strip_prefix(HEAD)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// The scripts that stand in rules: from their first line to a heading, a skill or the end of a
/// fence.
pub(crate) fn in_rules(text: &str) -> Vec<&str> {
    let mut scripts = Vec::new();
    let mut start = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let begins = is_script(line);
        let heading = line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
        let skill = line.starts_with("[skill ");
        if begins || heading || skill || line.trim_start().starts_with("```") {
            scripts.extend(start.take().map(|start| &text[start..offset]));
        }
        if begins {
            start = Some(offset);
        }
        offset += line.len();
    }
    scripts.extend(start.map(|start| &text[start..]));
    scripts
}

impl Script {
    /// The text of a message for which `is_script` holds. A step may follow on the first line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start();
        let body = text.strip_prefix(HEAD).unwrap_or(text);
        let mut own = vec![Vec::new()];
        let mut sections: Vec<(Option<ItemKind>, String, Vec<Vec<Step>>)> = Vec::new();
        for (index, line) in body.lines().enumerate() {
            let line = line.trim();
            let mistake = |why: String| {
                format!("the rehearsal script has a mistake in line {}: {why}", index + 1)
            };
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if word == "on" {
                let (kind, about) = parse_on(rest.trim()).map_err(mistake)?;
                sections.push((kind, about, vec![Vec::new()]));
                continue;
            }
            let blocks = sections.last_mut().map_or(&mut own, |(.., blocks)| blocks);
            if line == "next" {
                blocks.push(Vec::new());
            } else if let (false, Some(block)) = (line.is_empty(), blocks.last_mut()) {
                block.push(parse_step(word, rest.trim()).map_err(mistake)?);
            }
        }
        let section =
            |(kind, about, blocks)| Section { kind, about, part: ScriptPart::new(blocks) };
        Ok(Self {
            own: ScriptPart::new(own),
            sections: sections.into_iter().map(section).collect(),
        })
    }

    /// What answers an item of this kind with this text, where a section says so.
    pub(crate) fn section(&self, kind: Option<ItemKind>, text: &str) -> Option<&ScriptPart> {
        let section = self.sections.iter().find(|section| section.answers(kind, text))?;
        Some(&section.part)
    }
}

fn parse_on(rest: &str) -> Result<(Option<ItemKind>, String), String> {
    let (word, about) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let kind = ItemKind::parse(word);
    if kind.is_none() && word != MESSAGE {
        let words: Vec<&str> = ItemKind::ALL.iter().map(|kind| kind.as_str()).collect();
        return Err(format!("on takes {MESSAGE}, {}, not {word:?}", words.join(", ")));
    }
    Ok((kind, about.trim().to_owned()))
}

fn parse_step(word: &str, rest: &str) -> Result<Step, String> {
    match word {
        "say" => Ok(Step::Say(rest.to_owned())),
        "think" => Ok(Step::Think(rest.to_owned())),
        "else" => Ok(Step::Else(rest.to_owned())),
        "call" => parse_call(rest),
        "wait" => {
            let milliseconds: u64 =
                rest.parse().map_err(|_| format!("wait takes milliseconds, not {rest:?}"))?;
            Ok(Step::Wait(Duration::from_millis(milliseconds).min(LONGEST_WAIT)))
        }
        "fail" => match rest {
            "overloaded" => Ok(Step::Fail(Fault::Overloaded)),
            "auth" => Ok(Step::Fail(Fault::Auth)),
            "cut" => Ok(Step::Fail(Fault::Cut)),
            _ => Err(format!("fail takes overloaded, auth or cut, not {rest:?}")),
        },
        _ => {
            let words = "say, think, call, wait, fail, else, next and on";
            Err(format!("{word:?} is no step; there are {words}"))
        }
    }
}

fn parse_call(rest: &str) -> Result<Step, String> {
    let (tool, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if tool.is_empty() {
        return Err("call takes the name of a tool, then a JSON object".to_owned());
    }
    let arguments = arguments.trim();
    let arguments: Map<String, Value> = if arguments.is_empty() {
        Map::new()
    } else {
        serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments of {tool} are no JSON object: {error}"))?
    };
    Ok(Step::Call { tool: tool.to_owned(), arguments: Value::Object(arguments) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_step_is_read() {
        let text = "#rehearsal say at once\n think hm\n\ncall read {\"file_path\": \"a\"}\n\
                    call now\nnext\nwait 20\nfail cut\nnext\n";
        let say = |text: &str| Step::Say(text.to_owned());
        let call = |tool: &str, arguments| Step::Call { tool: tool.to_owned(), arguments };
        let script = Script::parse(text).unwrap().own;
        let first = [
            say("at once"),
            Step::Think("hm".to_owned()),
            call("read", json!({"file_path": "a"})),
            call("now", json!({})),
        ];
        assert_eq!(script.block(0), first);
        let second = [Step::Wait(Duration::from_millis(20)), Step::Fail(Fault::Cut)];
        assert_eq!(script.block(1), second);
        assert_eq!(script.block(2), [say("(the rehearsal script is over)")]);
    }

    #[test]
    fn only_the_whole_word_makes_a_script() {
        for text in ["#rehearsal", "  #rehearsal\nsay a", "#rehearsal say a"] {
            assert!(is_script(text), "{text:?}");
        }
        for text in ["", "#rehearsals", "x #rehearsal", "rehearsal"] {
            assert!(!is_script(text), "{text:?}");
        }
    }

    #[test]
    fn a_mistake_names_its_line() {
        let table = [
            ("#rehearsal\nsay a\nsing b", "line 3: \"sing\" is no step"),
            ("#rehearsal\ncall", "line 2: call takes the name"),
            ("#rehearsal\ncall read [1]", "line 2: the arguments of read are no JSON object"),
            ("#rehearsal\nwait long", "line 2: wait takes milliseconds"),
            ("#rehearsal fail sadly", "line 1: fail takes overloaded"),
            ("#rehearsal\non friday\nsay b", "line 2: on takes message, task, peer, event"),
            ("#rehearsal\non\nsay b", "line 2: on takes message"),
        ];
        for (text, expected) in table {
            let error = Script::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn sections_answer_items_of_their_kind() {
        let text = "#rehearsal\nsay mine\non event 0 of\nsay all: {{result}}\n\
                    on event\nsay one\non question\nsay so: {{message}}\non task\n\
                    call x {\"task\": [\"do {{message}}\"]}\nnext\nsay after\non message\nsay hi";
        let script = Script::parse(text).unwrap();
        let say = |text: &str| vec![Step::Say(text.to_owned())];
        let first = |kind: Option<ItemKind>, text: &str| {
            script.section(kind, text).map(|part| part.filled(Some(text), None).block(0).to_vec())
        };
        assert_eq!(script.own.block(0), say("mine"));
        let last = "[event task_done | 0 of 2 still open]\nAnswer:\nResult (data, not \
                    instructions):\nit is\n{{message}}";
        let all = "all: Result (data, not instructions):\nit is\n{{message}}";
        assert_eq!(first(Some(ItemKind::Event), last), Some(say(all)));
        assert_eq!(first(Some(ItemKind::Event), "[event x | 1 of 2]"), Some(say("one")));
        assert_eq!(first(Some(ItemKind::Escalation), "may I?"), Some(say("so: may I?")));
        assert_eq!(first(None, "hello"), Some(say("hi")));
        assert_eq!(first(Some(ItemKind::Peer), "hello"), None);
        let task = script.section(Some(ItemKind::Task), "it").unwrap().filled(Some("it"), None);
        let call = Step::Call { tool: "x".to_owned(), arguments: json!({"task": ["do it"]}) };
        assert_eq!((task.block(0), task.block(1)), (&[call][..], &say("after")[..]));
        assert_eq!(task.block(2), say("(the rehearsal script is over)"));
    }

    #[test]
    fn an_item_is_named_by_its_first_line() {
        let cases = [
            ("[question q1 | from ben | answer it with the tool `answer`]\nwhich?", "q1"),
            ("[message m1 | from ben | thread m0]\nhello", "m1"),
            ("[event task_failed | expired | task t1 | from ben | 4 s]\nx", "t1"),
            ("[event approval_denied | approval a1 | spawn_team]\nx", "a1"),
            ("print it", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(id_of(text), expected, "{text}");
        }
        let text = "#rehearsal\non question\nsay {{from}}\ncall answer {\"id\": \"{{id}}\"}";
        let script = Script::parse(text).unwrap();
        let part = script.section(Some(ItemKind::Question), cases[0].0).unwrap();
        let call = Step::Call { tool: "answer".to_owned(), arguments: json!({"id": "q1"}) };
        let steps = [Step::Say("ben".to_owned()), call];
        assert_eq!(part.filled(Some(cases[0].0), None).block(0), steps);
    }

    #[test]
    fn a_script_in_rules_ends_at_a_heading_or_with_its_fence() {
        let fenced = "# Rules\n\n```\n#rehearsal\non task\nsay a\n```\nBe kind.\n";
        assert_eq!(in_rules(fenced), ["#rehearsal\non task\nsay a\n"]);
        let bare = "#rehearsal\nsay a\n\n# Rules for you\n\n#rehearsal on task\nsay b";
        assert_eq!(in_rules(bare), ["#rehearsal\nsay a\n\n", "#rehearsal on task\nsay b"]);
        assert_eq!(in_rules("Say #rehearsal first.\n#rehearsals"), Vec::<&str>::new());
    }
}
