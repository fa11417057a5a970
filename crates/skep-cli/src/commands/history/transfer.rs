//! `skep history export` and `import`: sessions as files of JSON lines, out of a hive and into one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use skep_guard::egress::HttpResponse;

use crate::commands::{agent, session};
use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, IdList, escaped, with_query};
use crate::print::{items, output};

/// What is shorter is a key, not the beginning of an id.
const SHORTEST_ID: usize = 8;

#[derive(Args)]
#[command(after_help = "Examples:
  skep history export                        every conversation of every agent
  skep history export main --out backup      those of main, into backup/history/
  skep history export main --session main    the current conversation of the key main
  skep history export --format seed          time, role, content and meta alone")]
pub struct HistoryExportArgs {
    /// The agent (all of them)
    agent: Option<String>,
    /// Only this conversation: its id, a unique prefix of it, or its key
    #[arg(long, value_name = "SESSION", requires = "agent")]
    session: Option<String>,
    /// Folder in which `history/AGENT-SESSION.jsonl` is written
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    out: PathBuf,
    /// `skep`: as it is stored; `seed`: time, role, content and meta alone; `markdown`: what was
    /// said, for people
    #[arg(long, default_value = "skep", value_parser = ["skep", "seed", "markdown"])]
    format: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep history import history/*.jsonl
  skep history import main-0190a3….jsonl --session old
  skep history import old.jsonl --agent main

An imported conversation keeps its ids, numbers and times; a file in the format seed gets
ids of its own and needs --agent. To go on in it: skep session fork")]
pub struct HistoryImportArgs {
    /// Files that `skep history export` wrote
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The agent they belong to; files in the format seed name none
    #[arg(long)]
    agent: Option<String>,
    /// Session key for it, if that is not used yet (default: import:ID)
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
}

pub async fn export(command: HistoryExportArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let agents = match &command.agent {
        Some(agent) => vec![agent.clone()],
        None => {
            let all = agent::agents(&client, "list the agents").await?;
            all.iter().filter_map(|agent| Some(agent["name"].as_str()?.to_owned())).collect()
        }
    };
    let folder = command.out.join("history");
    let failed = |error: std::io::Error| {
        let attempted = format!("make the folder {}", folder.display());
        Failure::new(Exit::Failed, attempted, error.to_string())
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    let mut written = Vec::new();
    for agent in agents {
        for id in sessions(&client, &agent, command.session.as_deref()).await? {
            let file = write_session(&client, &agent, &id, &command.format, &folder).await?;
            if !globals.json {
                output::line(file.display().to_string());
            }
            written.push(file.display().to_string());
        }
    }
    if globals.json {
        output::json(&json!({ "files": written }));
    }
    Ok(())
}

/// The ids to export: the one with this id or key, or all of the agent.
async fn sessions(
    client: &Client,
    agent: &str,
    wanted: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let whole = match wanted.filter(|wanted| wanted.len() >= SHORTEST_ID) {
        Some(wanted) => Some(IdList::session(client, agent, wanted).await?),
        None => wanted.map(str::to_owned),
    };
    let wanted = whole.as_deref();
    let mut ids = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = session::page(client, agent, None, 500, after).await?;
        for session in items(&page["sessions"]) {
            let Some(id) = session["id"].as_str() else { continue };
            let is_meant = match wanted {
                None => true,
                Some(wanted) if wanted == id => true,
                Some(wanted) => session["current"] == true && session["session_key"] == wanted,
            };
            if is_meant {
                ids.push(id.to_owned());
            }
        }
        after = page["after"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    match wanted {
        Some(wanted) if ids.is_empty() => {
            let attempted = format!("export the conversation {wanted} of {agent}");
            let why = "no conversation of this agent has that id or key";
            let next = format!("skep session list {agent}");
            Err(Failure::new(Exit::Failed, attempted, why).next(next))
        }
        _ => Ok(ids),
    }
}

/// Writes to a temporary name first: a file with the final name is complete.
async fn write_session(
    client: &Client,
    agent: &str,
    id: &str,
    format: &str,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    let attempted = format!("export the session {id} of {agent}");
    // The names come from the hive: they must not escape the folder.
    let plain = |name: &str| skep_core::ids::is_session_id(name);
    if !plain(agent) || !plain(id) {
        let why = "its name cannot be the name of a file";
        return Err(Failure::new(Exit::Failed, attempted, why));
    }
    let ending = if format == "markdown" { "md" } else { "jsonl" };
    let file = folder.join(format!("{agent}-{id}.{ending}"));
    let unfinished = folder.join(format!("{agent}-{id}.{ending}.part"));
    let session = format!("/api/v1/agents/{}/sessions/{}", escaped(agent), escaped(id));
    let path = format!("{session}/export?format={format}");
    let response = client.stream(&path).await.map_err(|error| client.failure(&attempted, error))?;
    let done = save(response, &unfinished).await;
    let done = done.and_then(|()| fs::rename(&unfinished, &file).map_err(|e| e.to_string()));
    done.map_err(|why| {
        let _ = fs::remove_file(&unfinished);
        Failure::new(Exit::Failed, attempted, why)
    })?;
    Ok(file)
}

async fn save(mut response: HttpResponse, file: &Path) -> Result<(), String> {
    let mut out = fs::File::create(file).map_err(|error| error.to_string())?;
    let broke = |error| format!("the hive broke off: {error}");
    while let Some(piece) = response.chunk().await.map_err(broke)? {
        out.write_all(&piece).map_err(|error| error.to_string())?;
    }
    out.sync_all().map_err(|error| error.to_string())
}

pub async fn import(command: HistoryImportArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let mut reports = Vec::new();
    for file in &command.files {
        let report = import_one(&client, file, &command).await?;
        if !globals.json {
            let session = report["session"].as_str().unwrap_or("?");
            let count = report["messages"].as_i64().unwrap_or(0);
            let what = match report["imported"].as_bool() {
                Some(true) => format!("{count} messages imported"),
                _ => "was there already, the same".to_owned(),
            };
            output::line(format!("{}: session {session}: {what}", file.display()));
        }
        reports.push(report);
    }
    if globals.json {
        output::json(&json!({ "sessions": reports }));
    }
    Ok(())
}

async fn import_one(
    client: &Client,
    file: &Path,
    command: &HistoryImportArgs,
) -> Result<Value, Failure> {
    let attempted = format!("import {}", file.display());
    let failed = |why: String| Failure::new(Exit::Failed, &attempted, why);
    let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
        .map_err(|error| failed(format!("line 1: this is not JSON ({error})")))?;
    let Some(agent) = command.agent.as_deref().or(first["agentId"].as_str()) else {
        let why = "line 1: `agentId` is missing; is this an export of `skep history`? Name the \
                   agent of a file in the format seed with --agent";
        return Err(failed(why.to_owned()));
    };
    let path = format!("/api/v1/agents/{}/sessions", escaped(agent));
    let path = with_query(&path, [("session_key", command.session.clone())]);
    client.post_lines(&path, text).await.map_err(|error| client.failure(&attempted, error))
}
