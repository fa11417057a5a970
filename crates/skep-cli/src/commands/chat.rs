//! `skep chat`: a conversation in the terminal, over the hive's WebSocket.
//!
//! `connection` keeps the line, `talk` holds the picture, `view` and `markdown` turn it into lines,
//! `terminal` paints them and takes keys, `plain` does without a terminal.

mod commands;
mod connection;
mod editor;
mod markdown;
mod plain;
mod questions;
mod screen;
mod table;
mod talk;
mod terminal;
mod view;

#[cfg(test)]
mod markdown_tests;

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use skep_guard::environment;

use crate::failure::Failure;
use crate::hive::Place;
use crate::hive::client::Client;
use crate::print::output;
use crate::print::text::Look;
use connection::{News, Wish};
use plain::Plain;
use screen::Screen;
use talk::Talk;

/// How long a program waits for a hive that went away; a person decides for themselves.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Args)]
#[command(after_help = "Examples:
  skep chat                              talk to main
  skep chat cto --session release        another agent, a conversation of its own
  skep chat -m \"what did you do today?\"   one question, one answer
  cat questions.txt | skep chat          a message per line, answers as plain text
  skep chat --json -m hello              every frame as a line of JSON

Keys: Enter sends, Alt-Enter or a backslash before Enter begins a new line, a paste is one message.
Esc or Ctrl-C stops the turn that runs, a second Ctrl-C or Ctrl-D leaves. Tab completes commands,
Up and Ctrl-R find earlier messages, Ctrl-O shows or folds thinking. What is written while a turn
runs is queued and heard at its next step. A call that waits for you is shown whole; /approve and
/deny decide.")]
pub struct Chat {
    /// The agent
    #[arg(default_value = "main")]
    agent: String,
    /// Send this, show the answer and leave
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Session key
    #[arg(long, default_value = "main", value_name = "KEY")]
    session: String,
}

pub async fn run(command: Chat, place: &Place) -> Result<(), Failure> {
    let client = Client::open(place)?;
    let typed = stdin().is_terminal() && stdout().is_terminal();
    let dumb = environment::var("TERM").is_none_or(|terminal| terminal == "dumb");
    let paints = typed && !dumb && !place.json;
    let wish = Wish {
        agent: command.agent.clone(),
        session: command.session.clone(),
        patience: (!paints).then_some(PATIENCE),
    };
    let mut connection = connection::open(client, wish).await?;
    if !paints {
        let prompt = typed && !place.json;
        let plain = Plain { connection, json: place.json, prompt, ended_turn: Value::Null };
        return match command.message {
            Some(text) => plain.once(text).await,
            None => plain.converse().await,
        };
    }
    let mut talk = Talk::new(&command.agent, &command.session);
    let first = connection.news.recv().await;
    if let Some(News::Opened { state, .. }) = &first {
        let model = model_of(state, &command.agent);
        talk.entries.push(terminal::greeting(&command.agent, &command.session, &model));
    }
    first.into_iter().for_each(|news| talk.take(news));
    let (width, _) = Screen::size();
    let look = Look { width, colour: output::colour_wanted(), unicode: speaks_unicode() };
    terminal::run(connection, talk, look, command.message).await
}

fn model_of(state: &Value, agent: &str) -> String {
    let mut agents = state["agents"].as_array().into_iter().flatten();
    let found = agents.find(|info| info["name"] == agent);
    found.and_then(|info| info["model"].as_str()).unwrap_or("?").to_owned()
}

/// Whether the terminal's encoding is UTF-8, by the variables that say so, the strongest first.
fn speaks_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(environment::var);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}
