//! Every key of every file, misspelt and with a wrong value: the table is the schema itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use serde_json::Value;
use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_core::settings::AgentState;

use super::known_names::KnownNames;
use super::load::load;
use super::schema;

/// A key of a file: its path, and its part of the schema.
struct Key {
    path: Vec<String>,
    node: Value,
    /// What its text means (`x-holds`): a name of something, an address, plain words.
    holds: Option<String>,
}

/// All keys of a schema; a name chosen by the operator is called `default`.
fn keys(schema: &Value, above: &[String], found: &mut Vec<Key>) {
    let node = solid(schema);
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let path = [above, std::slice::from_ref(name)].concat();
        keys(child, &path, found);
        let holds = child["x-holds"].as_str().map(str::to_owned);
        found.push(Key { path, node: solid(child).clone(), holds });
    }
    if node["additionalProperties"].is_object() {
        let path = [above, &["default".to_owned()]].concat();
        keys(&node["additionalProperties"], &path, found);
    }
}

fn solid(node: &Value) -> &Value {
    node["anyOf"].as_array().map_or(node, |choices| &choices[0])
}

/// A file that holds one path and a value, one key a line.
fn yaml(path: &[String], value: &str) -> String {
    let mut text = String::from("# a comment\n");
    for (depth, key) in path.iter().enumerate() {
        let value = if depth + 1 == path.len() { value } else { "" };
        text.push_str(&format!("{}{key}: {value}\n", "  ".repeat(depth)));
    }
    text
}

/// Writes the text as the file of a schema into a new home and returns what is said about it.
fn told(schema: &str, text: &str) -> (PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    std::fs::create_dir_all(home.agent("main")).unwrap();
    let file = match schema {
        "skep.json" => home.skep_yaml(),
        "providers.json" => home.providers_yaml(),
        "channels.json" => home.channels_yaml(),
        _ => home.agent("main").join("config.yaml"),
    };
    std::fs::write(&file, text).unwrap();
    let known = KnownNames::new(&["native"], &["read"]);
    let message = match load(&home, &known, &|_| None) {
        Err(error) => error.to_string(),
        Ok(loaded) => match loaded.settings.agents.get(&AgentName::new("main")).unwrap() {
            AgentState::Failed { reason } => reason.clone(),
            AgentState::Active(_) => panic!("accepted: {text}"),
        },
    };
    (file, message)
}

#[test]
fn every_misspelt_key_is_found_with_its_line_and_the_right_name() {
    let mut count = 0;
    for (name, schema) in schema::all() {
        let mut found = Vec::new();
        keys(&schema, &[], &mut found);
        for key in found {
            let mut path = key.path.clone();
            let right = path.pop().unwrap();
            path.push(format!("{right}x"));
            let (file, message) = told(name, &yaml(&path, "1"));
            let depth = path.len();
            let place = format!("{}:{}:{}: ", file.display(), depth + 1, depth * 2 - 1);
            assert!(message.starts_with(&place), "{place} not in {message}");
            let dotted = format!("`{}`: unknown key; expected ", path.join("."));
            assert!(message.contains(&dotted), "{dotted} not in {message}");
            let nearest = format!("did you mean `{right}`?");
            assert!(message.ends_with(&nearest), "{nearest} not in {message}");
            count += 1;
        }
    }
    assert!(count >= 40, "the schemas have only {count} keys");
}

#[test]
fn every_wrong_value_is_found_with_its_line_and_what_was_expected() {
    for (name, schema) in schema::all() {
        let mut found = Vec::new();
        keys(&schema, &[], &mut found);
        for key in found {
            let kind = match &key.node["type"] {
                Value::Array(kinds) => kinds[0].as_str().unwrap().to_owned(),
                kind => kind.as_str().unwrap().to_owned(),
            };
            let expected = match kind.as_str() {
                _ if key.node["enum"].is_array() => "one of ",
                "string" if key.node["pattern"].is_string() => "a length of time",
                "string" => "a string",
                "integer" => "a whole number from ",
                "number" => "a number from 0 to 1",
                "boolean" => "true or false",
                "array" if key.node["items"]["properties"].is_object() => {
                    "a list, each entry a mapping"
                }
                "array" => "a list, each entry a string",
                "object" => "a mapping",
                other => panic!("no wrong value for {other}"),
            };
            let wrong: &[&str] = match kind.as_str() {
                "string" => &["5", "true", "[a]", "{a: b}"],
                "integer" => &["many", "-1", "1.5", "99999999999", "[1]", "{a: b}"],
                "number" => &["warm", "-0.1", "1000001", ".nan", "[1]"],
                "boolean" => &["maybe", "yes", "1", "[true]"],
                "array" if key.node["items"]["properties"].is_object() => &["read", "[5]", "[[a]]"],
                "array" => &["read", "{a: b}", "[5]", "[[a]]"],
                _ => &["5", "word", "[a]"],
            };
            for value in wrong {
                check_wrong(name, &key.path, value, expected);
            }
        }
    }
}

