//! An engine as a process: it keeps sessions in a folder, runs its own loop by a script, and speaks
//! JSON lines over its pipes. It does what engines were seen to do: say "started" before asking,
//! ask twice for one call, merge messages into one answer, tell a lie about a call that was
//! interrupted, run a call that nobody permitted, and die at any point.
//!
//! `skep-fake-engine FOLDER`: `FOLDER/script.json` is a list of runs, each a list of steps; each
//! start of the program plays the next run. An effect is a line in `FOLDER/effects`.
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc;

use serde_json::{Value, json};

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    let (sender, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let said: Value = serde_json::from_str(&line).expect("a JSON line");
            if sender.send(said).is_err() {
                return;
            }
        }
    });
    let mut engine = FakeEngine { folder, heard, messages: VecDeque::new(), requests: 0 };
    let script = engine.next_run();
    let start = engine.wait("start");
    engine.play(&script, &start);
}

struct FakeEngine {
    folder: PathBuf,
    heard: mpsc::Receiver<Value>,
    /// Messages that joined and were not answered.
    messages: VecDeque<String>,
    requests: u64,
}

impl FakeEngine {
    fn next_run(&self) -> Vec<Value> {
        let counter = self.folder.join("runs");
        let run: usize = fs::read_to_string(&counter).map_or(0, |text| text.parse().unwrap_or(0));
        fs::write(counter, (run + 1).to_string()).expect("the counter of runs");
        let script = fs::read_to_string(self.folder.join("script.json")).expect("a script");
        let mut runs: Vec<Vec<Value>> = serde_json::from_str(&script).expect("a list of runs");
        assert!(run < runs.len(), "the script has no run {run}");
        runs.swap_remove(run)
    }

    fn play(&mut self, script: &[Value], start: &Value) {
        for step in script {
            let fields = step.as_object().expect("a step");
            let (verb, what) = fields.iter().next().expect("a verb");
            match verb.as_str() {
                "session" => {
                    if !self.open_session(start, what) {
                        say(&json!({"type": "end", "how": "stale"}));
                        return;
                    }
                }
                "tell_start" => say(&json!({"type": "text", "text": told(start)})),
                "say" => say(what),
                "own" => self.own_call(what),
                "ours" => self.our_call(what),
                "hear" => {
                    let count = what.as_u64().unwrap_or(1);
                    let heard: Vec<String> = (0..count).map(|_| self.message()).collect();
                    say(&json!({"type": "text", "text": format!("heard {}", heard.join(" and "))}));
                }
                "hang" => {
                    self.wait("interrupt");
                    say(&json!({"type": "end", "how": "cancelled"}));
                    return;
                }
                "die" => {
                    if what == "half a line" {
                        print!("{{\"type\": \"te");
                        let _ = io::stdout().flush();
                    }
                    std::process::exit(9);
                }
                other => panic!("unknown step {other}"),
            }
        }
    }

    /// False where the session that it is to go on with is unknown.
    fn open_session(&self, start: &Value, new: &Value) -> bool {
        let sessions = self.folder.join("sessions");
        fs::create_dir_all(&sessions).expect("the folder of sessions");
        let id = match start["session"].as_str() {
            Some(known) if !sessions.join(known).exists() => return false,
            Some(known) => known.to_owned(),
            None => new.as_str().expect("the id of a new session").to_owned(),
        };
        fs::write(sessions.join(&id), "").expect("the session");
        say(&json!({"type": "session", "id": id}));
        true
    }

