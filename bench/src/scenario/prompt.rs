//! What the word "ping" costs in the prompt: the bytes of the request that reaches the model.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::Bench;
use crate::client::{self, LoadClient};
use crate::hive::{BenchHome, MeasuredHive};
use crate::report::{Goal, ReportRow};

const FILE_TOOLS: &str = "[read, write, edit, glob, grep, bash]";

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let home = BenchHome::new(&bench.model.url, 1)?;
    home.allow("main", FILE_TOOLS)?;
    let hive = MeasuredHive::start(&bench.program(), home).await?;
    let mut client = LoadClient::connect(&hive.target, false).await?;
    client.turn("ping", None).await?;
    let asked = client::http()?;
    let newest = asked.get(format!("{}/newest", bench.model.url)).send().await?.text().await?;
    hive.child.stop().await?;
    let request: Value = serde_json::from_str(&newest).context("the model kept no request")?;
    let tools = request["tools"].as_array().map_or(0, Vec::len);
    let what = format!("prompt for \"ping\", {tools} tools");
    let row = ReportRow::new("prompt_bytes", what, newest.len() as f64, "bytes");
    let note = "the whole request body: system, tools, message";
    Ok(vec![row.goal(Goal::Most(8192.0)).note(note)])
}
