//! `skep budget`: what model calls may use today, and what is used of it.

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::hive::{Client, Globals};
use crate::print::{items, money, table};

#[derive(Args)]
#[command(after_help = "Examples:
  skep budget
  skep budget --json

Limits are written in skep.yaml (limits.cost_per_day, limits.tokens_per_day, limits.cost_per_turn,
limits.tokens_per_turn) and in an agent's config.yaml (the same keys under budgets, and
team_cost_per_day, team_tokens_per_day for it and everybody below it).")]
pub struct BudgetArgs {}

pub async fn run(_: BudgetArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let page = client.fetch("/api/v1/budgets", "read the budgets").await?;
    let heads =
        ["whose", "spent", "reserved", "unsettled", "limit", "tokens", "token limit", "a turn"];
    let hive = cells("the hive", &page["hive"], &page["per_turn"]);
    let agents = items(&page["agents"]).iter().flat_map(|agent| {
        let name = agent["agent"].as_str().unwrap_or_default();
        let own = cells(name, agent, &agent["per_turn"]);
        let team = Some(&agent["team"]).filter(|team| team.is_object());
        let team = team.map(|team| cells(&format!("the team of {name}"), team, &Value::Null));
        [own].into_iter().chain(team)
    });
    globals.print(&page, table(heads, [hive].into_iter().chain(agents)));
    Ok(())
}

fn cells(whose: &str, budget: &Value, turn: &Value) -> [String; 8] {
    let limits = &budget["limits"];
    let number = |key: &str| budget[key].as_u64().unwrap_or(0);
    let used = number("tokens") + number("unsettled_tokens");
    let tokens = turn["tokens"].as_u64().map(|tokens| format!("{tokens} tokens"));
    let turn = [money(&turn["cost"]), tokens];
    [
        whose.to_owned(),
        or_dash(money(&budget["cost"])),
        or_dash(money(&budget["held_cost"])),
        or_dash(money(&budget["unsettled_cost"])),
        or_dash(money(&limits["cost"])),
        used.to_string(),
        or_dash(limits["tokens"].as_u64().map(|tokens| tokens.to_string())),
        or_dash(turn.into_iter().flatten().reduce(|cost, tokens| format!("{cost}, {tokens}"))),
    ]
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
