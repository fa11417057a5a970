//! `skep status`: what the hive is doing right now.

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::hive::{CallError, Client, Globals};
use crate::print::{Tone, counted, foreign, items, money, outcome, stamp, text, time, toned};

#[derive(Args)]
#[command(after_help = "Examples:
  skep status
  skep status --json")]
pub struct StatusArgs {}

pub async fn run(_: StatusArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let state = client.fetch("/api/v1/state", "show the state").await?;
    if !state["hive"].is_object() {
        let why = "it has no state of a hive".to_owned();
        return Err(client.failure("show the state", CallError::Strange(why)));
    }
    // Only an operator may know of the questions.
    let asked = client.get("/api/v1/questions").await.unwrap_or_default();
    let mut lines = lines(&state);
    let told = waits_for_you(&state, &asked).map(|told| globals.commands(&told));
    lines.extend(told.into_iter().flat_map(|told| [String::new(), told]));
    globals.print(&state, lines);
    Ok(())
}

/// What a person has to decide or answer.
pub fn waits_for_you(state: &Value, asked: &Value) -> Option<String> {
    let (approvals, questions) = (items(&state["approvals"]), items(&asked["questions"]));
    let open = [
        (approvals, false, ["approval", "approvals"], "skep approve"),
        (questions, asked["more"] == true, ["question", "questions"], "skep ask"),
    ];
    let open = open.into_iter().filter(|(list, ..)| !list.is_empty());
    let told: Vec<_> = open
        .map(|(list, more, [one, several], command)| {
            let more = if more { "more than " } else { "" };
            format!("{more}{} ({command})", counted(list.len() as i128, one, several))
        })
        .collect();
    (!told.is_empty()).then(|| format!("waits for you: {}", told.join(", ")))
}

pub fn lines(state: &Value) -> Vec<String> {
    let hive = &state["hive"];
    let up = time::span(hive["uptime_ms"].as_i64().unwrap_or(0));
    let mut lines = vec![
        format!("{} skep {}, up {up}", toned("running", Tone::Good), text(&hive["version"])),
        format!("home   {}", text(&hive["home"])),
        format!("model  {}", text(&hive["model_note"])),
    ];
    lines.extend(config(&hive["config"], items(&state["agents"])));
    lines.extend(state.get("work").map(|all| format!("work   {}", work(all))));
    let trouble = store_trouble(state).map(|text| format!("store  {}", toned(text, Tone::Bad)));
    lines.extend(trouble);
    lines.extend(integrity(&hive["integrity"]));
    lines.extend(spend(&state["spend"]));
    lines.push(String::new());
    lines.extend(items(&state["agents"]).iter().map(agent));
    let at = |key: &str| hive[key].as_i64().unwrap_or(0);
    let now = at("started_at") + at("uptime_ms");
    let turns: Vec<String> = items(&state["turns"]).iter().map(|it| turn(it, now)).collect();
    if !turns.is_empty() {
        lines.push(String::new());
        lines.extend(turns);
    }
    let unknown: Vec<String> = items(&state["unknown_calls"]).iter().map(unknown_call).collect();
    if !unknown.is_empty() {
        lines.push(String::new());
        lines.push(toned("calls whose outcome is unknown (look what they did):", Tone::Bad));
        lines.extend(unknown);
    }
    lines
}

/// The words mean the same wherever they are shown; the hive counts.
pub fn work(work: &Value) -> String {
    let count = |key: &str| work[key].as_i64().unwrap_or(0);
    let (running, waiting, queued) = (count("running"), count("waiting"), count("queued"));
    format!("{running} running, {waiting} waiting, {queued} queued")
}

/// Why the hive cannot write, where it cannot.
pub fn store_trouble(state: &Value) -> Option<&'static str> {
    match state["hive"]["store"].as_str()? {
        "ok" => None,
        "disk_full" => Some("the disk is full: nothing is written until there is room"),
        "store_moved" => Some("the database was moved or removed: nothing is written any more"),
        "store_unsynced" => Some("the disk does not confirm writes: see the log of the hive"),
        _ => Some("writes fail: see the log of the hive"),
    }
}

/// Differences between the files and the settings in force.
fn config(config: &Value, agents: &[Value]) -> Vec<String> {
    let denied = |agent: &&Value| agent["policy_error"].is_string();
    let mut errors: Vec<&Value> =
        agents.iter().filter(denied).map(|agent| &agent["policy_error"]).collect();
    errors.dedup();
    let mut lines = Vec::new();
    for error in &errors {
        let of = agents.iter().filter(|agent| agent["policy_error"] == **error);
        let of: Vec<String> = of.map(|agent| text(&agent["name"])).collect();
        let denied = format!("all tool calls of {} are denied", of.join(", "));
        lines.push(format!("config {}: {}", toned(&denied, Tone::Bad), text(error)));
    }
    let others = items(&config["problems"]).iter();
    for problem in others.filter(|problem| !errors.contains(&&problem["text"])) {
        let file = problem["file"].as_str().unwrap_or_default();
        // An agent whose file was wrong at the start has no version before it.
        let mut failed = agents.iter().filter(|agent| agent["status"] == "failed");
        let off = failed.find_map(|agent| {
            let name = agent["name"].as_str()?;
            file.contains(&format!("teams/{name}/")).then(|| text(&agent["name"]))
        });
        let kept = match off {
            Some(agent) => format!("not in force, {agent} is disabled"),
            None => "not in force, the version before it goes on".to_owned(),
        };
        lines.push(format!("config {}: {}", toned(&kept, Tone::Bad), text(&problem["text"])));
    }
    for key in items(&config["needs_restart"]) {
        lines.push(format!("config used after the next start: {}", text(key)));
    }
    lines.extend(config["unwatched"].as_str().map(|why| format!("config {}", foreign(why))));
    lines
}

