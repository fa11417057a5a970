//! `skep vault`: values that agents and profiles use and nobody is shown. A value comes from
//! standard input or from a prompt, never from the command line, which others can see.

use std::io::{IsTerminal, Read, Write};

use clap::Subcommand;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::terminal;
use secrecy::zeroize::Zeroizing;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, escaped, with_query};
use crate::print::{Tone, counted, items, stamp, text_or_empty, toned};

/// More than a value may have.
const VALUE_BYTES: u64 = 1 << 20;

/// What the hive calls an entry that is there already.
const EXISTS: &str = "vault_exists";

#[derive(Subcommand)]
pub enum VaultCommand {
    /// List the entries and the encryption key's file: names, owners, hosts, uses, never values
    #[command(after_help = "Examples:\n  skep vault list\n  skep vault list --json")]
    List,
    /// Add an entry, or replace its value; the value is asked for or read from standard input
    #[command(after_help = "Examples:
  skep vault set anthropic                      asks for the value, which is not shown
  skep vault set anthropic < key.txt            reads it; the line end at its end is left out
  pass github | skep vault set GITHUB --agent main --host api.github.com
  skep vault set GITHUB --agent main --host api.github.com --keep   change the hosts alone

A model profile uses an entry of the hive: `api_key: vault:anthropic` in providers.yaml.
An agent uses one as {{vault:GITHUB}} in headers and body of web_fetch, at these hosts alone;
without --host it cannot be sent anywhere. Nobody is shown the value, neither people nor models.")]
    Set {
        /// At most 64 letters, digits, dashes, dots and underscores; the first is a letter
        name: String,
        /// The one agent that may use it; without it every agent and model profile of the hive may
        #[arg(long)]
        agent: Option<String>,
        /// A host that web_fetch may send it to, such as api.github.com; may be given several
        /// times. Replaces the hosts that are there; without it they stay
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// Keep the value that is there and change the hosts alone
        #[arg(long)]
        keep: bool,
    },
    /// Remove an entry for good; what uses it fails until it is set again
    #[command(after_help = "Examples:\n  skep vault rm GITHUB --agent main")]
    Rm {
        /// The name, as `skep vault list` shows it
        name: String,
        /// The agent that it belongs to; without it the entry of the whole hive
        #[arg(long)]
        agent: Option<String>,
    },
    /// Make a new encryption key and encrypt every entry with it; the values stay the same
    #[command(after_help = "Examples:\n  skep vault rotate")]
    Rotate,
    /// Move keys.env and secrets written out in providers.yaml into the vault
    #[command(after_help = "Examples:\n  skep vault move")]
    Move,
}

pub async fn run(command: VaultCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        VaultCommand::List => {
            let list = client.fetch("/api/v1/vault", "list the vault").await?;
            globals.print(&list, described(&list));
        }
        VaultCommand::Set { name, agent, hosts, keep } => {
            let attempted = format!("set the vault entry {name}");
            let mut body = json!({});
            if !keep {
                body["value"] = Value::from(read_value(&name, &attempted)?.as_str());
            }
            if !hosts.is_empty() {
                body["hosts"] = json!(hosts);
            }
            let path = path(&name, agent);
            let is_new = !keep && client.put_new(&path, &body, EXISTS, &attempted).await?;
            if !is_new {
                client.put(&path, &body, attempted).await?;
            }
            let line = match (is_new, keep) {
                (true, _) => format!("set {name}"),
                (false, true) => format!("changed {name}: its value stays"),
                (false, false) => format!("replaced {name}: the value it had is gone"),
            };
            globals.print(&json!({ "set": name, "replaced": !is_new && !keep }), [line]);
        }
        VaultCommand::Rm { name, agent } => {
            let attempted = format!("remove the vault entry {name}");
            client.delete(&path(&name, agent), attempted).await?;
            globals.print(&json!({ "removed": name }), [format!("removed {name}")]);
        }
        VaultCommand::Rotate => {
            let attempted = "rotate the key of the vault";
            let done = client.submit("/api/v1/vault/rotate", &Value::Null, attempted).await?;
            let entries = counted(done["entries"].as_u64().unwrap_or(0), "entry", "entries");
            let (key, file) = (text_or_empty(&done["key"]), text_or_empty(&done["key_file"]));
            let lines = [
                format!("{entries} sealed with the new key {key}"),
                format!("older keys stay in {file}: other homes and backups may need them"),
            ];
            globals.print(&done, lines);
        }
        VaultCommand::Move => {
            let attempted = "move secrets into the vault";
            let done = client.submit("/api/v1/vault/move", &Value::Null, attempted).await?;
            let names: Vec<String> = items(&done["entries"]).iter().map(text_or_empty).collect();
            let line = match names.as_slice() {
                [] => "no secrets in keys.env and providers.yaml".to_owned(),
                names => format!("moved into the vault: {}", names.join(", ")),
            };
            globals.print(&done, [line]);
        }
    }
    Ok(())
}

