//! `skep history`: shows, searches, exports and imports conversations.

mod search;
mod transfer;

use clap::{Args, Subcommand};
use serde_json::Value;
use skep_core::message::Usage;
use skep_guard::clock;

use crate::failure::Failure;
use crate::hive::{Client, Globals, IdList, escaped, with_query};
use crate::print::{Tone, foreign, items, outcome, output, stamp, text, toned};

#[derive(Subcommand)]
pub enum HistoryCommand {
    /// Show the newest messages of a conversation
    Show(HistoryShowArgs),
    /// Search conversations
    Search(search::HistorySearchArgs),
    /// Write conversations to files of JSON lines
    Export(transfer::HistoryExportArgs),
    /// Import such files
    Import(transfer::HistoryImportArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep history show main
  skep history show main --view full --limit 20
  skep history show main --session 0190a3…   a conversation by its id, also an archived one
  skep history show main --before 120        the messages before number 120")]
pub struct HistoryShowArgs {
    /// The agent
    agent: String,
    /// The conversation: its session key, its id or a unique prefix of that
    #[arg(long, default_value = "main", value_name = "KEY")]
    session: String,
    /// simple: messages only; full: every step
    #[arg(long, value_parser = ["simple", "full"], default_value = "simple")]
    view: String,
    /// How many messages
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only messages before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
}

pub async fn run(command: HistoryCommand, globals: &Globals) -> Result<(), Failure> {
    match command {
        HistoryCommand::Show(command) => show(command, globals).await,
        HistoryCommand::Search(command) => search::run(command, globals).await,
        HistoryCommand::Export(command) => transfer::export(command, globals).await,
        HistoryCommand::Import(command) => transfer::import(command, globals).await,
    }
}

async fn show(show: HistoryShowArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let place = |named: &'static str, value: &str| {
        let parts = [
            (named, Some(value.to_owned())),
            ("view", Some(show.view.clone())),
            ("limit", Some(show.limit.to_string())),
            ("before", show.before.map(|before| before.to_string())),
        ];
        with_query(&format!("/api/v1/agents/{}/history", escaped(&show.agent)), parts)
    };
    let attempted = format!("read the history of {}", show.agent);
    let mut page = client.fetch(&place("session_key", &show.session), attempted.clone()).await?;
    // Nothing was said there yet, or it is no key.
    if page["session"].is_null() && show.session != "main" {
        let id = IdList::session(&client, &show.agent, &show.session).await?;
        page = client.fetch(&place("session", &id), attempted).await?;
    }
    let messages = items(&page["messages"]);
    if messages.is_empty() && !globals.json {
        output::note("no messages yet");
    }
    let breaks = match page["session"].as_str().filter(|_| show.view == "full" && !globals.json) {
        Some(session) => cache_breaks(&client, &show.agent, session).await?,
        None => Vec::new(),
    };
    let told = |message: &Value| {
        let mut lines = lines(message);
        let broke = breaks.iter().filter(|broke| broke["seq"] == message["seq"]);
        let said = broke.map(|broke| format!("  {}", toned(&cache_line(broke), Tone::Faint)));
        let end = lines.len().saturating_sub(1);
        lines.splice(end..end, said);
        lines
    };
    let now = clock::now_ms();
    let ended = |seq: &Value| {
        let here = items(&page["turns"]).iter().filter(|turn| turn["seq"] == *seq);
        let lines = here.flat_map(|turn| outcome::lines(turn, now));
        let named = |line: String| match line.starts_with("  next: ") {
            true => globals.commands(&line),
            false => line,
        };
        lines.map(named).collect::<Vec<_>>()
    };
    let rows = messages.iter().flat_map(|message| [told(message), ended(&message["seq"])].concat());
    globals.print(&page, rows);
    Ok(())
}

async fn cache_breaks(client: &Client, agent: &str, id: &str) -> Result<Vec<Value>, Failure> {
    let path = format!("/api/v1/agents/{}/sessions/{}", escaped(agent), escaped(id));
    let info = client.fetch(&path, format!("read the session {id} of {agent}")).await?;
    Ok(items(&info["cache_breaks"]).to_vec())
}

fn cache_line(broke: &Value) -> String {
    let since = broke["since"].as_i64().map(|_| format!(", {}", stamp(&broke["since"])));
    let (tokens, why) = (&broke["tokens"], text(&broke["why"]));
    format!("{tokens} tokens were read anew: {why}{}", since.unwrap_or_default())
}

pub fn lines(message: &Value) -> Vec<String> {
    let at = stamp(&message["timestamp"]);
    let number = message["seq"].as_i64().map(|seq| format!(" #{seq}")).unwrap_or_default();
    let who = match message["role"].as_str() {
        Some("toolResult") => {
            let failed = if message["isError"] == true { " failed" } else { "" };
            format!("result of {}{failed}", text(&message["toolName"]))
        }
        Some(role) => foreign(role),
        None => "?".to_owned(),
    };
    let head = format!("{} {}", toned(&format!("{at}{number}"), Tone::Faint), who);
    let blocks = items(&message["content"]);
    let mut lines = vec![head];
    for block in blocks.iter().filter_map(block) {
        lines.extend(block.lines().map(|line| format!("  {line}")));
    }
    let incomplete = outcome::incomplete(&message["meta"]["stopReason"]);
    lines.extend(incomplete.map(|words| format!("  {}", toned(words, Tone::Strong))));
    lines.extend(spent(&message["meta"]).map(|text| format!("  {}", toned(&text, Tone::Faint))));
    lines.push(String::new());
    lines
}

/// The model, its tokens and its cost.
fn spent(meta: &Value) -> Option<String> {
    let usage: Usage = serde_json::from_value(meta["usage"].clone()).ok()?;
    let cost = match usage.cost {
        Some(cost) => cost.to_string(),
        None => "cost unknown".to_owned(),
    };
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({cached} cached)"),
    };
    let input = usage.input + usage.cache_read + usage.cache_write;
    let mut model = text(&meta["model"]);
    if let Some(profile) = meta["profile"].as_str() {
        model.push_str(&format!(" ({})", foreign(profile)));
    }
    Some(format!("{model}, {input} tokens in{cached}, {} out, {cost}", usage.output))
}

fn block(block: &Value) -> Option<String> {
    match block["type"].as_str()? {
        "text" => Some(text(&block["text"])),
        "thinking" => Some(format!("(thinks) {}", text(&block["thinking"]))),
        "redacted_thinking" => Some("(thinks, unseen)".to_owned()),
        "toolCall" => {
            let arguments = foreign(&block["arguments"].to_string());
            Some(format!("calls {} {arguments}", text(&block["name"])))
        }
        "file" => Some(format!(
            "(file {}, {}, {} bytes, {})",
            text(&block["name"]),
            text(&block["mime"]),
            block["size"],
            text(&block["hash"])
        )),
        other => Some(format!("({})", foreign(other))),
    }
}
