//! `skep ask`: what agents ask the operator, and the answers.

use clap::Args;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, IdList, escaped};
use crate::print::{items, output, stamp, table, text};

#[derive(Args)]
#[command(after_help = "Examples:
  skep ask                               what agents ask
  skep ask 019a2b3c 'Use the second'     answer one
  skep ask 019a2b3c --option 'the blue'  choose one of its options
  skep ask 019a2b3c --close              put a message away without a reply

An agent asks the operator with the tool `ask_operator`, or with `escalate` where it has none above
it, and writes with `send_message`. It reads the answer in the conversation that asked.")]
pub struct AskArgs {
    /// The question to answer, or a unique prefix of its id
    id: Option<String>,
    /// The answer in words of your own
    #[arg(requires = "id")]
    answer: Option<String>,
    /// An option of the question, as it is written there; may stand there several times
    #[arg(long = "option", value_name = "OPTION", requires = "id")]
    options: Vec<String>,
    /// Put a message away without a reply
    #[arg(long, requires = "id", conflicts_with_all = ["answer", "options"])]
    close: bool,
}

pub async fn run(command: AskArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let Some(id) = command.id else {
        let list = client.fetch("/api/v1/questions", "list what agents ask").await?;
        match items(&list["questions"]).is_empty() && !globals.json {
            true => output::note("no agent asks anything"),
            false => globals.print(&list, lines(&list)),
        }
        return Ok(());
    };
    if command.close {
        let id = IdList::questions().whole(&client, &id).await?;
        let path = format!("/api/v1/questions/{}/close", escaped(&id));
        let told = client.submit(&path, &json!({}), "put the message away").await;
        let told = told.map_err(|failure| failure.or_next("skep ask"))?;
        globals.print(&told, ["put away".to_owned()]);
        return Ok(());
    }
    if command.answer.is_none() && command.options.is_empty() {
        let why = "an answer has words of your own, or options (--option)";
        return Err(Failure::new(Exit::Usage, "answer the agent", why).next("skep ask"));
    }
    let id = IdList::questions().whole(&client, &id).await?;
    let path = format!("/api/v1/questions/{}/answer", escaped(&id));
    let answer = json!({ "answer": command.answer, "options": command.options });
    let told = client.submit(&path, &answer, "answer the agent").await;
    let told = told.map_err(|failure| failure.or_next("skep ask"))?;
    globals.print(&told, ["answered".to_owned()]);
    Ok(())
}

fn lines(list: &Value) -> Vec<String> {
    let row = |asked: &Value| {
        let [id, kind, agent, session] =
            ["id", "kind", "agent", "session_key"].map(|key| text(&asked[key]));
        [id, kind, agent, session, stamp(&asked["created_at"]), question(asked)]
    };
    let heads = ["id", "kind", "agent", "session", "when", "text"];
    let listed = items(&list["questions"]);
    let mut lines = table(heads, listed.iter().map(row));
    if list["more"] == true {
        lines.push(format!("the oldest {}; newer ones are not listed yet", listed.len()));
    }
    lines
}

/// With what may be chosen.
fn question(asked: &Value) -> String {
    let options: Vec<String> = items(&asked["options"]).iter().map(text).collect();
    match options.is_empty() {
        true => text(&asked["text"]),
        false => {
            let several = if asked["multi"] == true { "one or more of" } else { "one of" };
            format!("{} ({several}: {})", text(&asked["text"]), options.join(" | "))
        }
    }
}
