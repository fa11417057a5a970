//! `skep calls`: calls whose outcome a crash left unknown, and what became of them.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use skep_core::event::Resolution;

use crate::failure::Failure;
use crate::hive::ids::{IdList, call_of};
use crate::hive::{Client, Globals, escaped};
use crate::print::{items, output, stamp, table};

#[derive(Subcommand)]
pub enum CallsCommand {
    /// List tool calls that were running when the hive crashed
    #[command(after_help = "Examples:\n  skep calls list")]
    List,
    /// Record what happened to one, or run it again
    #[command(after_help = "Examples:
  skep calls resolve 0197c0de-… toolu_1 happened --note 'the mail is in the outbox'
  skep calls resolve 0197c0de-… toolu_1 run_again")]
    Resolve {
        /// The turn that `skep calls list` shows, or a unique prefix of it
        turn: String,
        /// The call that `skep calls list` shows, or a unique prefix of it
        call: String,
        /// happened, did_not, or run_again (checked again like a new call)
        #[arg(value_parser = PossibleValuesParser::new(
            Resolution::ALL.iter().map(|word| word.as_str())))]
        outcome: String,
        /// For the audit trail
        #[arg(long)]
        note: Option<String>,
    },
}

pub async fn run(command: CallsCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        CallsCommand::List => {
            let list = client.fetch("/api/v1/calls/unknown", "list the calls").await?;
            match items(&list["calls"]).is_empty() && !globals.json {
                true => output::note("no tool calls of unknown outcome"),
                false => globals.print(&list, lines(&list)),
            }
        }
        CallsCommand::Resolve { turn, call, outcome, note } => {
            let turn = IdList::unknown_calls().whole(&client, &turn).await?;
            let list = client.fetch("/api/v1/calls/unknown", "list the calls").await?;
            let call = call_of(&list, &turn, &call);
            let path = format!("/api/v1/calls/unknown/{}/{}", escaped(&turn), escaped(&call));
            let body = json!({ "outcome": outcome, "note": note });
            let done = client.submit(&path, &body, format!("resolve the call {call}")).await;
            let done = done.map_err(|failure| failure.or_next("skep calls list"))?;
            let line = match done["item"].as_str() {
                Some(item) => format!("it runs again; to follow it: skep task show {item}"),
                None => "recorded".to_owned(),
            };
            globals.print(&done, [globals.commands(&line)]);
        }
    }
    Ok(())
}

fn lines(list: &Value) -> Vec<String> {
    let row = |call: &Value| {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        let (at, arguments) = (stamp(&call["at"]), call["arguments"].to_string());
        [at, text("agent"), text("turn"), text("call_id"), text("tool"), arguments]
    };
    let heads = ["time", "agent", "turn", "call", "tool", "arguments"];
    table(heads, items(&list["calls"]).iter().map(row))
}
