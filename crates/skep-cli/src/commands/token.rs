//! `skep token`: credentials for programs and other machines. A token is shown once.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use skep_core::role::Role;

use crate::failure::Failure;
use crate::hive::{Client, Globals, IdList};
use crate::print::{items, output, stamp, text_or_empty};

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Create a token and show it once
    #[command(after_help = "Examples:
  skep token new laptop
  skep token new anna --role user
  skep token new bridge --role channel --prefix discord:
  SKEP_TOKEN=$(skep token new laptop --json | jq -r .token)")]
    New {
        /// What the token is for
        name: String,
        /// operator: everything; user: its own conversations; viewer: read everything; channel:
        /// conversations under its prefix; agent: read the conversations of one agent
        #[arg(long, default_value = "operator", value_parser = PossibleValuesParser::new(
            Role::ALL.iter().map(|role| role.as_str())))]
        role: String,
        /// What the conversations of a channel begin with, for instance discord:
        #[arg(long)]
        prefix: Option<String>,
        /// The agent of a token of the role agent
        #[arg(long)]
        agent: Option<String>,
    },
    /// List tokens, without the secret
    #[command(after_help = "Examples:\n  skep token list")]
    List,
    /// Revoke a token
    #[command(after_help = "Examples:\n  skep token revoke 0197c0de-…")]
    Revoke {
        /// The id that `skep token list` shows, or a unique prefix of it
        id: String,
    },
}

pub async fn run(command: TokenCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        TokenCommand::New { name, role, prefix, agent } => {
            let body = json!({ "name": name, "role": role, "prefix": prefix, "agent": agent });
            let made = client.submit("/api/v1/tokens", &body, "create a token").await?;
            globals.print(&made, [text_or_empty(&made["token"])]);
            if !globals.json {
                let role = text_or_empty(&made["role"]);
                output::note(format!(
                    "role {role}: {}; keep it, it is not shown again",
                    may(&role)
                ));
            }
        }
        TokenCommand::List => {
            let list = client.fetch("/api/v1/tokens", "list the tokens").await?;
            globals.print(&list, items(&list["tokens"]).iter().map(row));
        }
        TokenCommand::Revoke { id } => {
            IdList::tokens().revoke(&client, globals, &id).await?;
        }
    }
    Ok(())
}

/// What a role may do, in short.
fn may(role: &str) -> &'static str {
    match Role::parse(role) {
        Some(Role::Operator) => "may do everything",
        Some(Role::User) => "has its own conversations",
        Some(Role::Viewer) => "reads everything, changes nothing",
        Some(Role::Channel) => "has the conversations under its prefix",
        Some(Role::Agent) => "reads the conversations of its agent",
        None => "see docs/roles.md",
    }
}

fn row(token: &Value) -> String {
    let made = stamp(&token["created_at"]);
    let revoked = if token["revoked_at"].is_null() { "" } else { "  revoked" };
    let bound = [&token["prefix"], &token["agent"]].map(text_or_empty).concat();
    let role = [text_or_empty(&token["role"]), bound].join(" ");
    let (id, name) = (text_or_empty(&token["id"]), text_or_empty(&token["name"]));
    format!("{id}  {made}  {}  {name}{revoked}", role.trim_end())
}
