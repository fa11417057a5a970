//! What the word "ping" costs in the prompt: the bytes of the request that reaches the model.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use crate::client::{self, Client};
use crate::hive::{Hive, Home};
use crate::report::{Goal, Row};

const FILE_TOOLS: &str = "[read, write, edit, glob, grep, bash]";

pub async fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let home = Home::new(&bench.model.url, 1)?;
    home.allow("main", FILE_TOOLS)?;
    let hive = Hive::start(&bench.program(), home).await?;
    let mut client = Client::connect(&hive.target, false).await?;
    client.turn("ping", None).await?;
    let asked = client::http()?;
    let newest = asked.get(format!("{}/newest", bench.model.url)).send().await?.text().await?;
    hive.child.stop().await?;
    let request: Value = serde_json::from_str(&newest).context("the model kept no request")?;
    let tools = request["tools"].as_array().map_or(0, Vec::len);
    Ok(vec![Row {
        key: "prompt_bytes".into(),
        what: format!("prompt for \"ping\", {tools} tools"),
        value: newest.len() as f64,
        unit: "bytes",
        floor: None,
        goal: Goal::Most(8192.0),
        note: "the whole request body: system, tools, message".into(),
    }])
}
