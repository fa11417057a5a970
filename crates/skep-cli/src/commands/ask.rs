//! `skep ask`: what agents ask the operator, and the answers.

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::hive::{Client, Globals, IdList, escaped};
use crate::print::{items, output, stamp, table, text};

#[derive(Args)]
#[command(after_help = "Examples:
  skep ask                             what agents ask
  skep ask 019a2b3c 'Use the second'   answer one

An agent that has none above it asks the operator when it cannot go on (the tool `escalate`). It
reads the answer as an event in the conversation that asked.")]
pub struct AskArgs {
    /// The question to answer, or a unique prefix of its id
    #[arg(requires = "answer")]
    id: Option<String>,
    /// The answer
    answer: Option<String>,
}

pub async fn run(command: AskArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match (command.id, command.answer) {
        (Some(id), Some(answer)) => {
            let id = IdList::escalations().whole(&client, &id).await?;
            let path = format!("/api/v1/escalations/{}/answer", escaped(&id));
            let told = client.submit(&path, &json!({ "answer": answer }), "answer the agent").await;
            let told = told.map_err(|failure| failure.or_next("skep ask"))?;
            globals.print(&told, ["answered".to_owned()]);
        }
        _ => {
            let list = client.fetch("/api/v1/escalations", "list what agents ask").await?;
            match items(&list["escalations"]).is_empty() && !globals.json {
                true => output::note("no agent asks anything"),
                false => globals.print(&list, lines(&list)),
            }
        }
    }
    Ok(())
}

fn lines(list: &Value) -> Vec<String> {
    let row = |asked: &Value| {
        let [id, agent, session, question] =
            ["id", "agent", "session_key", "text"].map(|key| text(&asked[key]));
        [id, agent, session, stamp(&asked["created_at"]), question]
    };
    let heads = ["id", "agent", "session", "when", "question"];
    table(heads, items(&list["escalations"]).iter().map(row))
}
