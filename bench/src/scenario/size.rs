//! What is shipped, and what a word costs in the prompt.

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::child;
use crate::report::{Goal, ReportRow};

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let program = bench.program();
    let copy = crate::hive::scratch()?;
    let stripped = copy.path().join("skep");
    std::fs::copy(&program, &stripped)?;
    let strip = tokio::process::Command::new("strip").arg(&stripped).status().await;
    let ok = strip.context("running strip (Debian package binutils)")?.success();
    let row = ReportRow::new("binary", "program, stripped", child::size(&stripped)?, "MiB");
    let note = if ok { "" } else { "strip failed: not stripped" };
    Ok(vec![row.goal(Goal::Most(40.0)).note(note)])
}
