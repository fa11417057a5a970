//! `skep chat`: a conversation in the terminal, over the hive's WebSocket.
//!
//! `connection` keeps the WebSocket open, `transcript` holds the conversation, `view` and
//! `markdown` render it, `terminal` paints it and reads keys, `plain` works without a terminal.

mod approvals;
mod code;
mod commands;
mod connection;
mod decision;
mod editor;
mod list;
mod markdown;
mod paste;
mod picker;
mod plain;
mod questions;
mod screen;
mod table;
mod terminal;
mod transcript;
mod view;

#[cfg(test)]
mod markdown_tests;

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use skep_guard::environment;

use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, Globals, escaped};
use crate::print::{TermInfo, items, output};
use connection::{ChatUpdate, ConnectionOptions};
use plain::PlainChat;
use screen::Screen;
use terminal::ScreenOptions;
use transcript::ChatTranscript;

/// How long a program waits for a hive that disconnected; a person waits as long as they want.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Args)]
#[command(after_help = "Examples:
  skep chat                              chat with main
  skep chat cto --session release        another agent, a conversation of its own
  skep chat --resume                     choose an earlier conversation
  skep chat -m \"what did you do today?\"   one question, one answer
  cat questions.txt | skep chat          a message per line, answers as plain text
  skep chat --json -m hello              every frame as a line of JSON

Keys: Enter sends, Alt-Enter or a backslash before Enter begins a new line, a paste is one message.
Esc or Ctrl-C stops the turn that runs, a second Ctrl-C or Ctrl-D leaves. Tab completes commands,
Up and Ctrl-R find earlier messages, Ctrl-O shows or folds thinking. What is written while a turn
runs is queued and reaches the agent at its next step. A tool call that needs approval is shown
whole: y approves it once, s for this conversation, a always, n denies it. So do /approve, /deny.
What the agent asks the operator is answered with /answer. /help lists all commands.")]
pub struct ChatArgs {
    /// The agent
    #[arg(default_value = "main")]
    agent: String,
    /// Send this message, show the answer and exit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Session key of the conversation
    #[arg(long, default_value = "main", value_name = "KEY")]
    session: String,
    /// Choose an earlier conversation first
    #[arg(long, conflicts_with_all = ["message", "session"])]
    resume: bool,
}

/// `start` starts the hive of the home in the background.
pub async fn run(
    command: ChatArgs,
    globals: &Globals,
    start: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let typed = stdin().is_terminal() && stdout().is_terminal();
    if typed && !globals.json && is_wanted(globals).await {
        start().await?;
    }
    let dumb = environment::var("TERM").is_none_or(|terminal| terminal == "dumb");
    let paints = typed && !dumb && !globals.json;
    if !paints && command.resume {
        let why = "--resume needs a terminal to choose on";
        return Err(Failure::new(Exit::Usage, "resume", why).next("skep session list"));
    }
    let mut client = Client::open(globals)?;
    let mut place = ChatPlace { agent: command.agent, session: command.session };
    let (mut message, mut resume, mut keys) = (command.message, command.resume, None);
    loop {
        let patience = (!paints).then_some(PATIENCE);
        let ChatPlace { agent, session } = &place;
        let (agent, session) = (agent.clone(), session.clone());
        let options = ConnectionOptions { agent, session, patience };
        let mut connection = connection::open(client, options).await?;
        if !paints {
            return PlainChat::new(connection, globals, typed && !globals.json).run(message).await;
        }
        let mut transcript = ChatTranscript::new(&place.agent, &place.session);
        let first = connection.updates.recv().await;
        if let Some(ChatUpdate::Opened { state, .. }) = &first {
            let model = model_of(state, &place.agent);
            transcript.entries.push(terminal::greeting(&place.agent, &place.session, &model));
        }
        first.into_iter().for_each(|update| transcript.take(update));
        let lists = if std::mem::take(&mut resume) { transcript.choose(false) } else { Vec::new() };
        for list in lists {
            // Without a listener the connection is over, and an update says so.
            let _ = connection.commands.send(list).await;
        }
        let (width, _) = Screen::size();
        let term = TermInfo { width, colour: output::colour_wanted(), unicode: speaks_unicode() };
        // A workspace elsewhere is known to the hive alone.
        let workspace = globals.home().ok().filter(|_| globals.url.is_none());
        let workspace = workspace.map(|home| home.agent(&place.agent).join("work"));
        let options = ScreenOptions { message: message.take(), workspace, keys: &mut keys };
        let run = terminal::run(connection, transcript, term, options);
        let Some(chosen) = run.await? else { return Ok(()) };
        client = Client::open(globals)?;
        place = resumed(&client, &chosen).await?;
    }
}

struct ChatPlace {
    agent: String,
    session: String,
}

/// Where the chosen conversation goes on. If its key leads to a newer one, a copy of it does, under
/// a key of its own.
async fn resumed(client: &Client, chosen: &Value) -> Result<ChatPlace, Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let agent = text(&chosen["agent"]);
    let mut session = text(&chosen["session_key"]);
    if chosen["current"] != true {
        let (name, id) = (escaped(&agent), escaped(&text(&chosen["id"])));
        let path = format!("/api/v1/agents/{name}/sessions/{id}/fork");
        let copy = client.submit(&path, &json!({}), "resume the conversation").await?;
        session = text(&copy["session_key"]);
    }
    Ok(ChatPlace { agent, session })
}

/// Whether no hive runs in the home and the person wants one.
async fn is_wanted(globals: &Globals) -> bool {
    let Some(home) = globals.home().ok().filter(|_| globals.url.is_none()) else { return false };
    let down = match (home.run().try_exists(), Client::open(globals)) {
        (Ok(false), _) => true,
        (_, Ok(client)) => matches!(
            client.get("/ready").await,
            Err(CallError::Unreachable { connected: false, .. })
        ),
        // Somebody else's home.
        (_, Err(_)) => false,
    };
    let place = home.root().display();
    let prompt = format!("No hive is running for {place}. Start it now? [Y/n] ");
    let answer = if down { output::ask(&prompt) } else { None };
    answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "" | "y" | "yes"))
}

fn model_of(state: &Value, agent: &str) -> String {
    let mut agents = items(&state["agents"]).iter();
    let found = agents.find(|info| info["name"] == agent);
    found.and_then(|info| info["model"].as_str()).unwrap_or("?").to_owned()
}

/// Whether the terminal's encoding is UTF-8, from the locale variables in order of precedence.
fn speaks_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(environment::var);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}
