//! Secrets of calls that are on no record: arguments that a tool declares as secret, until it has
//! run, and what only the model is shown, until it has read it. After a restart they are gone, and
//! the tool says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use skep_core::engine::ToolCall;
use skep_core::ids::{CallId, TurnId};
use skep_core::message::{Block, Message};
use skep_core::settings::AgentSettings;
use skep_core::tool::{CallSecrets, SecretArgument};
use skep_guard::vault;

use crate::snapshot::{Toolbox, is_listed};

/// Values that are held; the oldest goes first. A call runs soon after it was made, or waits for
/// a person.
const HELD: usize = 256;

/// Stands in a call for what its tool does not take.
const UNKNOWN: &str = "unknown";

#[derive(Default)]
pub struct HeldSecrets {
    /// Locked for a look-up.
    held: Mutex<VecDeque<HeldSecret>>,
}

#[derive(Clone)]
struct HeldSecret {
    turn: TurnId,
    kind: SecretKind,
    value: SecretString,
}

#[derive(Clone, PartialEq)]
enum SecretKind {
    /// Of arguments of one name in a turn the newest counts: an id may still change, and who sets
    /// the same twice means the second.
    Argument {
        tool: String,
        secret: String,
    },
    Answer(CallId),
}

impl HeldSecrets {
    /// Takes the secret arguments out of a call that was just made; whether there were any.
    pub(crate) fn take(
        &self,
        turn: &TurnId,
        (toolbox, agent): (&Toolbox, &AgentSettings),
        name: &str,
        arguments: &mut Value,
    ) -> bool {
        let Some(tool) = toolbox.meant(agent, name) else { return false };
        let secrets = tool.secret_arguments(arguments);
        let Some(first) = secrets.first().map(|secret| secret.name.clone()) else { return false };
        // Whoever may not call it hides nothing from the others with it.
        let hides = is_listed(agent, &**tool);
        let misfits = take_misfits(&tool.spec().input_schema, arguments, &first);
        misfits.iter().filter(|_| hides).for_each(|text| vault::hide_own(&first, text));
        let mut found = !misfits.is_empty();
        for SecretArgument { argument, name } in secrets {
            let Some(place) = arguments.get_mut(argument) else { continue };
            let text = match &*place {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let marker = skep_scrub::marker(&name);
            // As it stands on record.
            if text == marker {
                continue;
            }
            if hides {
                // Names too: one that looks like a key is a value in the wrong place.
                let mut values = Vec::new();
                texts(place, &mut values);
                values.iter().for_each(|value| vault::hide_own(&name, value));
            }
            *place = Value::String(marker);
            let tool = tool.spec().name.clone();
            self.put(turn, SecretKind::Argument { tool, secret: name }, SecretString::from(text));
            found = true;
        }
        found
    }

    /// What a call is handed.
    pub(crate) fn of(&self, turn: &TurnId, toolbox: &Toolbox, call: &ToolCall) -> CallSecrets {
        let Some(tool) = toolbox.find(&call.name) else { return CallSecrets::default() };
        let arguments = tool.secret_arguments(&call.arguments).into_iter();
        let given = arguments.filter_map(|SecretArgument { argument, name: secret }| {
            // Only what was taken out is handed back: a name in brackets is no key to it.
            let own = call.arguments.get(argument)?.as_str()? == skep_scrub::marker(&secret);
            let tool = tool.spec().name.clone();
            let value = self.find(turn, &SecretKind::Argument { tool, secret });
            Some((argument, value.filter(|_| own)?))
        });
        CallSecrets::new(given.collect())
    }

    /// Arguments of one turn are those of another one too: a call runs there that was made here.
    pub(crate) fn share(&self, from: &TurnId, with: &TurnId) {
        let of =
            |it: &&HeldSecret| it.turn == *from && matches!(it.kind, SecretKind::Argument { .. });
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let shared: Vec<HeldSecret> = held.iter().filter(of).cloned().collect();
        drop(held);
        for HeldSecret { kind, value, .. } in shared {
            self.put(with, kind, value);
        }
    }

    /// Keeps what only the model is shown of an answer.
    pub(crate) fn keep_answer(&self, turn: &TurnId, call: &CallId, secrets: &CallSecrets) {
        if let Some(text) = secrets.shown() {
            self.put(turn, SecretKind::Answer(call.clone()), text.clone());
        }
    }

    /// The rows as the model reads them; those on record stay as they are.
    pub(crate) fn reveal(&self, turn: &TurnId, rows: &mut [Arc<Message>]) {
        for row in rows {
            let Some(call) = row.body.tool_call_id.clone() else { continue };
            let Some(text) = self.find(turn, &SecretKind::Answer(call)) else { continue };
            for block in &mut Arc::make_mut(row).body.content {
                if let Block::Text { text: shown } = block {
                    text.expose_secret().clone_into(shown);
                }
            }
        }
    }

    fn put(&self, turn: &TurnId, kind: SecretKind, value: SecretString) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|it| it.turn != *turn || it.kind != kind);
        if held.len() >= HELD {
            held.pop_front();
        }
        held.push_back(HeldSecret { turn: turn.clone(), kind, value });
    }

    fn find(&self, turn: &TurnId, kind: &SecretKind) -> Option<SecretString> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|it| it.turn == *turn && it.kind == *kind).map(|it| it.value.clone())
    }
}

/// Takes out what the schema of a tool with secrets does not name, and gives it back: a value in
/// the wrong place, or under another name, is one all the same. The secret's name stands there
/// instead, under a name that the tool refuses.
fn take_misfits(schema: &Value, arguments: &mut Value, secret: &str) -> Vec<String> {
    let is_known = |name: &str| schema["properties"].get(name).is_some();
    let (known, other) = match std::mem::take(arguments) {
        Value::Object(fields) => {
            let (known, other) = fields.into_iter().partition(|(name, _)| is_known(name));
            (known, Value::Object(other))
        }
        other => (Map::new(), other),
    };
    let mut misfits = Vec::new();
    texts(&other, &mut misfits);
    *arguments = Value::Object(known);
    if !misfits.is_empty() {
        arguments[UNKNOWN] = skep_scrub::marker(secret).into();
    }
    misfits
}

/// Every text of the value, keys included.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields.iter().for_each(|(name, item)| {
            into.push(name.clone());
            texts(item, into);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_does_not_name_is_taken_out_of_a_call() {
        let schema = json!({"properties": {"key": {}, "value": {}}});
        let cases = [
            (json!({"key": "k", "value": "v"}), json!({"key": "k", "value": "v"}), vec![]),
            (
                json!({"key": "k", "secret": {"a": ["v", 1]}}),
                json!({"key": "k", "unknown": "[secret:S]"}),
                vec!["secret", "a", "v"],
            ),
            (json!({"TOKEN": "v"}), json!({"unknown": "[secret:S]"}), vec!["TOKEN", "v"]),
            (json!("key=k value=v"), json!({"unknown": "[secret:S]"}), vec!["key=k value=v"]),
            (json!(["k", "v"]), json!({"unknown": "[secret:S]"}), vec!["k", "v"]),
            (json!(null), json!({}), vec![]),
        ];
        for (mut arguments, expected, misfits) in cases {
            assert_eq!(take_misfits(&schema, &mut arguments, "S"), misfits);
            assert_eq!(arguments, expected);
        }
    }
}
