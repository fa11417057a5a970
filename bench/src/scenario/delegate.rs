//! Work that one agent gives another: the turn that gives it, the turn that does it, and the turn
//! that reads the result, next to three turns of the same hive that give nothing.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::throughput::Load;
use crate::bench::{Bench, Rounds, Side};
use crate::client::LoadClient;
use crate::hive::{BenchHome, MeasuredHive};
use crate::report::{Goal, ReportRow};
use crate::stats::{self, ms};

/// Agents below `main`.
const TEAMS: usize = 8;
/// Tasks of one session: a long talk costs its own length on every call.
const TALK: usize = 5;
/// Tasks at the same time.
const AT_ONCE: usize = 64;

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let home = BenchHome::new(&bench.model.url, TEAMS + 1)?;
    home.allow("main", "[read, delegate_task]")?;
    for team in 1..=TEAMS {
        home.lead("main", team)?;
    }
    let hive = MeasuredHive::start(&bench.program(), home).await?;
    let rows = vec![cost(bench, &hive).await?, at_once(bench, &hive).await?];
    hive.child.stop().await?;
    Ok(rows)
}

/// Processor time of a task, against two turns and one with a tool call.
async fn cost(bench: &Bench, hive: &MeasuredHive) -> Result<ReportRow> {
    let tasks = if bench.options.quick { 60 } else { 150 };
    let mut client = LoadClient::connect(&hive.target, false).await?;
    let (mut plain, mut given) = (Rounds::default(), Rounds::default());
    let mut turns = 0;
    for round in 0..=bench.rounds() {
        let mut used = [Duration::ZERO; 2];
        for (number, first) in (0..tasks).step_by(TALK).enumerate() {
            for kind in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let before = hive.child.cpu()?;
                let session = format!("delegate-{kind}-{round}-{number}");
                for task in first..tasks.min(first + TALK) {
                    if kind == 0 {
                        for words in ["hello", "tools 1", "hello"] {
                            client.turn(words, Some(&session)).await?;
                        }
                    } else {
                        let team = BenchHome::agent_name(1 + task % TEAMS);
                        turns += client.delegate(&team, &session).await?;
                    }
                }
                used[kind] += hive.child.cpu()? - before;
            }
        }
        // The first round warms everything up and counts for nobody.
        if round > 0 {
            plain.cpu.push(ms(used[0]) / tasks as f64);
            given.cpu.push(ms(used[1]) / tasks as f64);
        }
    }
    let (low, high) = stats::spread(&given.cpu);
    let of_task = turns as f64 / (tasks * (bench.rounds() + 1)) as f64;
    let note = format!("rounds {low:.3}–{high:.3}; {of_task:.2} turns a task");
    let what = "task given, done and read, CPU, against 3 turns and 1 tool call";
    let row = ReportRow::new("delegate_cpu", what, given.cpu(), "ms").floor(plain.cpu());
    Ok(row.goal(Goal::Times(1.25)).note(note))
}

/// Turns a second of many tasks, against those of as many sessions without any.
async fn at_once(bench: &Bench, hive: &MeasuredHive) -> Result<ReportRow> {
    let time = Duration::from_millis(if bench.options.quick { 1000 } else { 3000 });
    let (mut plain, mut given) = (Vec::new(), Vec::new());
    for round in 0..=bench.rounds() {
        let load = Load { sessions: AT_ONCE, round, side: Side::Hive, time };
        let (turns, took) = load.run(&hive.target).await?;
        let (all, whole) = tasks(hive, round, time).await?;
        if round > 0 {
            plain.push(turns / took.as_secs_f64());
            given.push(all / whole.as_secs_f64());
        }
    }
    let (low, high) = stats::spread(&given);
    let what = format!("turns a second, {AT_ONCE} tasks at once, against {AT_ONCE} sessions");
    let row = ReportRow::new(format!("delegate_{AT_ONCE}"), what, stats::median(&given), "/s");
    let row = row.floor(stats::median(&plain)).goal(Goal::Share(0.4));
    Ok(row.note(format!("rounds {low:.0}–{high:.0}, turns of both agents")))
}

/// How many turns, and how long they took all together.
async fn tasks(hive: &MeasuredHive, round: usize, time: Duration) -> Result<(f64, Duration)> {
    let mut clients = Vec::new();
    for _ in 0..AT_ONCE {
        clients.push(LoadClient::connect(&hive.target, false).await?);
    }
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        running.spawn(async move {
            let team = BenchHome::agent_name(1 + number % TEAMS);
            let (mut turns, mut done) = (0, 0);
            while begun.elapsed() < time {
                let session = format!("at-once-{round}-{number}-{}", done / TALK);
                turns += client.delegate(&team, &session).await?;
                done += 1;
            }
            anyhow::Ok(turns)
        });
    }
    let mut turns = 0;
    while let Some(done) = running.join_next().await {
        turns += done??;
    }
    Ok((turns as f64, begun.elapsed()))
}