fn check_wrong(schema: &str, path: &[String], value: &str, expected: &str) {
    let text = yaml(path, value);
    let (file, message) = told(schema, &text);
    let place = format!("{}:{}:", file.display(), path.len() + 1);
    assert!(message.starts_with(&place), "{place} not in {message}\n{text}");
    assert!(message.contains(&format!("`{}", path.join("."))), "{message}\n{text}");
    // An entry of a list is told as that entry.
    let entry = expected.rsplit("each entry ").next().unwrap();
    let either = message.contains(&format!("expected {expected}"))
        || message.contains(&format!("expected {entry}"));
    assert!(either, "expected {expected} not in {message}\n{text}");
}

/// Whether what stands there is text that may mean something: words of a fixed list and lengths
/// of time are checked above.
fn is_text(node: &Value) -> bool {
    let is_string = |node: &Value| match &node["type"] {
        Value::Array(kinds) => kinds[0] == "string",
        kind => kind == "string",
    };
    let free =
        |node: &Value| is_string(node) && !node["enum"].is_array() && !node["pattern"].is_string();
    [node, &node["items"], &node["additionalProperties"]].into_iter().any(|node| free(solid(node)))
}

/// A file that is right but for this value, and the line it stands in.
fn with(path: &[String], value: &str) -> (String, usize) {
    let mut text = yaml(path, value);
    let line = path.len() + 1;
    if path[0] == "profiles" {
        for usual in ["provider: anthropic", "model: m", "api_key: k"] {
            if !usual.starts_with(path[2].as_str()) {
                text.push_str(&format!("    {usual}\n"));
            }
        }
    }
    (text, line)
}

