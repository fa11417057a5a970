//! `skep inbox` and `skep task`: items of the inbox, as lists and one by one.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skep_core::visible::bounded_text;

use crate::failure::Failure;
use crate::hive::{CallError, Client, Globals, IdList, escaped, with_query};
use crate::print::{Tone, counted, foreign, items, output, stamp, table, text, time, toned};

/// Characters of a result below its task.
const RESULT: usize = 160;

#[derive(Args)]
#[command(after_help = "Examples:
  skep inbox                           the newest items of every agent
  skep inbox main --state failed       the failed ones of main
  skep inbox --limit 200 --json

Newest first. `skep task show ID` shows one of them whole.")]
pub struct InboxArgs {
    /// Only items of this agent
    agent: Option<String>,
    #[command(flatten)]
    which: ItemFilterArgs,
}

const STATES: [&str; 7] = ["pending", "running", "waiting", "done", "failed", "cancelled", "dead"];

#[derive(Args)]
pub struct ItemFilterArgs {
    /// Only items in this state
    #[arg(long, value_parser = STATES)]
    state: Option<String>,
    /// How many
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

pub async fn run(command: InboxArgs, globals: &Globals) -> Result<(), Failure> {
    list(command.agent, command.which, globals).await
}

async fn list(
    agent: Option<String>,
    which: ItemFilterArgs,
    globals: &Globals,
) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let limit = Some(which.limit.to_string());
    let parts = [("limit", limit), ("agent", agent), ("state", which.state)];
    let page = client.fetch(&with_query("/api/v1/inbox", parts), "read the inbox").await?;
    let listed = items(&page["items"]);
    if listed.is_empty() && !globals.json {
        output::note("no such items");
        return Ok(());
    }
    let row = |item: &Value| {
        let [id, agent, session, state, preview] =
            ["item_id", "agent", "session_key", "state", "preview"].map(|key| text(&item[key]));
        [id, agent, session, state, stamp(&item["created_at"]), preview]
    };
    let heads = ["id", "agent", "session", "state", "when", "message"];
    globals.print(&page, table(heads, listed.iter().map(row)));
    Ok(())
}

#[derive(Subcommand)]
pub enum TaskCommand {
    /// List work, newest first: what people and agents gave agents to do
    #[command(after_help = "Examples:
  skep task list
  skep task list --agent main --state running
  skep task list --kind task --state pending,waiting
  skep task list --search invoice --mine

Commands, events and turns that go on are listed with `--kind any`, and by `skep inbox`. Where it
says that there may be more, `--after` goes on.")]
    List(WorkArgs),
    /// Show one item: its message, state, turn, times, and answer or error
    #[command(after_help = "Examples:
  skep task show 019a2b3c-…
  skep task show 019a2b3c-… --json")]
    Show(ItemArgs),
    /// Cancel an item: at once if it waits, with its turn if it runs
    #[command(after_help = "Examples:
  skep task cancel 019a2b3c-…

The sender is told with an error of code `cancelled`. Other messages that the same turn answers
end with it; what is queued behind goes on.")]
    Cancel(ItemArgs),
    /// Send the message of a failed, dead or cancelled item again; try now what waits for a try
    #[command(after_help = "Examples:
  skep task retry 019a2b3c-…
  skep task show $(skep task retry 019a2b3c-… --json | jq -r .item_id)

The new item is linked to the old one; `skep task show` names both. A turn that waits for its next
try is tried at once.")]
    Retry(ItemArgs),
    /// Show how the time of an item's turn was spent: model calls, tools, and what it waited for
    #[command(after_help = "Examples:
  skep task timing 019a2b3c-…
  skep task timing 019a2b3c-… --json")]
    Timing(ItemArgs),
}

const KINDS: [&str; 6] = ["message", "task", "peer", "reminder", "trigger", "any"];

