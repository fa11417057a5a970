//! Two builds of the program, in the same rounds: what a change costs.

use anyhow::Result;

use super::throughput;
use super::turn::{ALONE, TALK, TurnScript, interleaved};
use crate::bench::{Bench, Rounds, Side};
use crate::report::{Goal, ReportRow};

/// A change may cost this share of processor time more.
const MOST: Goal = Goal::Times(1.05);

/// Pairs of processes, one counted round each.
const PAIRS: usize = 10;

pub async fn measure(bench: &mut Bench) -> Result<Vec<ReportRow>> {
    let scripts = [
        ("turn", TurnScript { words: "hello", turns: 300, talk: TALK, stream: false }),
        ("stream", TurnScript { words: "stream 200", turns: 120, talk: TALK, stream: true }),
        ("tools", TurnScript { words: "tools 10", turns: 60, talk: ALONE, stream: false }),
    ];
    let sides = [Side::Before, Side::Hive];
    let mut found: [[Rounds; 2]; 4] = Default::default();
    for pair in 0..PAIRS {
        eprintln!("comparing, pair {} of {PAIRS}", pair + 1);
        bench.start_pair(pair).await?;
        for ((_, script), found) in scripts.iter().zip(&mut found) {
            add(found, interleaved(bench, sides, script).await?);
        }
        add(&mut found[3], throughput::interleaved(bench, sides, 64).await?);
    }
    let names = scripts.iter().map(|(name, _)| *name).chain(["throughput_64"]);
    let mut rows = Vec::new();
    for (name, [before, now]) in names.zip(&found) {
        rows.push(row(name, "CPU", MOST, now, (now.cpu(), before.cpu())));
        rows.push(row(name, "p50", Goal::None, now, (now.time(), before.time())));
        if !now.turns.is_empty() {
            rows.push(row(name, "p99", Goal::None, now, (now.p99(), before.p99())));
        }
    }
    Ok(rows)
}

fn add(found: &mut [Rounds; 2], more: [Rounds; 2]) {
    for (found, more) in found.iter_mut().zip(more) {
        found.append(more);
    }
}

fn row(
    name: &str,
    figure: &str,
    goal: Goal,
    now: &Rounds,
    (value, before): (f64, f64),
) -> ReportRow {
    let key = format!("against_{name}_{}", figure.to_lowercase().replace(' ', "_"));
    let what = format!("{name}, {figure}, against the other build");
    let note = if figure == "p50" { format!("rounds {}", now.said()) } else { String::new() };
    ReportRow::new(key, what, value, "ms").floor(before).goal(goal).note(note)
}