/// What is wrong, what was expected, and the nearest name, for each sort of text a key may hold.
fn bad_texts(holds: &str) -> Vec<(&'static str, &'static [&'static str])> {
    let cases: &[(&str, &[&str])] = match holds {
        // Any words are right.
        "text" => &[],
        "engine" => &[(
            "nativex",
            &["there is no engine `nativex`", "expected `native`", "did you mean `native`?"],
        )],
        "agent" => {
            &[("mian", &["there is no agent `mian`", "expected `main`", "did you mean `main`?"])]
        }
        "recipient" => &[("'no one'", &["cannot be written to", "siblings, operator or `*`"])],
        "profile" => &[(
            "defalt",
            &["there is no profile `defalt`", "expected `default`", "did you mean `default`?"],
        )],
        "tool" => &[
            ("reed", &["there is no tool `reed`", "expected `read`", "did you mean `read`?"]),
            ("'@fils'", &["there is no preset `@fils`", "did you mean `@files`?"]),
        ],
        "address" => &[("localhost", &["is not an address", "such as 127.0.0.1"])],
        "web address" => &[("ftp://h", &["is not a web address", "http:// or https://"])],
        "origin" => &[("https://h/x", &["is not an origin", "scheme, host and port alone"])],
        "folder name" => &[("other", &["is not the name of the folder", "expected `main`"])],
        "folder" => &[("nowhere", &["No such file"])],
        "key" => &[("\"a\\nb\"", &["cannot be sent as a key", "visible ASCII characters"])],
        "header" => &[("\"a\\nb\"", &["cannot be sent as a header", "visible ASCII characters"])],
        "path pattern" => &[
            ("a/../b", &["has no `..`"]),
            ("''", &["a path in one line"]),
            ("null", &["expected a string"]),
        ],
        "command pattern" => &[
            ("'*'", &["begins with the name of a program"]),
            ("a; b", &["is the beginning of one command"]),
            ("\"'a\"", &["a quote is not closed"]),
            ("null", &["expected a string"]),
        ],
        "host pattern" => &[
            ("'https://h'", &["is a host without port, *.host or *"]),
            ("null", &["expected a string"]),
        ],
        "host entry" => &[
            ("h/page", &["a host has no path", "example.org, *.example.org"]),
            ("'https://h'", &["the address of a page", "example.org, *.example.org"]),
            ("'h:0'", &["`0` is no port"]),
            ("'a b'", &["a host has no blank"]),
            ("'x.*.org'", &["neither a DNS name nor an address"]),
        ],
        "private address" => &[
            ("db.internal", &["is a name", "10.0.5.7:8080"]),
            ("8.8.8.8", &["is public: list it in `hosts`"]),
            ("169.254.169.254", &["the metadata service of a cloud", "whatever is listed"]),
        ],
        "grant" => &[("role:boss", &["names nobody", "one of operator, user, viewer"])],
        "approver" => &[
            ("role:boss", &["cannot decide", "one of operator, user, viewer"]),
            ("role:agent", &["cannot decide", "one of operator, user, viewer"]),
            ("any", &["cannot decide"]),
            // The rule it stands in does not ask.
            ("user:anna", &["a rule that says allow is answered by nobody"]),
        ],
        other => panic!("no bad value for a key that holds `{other}`: add one here"),
    };
    cases.to_vec()
}

#[test]
fn lists_of_hosts_that_are_written_in_other_ways_are_explained() {
    for (text, said) in [
        ("network: full\n", "belong to sandbox.network)"),
        ("network: {hosts: docs.rs}\n", "a list, each entry a string: [docs.rs]"),
        ("network: {hosts: [*.x.org]}\n", "is put in quotes"),
        ("network: {private: [10.0.0.0/8]}\n", "ranges of addresses are not offered"),
        ("network: {hosts: ['10.0.5.8:81']}\n", "list it in `private`"),
    ] {
        let (_, message) = told("agent.json", text);
        assert!(message.contains(said), "{said} not in {message}");
    }
}

#[test]
fn every_text_that_means_nothing_is_found_with_its_line_and_the_nearest_that_does() {
    let mut count = 0;
    for (name, schema) in schema::all() {
        let mut found = Vec::new();
        keys(&schema, &[], &mut found);
        for key in found.iter().filter(|key| is_text(&key.node)) {
            let dotted = key.path.join(".");
            let holds = key.holds.as_deref();
            let holds = holds.unwrap_or_else(|| panic!("{name}: {dotted} has no x-holds"));
            let shape = |value: &str| match () {
                () if key.node["items"].is_object() => format!("[{value}]"),
                () if key.node["additionalProperties"].is_object() => format!("{{x-a: {value}}}"),
                () => value.to_owned(),
            };
            let unset = ("'${NOT_SET}'", &["environment variable NOT_SET is not set"][..]);
            for (value, said) in bad_texts(holds).into_iter().chain([unset]) {
                let (text, line) = with(&key.path, &shape(value));
                let (file, message) = told(name, &text);
                let place = format!("{}:{line}:", file.display());
                assert!(message.starts_with(&place), "{place} not in {message}\n{text}");
                assert!(message.contains(&format!("`{dotted}")), "{message}\n{text}");
                for word in said {
                    assert!(message.contains(word), "{word} not in {message}\n{text}");
                }
                count += 1;
            }
        }
    }
    assert!(count >= 30, "only {count} texts were tried");
}

/// A rule of an agent's policy with one key changed, and the place of that key.
fn rule_with(name: &str, value: &str) -> (String, String) {
    let mut text = String::from("policy:\n");
    let mut written = vec![("effect", "allow"), ("tool", "read")];
    written.retain(|(key, _)| name.trim_end_matches('x') != *key);
    written.push((name, value));
    for (place, (key, value)) in written.iter().enumerate() {
        let lead = if place == 0 { "  - " } else { "    " };
        text.push_str(&format!("{lead}{key}: {value}\n"));
    }
    (text, format!(":{}:", written.len() + 1))
}

#[test]
fn every_key_of_a_rule_misspelt_wrong_or_meaningless_is_found() {
    let schema = &schema::all()[3].1;
    let rule = &schema["properties"]["policy"]["items"]["properties"];
    let keys = rule.as_object().unwrap();
    assert_eq!(keys.len(), 7, "{keys:?}");
    let check = |name: &str, value: &str, said: &[&str]| {
        let (text, line) = rule_with(name, value);
        let (file, message) = told("agent.json", &text);
        let place = format!("{}{line}", file.display());
        assert!(message.starts_with(&place), "{place} not in {message}\n{text}");
        assert!(message.contains(&format!("`policy.0.{name}")), "{message}\n{text}");
        for word in said {
            assert!(message.contains(word), "{word} not in {message}\n{text}");
        }
    };
    for (key, node) in keys {
        let nearest = format!("did you mean `{key}`?");
        check(&format!("{key}x"), "a", &["unknown key", &nearest]);
        let list = solid(node)["items"].is_object();
        let (wrong, expected) = match (key.as_str(), list) {
            ("effect", _) => ("never", "one of allow, ask, deny"),
            (_, true) => ("5", "a list, each entry a string"),
            (_, false) => ("5", "a string"),
        };
        check(key, wrong, &[expected]);
        let Some(holds) = node["x-holds"].as_str() else { continue };
        for (value, said) in bad_texts(holds) {
            let value = if list { format!("[{value}]") } else { value.to_owned() };
            check(key, &value, said);
        }
    }
    for (key, value) in [("grants", "[]"), ("grants", "null"), ("approvers", "[]")] {
        check(key, value, &["a list, each entry a string"]);
    }
    let hosts = ["a rule about `web_fetch`", "in `network.hosts`"];
    check("host", "docs.rs", &hosts);
    let (file, message) = told("agent.json", "policy:\n  - effect: deny\n");
    let missing = format!("{}:2:5: `policy.0.tool`: the key `tool` is missing", file.display());
    assert!(message.starts_with(&missing), "{message}");
}
