//! Cold start: the process begins, the doors are open, a first turn is finished.

use std::time::Instant;

use anyhow::Result;

use super::Bench;
use crate::client::{Client, Target};
use crate::hive::{Hive, Home};
use crate::report::{Goal, Row};
use crate::stats::{self, ms};

pub async fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let rounds = if bench.options.quick { 5 } else { 11 };
    let small = Home::new(&bench.model.url, 10)?;
    let hive = Hive::start(&bench.program(), small).await?;
    let token = hive.target.token.clone();
    let Hive { child, home: small, .. } = hive;
    child.stop().await?;
    let (mut listening, mut first) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        let (child, time) = Hive::cold(&bench.program(), &small).await?;
        listening.push(ms(time));
        let target = Target { url: child.url.clone(), token: token.clone() };
        let mut client = Client::connect(&target, false).await?;
        client.turn("hello", Some(&format!("cold-{round}"))).await?;
        first.push(ms(begun.elapsed()));
        child.stop().await?;
    }
    let large = Home::new(&bench.model.url, 1000)?;
    // The first start makes the database and the rows of the agents.
    Hive::cold(&bench.program(), &large).await?.0.stop().await?;
    let mut many = Vec::new();
    for _ in 0..rounds.min(5) {
        let (child, time) = Hive::cold(&bench.program(), &large).await?;
        many.push(ms(time));
        child.stop().await?;
    }
    Ok(vec![
        row("start_listening", "cold start, listening, 10 agents", &listening, 15.0),
        row("start_first_turn", "cold start, first finished turn", &first, 40.0),
        row("start_listening_1000", "cold start, listening, 1 000 agents", &many, 300.0),
    ])
}

fn row(key: &str, what: &str, samples: &[f64], most: f64) -> Row {
    let (low, high) = stats::spread(samples);
    Row {
        key: key.into(),
        what: what.into(),
        value: stats::median(samples),
        unit: "ms",
        floor: None,
        goal: Goal::Most(most),
        note: format!("{low:.1}–{high:.1} over {} starts", samples.len()),
    }
}
