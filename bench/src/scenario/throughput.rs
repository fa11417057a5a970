//! Many sessions of one agent at once, every message durable.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::bench::{Bench, Rounds, Side};
use crate::client::{Endpoint, LoadClient};
use crate::report::{Goal, ReportRow};
use crate::stats::{self, ms};

/// Turns in a talk before the next begins.
const TALK: u64 = 20;

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let mut rows = Vec::new();
    let mut at_sixteen = None;
    for sessions in [1_usize, 16, 64, 256] {
        let (mut floor, mut hive) = (Vec::new(), Vec::new());
        for round in 0..=rounds(bench) {
            for side in [Side::B, Side::Hive] {
                let (_, target) = bench.side(side);
                let load = Load { sessions, round, side, time: time(bench) };
                let (turns, took) = load.run(&target).await?;
                let rate = turns / took.as_secs_f64();
                match side {
                    _ if round == 0 => {}
                    Side::Hive => hive.push(rate),
                    _ => floor.push(rate),
                }
            }
        }
        let value = stats::median(&hive);
        let (low, high) = stats::spread(&hive);
        let goal = if sessions >= 64 { Goal::Share(0.5) } else { Goal::None };
        let mut note = format!("rounds {low:.0}–{high:.0}");
        if sessions == 16 {
            at_sixteen = Some(value);
        }
        if let (256, Some(sixteen)) = (sessions, at_sixteen) {
            note.push_str(&format!("; {:.2} of that at 16", value / sixteen));
        }
        let key = format!("throughput_{sessions}");
        let row = ReportRow::new(key, format!("turns a second, {sessions} sessions"), value, "/s");
        rows.push(row.floor(stats::median(&floor)).goal(goal).note(note));
    }
    Ok(rows)
}

fn rounds(bench: &Bench) -> usize {
    if bench.options.quick { 5 } else { 7 }
}

fn time(bench: &Bench) -> Duration {
    Duration::from_millis(if bench.options.quick { 1000 } else { 3000 })
}

/// What a turn takes and costs on two sides, at so many sessions.
pub(super) async fn interleaved(
    bench: &Bench,
    sides: [Side; 2],
    sessions: usize,
) -> Result<[Rounds; 2]> {
    let mut found = [Rounds::default(), Rounds::default()];
    for round in 0..=bench.rounds() {
        for (at, side) in sides.into_iter().enumerate() {
            let (child, target) = bench.side(side);
            let before = child.cpu()?;
            let load = Load { sessions, round, side, time: Duration::from_secs(1) };
            let (turns, took) = load.run(&target).await?;
            // The first round warms everything up and counts for nobody.
            if round > 0 {
                found[at].time.push(ms(took) / turns);
                found[at].cpu.push(ms(child.cpu()? - before) / turns);
            }
        }
    }
    Ok(found)
}

pub(super) struct Load {
    pub sessions: usize,
    pub round: usize,
    pub side: Side,
    pub time: Duration,
}

impl Load {
    /// How many turns, and how long they took all together.
    pub(super) async fn run(self, target: &Endpoint) -> Result<(f64, Duration)> {
        let Self { sessions, round, side, time } = self;
        let mut clients = Vec::new();
        for _ in 0..sessions {
            clients.push(LoadClient::connect(target, false).await?);
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (number, mut client) in clients.into_iter().enumerate() {
            tasks.spawn(async move {
                let mut done = 0_u64;
                while begun.elapsed() < time {
                    let session = format!("load-{round}-{sessions}-{number}-{}", done / TALK);
                    let session = side.is_hive().then_some(session.as_str());
                    client.turn("hello", session).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            });
        }
        let mut turns = 0;
        while let Some(done) = tasks.join_next().await {
            turns += done??;
        }
        Ok((turns as f64, begun.elapsed()))
    }
}
