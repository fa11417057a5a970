//! `skep audit`: the trail of every tool call and decision. `verify` also works on the files of a
//! hive that does not run.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use skep_core::audit_export::{self, ExportReader};

use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, Globals, Home, IdList, with_query};
use crate::print::{counted, foreign, items, output, stamp, table};

/// Verifying a long trail takes minutes.
const VERIFY: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub enum AuditCommand {
    /// List rows, newest first
    #[command(after_help = "Examples:
  skep audit list
  skep audit list --outcome refused
  skep audit list --agent main --tool bash --limit 200
  skep audit list --turn 0197c0de-… --json")]
    List {
        /// Only this agent's
        #[arg(long)]
        agent: Option<String>,
        /// Only of this tool
        #[arg(long)]
        tool: Option<String>,
        /// Only with this outcome: ok, error, refused, unknown, …
        #[arg(long)]
        outcome: Option<String>,
        /// Only of this turn: its id, or a unique prefix of it
        #[arg(long)]
        turn: Option<String>,
        /// call, decision, change, checkpoint or break
        #[arg(long)]
        kind: Option<String>,
        /// How many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Verify the whole trail: list rows that were changed, removed, moved or cut off
    #[command(after_help = "Examples:
  skep audit verify
  skep audit verify audit.jsonl

The exit code is 0 when nothing contradicts the chain, else 1. It works on a hive that runs and on
one that does not, and on a file that skep audit export wrote. Rows of a file that were redacted
later are listed (with --json as `redacted`): the chain proves that they were there, not what they
said. A script that needs every row proven looks at that list too.")]
    Verify {
        /// An export, in place of the trail itself
        file: Option<PathBuf>,
    },
    /// Write every row as JSON lines, oldest first
    #[command(after_help = "Examples:
  skep audit export --out audit.jsonl
  skep audit export | jq -r 'select(.outcome == \"refused\") | .tool'")]
    Export {
        /// The file (standard output)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// `at_rest` verifies the trail of a home whose hive does not run.
pub async fn run<R>(command: AuditCommand, globals: &Globals, at_rest: R) -> Result<(), Failure>
where
    R: AsyncFnOnce(&Home) -> Result<Value, String>,
{
    match command {
        AuditCommand::List { agent, tool, outcome, turn, kind, limit } => {
            let turn = match turn {
                Some(turn) => Some(IdList::turns().whole(&Client::open(globals)?, &turn).await?),
                None => None,
            };
            let wanted = [
                ("agent", agent),
                ("tool", tool),
                ("outcome", outcome),
                ("turn", turn),
                ("kind", kind),
            ];
            list(globals, &with_query("/api/v1/audit", wanted), limit).await
        }
        AuditCommand::Verify { file: Some(file) } => verify_export(globals, &file),
        AuditCommand::Verify { file: None } => verify(globals, at_rest).await,
        AuditCommand::Export { out } => export(globals, out).await,
    }
}

async fn list(globals: &Globals, path: &str, limit: usize) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let mut rows: Vec<Value> = Vec::new();
    let mut cursor = None;
    loop {
        let page = limit.saturating_sub(rows.len()).clamp(1, 500);
        let path = with_query(path, [("limit", Some(page.to_string())), ("cursor", cursor)]);
        let answer = client.fetch(&path, "list the audit trail").await?;
        rows.extend(items(&answer["rows"]).iter().cloned());
        match answer["next"].as_i64() {
            Some(next) if rows.len() < limit => cursor = Some(next.to_string()),
            _ => break,
        }
    }
    if rows.is_empty() && !globals.json {
        output::note("no such rows");
        return Ok(());
    }
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let what = if row["tool"].is_null() { text("kind") } else { text("tool") };
        let (id, at) = (row["id"].to_string(), stamp(&row["at"]));
        [id, at, text("principal"), text("agent"), what, text("outcome"), details(row)]
    };
    let heads = ["row", "time", "who", "agent", "what", "outcome", "details"];
    globals.print(&json!({ "rows": rows }), table(heads, rows.iter().map(row)));
    Ok(())
}

/// The stage that refused the call, else the arguments; of a change, what is different.
fn details(row: &Value) -> String {
    let links = items(&row["decision"]).iter();
    let mut said = links.filter_map(|link| Some((link["stage"].as_str()?, link["word"].as_str()?)));
    let refused = said.find(|(_, word)| word.starts_with("refused"));
    match (refused, row["arguments"].as_object()) {
        (Some((stage, word)), _) => format!("{stage}: {word}"),
        (None, Some(change)) if row["kind"] == "change" => {
            let told = change.iter().filter_map(|(key, value)| {
                let at = value.as_i64().filter(|_| key == "until");
                Some((key, at.map_or_else(|| plain(value), |_| Some(stamp(value)))?))
            });
            let told = told.map(|(key, value)| format!("{}: {value}", key.replace('_', " ")));
            told.collect::<Vec<_>>().join(", ")
        }
        _ => row["arguments"].to_string(),
    }
}

/// A value as a person writes it; nothing where there is nothing to say.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => Some(list.iter().filter_map(plain).collect::<Vec<_>>().join(" ")),
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

async fn verify<R>(globals: &Globals, at_rest: R) -> Result<(), Failure>
where
    R: AsyncFnOnce(&Home) -> Result<Value, String>,
{
    let attempted = "verify the audit trail";
    let client = Client::open(globals)?;
    let verdict = match client.get_waiting("/api/v1/audit/verify", VERIFY).await {
        Ok(verdict) => verdict,
        Err(CallError::Unreachable { connected: false, .. }) if globals.url.is_none() => {
            let verdict = at_rest(&globals.home()?).await;
            verdict.map_err(|why| Failure::new(Exit::Failed, attempted, why))?
        }
        Err(error) => return Err(client.failure(attempted, error)),
    };
    report(globals, &verdict)
}

/// Reads it twice: the last checkpoint says what the first row follows.
fn verify_export(globals: &Globals, file: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let attempted = format!("verify {}", file.display());
        Failure::new(Exit::Failed, attempted, error.to_string())
    };
    let lines = || Ok(BufReader::new(File::open(file)?).lines());
    let mut start = None;
    for line in lines().map_err(failed)? {
        start = audit_export::checkpoint(&line.map_err(failed)?).or(start);
    }
    let mut reader = ExportReader::new(start.unwrap_or_default());
    for (line, number) in lines().map_err(failed)?.zip(1..) {
        reader.take(number, &line.map_err(failed)?);
    }
    let (verdict, redacted) = reader.end();
    let mut verdict = json!(verdict);
    verdict["redacted"] = json!(redacted);
    report(globals, &verdict)?;
    if !globals.json && !redacted.is_empty() {
        let rows: Vec<String> = redacted.iter().map(ToString::to_string).collect();
        let rows = rows.join(", ");
        output::line(format!("redacted later, so that nothing they say is proven: rows {rows}"));
    }
    Ok(())
}

