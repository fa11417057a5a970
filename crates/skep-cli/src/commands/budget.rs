//! `skep budget`: what model calls may use today, and what is used of it.

use clap::Args;
use serde_json::Value;
use skep_core::money::Money;

use crate::failure::Failure;
use crate::hive::Globals;
use crate::hive::client::Client;
use crate::print::output;
use crate::print::table::OutputTable;
use crate::print::values::items;

#[derive(Args)]
#[command(after_help = "Examples:
  skep budget
  skep budget --json

Limits are written in skep.yaml (limits.cost_per_day, limits.tokens_per_day, limits.cost_per_turn,
limits.tokens_per_turn) and in an agent's config.yaml (the same keys under budgets).")]
pub struct BudgetArgs {}

pub async fn run(_: BudgetArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let page = client.fetch("/api/v1/budgets", "read the budgets").await?;
    if globals.json {
        output::json(&page);
        return Ok(());
    }
    let heads = ["whose", "spent", "held", "unsettled", "limit", "tokens", "token limit", "a turn"];
    let mut table = OutputTable::new(&heads);
    table.row(cells("the hive", &page["hive"], &page["per_turn"]));
    for agent in items(&page["agents"]) {
        let name = agent["agent"].as_str().unwrap_or_default();
        table.row(cells(name, agent, &agent["per_turn"]));
    }
    table.lines().into_iter().for_each(output::line);
    Ok(())
}

fn cells(whose: &str, budget: &Value, turn: &Value) -> [String; 8] {
    let limits = &budget["limits"];
    let used = number(&budget["tokens"]) + number(&budget["unsettled_tokens"]);
    [
        whose.to_owned(),
        money(&budget["cost"]),
        money(&budget["held_cost"]),
        money(&budget["unsettled_cost"]),
        money(&limits["cost"]),
        used.to_string(),
        tokens(&limits["tokens"]),
        match (turn["cost"].is_null(), turn["tokens"].is_null()) {
            (true, true) => "-".to_owned(),
            (false, true) => money(&turn["cost"]),
            (true, false) => format!("{} tokens", tokens(&turn["tokens"])),
            (false, false) => {
                format!("{}, {} tokens", money(&turn["cost"]), tokens(&turn["tokens"]))
            }
        },
    ]
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn money(value: &Value) -> String {
    let amount = value.as_f64().and_then(Money::from_dollars);
    amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string())
}

fn tokens(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |tokens| tokens.to_string())
}
