//! The loop brake: a model that makes the same calls again and again, and learns nothing new by
//! them, is warned, then refused, then stopped.
//!
//! What counts is a call with the answer it had. As soon as one comes that this turn has not seen,
//! all counts start again: a model that edits and tests, or watches something change, goes on.
//! A call that looks at something under way waits for it: its answers are news, and it is not
//! counted itself.
//! Calls of one step count once, and it does not matter in which order they come: A, B, A, B is as
//! much a loop as A, A.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::traits::tool::Manner;

/// From this repetition on the model is warned.
pub const TOLD: u32 = 3;
/// This time the call is not run; when it is made once more, the turn ends.
pub const REFUSED: u32 = 5;
/// Begins what the brake adds to an answer; the answer itself is what stands before it.
const MARK: &str = "\n[loop brake: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Print([u8; 32]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrakeDecision {
    Run,
    /// It would be the fifth time.
    Refuse,
    /// It was refused before, and nothing new happened since.
    End,
}

#[derive(Clone, Debug, Default)]
pub struct Brake {
    /// Every call of the turn with its answer.
    seen: HashSet<(Print, Print)>,
    /// Since something new happened: the last answer of a call, and how often it came.
    again: HashMap<Print, (Print, u32)>,
    refused: HashSet<Print>,
    /// Of the step that runs now, with how much each counts.
    step: HashMap<(Print, Print), u32>,
}

impl Brake {
    /// The calls before are done with.
    pub fn begin_step(&mut self) {
        let step = std::mem::take(&mut self.step);
        if step.keys().any(|pair| !self.seen.contains(pair)) {
            // What was seen once was seen once.
            self.again.values_mut().for_each(|(_, times)| *times = (*times).min(1));
            self.refused.clear();
        }
        for ((call, answer), weight) in step {
            self.seen.insert((call, answer));
            let (last, times) = self.again.entry(call).or_insert((answer, 0));
            *times = if *last == answer { *times + weight } else { weight };
            *last = answer;
        }
    }

    /// Before a call runs.
    pub fn decide(&self, tool: &str, arguments: &Value) -> BrakeDecision {
        let call = print_of_call(tool, arguments);
        if self.refused.contains(&call) {
            return BrakeDecision::End;
        }
        match self.again.get(&call) {
            Some((_, times)) if *times + 1 >= REFUSED => BrakeDecision::Refuse,
            _ => BrakeDecision::Run,
        }
    }

    /// It was not run.
    pub fn refuse(&mut self, tool: &str, arguments: &Value) -> String {
        self.refused.insert(print_of_call(tool, arguments));
        refusal(tool)
    }

    /// After a call ran: the warning to append to its result, if any.
    pub fn answered(
        &mut self,
        tool: &str,
        arguments: &Value,
        answer: &str,
        manner: Manner,
    ) -> Option<String> {
        let call = print_of_call(tool, arguments);
        // Word for word: an answer that only begins like one is an answer.
        if answer == refusal(tool) {
            self.refused.insert(call);
            return None;
        }
        let answer = print(answer.split(MARK).next().unwrap_or_default().as_bytes());
        let weight = u32::from(!manner.polls);
        self.step.insert((call, answer), weight);
        let times = match self.again.get(&call) {
            Some((last, times)) if *last == answer => times + weight,
            _ => weight,
        };
        (times >= TOLD).then(|| {
            format!(
                "{MARK}the same call had the same answer {times} times now; at {REFUSED} times it \
                 is not run any more]"
            )
        })
    }
}

/// The answer to a call that was not run.
fn refusal(tool: &str) -> String {
    format!(
        "loop: the call of `{tool}` was not run: it had the same answer {} times with these very \
         arguments, and nothing else happened. Do something else, or say what stands in the way; \
         the same call once more ends the turn.",
        REFUSED - 1
    )
}

fn print_of_call(tool: &str, arguments: &Value) -> Print {
    let mut text = tool.as_bytes().to_vec();
    text.push(0);
    text.extend(canonical(arguments).to_string().into_bytes());
    print(&text)
}

