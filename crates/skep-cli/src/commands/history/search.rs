//! `skep history search`: messages by their words.

use clap::Args;
use serde_json::Value;

use crate::commands::session;
use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, with_query};
use crate::print::{Tone, counted, foreign, items, output, stamp, text_or_empty, toned};

#[derive(Args)]
#[command(after_help = "Examples:
  skep history search invoice                all messages with the word
  skep history search '\"black cat\" -dog'     a phrase, and without a word
  skep history search --agent main 'deploy* OR release'

Words must all be there; case and accents do not matter. Tool results are not searched.
Options come before the words.")]
pub struct HistorySearchArgs {
    /// Words, "phrases", beginnings*, -exclusions, this OR that
    #[arg(required = true, allow_hyphen_values = true)]
    words: Vec<String>,
    /// Only messages to and from this agent
    #[arg(long)]
    agent: Option<String>,
    /// How many messages
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Continue a list: the value that its last line printed
    #[arg(long, value_name = "CURSOR")]
    before: Option<i64>,
}

pub async fn run(search: HistorySearchArgs, globals: &Globals) -> Result<(), Failure> {
    if let Some(option) = search.words.iter().find(|word| word.starts_with("--")) {
        let why = format!("`{}` comes after the words and would be searched for", foreign(option));
        let failure = Failure::new(Exit::Usage, "search the history", why);
        return Err(
            failure.next("put options before the words: skep history search --limit 5 hello")
        );
    }
    let client = Client::open(globals)?;
    let parts = [
        ("q", Some(search.words.join(" "))),
        ("limit", Some(search.limit.to_string())),
        ("agent", search.agent),
        ("before", search.before.map(|before| before.to_string())),
    ];
    let path = with_query("/api/v1/search", parts);
    let page = client.fetch(&path, "search the history").await?;
    let hits = items(&page["hits"]);
    globals.print(&page, hits.iter().flat_map(lines));
    if globals.json {
        return Ok(());
    }
    let titled = items(&page["conversations"]);
    if !titled.is_empty() {
        output::line("conversations of that name:");
        titled.iter().flat_map(session::lines).for_each(output::line);
    }
    if hits.is_empty() && titled.is_empty() {
        output::note("nothing was found");
    }
    if let Some(behind) = page["unindexed"].as_i64() {
        let behind = counted(behind, "message is", "messages are");
        output::note(format!("{behind} still being indexed; search again later"));
    }
    if let Some(before) = page["before"].as_i64() {
        let more = format!("more: skep history search --before {before} …");
        output::note(globals.commands(&more));
    }
    Ok(())
}

fn lines(hit: &Value) -> Vec<String> {
    let text = |key: &str| text_or_empty(&hit[key]);
    let at = stamp(&hit["timestamp"]);
    let seq = hit["seq"].as_i64().unwrap_or(0);
    let head = format!("{at}  {}/{} #{seq}", text("agent"), text("session_key"));
    let dots = |cut: bool| if cut { "…" } else { "" };
    let before = dots(hit["excerpt_at"].as_i64().is_some_and(|at| at > 0));
    let after = dots(hit["cut"] == true);
    let said = format!("{before}{}{after}", marked(hit));
    let who = format!("{}  {}", text("role"), text("title"));
    let mut lines = vec![format!("{} {}", toned(&head, Tone::Faint), who.trim_end())];
    lines.extend(said.lines().map(|line| format!("  {line}")));
    lines.push(toned(&format!("  session {}", text("session")), Tone::Faint));
    lines
}

/// The excerpt with its matches highlighted.
fn marked(hit: &Value) -> String {
    let excerpt: Vec<char> = hit["excerpt"].as_str().unwrap_or_default().chars().collect();
    let piece = |from: usize, to: usize| -> String {
        excerpt
            .get(from..to)
            .map(|piece| foreign(&piece.iter().collect::<String>()))
            .unwrap_or_default()
    };
    let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
    let mut shown = String::new();
    let mut done = 0;
    for mark in items(&hit["marks"]) {
        let (Some(at), Some(length)) = (number(&mark[0]), number(&mark[1])) else { continue };
        shown.push_str(&piece(done, at));
        shown.push_str(&toned(&piece(at, at + length), Tone::Strong));
        done = at + length;
    }
    shown + &piece(done, excerpt.len())
}
