//! The script language: one line per step, blocks divided by `next`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use skep_core::provider::ModelRequest;

const HEAD: &str = "#rehearsal";
/// Longer pauses than a turn may take help nobody.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How much of a message the built-in scene quotes.
const QUOTED_CHARACTERS: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Think(String),
    Call { tool: String, arguments: Value },
    Wait(Duration),
    Fail(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Overloaded,
    Auth,
    Cut,
}

/// Blocks of steps; one block is one model call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    blocks: Vec<Vec<Step>>,
    /// Played when the script has no block left.
    epilogue: Vec<Step>,
}

pub(crate) fn is_script(text: &str) -> bool {
    text.trim_start()
        .strip_prefix(HEAD)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

impl Script {
    /// The text of a message for which `is_script` holds. A step may follow on the first line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start();
        let body = text.strip_prefix(HEAD).unwrap_or(text);
        let mut blocks = vec![Vec::new()];
        for (index, line) in body.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if line == "next" {
                blocks.push(Vec::new());
                continue;
            }
            let step = parse_step(line).map_err(|why| {
                format!("the rehearsal script has a mistake in line {}: {why}", index + 1)
            })?;
            if let Some(block) = blocks.last_mut() {
                block.push(step);
            }
        }
        let epilogue = vec![Step::Say("(the rehearsal script is over)".to_owned())];
        // An empty last block, such as after a closing `next`, is no block.
        blocks.retain(|block| !block.is_empty());
        Ok(Self { blocks, epilogue })
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
}

fn parse_step(line: &str) -> Result<Step, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word {
        "say" => Ok(Step::Say(rest.to_owned())),
        "think" => Ok(Step::Think(rest.to_owned())),
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
        _ => Err(format!("{word:?} is no step; there are say, think, call, wait, fail and next")),
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
        let script = Script::parse(text).unwrap();
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
        ];
        for (text, expected) in table {
            let error = Script::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
