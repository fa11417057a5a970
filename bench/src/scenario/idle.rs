//! Memory of a hive that has nothing to do.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::client::{Client, Target};
use crate::hive::{Hive, Home};
use crate::report::{Goal, Row};

/// Until freed memory went back to the system.
const SETTLE: Duration = Duration::from_secs(3);

pub async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (agents, most) in [(10_usize, 25.0), (1000, 60.0)] {
        let home = Home::new(&bench.model.url, agents)?;
        let hive = Hive::start(&bench.program(), home).await?;
        tokio::time::sleep(SETTLE).await;
        let key = format!("idle_{agents}_agents");
        rows.push(row(key, format!("idle memory, {agents} agents"), hive.child.memory()?, most));
        if agents == 10 {
            let target = hive.target.clone();
            let sockets = open(&target, 1000, true).await?;
            tokio::time::sleep(SETTLE).await;
            let key = "idle_1000_sessions".to_owned();
            let what = "1 000 open sessions that have talked".to_owned();
            rows.push(row(key, what, hive.child.memory()?, 100.0));
            drop(sockets);
        }
        hive.child.stop().await?;
    }
    if bench.options.full {
        let home = Home::new(&bench.model.url, 10)?;
        let hive = Hive::start(&bench.program(), home).await?;
        let sockets = open(&hive.target, 10_000, false).await?;
        tokio::time::sleep(SETTLE).await;
        let what = "10 000 idle sockets".to_owned();
        rows.push(row("idle_10000_sockets".into(), what, hive.child.memory()?, 300.0));
        drop(sockets);
        hive.child.stop().await?;
    }
    Ok(rows)
}

/// Sockets with a session each; a turn in each where asked for.
async fn open(target: &Target, number: usize, talk: bool) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(number);
    for _ in 0..number {
        let mut client = Client::connect(target, false).await?;
        if talk {
            client.turn("hello", None).await?;
        }
        clients.push(client);
    }
    Ok(clients)
}

fn row(key: String, what: String, value: f64, most: f64) -> Row {
    Row { key, what, value, unit: "MiB", floor: None, goal: Goal::Most(most), note: String::new() }
}
