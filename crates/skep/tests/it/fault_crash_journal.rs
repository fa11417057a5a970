//! What a crash left on the disk, read from a copy of the database by the stock `sqlite3`: the
//! product's own code has no part in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Every table a promise depends on, at one moment.
pub struct Journal {
    pub turns: Vec<Value>,
    pub items: Vec<Value>,
    pub calls: Vec<Value>,
    /// Oldest first within a session.
    pub history: Vec<Value>,
    /// Counters that must be 0 when nothing is left to do.
    counters: Vec<Value>,
}

const QUESTIONS: &str = "\
SELECT json_group_array(integrity_check) FROM pragma_integrity_check;
SELECT json_group_array(\"table\") FROM pragma_foreign_key_check;
SELECT json_group_array(json_object('id', id, 'state', state, 'attempts', attempts)) FROM turns;
SELECT json_group_array(json_object('id', id, 'message_id', message_id, 'state', state, \
 'code', error_code)) FROM (SELECT * FROM items ORDER BY ord);
SELECT json_group_array(json_object('turn', turn, 'call', call_id, 'tool', tool, \
 'state', state)) FROM calls;
SELECT json_group_array(json_object('session', session, 'seq', seq, 'turn', turn, \
 'body', json(body))) FROM (SELECT * FROM history ORDER BY session, seq);
SELECT json_group_array(json_object('agent', name, 'pending', pending, 'running', running, \
 'waiting', waiting, 'turns', turns, 'ready', ready_priority)) FROM agents;
SELECT json_group_array(json_object('lane', id, 'pending', pending, 'ready', ready_priority, \
 'due', due_at)) FROM lanes;";

impl Journal {
    /// Reads a home nobody runs; the store passes its integrity check.
    pub fn of(home: &Path) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for file in ["skep.db", "skep.db-wal"] {
            let from = home.join("run").join(file);
            if from.exists() {
                fs::copy(from, copy.path().join(file)).unwrap();
            }
        }
        let database = copy.path().join("skep.db");
        let asked = Command::new("sqlite3").arg(&database).arg(QUESTIONS).output().unwrap();
        let errors = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(asked.status.success(), "the store cannot be read: {errors}");
        let text = String::from_utf8(asked.stdout).unwrap();
        let mut answers = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut next = || -> Vec<Value> { answers.next().unwrap() };
        assert_eq!(next(), ["ok"], "the integrity check");
        assert_eq!(next(), Vec::<Value>::new(), "rows that point nowhere");
        let (turns, items, calls, history) = (next(), next(), next(), next());
        let counters = [next(), next()].concat();
        Journal { turns, items, calls, history, counters }
    }

    pub fn open_turns(&self) -> impl Iterator<Item = &str> {
        self.turns.iter().filter(|turn| turn["state"] != "ended").map(|turn| word(&turn["id"]))
    }

    /// The rows of a turn with this role.
    pub fn rows<'a>(&'a self, turn: &'a str, role: &'a str) -> impl Iterator<Item = &'a Value> {
        let own = self.history.iter().filter(move |row| row["turn"] == turn);
        own.map(|row| &row["body"]).filter(move |body| body["role"] == role)
    }

    /// Calls by `turn/call`, as the effect counter names them.
    pub fn calls_by_name(&self) -> BTreeMap<String, &Value> {
        let name = |call: &Value| format!("{}/{}", word(&call["turn"]), word(&call["call"]));
        self.calls.iter().map(|call| (name(call), call)).collect()
    }

    /// The result row of a call.
    pub fn result<'a>(&'a self, call: &'a Value) -> Option<&'a Value> {
        let mut results = self.rows(word(&call["turn"]), "toolResult");
        results.find(|body| body["toolCallId"] == call["call"])
    }

    /// Whatever is counted as still to do.
    pub fn left(&self) -> Vec<&Value> {
        let busy = |row: &&Value| {
            let fields = row.as_object().unwrap();
            let counted =
                fields.iter().filter(|(key, _)| !["agent", "lane"].contains(&key.as_str()));
            counted.into_iter().any(|(_, value)| !value.is_null() && *value != 0)
        };
        let open = self.turns.iter().filter(|turn| turn["state"] != "ended");
        let ended = ["done", "failed", "cancelled", "dead"];
        let items = self.items.iter().filter(move |item| !ended.contains(&word(&item["state"])));
        self.counters.iter().filter(busy).chain(open).chain(items).collect()
    }
}

/// The ids of the calls an assistant message asks for.
pub fn call_ids(body: &Value) -> impl Iterator<Item = &str> {
    let blocks = body["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "toolCall").map(|block| word(&block["id"]))
}

/// The text of a message.
pub fn text_of(body: &Value) -> String {
    let blocks = body["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

pub fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
