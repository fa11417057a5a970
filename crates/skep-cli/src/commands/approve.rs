//! `skep approve` and `skep deny`: calls that wait for a person. `skep why` and `skep grant`: what
//! would be decided, and what is allowed for a time.

mod ask;
mod show;

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skep_core::policy::address::{AddressKind, kind_of};
use skep_core::policy::host::Host;

use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, Globals, IdList, escaped, with_query};
use crate::print::{
    TextSpan, Tone, counted, foreign, items, output, stamp, table, text, time, toned,
};

pub use show::{RULE, because, call, details, facts, one_line, title};

#[derive(Args)]
#[command(after_help = "Examples:
  skep approve                                  look at what waits, one after the other
  skep approve 019a2b3c-…                       let exactly this call run
  skep approve 019a2b3c-… --session             and calls like it in this conversation
  skep approve 019a2b3c-… --always --pattern 'git push'
  skep approve 019a2b3c-… --always --pattern 'cargo build' --pattern rsync
  skep approve --unused                         what was approved and never ran

Without an id it lists what waits and asks, on a terminal; elsewhere it exits 2.")]
pub struct ApproveArgs {
    /// The approval, as the list names it, or a unique prefix of it
    id: Option<String>,
    /// Calls like it from now on: a rule in the agent's config.yaml; needs --pattern
    #[arg(long, requires = "pattern", conflicts_with = "session")]
    always: bool,
    /// Calls like it in this conversation
    #[arg(long)]
    session: bool,
    /// What is allowed: the first words of a command, a path, a host; once for each command of a
    /// line
    #[arg(long)]
    pattern: Vec<String>,
    /// For the record
    #[arg(long)]
    note: Option<String>,
    /// List what was approved and no call ran with
    #[arg(long, conflicts_with_all = ["id", "always", "session", "note"])]
    unused: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep deny 019a2b3c-… --note 'use the staging database'

The note goes to the agent. Without an id it lists what waits and asks, on a terminal; elsewhere it
exits 2.")]
pub struct DenyArgs {
    /// The approval, as the list names it, or a unique prefix of it
    id: Option<String>,
    /// Why, for the agent
    #[arg(long)]
    note: Option<String>,
}

pub async fn run_approve(command: ApproveArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    if command.unused {
        return list_unused(&client, globals).await;
    }
    let Some(id) = command.id else { return ask_all(&client, globals).await };
    let scope = match (command.always, command.session) {
        (true, _) => "always",
        (_, true) => "session",
        _ => "once",
    };
    let (patterns, note) = (command.pattern, command.note);
    let body = json!({"decision": "approve", "scope": scope, "patterns": patterns, "note": note});
    decide_by_id(&client, globals, &id, body).await
}

pub async fn run_deny(command: DenyArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let Some(id) = command.id else { return ask_all(&client, globals).await };
    let body = json!({"decision": "deny", "note": command.note});
    decide_by_id(&client, globals, &id, body).await
}

/// A decision by id alone is about the approval as it is now: the current hash is sent.
async fn decide_by_id(
    client: &Client,
    globals: &Globals,
    id: &str,
    mut body: Value,
) -> Result<(), Failure> {
    let id = &IdList::approvals().whole(client, id).await?;
    let path = format!("/api/v1/approvals/{}", escaped(id));
    let attempted = format!("decide on {id}");
    let found = client.get(&path).await.map_err(|error| failure(client, &attempted, error))?;
    body["hash"] = found["hash"].clone();
    let done = decide(client, id, &body).await?;
    show_decided(globals, &done);
    Ok(())
}

async fn decide(client: &Client, id: &str, body: &Value) -> Result<Value, Failure> {
    let path = format!("/api/v1/approvals/{}/decision", escaped(id));
    let done = client.post(&path, body, None).await;
    done.map_err(|error| failure(client, &format!("decide on {id}"), error))
}

fn failure(client: &Client, attempted: &str, error: CallError) -> Failure {
    let decided = matches!(error, CallError::Problem { status: 409, .. });
    let failure = client.failure(attempted, error);
    if decided { failure.next("skep approve") } else { failure }
}

fn show_decided(globals: &Globals, done: &Value) {
    globals.print(done, [verdict(&done["state"], &done["decision"], done)]);
}

/// `approved for this conversation: make deploy; allows make deploy $`
pub fn verdict(state: &Value, decision: &Value, about: &Value) -> String {
    let scope = decision["scope"].as_str().filter(|_| state == "approved");
    let summary = about["summary"].as_str().map_or_else(|| "an approval".to_owned(), foreign);
    let allows = || format!("; allows {}", allowed(&decision["patterns"], &about["tool"]));
    let (scope, allows) = match scope {
        Some("session") => (" for this conversation", allows()),
        Some("always") => (" always", allows()),
        Some(_) => (" once", String::new()),
        None => ("", String::new()),
    };
    format!("{}{scope}: {summary}{allows}", text(state))
}

async fn list_unused(client: &Client, globals: &Globals) -> Result<(), Failure> {
    let path = "/api/v1/approvals?state=unused&limit=200";
    let page = client.fetch(path, "list what was not used").await?;
    let row = |approval: &Value| {
        let (named, decision) = (|key: &str| text(&approval[key]), &approval["decision"]);
        let (by, scope) = (text(&decision["by"]), text(&decision["scope"]));
        [named("id"), named("agent"), named("summary"), stamp(&decision["at"]), by, scope]
    };
    let heads = ["id", "agent", "call", "approved", "by", "scope"];
    globals.print(&page, table(heads, items(&page["approvals"]).iter().map(row)));
    Ok(())
}

/// Lists what waits, and asks about each where somebody can answer.
async fn ask_all(client: &Client, globals: &Globals) -> Result<(), Failure> {
    let page = client.fetch("/api/v1/approvals?limit=200", "list what waits").await?;
    if globals.json {
        output::json(&page);
    }
    let open = items(&page["approvals"]);
    if open.is_empty() {
        output::note("no approvals waiting");
        return Ok(());
    }
    let asks = std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !globals.json;
    // The oldest first: it has waited longest.
    for question in open.iter().rev() {
        if asks && !is_open(client, question).await {
            let id = text(&question["id"]);
            output::note(format!("{id} was decided meanwhile"));
            continue;
        }
        if !globals.json {
            lines(question).into_iter().for_each(output::line);
        }
        if asks && question["refused"].is_null() {
            ask::one(client, globals, question).await?;
        }
    }
    let waiting = counted(open.len() as u64, "call waits", "calls wait");
    match asks {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Usage,
            "decide",
            format!("{waiting}, and this is not a terminal: nobody can be asked"),
        )
        .next("skep approve ID, or skep deny ID --note '…'")),
    }
}

