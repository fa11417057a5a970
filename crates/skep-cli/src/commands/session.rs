//! `skep session`: the conversations of an agent, and forks of them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, IdList, escaped, with_query};
use crate::print::{Tone, counted, foreign, items, output, text_or_empty, time, toned};

#[derive(Subcommand)]
pub enum SessionCommand {
    /// List the conversations of an agent, the latest first
    List(SessionListArgs),
    /// Copy the first part of a conversation into a new one
    Fork(ForkArgs),
    /// Summarise the older messages of a conversation for the model
    Compact(CompactArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep session list
  skep session list main --limit 10")]
pub struct SessionListArgs {
    /// The agent
    #[arg(default_value = "main")]
    agent: String,
    /// How many conversations
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue a list: the value that its last line printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep session fork 0190a3… --at 12            go on after message 12, under a new key
  skep session fork 0190a3… --at 12 --key try  … under the key `try`
  skep send main \"and now?\" --session try")]
pub struct ForkArgs {
    /// The id of the conversation, as `skep session list` shows it, or a unique prefix
    id: String,
    /// The last message to keep, by its number (all of them)
    #[arg(long, value_name = "SEQ")]
    at: Option<i64>,
    /// The agent
    #[arg(long, default_value = "main")]
    agent: String,
    /// Session key of the new conversation (default: a new one)
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep session compact 0190a3…
  skep session compact 0190a3… --keep \"the plan and every path\"

The history keeps every message: `skep history show --view full` shows the summary too.")]
pub struct CompactArgs {
    /// The id of the conversation, as `skep session list` shows it, or a unique prefix
    id: String,
    /// What the summary must contain
    #[arg(long, value_name = "TEXT")]
    keep: Option<String>,
    /// The agent
    #[arg(long, default_value = "main")]
    agent: String,
}

pub async fn run(command: SessionCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        SessionCommand::List(list) => show_list(list, globals, &client).await,
        SessionCommand::Fork(fork) => make_fork(fork, globals, &client).await,
        SessionCommand::Compact(compact) => make_notes(compact, globals, &client).await,
    }
}

async fn show_list(
    list: SessionListArgs,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let page = page(client, &list.agent, list.limit, list.after).await?;
    let sessions = items(&page["sessions"]);
    globals.print(&page, sessions.iter().flat_map(lines));
    if globals.json {
        return Ok(());
    }
    if sessions.is_empty() {
        output::note("no conversations yet");
    }
    if let Some(after) = page["after"].as_str() {
        output::note(format!("more: --after {after}"));
    }
    Ok(())
}

/// A page of the sessions of an agent.
pub async fn page(
    client: &Client,
    agent: &str,
    limit: u32,
    after: Option<String>,
) -> Result<Value, Failure> {
    let path = format!("/api/v1/agents/{}/sessions", escaped(agent));
    let path = with_query(&path, [("limit", Some(limit.to_string())), ("after", after)]);
    client.fetch(&path, format!("list the conversations of {agent}")).await
}

fn lines(session: &Value) -> Vec<String> {
    let text = |key: &str| text_or_empty(&session[key]);
    let number = |key: &str| session[key].as_i64().unwrap_or(0);
    let here = if session["current"] == true { "" } else { " (earlier)" };
    let mut facts = format!(
        "{}  {}, {}",
        time::stamp(number("last_at")),
        counted(number("messages"), "message", "messages"),
        counted(number("tokens"), "token", "tokens")
    );
    if let Some(cost) = session["cost"].as_f64() {
        facts.push_str(&format!(", ${cost:.4}"));
    }
    for (key, word) in [("profile", "model"), ("think", "think")] {
        if let Some(chosen) = session[key].as_str() {
            facts.push_str(&format!(", {word} {}", foreign(chosen)));
        }
    }
    if let Some(from) = session["forked_from"]["session"].as_str() {
        let at = session["forked_from"]["at"].as_i64().unwrap_or(0);
        facts.push_str(&format!(", fork of {} at {at}", foreign(from)));
    }
    vec![
        format!("{}  {}{here}  {}", text("id"), text("session_key"), title(&text("title"))),
        format!("  {}", toned(&facts, Tone::Faint)),
    ]
}

fn title(text: &str) -> String {
    toned(if text.is_empty() { "(no messages)" } else { text }, Tone::Strong)
}

async fn make_fork(fork: ForkArgs, globals: &Globals, client: &Client) -> Result<(), Failure> {
    let id = IdList::sessions(&fork.agent).whole(client, &fork.id).await?;
    let (agent, id) = (escaped(&fork.agent), escaped(&id));
    let path = format!("/api/v1/agents/{agent}/sessions/{id}/fork");
    let body = json!({ "at": fork.at, "session_key": fork.key });
    let attempted = format!("fork the conversation {}", fork.id);
    let made = client.submit(&path, &body, attempted).await?;
    globals.print(&made, lines(&made));
    if !globals.json {
        let key = text_or_empty(&made["session_key"]);
        let next = format!("continue it: skep chat {} --session {key}", fork.agent);
        output::note(globals.commands(&next));
    }
    Ok(())
}

async fn make_notes(
    compact: CompactArgs,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let id = IdList::sessions(&compact.agent).whole(client, &compact.id).await?;
    let (agent, id) = (escaped(&compact.agent), escaped(&id));
    let path = format!("/api/v1/agents/{agent}/sessions/{id}/compact?wait=true&timeout=600");
    let body = json!({ "keep": compact.keep });
    let attempted = format!("summarise the conversation {}", compact.id);
    let ended = client.submit(&path, &body, attempted.clone()).await?;
    if globals.json {
        output::json(&ended);
    }
    if let Some(error) = ended["error"]["error"].as_str() {
        return Err(Failure::new(Exit::Failed, attempted, foreign(error)));
    }
    if !globals.json {
        let text = ended["response"]["content"].as_str().map(foreign);
        output::line(text.unwrap_or_else(|| globals.commands("still running; see skep status")));
    }
    Ok(())
}
