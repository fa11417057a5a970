//! Taking the next item must not cost more when many wait: turns are finished one at a time from
//! an inbox of 100 000 and from one of 500.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::client::{self, Endpoint, LoadClient};
use crate::hive::{BenchHome, MeasuredHive};
use crate::report::{Goal, ReportRow};
use crate::stats::ms;

const SESSIONS: usize = 500;
const LOOKED_AT: usize = 400;

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let large = if bench.options.quick { 20_000 } else { 100_000 };
    let few = turn_time(bench, SESSIONS).await?;
    let many = turn_time(bench, large).await?;
    let what = format!("turn with {large} items waiting, against {SESSIONS}");
    let row = ReportRow::new("inbox_pending", what, many, "ms").floor(few).goal(Goal::Times(1.5));
    Ok(vec![row.note(format!("one turn at a time, {LOOKED_AT} of them"))])
}

/// Between the ends of two turns, with one slot and `items` waiting.
async fn turn_time(bench: &Bench, items: usize) -> Result<f64> {
    let home = BenchHome::new(&bench.model.url, 1)?;
    std::fs::write(home.path().join("skep.yaml"), "limits:\n  concurrent_turns: 1\n")?;
    let hive = MeasuredHive::start(&bench.program(), home).await?;
    let http = client::http()?;
    let control = |word: &str| http.post(format!("{}/{word}", bench.model.url)).send();
    control("hold").await?;
    fill(&hive.target, items).await?;
    let mut watcher = LoadClient::connect(&hive.target, false).await?;
    watcher.raw(&json!({ "type": "subscribe", "agent": "main" })).await?;
    control("release").await?;
    // Watchers are told of several ends at once: only the whole stretch says how long one takes.
    let mut ends = 0;
    let mut first = Instant::now();
    while ends <= LOOKED_AT {
        let frame = watcher.next().await?;
        let event = frame.get("event").unwrap_or(&frame);
        if event["type"] == "turn_end" {
            if ends == 0 {
                first = Instant::now();
            }
            ends += 1;
        }
    }
    let took = ms(first.elapsed());
    hive.child.stop().await?;
    Ok(took / LOOKED_AT as f64)
}

/// Accepted and durable, spread over sessions.
async fn fill(target: &Endpoint, items: usize) -> Result<()> {
    let senders = 16;
    let mut tasks = JoinSet::new();
    for sender in 0..senders {
        let target = target.clone();
        tasks.spawn(async move {
            let mut client = LoadClient::connect(&target, false).await?;
            let mine = (sender..items).step_by(senders);
            let (mut sent, mut acked) = (0_usize, 0_usize);
            for number in mine {
                client.send("hello", Some(&format!("s{}", number % SESSIONS))).await?;
                sent += 1;
                while sent - acked > 256 {
                    acked += usize::from(is_ack(&mut client).await?);
                }
            }
            while acked < sent {
                acked += usize::from(is_ack(&mut client).await?);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?.context("filling the inbox")?;
    }
    Ok(())
}

async fn is_ack(client: &mut LoadClient) -> Result<bool> {
    Ok(client.next().await?["type"] == "ack")
}
