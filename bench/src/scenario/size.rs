//! What is shipped, and what a word costs in the prompt.

use anyhow::{Context, Result};

use super::Bench;
use crate::child;
use crate::report::{Goal, Row};

pub async fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let program = bench.program();
    let copy = crate::hive::scratch()?;
    let stripped = copy.path().join("skep");
    std::fs::copy(&program, &stripped)?;
    let strip = tokio::process::Command::new("strip").arg(&stripped).status().await;
    let ok = strip.context("running strip (Debian package binutils)")?.success();
    let value = child::size(&stripped)?;
    Ok(vec![Row {
        key: "binary".into(),
        what: "program, stripped".into(),
        value,
        unit: "MiB",
        floor: None,
        goal: Goal::Most(40.0),
        note: if ok { String::new() } else { "strip failed: not stripped".into() },
    }])
}
