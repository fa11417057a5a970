//! `vault_set`, `vault_get`, `vault_list`, `vault_delete`: the agent's own part of the vault. What
//! a person set is used by its name and never shown.

use std::sync::Arc;

use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::vault::{self, HIVE, VaultRow};
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, SecretArgument, Tool, ToolAnswer, ToolContext};
use skep_guard::clock;
use skep_guard::vault::{
    NewVaultEntry, Owner, Vault, VaultError, is_hidden, is_like_key, marked_as,
};
use skep_scrub::{SHORTEST, marker};

use crate::blocking::ToolOutcome;
use crate::spec::{self, spec, text};

#[derive(Clone, Copy, PartialEq, Eq)]
enum VaultAction {
    Set,
    Get,
    List,
    Delete,
}

pub struct VaultTool {
    spec: ToolSpec,
    action: VaultAction,
    vault: Arc<Vault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetArguments {
    key: String,
    /// The name of the value by now, see [`Tool::secret_arguments`].
    #[serde(rename = "value")]
    _value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyArguments {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    #[serde(default)]
    prefix: String,
}

impl VaultTool {
    /// All four.
    pub fn all(vault: &Arc<Vault>) -> [Self; 4] {
        let key = || text("The name of the entry: letters, digits, dashes, dots, underscores.");
        let set = "Keeps a value for this agent, encrypted. It is replaced by its name in every \
                   record of this conversation. Set it again to change it.";
        let get = "Gives a value that this agent set itself. Of an entry that a person set it \
                   gives how to use it: {{vault:KEY}} in a header or the body of web_fetch is \
                   filled in on the way out.";
        let list = "Lists the entries that this agent can use, without their values.";
        let delete = "Deletes an entry that this agent set itself.";
        let value = text("The value. It is kept and never shown in a record.");
        let key_value = json!({ "key": key(), "value": value });
        let prefix = json!({ "prefix": text("Only names that begin so.") });
        let specs = [
            (VaultAction::Set, spec("vault_set", set, key_value, &["key", "value"])),
            (VaultAction::Get, spec("vault_get", get, json!({ "key": key() }), &["key"])),
            (VaultAction::List, spec("vault_list", list, prefix, &[])),
            (VaultAction::Delete, spec("vault_delete", delete, json!({ "key": key() }), &["key"])),
        ];
        specs.map(|(action, spec)| Self { spec, action, vault: Arc::clone(vault) })
    }
}

impl Tool for VaultTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.action {
            VaultAction::Get | VaultAction::List => Manner::READ,
            VaultAction::Set | VaultAction::Delete => Manner::effect(Class::Write),
        }
    }

    fn secret_arguments(&self, arguments: &Value) -> Vec<SecretArgument> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        // What is no name may be the value in the wrong place, or a part of it.
        let is_part = |key: &str| {
            let value = text("value").filter(|value| *value != marker(&marked_as(key)));
            key.len() >= SHORTEST && value.is_some_and(|value| value.contains(key))
        };
        let is_name = |key: &&str| vault::is_name(key) && !is_like_key(key) && !is_part(key);
        let key = text("key").filter(is_name);
        let name = marked_as(key.unwrap_or("value"));
        let wrong = arguments.get("key").filter(|_| key.is_none());
        let wrong = wrong.map(|_| SecretArgument { argument: "key", name: name.clone() });
        let value = SecretArgument { argument: "value", name };
        let has_value = self.action == VaultAction::Set || arguments.get("value").is_some();
        let value = has_value.then_some(value);
        value.into_iter().chain(wrong).collect()
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let (action, vault) = (self.action, Arc::clone(&self.vault));
        let name = match action {
            VaultAction::Set => {
                spec::read::<SetArguments>(arguments, "vault_set takes key and value (texts)")?.key
            }
            VaultAction::Get | VaultAction::Delete => {
                let takes = format!("{} takes key (text)", self.spec.name);
                spec::read::<KeyArguments>(arguments, &takes)?.key
            }
            VaultAction::List => {
                spec::read::<ListArguments>(arguments, "vault_list takes prefix (text)")?.prefix
            }
        };
        Ok(Box::new(move |context| {
            Box::pin(async move {
                let answered = match action {
                    VaultAction::Set => set(&vault, name, &context).await,
                    VaultAction::Get => get(&vault, &name, &context),
                    VaultAction::List => Ok(list(&vault, &name, &context)),
                    VaultAction::Delete => delete(&vault, &name, &context).await,
                };
                answered.unwrap_or_else(ToolAnswer::error)
            })
        }))
    }
}

fn said(error: VaultError) -> String {
    format!("{}: {error}", error.code())
}

async fn set(vault: &Vault, name: String, context: &ToolContext) -> ToolOutcome {
    let Some(value) = context.secrets.given("value").cloned() else {
        return Err("value_lost: the hive was restarted before the value was kept, and it is on \
                    no record. Call vault_set again with the value."
            .to_owned());
    };
    let hidden = is_hidden(value.expose_secret(), false);
    let note = match hidden {
        true => format!("It shows as [secret:{}] from now on.", marked_as(&name)),
        false => "It could be a word, a name or an id, so it is not hidden where it is said again."
            .into(),
    };
    let owner = context.agent_id.0;
    let text = format!("kept {name}. {note}");
    let value = Some(value);
    let (given_by, hosts) = (Owner::Agent, Vec::new());
    let entry = NewVaultEntry { owner, name, value, secret: false, given_by, hosts };
    vault
        .set(entry, Some(format!("agent:{}", context.agent)), clock::now_ms())
        .await
        .map_err(said)?;
    Ok(ToolAnswer::ok(text))
}

fn get(vault: &Vault, name: &str, context: &ToolContext) -> ToolOutcome {
    let (value, row) = vault.value(context.agent_id.0, name).map_err(said)?;
    if row.secret {
        let hosts: Vec<String> = row.hosts.iter().map(ToString::to_string).collect();
        let how = json!({ "use": vault::reference(name), "hosts": hosts });
        return Ok(ToolAnswer::ok(how.to_string()));
    }
    // The model reads the value, the record has its name.
    context.secrets.show(value);
    Ok(ToolAnswer::ok(marker(&marked_as(name))))
}

fn list(vault: &Vault, prefix: &str, context: &ToolContext) -> ToolAnswer {
    let own = context.agent_id.0;
    let entries = vault.list().into_iter().filter(|entry| {
        let VaultRow { owner, name, hosts, .. } = &entry.row;
        // What the hive sends nowhere is of no use to an agent.
        let usable = *owner == own || (*owner == HIVE && !hosts.is_empty());
        usable && name.starts_with(prefix)
    });
    let lines: Vec<String> = entries
        .map(|entry| {
            let VaultRow { name, secret, hosts, .. } = &entry.row;
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            let use_of = match (secret, hosts.as_slice()) {
                (false, _) => "set by this agent".to_owned(),
                (true, []) => "set by a person, for no host".to_owned(),
                (true, hosts) => format!("set by a person, for {}", hosts.join(", ")),
            };
            let locked = if entry.locked.is_some() { " (locked: its key is missing)" } else { "" };
            format!("{name}: {use_of}{locked}")
        })
        .collect();
    match lines.is_empty() {
        true => ToolAnswer::ok("no entries"),
        false => ToolAnswer::ok(lines.join("\n")),
    }
}

async fn delete(vault: &Vault, name: &str, context: &ToolContext) -> ToolOutcome {
    let by = Some(format!("agent:{}", context.agent));
    vault.remove(context.agent_id.0, name, false, by).await.map_err(said)?;
    Ok(ToolAnswer::ok(format!("deleted {name}")))
}