#[derive(Args)]
pub struct WorkArgs {
    /// Only work of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only work in these states, with commas between them
    #[arg(long, value_parser = STATES, value_delimiter = ',')]
    state: Vec<String>,
    /// Only work of this kind
    #[arg(long, value_parser = KINDS)]
    kind: Option<String>,
    /// Only what you sent
    #[arg(long)]
    mine: bool,
    /// Only work that holds this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only what is older than this place, as the list before named it
    #[arg(long, value_name = "PLACE")]
    after: Option<i64>,
    /// How many
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

async fn list_work(which: WorkArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let states = Some(which.state.join(",")).filter(|states| !states.is_empty());
    let parts = [
        ("limit", Some(which.limit.to_string())),
        ("agent", which.agent),
        ("state", states),
        ("kind", which.kind),
        ("mine", which.mine.then(|| "true".to_owned())),
        ("q", which.search),
        ("after", which.after.map(|after| after.to_string())),
    ];
    let page = client.fetch(&with_query("/api/v1/work", parts), "read the work").await?;
    let listed = items(&page["items"]);
    if listed.is_empty() && page["next"].is_null() && !globals.json {
        output::note("no such work");
        return Ok(());
    }
    let row = |item: &Value| {
        let kind = if item["task"].is_string() { "task" } else { "kind" };
        let [id, kind, agent, from, state, preview] =
            ["item_id", kind, "agent", "from", "state", "preview"].map(|key| text(&item[key]));
        [id, kind, agent, from, state, stamp(&item["created_at"]), preview]
    };
    let heads = ["id", "kind", "agent", "from", "state", "when", "message"];
    let mut lines = table(heads, listed.iter().map(row));
    if let Some(next) = page["next"].as_i64() {
        lines.push(format!("there may be more: add --after {next}"));
    }
    globals.print(&page, lines);
    Ok(())
}

/// The turn of an item, step by step.
async fn timing(client: &Client, id: &str, globals: &Globals) -> Result<(), Failure> {
    let item = client.get(&format!("/api/v1/inbox/{}", escaped(id))).await;
    let item = item.map_err(|error| failed(client, "show", id, error))?;
    let Some(turn) = item["turn"].as_str() else {
        output::note(format!("the item {id} has no turn yet: it is {}", text(&item["state"])));
        return Ok(());
    };
    let path = format!("/api/v1/turns/{}/timing", escaped(turn));
    let timing = client.fetch(&path, "read the times of the turn").await?;
    globals.print(&timing, timing_lines(&timing));
    Ok(())
}

fn timing_lines(timing: &Value) -> Vec<String> {
    let at = |value: &Value| value.as_i64().unwrap_or(0);
    let calls = counted(at(&timing["model_calls"]), "model call", "model calls");
    let cost = timing["cost"].as_f64().map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
    let mut lines = vec![
        format!("turn     {}", text(&timing["turn"])),
        format!("agent    {} / {}", text(&timing["agent"]), text(&timing["session_key"])),
        format!("active   {}, {calls}{cost}", time::precise(at(&timing["active_ms"]))),
    ];
    let began = items(&timing["rows"]).iter().map(|row| at(&row["from"])).min().unwrap_or(0);
    let row = |row: &Value| {
        let from = at(&row["from"]);
        let took = match row["until"].as_i64() {
            Some(until) => time::precise(until - from),
            None => "now".to_owned(),
        };
        let failed = if row["failed"] == true { " failed" } else { "" };
        let tries = row["tries"].as_i64().map(|tries| format!("{tries} tries"));
        let first = row["first"].as_i64();
        let first = first.map(|first| format!("first word after {}", time::precise(first - from)));
        let detail = row["detail"].as_str().map(foreign);
        let detail: Vec<String> = [detail, first, tries].into_iter().flatten().collect();
        let what = format!("{}{failed}", text(&row["name"]));
        [time::precise(from - began), took, text(&row["kind"]), what, detail.join(", ")]
    };
    let heads = ["after", "took", "kind", "what", "detail"];
    lines.extend(table(heads, items(&timing["rows"]).iter().map(row)));
    lines
}

#[derive(Args)]
pub struct ItemArgs {
    /// The item, as `skep inbox` names it, or a unique prefix of its id
    id: String,
}

pub async fn run_task(command: TaskCommand, globals: &Globals) -> Result<(), Failure> {
    let (what, ItemArgs { id }) = match command {
        TaskCommand::List(which) => return list_work(which, globals).await,
        TaskCommand::Show(item) => ("show", item),
        TaskCommand::Cancel(item) => ("cancel", item),
        TaskCommand::Retry(item) => ("retry", item),
        TaskCommand::Timing(item) => ("timing", item),
    };
    let client = Client::open(globals)?;
    let id = IdList::items().whole(&client, &id).await?;
    if what == "timing" {
        return timing(&client, &id, globals).await;
    }
    let path = format!("/api/v1/inbox/{}", escaped(&id));
    // The key makes a retry after a broken connection safe.
    let key = skep_guard::random::uuid().to_string();
    let turn = if what == "retry" { paused_turn(&client, &path).await } else { None };
    if let Some((turn, agent)) = turn {
        let path = format!("/api/v1/turns/{}/retry-now", escaped(&turn));
        let begun = client.post(&path, &json!(null), None).await;
        begun.map_err(|error| failed(&client, what, &id, error))?;
        let next = globals.commands(&format!("follow it: skep task show {id}"));
        let told = json!({ "item_id": id, "turn": turn, "state": "running" });
        let when = match agent {
            None => "the next try begins now".to_owned(),
            Some(agent) => {
                let start = format!("skep agent start {agent}");
                globals.commands(&format!("the next try begins when {agent} is started: {start}"))
            }
        };
        globals.print(&told, [when, next]);
        return Ok(());
    }
    let told = match what {
        "show" => client.get(&path).await,
        verb => client.post(&format!("{path}/{verb}"), &json!(null), Some(&key)).await,
    };
    let item = told.map_err(|error| failed(&client, what, &id, error))?;
    if what == "retry" {
        let new = text(&item["item_id"]);
        let done = format!("{} as item {new}", text(&item["state"]));
        let next = globals.commands(&format!("follow it: skep task show {new}"));
        globals.print(&item, [done, next]);
        return Ok(());
    }
    let mut lines = lines(&item);
    if item["kind"] == "message" && !items(&item["chain"]).is_empty() {
        let (agent, key) = (text(&item["agent"]), text(&item["session_key"]));
        let next = format!("what followed: skep history show {agent} --session {key}");
        lines.push(globals.commands(&next));
    }
    if item["error"].is_object() && item["retried_as"].is_null() && item["kind"] == "message" {
        let next = format!("next: skep task retry {}", text(&item["item_id"]));
        lines.push(globals.commands(&next));
    }
    globals.print(&item, lines);
    Ok(())
}

/// The turn of the item, if it waits for its next try, and the agent, if that does not run.
async fn paused_turn(client: &Client, item: &str) -> Option<(String, Option<String>)> {
    let item = client.get(item).await.ok()?;
    let state = client.get("/api/v1/state").await.ok()?;
    let paused = |turn: &&Value| turn["turn"] == item["turn"] && turn["retry"].is_object();
    let turn = items(&state["turns"]).iter().find(paused)?;
    let idle = |agent: &&Value| agent["name"] == turn["agent"] && agent["status"] != "active";
    let idle = items(&state["agents"]).iter().find(idle).map(|agent| text(&agent["name"]));
    Some((turn["turn"].as_str()?.to_owned(), idle))
}

fn failed(client: &Client, what: &str, id: &str, error: CallError) -> Failure {
    let failure = client.failure(format!("{what} the item {id}"), error);
    failure.or_next(&format!("skep task show {id}"))
}

/// An item in lines of a name and a value.
pub fn lines(item: &Value) -> Vec<String> {
    let state = text(&item["state"]);
    let tone = match state.as_str() {
        "done" => Tone::Good,
        "failed" | "dead" => Tone::Bad,
        _ => Tone::Strong,
    };
    let mut lines = vec![
        format!("item     {}", text(&item["item_id"])),
        format!("state    {}", toned(&state, tone)),
        format!("agent    {} / {}", text(&item["agent"]), text(&item["session_key"])),
        format!("from     {}", text(&item["from"])),
        format!("sent     {}", stamp(&item["created_at"])),
    ];
    let at = |key: &str| item[key].as_i64();
    if let Some(started) = at("started_at") {
        let waited = time::span(started - at("created_at").unwrap_or(started));
        lines.push(format!("started  {} (after {waited})", time::stamp(started)));
    }
    if let Some(finished) = at("finished_at") {
        let took = at("started_at").map(|started| time::span(finished - started));
        let took = took.map(|took| format!(" (took {took})")).unwrap_or_default();
        lines.push(format!("ended    {}{took}", time::stamp(finished)));
    }
    if let Some(turn) = item["turn"].as_str() {
        let (steps, attempts) = (at("steps").unwrap_or(0), at("attempts").unwrap_or(0));
        let turn = foreign(turn);
        let calls = counted(steps, "model call", "model calls");
        let attempts = counted(attempts, "failed attempt", "failed attempts");
        lines.push(format!("turn     {turn}, {calls}, {attempts}"));
    }
    let optional = [("waits", "waiting_for"), ("retry of", "retry_of"), ("retried", "retried_as")];
    for (name, key) in optional {
        lines.extend(item[key].as_str().map(|value| format!("{name:<9}{}", foreign(value))));
    }
    for frame in items(&item["undelivered"]) {
        let (kind, tries) = (text(&frame["kind"]), frame["attempts"].as_i64().unwrap_or(0));
        let what = match (frame["reason"].as_str(), frame["next_at"].as_i64()) {
            (Some(why), _) => {
                toned(&format!("the channel refuses it: {}", foreign(why)), Tone::Bad)
            }
            (None, at) => format!(
                "sent {}, again {}",
                counted(tries, "time", "times"),
                time::stamp(at.unwrap_or(0))
            ),
        };
        lines.push(format!("{kind:<9}{what}"));
    }
    lines.extend(item["root"].as_str().map(|root| format!("began    {}", foreign(root))));
    lines.extend(chain(items(&item["chain"])));
    lines.extend(block("message", item["text"].as_str()));
    lines.extend(block("answer", item["response"].as_str()));
    // A task ends after its turn where others worked for it.
    let own = items(&item["chain"]).iter().find(|task| task["item_id"] == item["item_id"]);
    let result = own.and_then(|task| task["result"].as_str());
    lines.extend(block("result", result.filter(|result| item["response"] != **result)));
    if let Some(error) = item["error"]["error"].as_str() {
        lines.extend(block(&format!("error {}", text(&item["error"]["code"])), Some(error)));
    }
    lines
}

/// The tasks of a chain, each below the one in whose course it was given.
fn chain(tasks: &[Value]) -> Vec<String> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![toned("tasks:", Tone::Faint)];
    for (depth, task) in in_tree(tasks) {
        let state = text(&task["state"]);
        let tone = match state.as_str() {
            "done" => Tone::Good,
            "failed" => Tone::Bad,
            _ => Tone::Strong,
        };
        let code = task["code"].as_str().map(|code| format!(" {}", foreign(code)));
        lines.push(format!(
            "{}{} {} {} → {}: {}{}  {}",
            "  ".repeat(depth),
            text(&task["item_id"]),
            text(&task["kind"]),
            text(&task["from"]),
            text(&task["agent"]),
            toned(&state, tone),
            code.unwrap_or_default(),
            foreign(task["preview"].as_str().unwrap_or_default()).replace('\n', " "),
        ));
        if let Some(result) = task["result"].as_str() {
            let result = bounded_text(result, RESULT).replace('\n', " ");
            lines.push(format!("{}  = {}", "  ".repeat(depth), foreign(&result)));
        }
    }
    lines
}

/// Tasks come in the order they were given; each goes behind what its parent gave before, with how
/// deep it is.
fn in_tree(tasks: &[Value]) -> Vec<(usize, &Value)> {
    let mut placed: Vec<(usize, &Value)> = Vec::new();
    for task in tasks {
        let above = placed.iter().position(|(_, it)| it["item_id"] == task["parent_task"]);
        let Some(above) = above else {
            placed.push((1, task));
            continue;
        };
        let depth = placed[above].0 + 1;
        let behind = placed[above + 1..].iter().take_while(|(other, _)| *other >= depth).count();
        placed.insert(above + 1 + behind, (depth, task));
    }
    placed
}

fn block(name: &str, value: Option<&str>) -> Vec<String> {
    let Some(value) = value else { return Vec::new() };
    let mut lines = vec![toned(&format!("{name}:"), Tone::Faint)];
    lines.extend(foreign(value).lines().map(|line| format!("  {line}")));
    lines
}
