//! `skep calls`: calls whose outcome a crash left unknown, and what became of them.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skep_core::event::Resolution;

use crate::failure::Failure;
use crate::hive::Globals;
use crate::hive::client::{Client, escaped};
use crate::print::output;
use crate::print::table::OutputTable;
use crate::print::values::{items, stamp};

#[derive(Args)]
pub struct CallsArgs {
    #[command(subcommand)]
    command: CallsCommand,
}

#[derive(Subcommand)]
enum CallsCommand {
    /// List calls that had begun when the hive was cut off
    #[command(after_help = "Examples:\n  skep calls list")]
    List,
    /// Say what became of one, or have it run again
    #[command(after_help = "Examples:
  skep calls resolve 0197c0de-… toolu_1 happened --note 'the mail is in the outbox'
  skep calls resolve 0197c0de-… toolu_1 run_again")]
    Resolve {
        /// The turn that `skep calls list` shows
        turn: String,
        /// The call that `skep calls list` shows
        call: String,
        /// happened, did_not, or run_again: then it passes the whole gate, as if it were made now
        #[arg(value_parser = PossibleValuesParser::new(
            Resolution::ALL.iter().map(|word| word.as_str())))]
        outcome: String,
        /// For the audit trail
        #[arg(long)]
        note: Option<String>,
    },
}

pub async fn run(command: CallsArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command.command {
        CallsCommand::List => {
            let list = client.fetch("/api/v1/calls/unknown", "list the calls").await?;
            show(globals, &list);
        }
        CallsCommand::Resolve { turn, call, outcome, note } => {
            let path = format!("/api/v1/calls/unknown/{}/{}", escaped(&turn), escaped(&call));
            let mut body = json!({ "outcome": outcome });
            if let Some(note) = note {
                body["note"] = note.into();
            }
            let done = client.post(&path, &body, None).await;
            let done = done.map_err(|error| {
                client.failure(format!("resolve the call {call}"), error).next("skep calls list")
            })?;
            if globals.json {
                output::json(&done);
            } else if let Some(item) = done["item"].as_str() {
                output::line(format!("it runs again; to follow it: skep task show {item}"));
            } else {
                output::line("on record");
            }
        }
    }
    Ok(())
}

fn show(globals: &Globals, list: &Value) {
    if globals.json {
        output::json(list);
        return;
    }
    let mut table = OutputTable::new(&["time", "agent", "turn", "call", "tool", "arguments"]);
    for call in items(&list["calls"]) {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        table.row([
            stamp(&call["at"]),
            text("agent"),
            text("turn"),
            text("call_id"),
            text("tool"),
            call["arguments"].to_string(),
        ]);
    }
    table.lines().into_iter().for_each(output::line);
}
