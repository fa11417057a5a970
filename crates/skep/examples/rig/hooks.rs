//! Hooks for tests: each does what its file says at that moment, so that a journey can have it
//! change its mind between two looks at the same call, and notes what it was shown.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::hook::{After, Before, Hook, HookedCall};

/// The folder of those files, named by the test; without it there are no hooks.
const HOOKS: &str = "RIG_HOOKS";

pub fn all() -> Vec<Hook> {
    match std::env::var_os(HOOKS) {
        Some(_) => ["first", "second"].map(named).into(),
        None => Vec::new(),
    }
}

/// The hook of this name; its files are in the test's folder.
pub fn named(name: &str) -> Hook {
    let place = Path::new(&std::env::var(HOOKS).unwrap()).join(name);
    let after_place = place.clone();
    Hook {
        before: Some(Arc::new(move |call| {
            let place = place.clone();
            Box::pin(async move { before(&place, call).await })
        })),
        after: Some(Arc::new(move |(call, answer)| {
            let place = after_place.clone();
            Box::pin(async move { after(&place, call, &answer).await })
        })),
        ..Hook::new(name)
    }
}

async fn before(place: &Path, mut call: HookedCall) -> Result<Before, String> {
    note(place, json!({"before": call.arguments, "agent": call.agent, "tool": call.tool}));
    match wish(place, "before").await? {
        (word, value) if word == "rewrite" => Ok(Before::Rewrite(value)),
        (word, value) if word == "append" => {
            let command = call.arguments["command"].as_str().unwrap();
            call.arguments["command"] = format!("{command}{}", value.as_str().unwrap()).into();
            Ok(Before::Rewrite(call.arguments))
        }
        (word, why) if word == "veto" => Ok(Before::Veto(why.as_str().unwrap().to_owned())),
        _ => Ok(Before::Go),
    }
}

async fn after(place: &Path, call: HookedCall, answer: &str) -> Result<After, String> {
    note(place, json!({"after": call.arguments, "answer": answer, "tool": call.tool}));
    match wish(place, "after").await? {
        (word, text) if word == "replace" => Ok(After::Replace(text.as_str().unwrap().to_owned())),
        (word, why) if word == "withhold" => Ok(After::Withhold(why.as_str().unwrap().to_owned())),
        _ => Ok(After::Keep),
    }
}

/// `{"rewrite": …}` and the like: one word and its value. What goes wrong goes wrong here.
async fn wish(place: &Path, point: &str) -> Result<(String, Value), String> {
    let Ok(text) = fs::read_to_string(beside(place, point)) else {
        return Ok((String::new(), Value::Null));
    };
    let wish: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let (word, value) = wish.into_iter().next().unwrap();
    match word.as_str() {
        "fail" => Err(value.as_str().unwrap().to_owned()),
        "panic" => panic!("{value}"),
        "hang" => std::future::pending().await,
        _ => Ok((word, value)),
    }
}

fn note(place: &Path, line: Value) {
    let file = OpenOptions::new().create(true).append(true).open(beside(place, "seen"));
    writeln!(file.unwrap(), "{line}").unwrap();
}

fn beside(place: &Path, ending: &str) -> PathBuf {
    place.with_extension(ending)
}
