//! Cold start: the process begins, the doors are open, a first turn is finished.

use std::time::Instant;

use anyhow::Result;

use crate::bench::Bench;
use crate::client::{Endpoint, LoadClient};
use crate::hive::{BenchHome, MeasuredHive};
use crate::report::{Goal, ReportRow};
use crate::stats::{self, ms};

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let rounds = if bench.options.quick { 5 } else { 11 };
    let MeasuredHive { child, home: small, target: Endpoint { token, .. } } =
        bench.start_hive(10).await?;
    child.stop().await?;
    let (mut listening, mut first) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        let (child, time) = MeasuredHive::cold(&bench.program(), &small).await?;
        listening.push(ms(time));
        let target = Endpoint { url: child.url.clone(), token: token.clone() };
        let mut client = LoadClient::connect(&target, false).await?;
        client.turn("hello", Some(&format!("cold-{round}"))).await?;
        first.push(ms(begun.elapsed()));
        child.stop().await?;
    }
    let large = BenchHome::new(&bench.model.url, 1000)?;
    // The first start makes the database and the rows of the agents.
    MeasuredHive::cold(&bench.program(), &large).await?.0.stop().await?;
    let mut many = Vec::new();
    for _ in 0..rounds.min(5) {
        let (child, time) = MeasuredHive::cold(&bench.program(), &large).await?;
        many.push(ms(time));
        child.stop().await?;
    }
    Ok(vec![
        row("start_listening", "cold start, listening, 10 agents", &listening, 15.0),
        row("start_first_turn", "cold start, first finished turn", &first, 40.0),
        row("start_listening_1000", "cold start, listening, 1 000 agents", &many, 300.0),
    ])
}

fn row(key: &str, what: &str, samples: &[f64], most: f64) -> ReportRow {
    let (low, high) = stats::spread(samples);
    ReportRow::new(key, what, stats::median(samples), "ms")
        .goal(Goal::Most(most))
        .note(format!("{low:.1}–{high:.1} over {} starts", samples.len()))
}
