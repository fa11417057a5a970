//! `skep usage`: what model calls used and cost, by day, agent and model.

use clap::Args;
use serde_json::Value;
use skep_core::money::Money;

use crate::failure::Failure;
use crate::hive::{Client, Globals, with_query};
use crate::print::{items, output, table, text_or_empty as text, time};

#[derive(Args)]
#[command(after_help = "Examples:
  skep usage                     the last 30 days
  skep usage --by hour           today, hour by hour
  skep usage --agent main --json

Days and hours are in UTC. `?` is the cost of calls whose price is not known.")]
pub struct UsageArgs {
    /// A row for each day, or for each hour of today
    #[arg(long, value_parser = ["day", "hour"], default_value = "day")]
    by: String,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only this model profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

pub async fn run(command: UsageArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let length = if command.by == "day" { "2026-02-03".len() } else { "2026-02-03 04:05".len() };
    let parts = [("by", Some(command.by)), ("agent", command.agent), ("profile", command.profile)];
    let page = client.fetch(&with_query("/api/v1/usage", parts), "read the usage").await?;
    let rows = items(&page["rows"]);
    if rows.is_empty() && !globals.json {
        output::note("no model calls yet");
        return Ok(());
    }
    let heads = ["when", "agent", "profile", "model", "calls", "input", "output", "cached", "cost"];
    let names = |row: &Value| {
        let mut when = time::stamp_utc(row["at"].as_i64().unwrap_or(0));
        when.truncate(length);
        let [agent, profile, model] = ["agent", "profile", "model"].map(|key| text(&row[key]));
        [when, agent, profile, model]
    };
    let listed = rows.iter().map(|row| cells(names(row), std::slice::from_ref(row)));
    let total = cells(["total", "", "", ""].map(str::to_owned), rows);
    globals.print(&page, table(heads, listed.chain([total])));
    Ok(())
}

fn cells(names: [String; 4], rows: &[Value]) -> [String; 9] {
    let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let known = rows.iter().filter_map(|row| row["known_cost"].as_f64()).reduce(|a, b| a + b);
    let [when, agent, profile, model] = names;
    [
        when,
        agent,
        profile,
        model,
        sum("calls").to_string(),
        (sum("input") + sum("cache_read") + sum("cache_write")).to_string(),
        sum("output").to_string(),
        sum("cache_read").to_string(),
        cost(known, sum("unpriced_calls"), sum("calls")),
    ]
}

/// An unknown part is always marked.
fn cost(known: Option<f64>, unpriced: u64, calls: u64) -> String {
    let known = known.and_then(Money::from_dollars).map(|money| money.to_string());
    match (known, unpriced) {
        (Some(known), 0) => known,
        (Some(known), unpriced) if unpriced < calls => format!("{known} + ?"),
        _ => "?".to_owned(),
    }
}