/// An approval of one call may cover others. If the state cannot be read, the question is still
/// asked; the hive refuses a late answer.
async fn is_open(client: &Client, question: &Value) -> bool {
    let path =
        format!("/api/v1/approvals/{}", escaped(question["id"].as_str().unwrap_or_default()));
    client.get(&path).await.map_or(true, |found| found["state"] == "open")
}

/// The lines of an approval, complete: what is wanted, the call, the facts.
fn lines(question: &Value) -> Vec<String> {
    let mut lines = vec![toned(&foreign(&title(question)), Tone::Strong)];
    lines.extend(call(question).iter().map(|line| format!("  {}", foreign(line))));
    lines.extend(facts(question, usize::MAX).iter().map(|line| printed(line)));
    lines.extend(details(question));
    lines
}

fn printed(line: &[TextSpan]) -> String {
    let span = |span: &TextSpan| match span.style.colour {
        Some(_) => toned(&span.text, Tone::Bad),
        None => span.text.clone(),
    };
    line.iter().map(span).collect()
}

/// Sets of patterns to choose from, the narrowest first: each covers every command of the call.
pub fn choices(question: &Value) -> Vec<Vec<String>> {
    let texts = |part: &Value| -> Vec<String> {
        let patterns = items(&part["patterns"]).iter().filter_map(Value::as_str);
        patterns.map(str::to_owned).collect()
    };
    let parts: Vec<Vec<String>> = items(&question["commands"]).iter().map(texts).collect();
    if parts.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    let set = |at: usize| {
        let mut set: Vec<String> = Vec::new();
        for part in &parts {
            let pattern = &part[at.min(part.len() - 1)];
            if !set.contains(pattern) {
                set.push(pattern.clone());
            }
        }
        set
    };
    (0..most).map(set).collect()
}

