//! Memory of a hive that has nothing to do.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::turn::TALK;
use crate::bench::Bench;
use crate::client::{Endpoint, LoadClient};
use crate::hive::MeasuredHive;
use crate::report::{Goal, ReportRow};

/// Until freed memory went back to the system.
const SETTLE: Duration = Duration::from_secs(3);
const TURNS: usize = 1000;
const REST: Duration = Duration::from_secs(60);

pub async fn measure(bench: &mut Bench) -> Result<Vec<ReportRow>> {
    let mut rows = Vec::new();
    let rested = Rested::begin(bench).await?;
    for (agents, most) in [(10_usize, 25.0), (1000, 60.0)] {
        let hive = bench.start_hive(agents).await?;
        tokio::time::sleep(SETTLE).await;
        let key = format!("idle_{agents}_agents");
        rows.push(row(key, format!("idle memory, {agents} agents"), hive.child.memory()?, most));
        if agents == 10 {
            let sockets = open(&hive.target, 1000, true).await?;
            tokio::time::sleep(SETTLE).await;
            let what = "1 000 open sessions that have talked";
            rows.push(row("idle_1000_sessions", what, hive.child.memory()?, 100.0));
            drop(sockets);
        }
        hive.child.stop().await?;
    }
    if bench.options.full {
        let hive = bench.start_hive(10).await?;
        let sockets = open(&hive.target, 10_000, false).await?;
        tokio::time::sleep(SETTLE).await;
        let memory = hive.child.memory()?;
        rows.push(row("idle_10000_sockets", "10 000 idle sockets", memory, 300.0));
        drop(sockets);
        hive.child.stop().await?;
    }
    rows.push(rested.measure().await?);
    Ok(rows)
}

/// A hive that had turns and rests while others are measured: turns leave nothing behind that
/// stays, so the bound is the one before the first.
struct Rested {
    hive: MeasuredHive,
    since: Instant,
    /// When the last turn ended.
    busy: f64,
}

impl Rested {
    async fn begin(bench: &Bench) -> Result<Self> {
        let hive = bench.start_hive(10).await?;
        let mut client = LoadClient::connect(&hive.target, false).await?;
        for turn in 0..TURNS {
            client.turn("hello", Some(&format!("idle-{}", turn / TALK))).await?;
        }
        let busy = hive.child.memory()?;
        Ok(Self { hive, since: Instant::now(), busy })
    }

    async fn measure(self) -> Result<ReportRow> {
        tokio::time::sleep(REST.saturating_sub(self.since.elapsed())).await;
        let what = format!("idle memory, 10 agents, after {TURNS} turns and a minute's rest");
        let row = row("idle_after_turns", what, self.hive.child.memory()?, 25.0);
        self.hive.child.stop().await?;
        Ok(row.note(format!("{:.1} MiB when the last turn ended", self.busy)))
    }
}

/// Sockets with a session each; a turn in each where asked for.
async fn open(target: &Endpoint, number: usize, talk: bool) -> Result<Vec<LoadClient>> {
    let mut clients = Vec::with_capacity(number);
    for _ in 0..number {
        let mut client = LoadClient::connect(target, false).await?;
        if talk {
            client.turn("hello", None).await?;
        }
        clients.push(client);
    }
    Ok(clients)
}

fn row(key: impl Into<String>, what: impl Into<String>, value: f64, most: f64) -> ReportRow {
    ReportRow::new(key, what, value, "MiB").goal(Goal::Most(most))
}