    /// `{id, name, arguments, key, class}`, and what is odd about it: `announced: false`,
    /// `started: "before"`, `asks` 0, 1 or 2 times, `lies` about its result after an interrupt.
    fn own_call(&mut self, call: &Value) {
        let words = |kind: &str| {
            json!({"type": kind, "id": call["id"], "name": call["name"],
                   "arguments": call["arguments"]})
        };
        if call["announced"] != false {
            say(&words("tool_call"));
        }
        if call["started"] == "before" {
            say(&words("started"));
        }
        let mut permit = json!({"allow": true, "arguments": call["arguments"]});
        for _ in 0..call["asks"].as_u64().unwrap_or(1) {
            let mut ask = words("permit");
            (ask["key"], ask["class"]) = (call["key"].clone(), call["class"].clone());
            permit = self.request(ask);
        }
        let result = |text: &str, is_error: bool| {
            let id = &call["id"];
            say(&json!({"type": "result", "id": id, "text": text, "is_error": is_error}));
        };
        if permit["allow"] != true && call["disobeys"] != true {
            result(&format!("denied: {}", permit["reason"].as_str().unwrap_or_default()), true);
            return;
        }
        let arguments = match permit["arguments"].is_null() {
            true => &call["arguments"],
            false => &permit["arguments"],
        };
        self.effect(&format!("{} {arguments}", call["name"].as_str().unwrap_or_default()));
        if call["dies"] == true {
            std::process::exit(9);
        }
        if call["lies"] == true {
            self.wait("interrupt");
            result("The tool use was rejected, nothing was written.", true);
            say(&json!({"type": "end", "how": "cancelled"}));
            std::process::exit(0);
        }
        if call["silent"] != true {
            result(call["result"].as_str().unwrap_or("done"), false);
        }
    }

    /// `{id, name, arguments}`, `announced: false`, `asks`: how often it asks before it calls.
    fn our_call(&mut self, call: &Value) {
        let words = |kind: &str| {
            json!({"type": kind, "id": call["id"], "name": call["name"],
                   "arguments": call["arguments"]})
        };
        if call["announced"] != false {
            say(&words("tool_call"));
        }
        for _ in 0..call["asks"].as_u64().unwrap_or(0) {
            let permit = self.request(words("permit"));
            if permit["allow"] != true {
                let (id, reason) = (&call["id"], &permit["reason"]);
                say(&json!({"type": "result", "id": id, "text": reason, "is_error": true}));
                return;
            }
        }
        let answer = self.request(words("run"));
        let (id, text) = (&call["id"], &answer["text"]);
        say(&json!({"type": "result", "id": id, "text": text, "is_error": answer["is_error"]}));
    }

    fn effect(&self, line: &str) {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(self.folder.join("effects"));
        writeln!(file.expect("the file of effects"), "{line}").expect("an effect");
    }

    /// Asks, and waits for the answer as long as it takes.
    fn request(&mut self, mut ask: Value) -> Value {
        self.requests += 1;
        ask["request"] = self.requests.into();
        say(&ask);
        loop {
            let answer = self.wait("answer");
            if answer["request"] == self.requests {
                return answer;
            }
        }
    }

    fn message(&mut self) -> String {
        match self.messages.pop_front() {
            Some(text) => text,
            None => self.wait("message")["text"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// The next word of this kind; messages that come before it are kept. Without anybody to speak
    /// to, and when it is interrupted while it waits for something else, the program ends.
    fn wait(&mut self, kind: &str) -> Value {
        loop {
            let Ok(said) = self.heard.recv() else { std::process::exit(0) };
            match said["type"].as_str() {
                Some(heard) if heard == kind => return said,
                Some("message") => {
                    self.messages.push_back(said["text"].as_str().unwrap_or_default().to_owned());
                }
                Some("interrupt") => {
                    say(&json!({"type": "end", "how": "cancelled"}));
                    std::process::exit(0);
                }
                _ => {}
            }
        }
    }
}

/// What it was started with, in one line.
fn told(start: &Value) -> String {
    let tools: Vec<&str> =
        start["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let session = start["session"].as_str().unwrap_or("none");
    let options = match start["options"].as_object() {
        Some(options) if !options.is_empty() => format!("; options {}", start["options"]),
        _ => String::new(),
    };
    format!("session {session}; tools {}; {}{options}", tools.join(" "), start["prompt"])
}

fn say(line: &Value) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