fn report(globals: &Globals, verdict: &Value) -> Result<(), Failure> {
    let (rows, last) = (&verdict["rows"], &verdict["last"]);
    let hash = verdict["hash"].as_str().unwrap_or_default();
    let findings = items(&verdict["findings"]).iter();
    let findings: Vec<String> =
        findings.filter_map(|finding| finding["text"].as_str().map(foreign)).collect();
    if globals.json {
        output::json(verdict);
    } else if findings.is_empty() {
        let but = match items(&verdict["redacted"]).len() {
            0 => String::new(),
            count => format!(" but {count}"),
        };
        let rows = counted(rows.as_u64().unwrap_or(0), "row", "rows");
        let proven = format!("{rows}, all{but} as they were written");
        output::line(format!("{proven}; row {last} has hash {hash}"));
    }
    if findings.is_empty() {
        return Ok(());
    }
    let mut why = findings.join("\n");
    if verdict["more"].as_u64() > Some(0) {
        why.push_str(&format!("\nand {} more", verdict["more"]));
    }
    Err(Failure::new(Exit::Failed, "verify the audit trail", why)
        .next("compare with an earlier skep audit export, or with a backup"))
}

async fn export(globals: &Globals, out: Option<PathBuf>) -> Result<(), Failure> {
    let attempted = "export the audit trail";
    let client = Client::open(globals)?;
    let response = client.stream("/api/v1/audit/export").await;
    let mut response = response.map_err(|error| client.failure(attempted, error))?;
    let failed = |why: String| Failure::new(Exit::Failed, attempted, why);
    let mut file: Box<dyn Write> = match &out {
        Some(path) => Box::new(File::create(path).map_err(|error| failed(error.to_string()))?),
        None => Box::new(std::io::stdout()),
    };
    let broke = |error| failed(format!("the hive broke off: {error}"));
    let mut begun = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broke)? {
        begun.extend_from_slice(&piece);
        let whole = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = String::from_utf8_lossy(&begun[..whole]).into_owned();
        let lines = output::escaped(lines);
        file.write_all(lines.as_bytes()).map_err(|error| failed(error.to_string()))?;
        begun.drain(..whole);
    }
    let ended = file.write_all(&begun).and_then(|()| file.flush());
    ended.map_err(|error| failed(error.to_string()))?;
    if let Some(path) = out {
        let path = path.display().to_string();
        globals.print(&serde_json::json!({ "out": path }), [format!("wrote {}", foreign(&path))]);
    }
    Ok(())
}
