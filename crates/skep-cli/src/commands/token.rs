//! `skep token`: credentials for programs and other machines. A token is shown once.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skep_core::role::Role;

use crate::failure::Failure;
use crate::hive::Place;
use crate::hive::client::{CallError, Client, escaped};
use crate::print::output::{self, foreign};
use crate::print::time;

#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token and show it, this once
    #[command(after_help = "Examples:
  skep token new laptop
  skep token new anna --role user
  skep token new bridge --role channel --prefix discord:
  SKEP_TOKEN=$(skep token new --json | jq -r .token)")]
    New {
        /// What the token is for
        #[arg(default_value = "cli")]
        name: String,
        /// What its holder may: operator everything, user talk and see its own, viewer read
        /// everything, channel talk under its prefix, agent read its own agent's history
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
    /// List tokens, without what they are
    #[command(after_help = "Examples:\n  skep token list")]
    List,
    /// Make a token worthless
    #[command(after_help = "Examples:\n  skep token revoke 0197c0de-…")]
    Revoke {
        /// The id that `skep token list` shows
        id: String,
    },
}

pub async fn run(command: Token, place: &Place) -> Result<(), Failure> {
    let client = Client::open(place)?;
    match command.command {
        TokenCommand::New { name, role, prefix, agent } => {
            let mut body = json!({ "name": name, "role": role });
            for (field, given) in [("prefix", prefix), ("agent", agent)] {
                if let Some(given) = given {
                    body[field] = given.into();
                }
            }
            let made = client.post("/api/v1/tokens", &body, None).await;
            let made = made.map_err(|error| client.failure("make a token", error))?;
            show(place, &made, |made| vec![text(&made["token"])]);
            if !place.json {
                output::note("keep it: it is not shown again");
            }
        }
        TokenCommand::List => {
            let list = client.get("/api/v1/tokens").await;
            let list = list.map_err(|error| client.failure("list the tokens", error))?;
            show(place, &list, |list| {
                list["tokens"].as_array().into_iter().flatten().map(row).collect()
            });
        }
        TokenCommand::Revoke { id } => {
            let gone = client.delete(&format!("/api/v1/tokens/{}", escaped(&id))).await;
            gone.map_err(|error| {
                let unknown = matches!(error, CallError::Problem { status: 404, .. });
                let failure = client.failure(format!("revoke the token {id}"), error);
                if unknown { failure.next("skep token list") } else { failure }
            })?;
            show(place, &json!({ "revoked": id }), |gone| {
                vec![format!("revoked {}", text(&gone["revoked"]))]
            });
        }
    }
    Ok(())
}

fn show(place: &Place, value: &Value, lines: impl Fn(&Value) -> Vec<String>) {
    if place.json {
        output::json(value);
    } else {
        lines(value).into_iter().for_each(output::line);
    }
}

fn row(token: &Value) -> String {
    let made = token["created_at"].as_i64().map(time::stamp).unwrap_or_default();
    let revoked = if token["revoked_at"].is_null() { "" } else { "  revoked" };
    let bound = [&token["prefix"], &token["agent"]].map(text).concat();
    let role = [text(&token["role"]), bound].join(" ");
    let (id, name) = (text(&token["id"]), text(&token["name"]));
    format!("{id}  {made}  {}  {name}{revoked}", role.trim_end())
}

fn text(value: &Value) -> String {
    value.as_str().map(foreign).unwrap_or_default()
}
