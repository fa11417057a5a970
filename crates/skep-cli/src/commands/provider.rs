//! `skep provider`: the model profiles, and whether they answer.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, escaped};
use crate::print::{Tone, counted, foreign, items, output, text_or_empty, toned};

#[derive(Subcommand)]
pub enum ProviderCommand {
    /// List the model profiles: vendor, model, where the key comes from
    #[command(after_help = "Examples:
  skep provider list
  skep provider list --check   which of them can be reached; no model is asked
  skep provider list --json")]
    List {
        /// Look whether something answers at the address of each
        #[arg(long)]
        check: bool,
    },
    /// Test profiles with a small, real model call
    #[command(after_help = "Examples:
  skep provider test                          every profile
  skep provider test small                    one profile
  skep provider test anthropic:claude-opus-4-1  another model of a vendor

A real call: it costs a few tokens. The exit code is 0 when every one answered, else 1.")]
    Test {
        /// A profile, or vendor:model; every profile when absent
        name: Option<String>,
    },
}

pub async fn run(command: ProviderCommand, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    match command {
        ProviderCommand::List { check } => {
            let list = profiles(&client, if check { "?check=true" } else { "" }).await?;
            globals.print(&list, items(&list["providers"]).iter().flat_map(described));
            Ok(())
        }
        ProviderCommand::Test { name } => test(&client, globals, name).await,
    }
}

async fn profiles(client: &Client, query: &str) -> Result<Value, Failure> {
    client.fetch(&format!("/api/v1/providers{query}"), "list the providers").await
}

async fn test(client: &Client, globals: &Globals, name: Option<String>) -> Result<(), Failure> {
    let names = match name {
        Some(name) => vec![name],
        None => {
            let list = profiles(client, "").await?;
            let names = items(&list["providers"]).iter().filter_map(|it| it["name"].as_str());
            names.map(str::to_owned).collect()
        }
    };
    let (mut tries, mut failed) = (Vec::new(), 0);
    for name in names {
        let path = format!("/api/v1/providers/{}/test", escaped(&name));
        let attempted = format!("test the provider {name}");
        let tried = client.submit(&path, &Value::Null, attempted).await?;
        failed += usize::from(tried["ok"] != true);
        if !globals.json {
            output::line(outcome(&name, &tried));
        }
        tries.push(tried);
    }
    if globals.json {
        output::json(&json!({ "tests": tries }));
    }
    match failed {
        0 => Ok(()),
        _ => {
            let headline = format!("{failed} of {} providers did not answer", tries.len());
            Err(Failure::new(Exit::Failed, "test the providers", "see the lines marked `bad`")
                .headline(headline)
                .next("correct providers.yaml, then skep provider test"))
        }
    }
}

fn described(provider: &Value) -> Vec<String> {
    let (name, vendor) = (text_or_empty(&provider["name"]), text_or_empty(&provider["provider"]));
    let mut first =
        format!("{}  {vendor} {}", toned(&name, Tone::Strong), text_or_empty(&provider["model"]));
    if let Some(address) = provider["address"].as_str() {
        first.push_str(&format!("  at {}", foreign(address)));
    }
    let window = match provider["context_window"].as_u64() {
        Some(tokens) => format!("{tokens} tokens"),
        None => "unknown".to_owned(),
    };
    let price = if provider["price_known"] == true { "known" } else { "unknown" };
    let key = text_or_empty(&provider["key"]);
    let mut lines = vec![first, format!("  key: {key}; price {price}; context window {window}")];
    lines.extend(provider.get("reached").map(reached));
    for (word, list) in [("falls back to", &provider["fallback"]), ("used by", &provider["agents"])]
    {
        let names: Vec<String> = items(list).iter().map(text_or_empty).collect();
        if !names.is_empty() {
            lines.push(format!("  {word} {}", names.join(", ")));
        }
    }
    lines
}

fn reached(reached: &Value) -> String {
    let took = reached["took_ms"].as_i64().unwrap_or(0);
    match reached["ok"] == true {
        true => format!("  {} in {took} ms", toned("reachable", Tone::Good)),
        false => {
            let why = text_or_empty(&reached["error"]);
            format!("  {} after {took} ms: {why}", toned("not reachable", Tone::Bad))
        }
    }
}

fn outcome(name: &str, tried: &Value) -> String {
    let name = toned(&foreign(name), Tone::Strong);
    let took = tried["took_ms"].as_i64().unwrap_or(0);
    let model = text_or_empty(&tried["model"]);
    if tried["ok"] != true {
        let why = text_or_empty(&tried["error"]["error"]);
        return format!("{}  {name}  {model}  after {took} ms: {why}", toned("bad ", Tone::Bad));
    }
    let usage = &tried["usage"];
    let tokens = usage["totalTokens"].as_u64().or(usage["total_tokens"].as_u64()).unwrap_or(0);
    let cost = match usage["cost"].as_f64() {
        Some(dollars) => format!("${dollars:.6}"),
        None => "cost unknown".to_owned(),
    };
    let good = toned("ok  ", Tone::Good);
    let tokens = counted(tokens, "token", "tokens");
    format!("{good}  {name}  {model}  answered in {took} ms, {tokens}, {cost}")
}
