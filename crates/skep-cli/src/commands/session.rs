//! `skep session`: the conversations of an agent, what a person does with one, and forks.

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, IdList, escaped, with_query};
use crate::print::{Tone, counted, foreign, items, output, stamp, text_or_empty, time, toned};

/// A hive waits no longer for a summary.
const LONGEST: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub enum SessionCommand {
    /// List the conversations of an agent: pinned ones first, then the latest
    List(SessionListArgs),
    /// Show one conversation of the list
    #[command(after_help = "Examples:\n  skep session show 0190a3…")]
    Show(SessionArgs),
    /// Name a conversation
    #[command(after_help = "Examples:
  skep session rename 0190a3… \"Winter price list\"
  skep session rename 0190a3… \"\"                back to the automatic title")]
    Rename {
        #[command(flatten)]
        which: SessionArgs,
        /// Its new title
        title: String,
    },
    /// Keep a conversation at the top of the list
    #[command(after_help = "Examples:\n  skep session pin 0190a3…")]
    Pin(SessionMarkArgs),
    /// Take a conversation out of the list; a new message brings it back
    #[command(after_help = "Examples:\n  skep session archive 0190a3…")]
    Archive(SessionMarkArgs),
    /// Delete a conversation; the audit log and costs are kept
    #[command(after_help = "Examples:
  skep session delete 0190a3…
  skep session delete cli-7               by its session key
  skep session delete 0190a3… --yes       without a question")]
    Delete {
        #[command(flatten)]
        which: SessionArgs,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Copy the first part of a conversation into a new one
    Fork(ForkArgs),
    /// Summarise the older messages of a conversation for the model
    Compact(CompactArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep session list
  skep session list main --limit 10
  skep session list --archived")]
pub struct SessionListArgs {
    /// The agent
    #[arg(default_value = "main")]
    agent: String,
    /// How many conversations
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Those that are archived, instead of those that are not
    #[arg(long)]
    archived: bool,
    /// Continue a list: the value that its last line printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

#[derive(Args)]
pub struct SessionMarkArgs {
    #[command(flatten)]
    which: SessionArgs,
    /// Take it back
    #[arg(long)]
    undo: bool,
}

/// One conversation.
#[derive(Args)]
pub struct SessionArgs {
    /// The id of the conversation, as `skep session list` shows it, a unique prefix, or its
    /// session key
    id: String,
    /// The agent
    #[arg(long, default_value = "main")]
    agent: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep session fork 0190a3… --at 12            go on after message 12, under a new key
  skep session fork 0190a3… --at 12 --key try  … under the key `try`
  skep send main \"and now?\" --session try")]
pub struct ForkArgs {
    #[command(flatten)]
    which: SessionArgs,
    /// The last message to keep, by its number (all of them)
    #[arg(long, value_name = "SEQ")]
    at: Option<i64>,
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
    #[command(flatten)]
    which: SessionArgs,
    /// What the summary must contain
    #[arg(long, value_name = "TEXT")]
    keep: Option<String>,
}

pub async fn run(command: SessionCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        SessionCommand::List(list) => show_list(list, globals, &client).await,
        SessionCommand::Show(which) => {
            let (path, attempted) = which.place("read", &client).await?;
            let info = client.fetch(&path, attempted).await?;
            globals.print(&info, lines(&info).into_iter().chain([deletes(&info)]));
            Ok(())
        }
        SessionCommand::Rename { which, title } => {
            edit(which, "rename", json!({ "title": title }), globals, &client).await
        }
        SessionCommand::Pin(SessionMarkArgs { which, undo }) => {
            edit(which, "pin", json!({ "pinned": !undo }), globals, &client).await
        }
        SessionCommand::Archive(SessionMarkArgs { which, undo }) => {
            edit(which, "archive", json!({ "archived": !undo }), globals, &client).await
        }
        SessionCommand::Delete { which, yes } => delete(which, yes, globals, &client).await,
        SessionCommand::Fork(fork) => make_fork(fork, globals, &client).await,
        SessionCommand::Compact(compact) => make_notes(compact, globals, &client).await,
    }
}

async fn show_list(
    list: SessionListArgs,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let page = page(client, &list.agent, Some(list.archived), list.limit, list.after).await?;
    let sessions = items(&page["sessions"]);
    globals.print(&page, sessions.iter().flat_map(lines));
    if globals.json {
        return Ok(());
    }
    if sessions.is_empty() {
        output::note(if list.archived {
            "no archived conversations"
        } else {
            "no conversations yet"
        });
    }
    if let Some(after) = page["after"].as_str() {
        output::note(format!("more: --after {after}"));
    }
    Ok(())
}

impl SessionArgs {
    /// Its address, and what is attempted.
    async fn place(&self, verb: &str, client: &Client) -> Result<(String, String), Failure> {
        let id = IdList::session(client, &self.agent, &self.id).await?;
        let (agent, id) = (escaped(&self.agent), escaped(&id));
        let attempted = format!("{verb} the conversation {}", self.id);
        Ok((format!("/api/v1/agents/{agent}/sessions/{id}"), attempted))
    }
}

async fn edit(
    which: SessionArgs,
    verb: &str,
    change: Value,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let (path, attempted) = which.place(verb, client).await?;
    let info = client.patch(&path, &change, attempted).await?;
    globals.print(&info, lines(&info));
    Ok(())
}

/// Says what goes, asks, deletes.
async fn delete(
    which: SessionArgs,
    yes: bool,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let (path, attempted) = which.place("delete", client).await?;
    let info = client.fetch(&path, attempted.clone()).await?;
    if !yes {
        if globals.json || !std::io::stdin().is_terminal() {
            let why = "there is no terminal to ask at whether you are sure";
            return Err(Failure::new(Exit::Usage, attempted, why).next("add --yes"));
        }
        lines(&info).iter().for_each(output::line);
        output::line(deletes(&info));
        let answer = output::typed("delete it? This cannot be undone. [y]es, Enter to keep it: ");
        if !answer.is_some_and(|answer| matches!(answer.as_str(), "y" | "yes")) {
            output::note("kept");
            return Ok(());
        }
    }
    client.delete(&path, attempted).await?;
    let deleted = format!("deleted {}", text_or_empty(&info["id"]));
    globals.print(&json!({ "deleted": info["id"] }), [deleted]);
    Ok(())
}

/// What a deletion takes and what it leaves.
fn deletes(info: &Value) -> String {
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    format!(
        "  Deletion removes {}, {} ({} bytes) and their search entries. Workspace files, the audit \
         log and costs are kept.",
        counted(number(&info["messages"]), "message", "messages"),
        counted(number(&info["attachments"]["count"]), "attachment", "attachments"),
        number(&info["attachments"]["bytes"]),
    )
}

/// A page of the sessions of an agent: those that are archived, those that are not, or all.
pub async fn page(
    client: &Client,
    agent: &str,
    archived: Option<bool>,
    limit: u32,
    after: Option<String>,
) -> Result<Value, Failure> {
    let path = format!("/api/v1/agents/{}/sessions", escaped(agent));
    let archived = archived.map(|archived| archived.to_string());
    let parts = [("limit", Some(limit.to_string())), ("after", after), ("archived", archived)];
    let path = with_query(&path, parts);
    client.fetch(&path, format!("list the conversations of {agent}")).await
}

pub fn lines(session: &Value) -> Vec<String> {
    let text = |key: &str| text_or_empty(&session[key]);
    let number = |key: &str| session[key].as_i64().unwrap_or(0);
    let here = if session["current"] == true { "" } else { " (earlier)" };
    let marks = ["pinned", "archived"].into_iter().filter(|mark| session[*mark] == true);
    let marks: String = marks.map(|mark| format!(" ({mark})")).collect();
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
        format!("{}  {}{here}  {}{marks}", text("id"), text("session_key"), title(session)),
        format!("  {}", toned(&facts, Tone::Faint)),
    ]
}