/// A set of patterns on one line.
pub fn joined(patterns: &[String]) -> String {
    let shown: Vec<String> = patterns.iter().map(|pattern| foreign(pattern)).collect();
    shown.join(" and ")
}

/// Patterns as a person types them: one for each command, with `;` between them.
pub fn own_patterns(typed: &str) -> Vec<String> {
    let patterns = typed.split(';').map(str::trim).filter(|pattern| !pattern.is_empty());
    patterns.map(str::to_owned).collect()
}

/// Where the hive says what patterns would cover.
pub fn covers_path(id: &str, scope: &str, patterns: &[String]) -> String {
    let patterns = (!patterns.is_empty()).then(|| json!(patterns).to_string());
    let query = [("scope", Some(scope.to_owned())), ("patterns", patterns)];
    with_query(&format!("/api/v1/approvals/{}/covers", escaped(id)), query)
}

/// What a lasting yes allows, as the hive lists it.
pub fn allowed(patterns: &Value, tool: &Value) -> String {
    let patterns = items(patterns).iter().filter_map(Value::as_str).map(str::to_owned);
    match patterns.collect::<Vec<_>>().as_slice() {
        [] => format!("every call of {}", text(tool)),
        patterns => joined(patterns),
    }
}

/// What patterns would have covered before.
pub fn past(found: &Value) -> String {
    let count = |key: &str| found["last"][key].as_u64().unwrap_or(0);
    let (covered, calls) = (count("covered"), counted(count("calls"), "call", "calls"));
    format!("it covers {covered} of the last {calls} of this conversation")
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep why main bash '{\"command\": \"git push\"}'
  skep why main write '{\"file_path\": \"a.md\", \"content\": \"\"}' --who token:0197c0de…
  skep why main web_fetch '{\"url\": \"https://example.org/\"}'

Nothing runs. It says what would be decided, and for each rule why it matches or does not.")]
pub struct WhyArgs {
    /// The agent
    agent: String,
    /// The tool
    tool: String,
    /// Its arguments as JSON
    #[arg(default_value = "{}")]
    arguments: String,
    /// For whom, as `skep token list` and approvals name them (default: you)
    #[arg(long)]
    who: Option<String>,
}

pub async fn run_why(command: WhyArgs, globals: &Globals) -> Result<(), Failure> {
    let arguments: Value = serde_json::from_str(&command.arguments).map_err(|error| {
        let why = format!("the arguments are not JSON: {error}");
        Failure::new(Exit::Usage, "test the policy", why)
            .next("skep why main bash '{\"command\": \"ls\"}'")
    })?;
    let client = Client::open(globals)?;
    let body = json!({"tool": command.tool, "arguments": arguments, "who": command.who});
    let path = format!("/api/v1/agents/{}/why", escaped(&command.agent));
    let why = client.submit(&path, &body, "test the policy").await?;
    globals.print(&why, why_lines(&command.agent, &why));
    Ok(())
}

fn why_lines(agent: &str, why: &Value) -> Vec<String> {
    let effect = text(&why["effect"]);
    let tone = if effect == "allow" { Tone::Good } else { Tone::Bad };
    let mut lines = vec![format!("{}: {}", toned(&effect, tone), text(&why["why"]))];
    if why["runs"].is_string() {
        lines.push(format!("runs: {}", text(&why["runs"])));
    }
    lines.extend(host_lines(agent, why));
    for part in items(&why["parts"]) {
        let (of, who) = (text(&part["part"]), text(&part["who"]));
        lines.push(format!("{of} for {who}: {}", text(&part["effect"])));
        for rule in items(&part["rules"]) {
            let mark = if rule["matched"] == true { "+" } else { "-" };
            let (rule_text, at) = (text(&rule["rule"]), text(&rule["place"]));
            lines.push(format!("  {mark} {at}  {rule_text}: {}", text(&rule["why"])));
        }
        if let Some(count) = part["untold"].as_u64() {
            lines.push(format!("  and {count} rules more, which are not told"));
        }
    }
    lines
}

/// The host that the call names, and what would let the agent reach it.
fn host_lines(agent: &str, why: &Value) -> Vec<String> {
    let host = &why["host"];
    if !host.is_object() {
        return Vec::new();
    }
    let (agent, name) = (foreign(agent), text(&host["host"]));
    let config = format!("teams/{agent}/config.yaml");
    let mut lines = vec![format!("connects to {name}, port {}", host["port"])];
    match host["standing"].as_str() {
        Some("listed") => {
            // Of addresses that are not public, `private` alone lists any.
            let inside = matches!(
                Host::parse(&name),
                Ok(Host::Address(address)) if kind_of(address) != AddressKind::Public
            );
            let list = if inside { "network.private" } else { "network.hosts" };
            lines.push(format!("{name} is listed in {list}"));
        }
        // The address itself is out of reach: the first line says why.
        Some("denied") if host["denied_by"].is_null() => {}
        Some("denied") => lines.push(format!(
            "{name} is denied by `{}` in network.deny ({config}, or defaults in skep.yaml); \
             nothing else lifts that",
            text(&host["denied_by"])
        )),
        _ => {
            let (entry, tool) = (text(&host["entry"]), text(&why["tool"]));
            lines.push(format!("{entry} is not listed. To list it, in {config}:"));
            lines.push(format!("  network: {{hosts: [{}]}}", Value::from(entry)));
            if why["effect"] == "ask" {
                lines.push("To allow it for half an hour:".to_owned());
                lines.push(format!("  skep grant new {agent} {tool} --host {name} --minutes 30"));
            }
        }
    }
    lines
}

#[derive(Subcommand)]
pub enum GrantCommand {
    /// Allow tool calls for a limited time; what is denied stays denied
    #[command(after_help = "Examples:
  skep grant new main bash --command 'git push' --minutes 30
  skep grant new main write --path 'docs/**' --minutes 120")]
    New {
        /// The agent
        agent: String,
        /// A tool's name, or a pattern with *
        tool: String,
        /// Only such commands
        #[arg(long)]
        command: Option<String>,
        /// Only such paths
        #[arg(long)]
        path: Option<String>,
        /// Only such hosts
        #[arg(long)]
        host: Option<String>,
        /// For how long
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_080))]
        minutes: u32,
    },
    /// List the grants in force
    #[command(after_help = "Examples:\n  skep grant list")]
    List,
    /// Revoke a grant
    #[command(after_help = "Examples:\n  skep grant revoke 0197c0de-…")]
    Revoke {
        /// The id that `skep grant list` shows, or a unique prefix of it
        id: String,
    },
}

