//! Two builds of the program, in the same rounds: what a change costs.

use anyhow::Result;

use super::turn::{ALONE, Script, TALK, interleaved};
use super::{Bench, Rounds, Side, throughput};
use crate::report::{Goal, Row};

/// A change may cost this share of processor time more.
const MOST: Goal = Goal::Times(1.05);

pub async fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let scripts = [
        ("turn", Script { words: "hello", turns: 300, talk: TALK, stream: false }),
        ("stream", Script { words: "stream 200", turns: 60, talk: TALK, stream: true }),
        ("tools", Script { words: "tools 10", turns: 30, talk: ALONE, stream: false }),
    ];
    for (name, script) in scripts {
        eprintln!("comparing {name}");
        let [before, now] = interleaved(bench, [Side::Before, Side::Hive], script).await?;
        rows.push(row(name, "CPU", MOST, &now, (now.cpu(), before.cpu())));
        rows.push(row(name, "p50", Goal::None, &now, (now.time(), before.time())));
        rows.push(row(name, "p99", Goal::None, &now, (now.p99(), before.p99())));
    }
    eprintln!("comparing throughput");
    let [before, now] = throughput::interleaved(bench, [Side::Before, Side::Hive], 64).await?;
    let name = "throughput_64";
    rows.push(row(name, "CPU", MOST, &now, (now.cpu(), before.cpu())));
    rows.push(row(name, "time a turn", Goal::None, &now, (now.time(), before.time())));
    Ok(rows)
}

fn row(name: &str, figure: &str, goal: Goal, now: &Rounds, (value, before): (f64, f64)) -> Row {
    Row {
        key: format!("against_{name}_{}", figure.to_lowercase().replace(' ', "_")),
        what: format!("{name}, {figure}, against the other build"),
        value,
        unit: "ms",
        floor: Some(before),
        goal,
        note: if figure == "p50" { format!("rounds {}", now.said()) } else { String::new() },
    }
}