/// `None` after a clean stop.
fn integrity(found: &Value) -> Option<String> {
    let text = match found["state"].as_str() {
        Some("running") => "is looked at as a whole: the last stop was out of order".to_owned(),
        Some("whole") => "is whole: looked at after a stop out of order".to_owned(),
        Some("damaged") => toned(&text(&found["text"]), Tone::Bad),
        _ => return None,
    };
    Some(format!("store  {text}"))
}

/// Today's cost. An unknown part is always named.
fn spend(spend: &Value) -> Option<String> {
    let number = |key: &str| spend[key].as_u64().unwrap_or(0);
    let known = money(&spend["known_cost"])?;
    let calls = |count| counted(count, "call", "calls");
    let spent = match (number("calls"), number("unpriced_calls")) {
        (_, 0) => known,
        (all, unpriced) if all == unpriced => "unknown".to_owned(),
        (_, unpriced) => format!("{known} and {} of unknown price", calls(unpriced)),
    };
    let mut text = match number("calls") {
        0 => "no model calls".to_owned(),
        all => {
            let tokens = counted(number("tokens"), "token", "tokens");
            format!("{spent} for {}, {tokens}", calls(all))
        }
    };
    if number("unsettled_tokens") > 0 {
        let cost = money(&spend["unsettled_cost"]);
        let cost = cost.filter(|_| spend["unsettled_cost"].as_f64() > Some(0.0));
        let tokens = || counted(number("unsettled_tokens"), "token", "tokens");
        let unsettled = cost.unwrap_or_else(tokens);
        text.push_str(&format!(", and up to {unsettled} of calls that broke off"));
    }
    let limits = &spend["limits"];
    let tokens = |key: &str| limits[key].as_u64();
    let most = [
        money(&limits["cost_per_day"]),
        tokens("tokens_per_day").map(|most| format!("{most} tokens")),
        tokens("unpriced_tokens_per_day").map(|most| format!("{most} tokens of unknown price")),
    ];
    let most: Vec<String> = most.into_iter().flatten().collect();
    let most = if most.is_empty() { "none".to_owned() } else { most.join(", ") };
    Some(format!("today  {text}; daily limit: {most}"))
}

fn agent(agent: &Value) -> String {
    let name = toned(&text(&agent["name"]), Tone::Strong);
    if agent["status"] == "failed" {
        return format!("agent {name}  {}  {}", toned("failed", Tone::Bad), text(&agent["error"]));
    }
    let (engine, model) = (text(&agent["engine"]), text(&agent["model"]));
    let status = text(&agent["status"]);
    let walls = match (agent["sandbox"].as_str(), agent["network"].as_str()) {
        (Some("host"), _) => format!("  {}", toned("on the host, without walls", Tone::Bad)),
        (_, Some("full")) => format!("  {}", toned("network without walls", Tone::Bad)),
        _ => String::new(),
    };
    let missing = missing_tools(agent).map(|names| format!("  not there now: {names}"));
    let missing = missing.unwrap_or_default();
    let work = agent.get("work").map(|all| format!("  {}", work(all))).unwrap_or_default();
    format!("agent {name}  {status}  {engine} · {model}{work}{walls}{missing}")
}

/// The tools its settings name that nobody brings now.
pub fn missing_tools(agent: &Value) -> Option<String> {
    let names: Vec<String> = agent["missing_tools"].as_array()?.iter().map(text).collect();
    Some(names.join(", "))
}

/// `now` by the hive's clock.
fn turn(turn: &Value, now: i64) -> String {
    let since = stamp(&turn["since"]);
    let (agent, key) = (text(&turn["agent"]), text(&turn["session_key"]));
    let mut line = format!("turn  {agent}/{key}  {}  since {since}", text(&turn["state"]));
    match (turn["retry"].is_null(), turn["waiting_for"].as_str()) {
        (false, _) => line.push_str(&format!("  {}", outcome::retry(&turn["retry"], now))),
        (true, Some(reason)) => line.push_str(&format!("  waits for {}", foreign(reason))),
        (true, None) => {}
    }
    line
}

fn unknown_call(call: &Value) -> String {
    let at = stamp(&call["at"]);
    let (agent, tool) = (text(&call["agent"]), text(&call["tool"]));
    format!("  {agent}  {tool}  {}  {at}", text(&call["call_id"]))
}