pub async fn run_grant(command: GrantCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        GrantCommand::New { agent, tool, command, path, host, minutes } => {
            let body = json!({
                "tool": tool, "minutes": minutes, "command": command, "path": path, "host": host,
            });
            let at = format!("/api/v1/agents/{}/grants", escaped(&agent));
            let made = client.submit(&at, &body, "create the grant").await?;
            globals.print(&made, [grant_line(&made)]);
        }
        GrantCommand::List => {
            let list = client.fetch("/api/v1/grants", "list the grants").await?;
            let grants = items(&list["grants"]);
            globals.print(&list, grants.iter().map(grant_line));
            if grants.is_empty() && !globals.json {
                output::note("no grants");
            }
        }
        GrantCommand::Revoke { id } => {
            IdList::grants().revoke(&client, globals, &id).await?;
        }
    }
    Ok(())
}

fn grant_line(row: &Value) -> String {
    let conditions = ["command", "path", "host"]
        .iter()
        .filter_map(|key| row[*key].as_str().map(|value| format!(" {key} {}", foreign(value))));
    let until = row["until"].as_i64().map(time::stamp);
    let until = until.unwrap_or_else(|| "the end of its conversation".to_owned());
    let (id, agent, tool) = (text(&row["id"]), text(&row["agent"]), text(&row["tool"]));
    format!("{id}  {agent} may {tool}{} until {until}", conditions.collect::<String>())
}
