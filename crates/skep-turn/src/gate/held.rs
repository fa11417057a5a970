//! Secrets of calls that are on no record: arguments that a tool declares as secret, until it has
//! run, and what only the model is shown, until it has read it. After a restart they are gone, and
//! the tool says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use skep_core::engine::ToolCall;
use skep_core::ids::{CallId, TurnId};
use skep_core::message::{Block, Message};
use skep_core::settings::AgentSettings;
use skep_core::tool::{CallSecrets, SecretArgument};
use skep_guard::{scrub, vault};

use crate::snapshot::{Toolbox, is_listed};

/// Values that are held; the oldest goes first. A call runs soon after it was made, or waits for
/// a person.
const HELD: usize = 256;

#[derive(Default)]
pub struct HeldSecrets {
    /// Locked for a look-up.
    held: Mutex<VecDeque<HeldSecret>>,
}

struct HeldSecret {
    turn: TurnId,
    kind: SecretKind,
    value: SecretString,
}

#[derive(PartialEq)]
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
        let Some(tool) = toolbox.find(name) else { return false };
        let mut found = false;
        for SecretArgument { argument, name } in tool.secret_arguments(arguments) {
            let Some(place) = arguments.get_mut(argument) else { continue };
            let text = match &*place {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let marker = scrub::marker(&name);
            // As it stands on record.
            if text == marker {
                continue;
            }
            *place = Value::String(marker);
            // Whoever may not call it hides nothing from the others with it.
            if is_listed(agent, &**tool) {
                vault::hide_own(&name, &text);
            }
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
            let own = call.arguments.get(argument)?.as_str()? == scrub::marker(&secret);
            let tool = tool.spec().name.clone();
            let value = self.find(turn, &SecretKind::Argument { tool, secret });
            Some((argument, value.filter(|_| own)?))
        });
        CallSecrets::new(given.collect())
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