/// The order of keys is no difference.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            let sorted = keys
                .into_iter()
                .filter_map(|key| fields.get(key).map(|value| (key.clone(), canonical(value))));
            Value::Object(sorted.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

fn print(bytes: &[u8]) -> Print {
    Print(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Steps of `call answer` pairs; what happened in each: `.` ran, `t` told, `r` refused, `e`
    /// ended.
    fn play(steps: &[&str]) -> String {
        let mut brake = Brake::default();
        let mut happened = String::new();
        for step in steps {
            brake.begin_step();
            for pair in step.split(',') {
                let (call, answer) = pair.trim().split_once(' ').unwrap();
                let arguments = json!({"x": call});
                let kind = if call == "job" { Manner::POLL } else { Manner::READ };
                happened.push(match brake.decide("look", &arguments) {
                    BrakeDecision::End => return happened + "e",
                    BrakeDecision::Refuse => {
                        assert!(brake.refuse("look", &arguments).starts_with("loop: "));
                        'r'
                    }
                    BrakeDecision::Run => match brake.answered("look", &arguments, answer, kind) {
                        Some(_) => 't',
                        None => '.',
                    },
                });
            }
        }
        happened
    }

    #[test]
    fn loops_are_told_refused_and_ended_and_nothing_else_is() {
        let a = "a 1";
        let (ab, progress) = (["a 1", "b 1"], ["a 1", "b 1", "b 2", "a 1", "b 3"]);
        let cases: [(Vec<&str>, &str); 9] = [
            (vec![a; 9], "..ttre"),
            // Two or three in turn are a loop as well.
            (ab.repeat(9), "....ttttrre"),
            (["a 1", "b 1", "c 1"].repeat(9), "......ttttttrrre"),
            (["a 1, b 1"].repeat(9), "....ttttrre"),
            // An answer that changes is something new, also for the calls around it.
            (vec!["a 1", "a 2", "a 3", "a 4", "a 5", "a 6", "a 7"], "......."),
            (progress.to_vec(), "....."),
            (vec!["a 1", "a 1", "a 1", "a 1", "n 1", "a 1", "a 1", "a 1"], "..tt..tt"),
            // Many of the same in one step count once.
            (vec!["a 1, a 1, a 1, a 1, a 1, a 1", "a 1"], "......."),
            // After a refusal something else may happen, and then it counts anew.
            (vec![a, a, a, a, a, "n 1", a, a], "..ttr..t"),
        ];
        for (steps, expected) in cases {
            assert_eq!(play(&steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn a_poll_is_no_loop_and_its_news_are_news() {
        assert_eq!(play(&["job runs"; 60]), ".".repeat(60));
        let beside = ["job runs, a 1"; 9];
        assert_eq!(play(&beside), "....".to_owned() + ".t.t.r.e");
        // Something new comes each time: the call beside it is never refused.
        let news: Vec<String> = (0..20).map(|number| format!("job {number}, a 1")).collect();
        let news: Vec<&str> = news.iter().map(String::as_str).collect();
        assert_eq!(play(&news), "....".to_owned() + &".t".repeat(18));
    }

    /// What a tool says may look like a refusal of ours, and is none.
    #[test]
    fn an_answer_that_begins_like_a_refusal_is_an_answer() {
        let mut brake = Brake::default();
        let call = json!({"command": "cat notes"});
        assert_eq!(
            brake.answered("bash", &call, "loop: the call of `bash` was not run", Manner::READ),
            None
        );
        brake.begin_step();
        assert_eq!(brake.decide("bash", &call), BrakeDecision::Run);
        let refused = brake.refuse("bash", &call);
        let mut resumed = Brake::default();
        resumed.answered("bash", &call, &refused, Manner::READ);
        assert_eq!(resumed.decide("bash", &call), BrakeDecision::End);
    }

    #[test]
    fn the_order_of_keys_and_what_was_added_are_no_difference() {
        let mut brake = Brake::default();
        let (one, other) =
            (json!({"a": {"x": 1, "y": 2}, "b": 3}), json!({"b": 3, "a": {"y": 2, "x": 1}}));
        let mut answer = "same".to_owned();
        for (number, arguments) in [&one, &other, &one, &other].into_iter().enumerate() {
            brake.begin_step();
            let told = brake.answered("look", arguments, &answer, Manner::READ);
            assert_eq!(told.is_some(), number >= 2, "{number}");
            // As it stands in history when a turn goes on.
            answer = format!("same{}", told.unwrap_or_default());
        }
        brake.begin_step();
        assert_eq!(brake.decide("look", &one), BrakeDecision::Refuse);
        assert_eq!(brake.decide("other", &one), BrakeDecision::Run);
    }
}