/// Its title; else the agent and when it began.
fn title(session: &Value) -> String {
    let began =
        || format!("{}, {}", text_or_empty(&session["agent"]), stamp(&session["created_at"]));
    let title = Some(text_or_empty(&session["title"])).filter(|title| !title.is_empty());
    toned(&title.unwrap_or_else(began), Tone::Strong)
}

async fn make_fork(fork: ForkArgs, globals: &Globals, client: &Client) -> Result<(), Failure> {
    let (path, attempted) = fork.which.place("fork", client).await?;
    let body = json!({ "at": fork.at, "session_key": fork.key });
    let made = client.submit(&format!("{path}/fork"), &body, attempted).await?;
    globals.print(&made, lines(&made));
    if !globals.json {
        let key = text_or_empty(&made["session_key"]);
        let next = format!("continue it: skep chat {} --session {key}", fork.which.agent);
        output::note(globals.commands(&next));
    }
    Ok(())
}

async fn make_notes(
    compact: CompactArgs,
    globals: &Globals,
    client: &Client,
) -> Result<(), Failure> {
    let (path, attempted) = compact.which.place("summarise", client).await?;
    let path = format!("{path}/compact?wait=true&timeout={}", LONGEST.as_secs());
    let body = json!({ "keep": compact.keep });
    let ended = client.post_waiting(&path, &body, LONGEST).await;
    let ended = ended.map_err(|error| client.failure(attempted.clone(), error))?;
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