fn path(name: &str, agent: Option<String>) -> String {
    with_query(&format!("/api/v1/vault/entries/{}", escaped(name)), [("agent", agent)])
}

fn described(vault: &Value) -> Vec<String> {
    let mut lines: Vec<String> = items(&vault["entries"]).iter().flat_map(entry).collect();
    if let Some(problem) = vault["problem"].as_str() {
        lines.push(format!("{} {problem}", toned("locked:", Tone::Bad)));
    }
    let file = text_or_empty(&vault["key_file"]);
    match (vault["key"].as_str(), vault["problem"].is_null()) {
        (Some(key), _) => lines.push(format!("key {key} in {file}")),
        (None, true) => lines.push(format!("no key yet; the first entry makes one in {file}")),
        // What is wrong with it was said.
        (None, false) => {}
    }
    lines
}

fn entry(entry: &Value) -> Vec<String> {
    let name = toned(&text_or_empty(&entry["name"]), Tone::Strong);
    let owner = entry["agent"].as_str().map_or("hive".to_owned(), |agent| format!("agent {agent}"));
    let by = if entry["secret"] == true { "" } else { "  set by the agent" };
    let used = match entry["used_at"].is_null() {
        true => String::new(),
        false => format!("  used {}", stamp(&entry["used_at"])),
    };
    let mut lines = vec![format!("{name}  {owner}  set {}{used}{by}", stamp(&entry["set_at"]))];
    for (word, list) in [("hosts", &entry["hosts"]), ("profiles", &entry["profiles"])] {
        let names: Vec<String> = items(list).iter().map(text_or_empty).collect();
        if !names.is_empty() {
            lines.push(format!("  {word}: {}", names.join(", ")));
        }
    }
    if let Some(problem) = entry["problem"].as_str() {
        lines.push(format!("  {} {problem}", toned("locked:", Tone::Bad)));
    }
    lines
}

/// Without the end of its last line.
fn read_value(name: &str, attempted: &str) -> Result<Zeroizing<String>, Failure> {
    let failed = |why: &str| Failure::new(Exit::Usage, attempted, why);
    let mut value = Zeroizing::new(String::new());
    if std::io::stdin().is_terminal() {
        value = typed_unseen(&format!("Value of {name} (not shown): "))
            .map_err(|error| failed(&error.to_string()))?;
    } else {
        let read = std::io::stdin().lock().take(VALUE_BYTES).read_to_string(&mut value);
        read.map_err(|error| failed(&format!("standard input: {error}")))?;
        let end = value.trim_end_matches(['\r', '\n']).len();
        value.truncate(end);
    }
    match value.is_empty() {
        true => Err(failed("there is no value").next(format!("skep vault set {name} < FILE"))),
        false => Ok(value),
    }
}

/// A line whose letters do not appear.
fn typed_unseen(prompt: &str) -> std::io::Result<Zeroizing<String>> {
    let mut out = std::io::stderr();
    write!(out, "{prompt}")?;
    out.flush()?;
    terminal::enable_raw_mode()?;
    let typed = read_unseen();
    terminal::disable_raw_mode()?;
    writeln!(out)?;
    typed
}

fn read_unseen() -> std::io::Result<Zeroizing<String>> {
    let mut typed = Zeroizing::new(String::new());
    loop {
        let Event::Key(KeyEvent { code, modifiers, .. }) = event::read()? else { continue };
        match code {
            KeyCode::Enter => return Ok(typed),
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                return Ok(Zeroizing::default());
            }
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            _ => {}
        }
    }
}
