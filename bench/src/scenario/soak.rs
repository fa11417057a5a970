//! Memory over time under mixed load, with a client that leaves in mid-turn every second: after
//! warming up it must not grow.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::client::{Endpoint, LoadClient};
use crate::report::{Goal, ReportRow};

const SESSIONS: usize = 16;
/// Of the whole time, before anything counts.
const WARM: f64 = 0.4;

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let minutes = bench.options.soak_minutes;
    let time = Duration::from_secs_f64(minutes * 60.0);
    let hive = bench.start_hive(10).await?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..SESSIONS {
        tasks.spawn(talk(hive.target.clone(), number, begun, time));
    }
    tasks.spawn(leave(hive.target.clone(), begun, time));
    let mut samples = Vec::new();
    while begun.elapsed() < time {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let at = begun.elapsed().as_secs_f64() / 60.0;
        if at > minutes * WARM {
            samples.push((at, hive.child.memory()?));
        }
    }
    let mut turns = 0;
    while let Some(done) = tasks.join_next().await {
        turns += done??;
    }
    hive.child.stop().await?;
    let (first, last) = (samples.first().map_or(0.0, |s| s.1), samples.last().map_or(0.0, |s| s.1));
    let what = format!("memory growth under load, {minutes} minutes");
    Ok(vec![
        ReportRow::new("soak_growth", what, slope(&samples).max(0.0), "MiB/min")
            .goal(Goal::Most(0.5))
            .note(format!("{turns} turns; {first:.1} MiB after warming up, {last:.1} at the end")),
    ])
}

async fn talk(target: Endpoint, number: usize, begun: Instant, time: Duration) -> Result<u64> {
    let mut client = LoadClient::connect(&target, true).await?;
    let mut done = 0_u64;
    let words = ["hello", "stream 50", "tools 3"];
    while begun.elapsed() < time {
        let session = format!("soak-{number}-{}", done / 20);
        client.turn(words[done as usize % words.len()], Some(&session)).await?;
        done += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(done)
}

async fn leave(target: Endpoint, begun: Instant, time: Duration) -> Result<u64> {
    let mut done = 0_u64;
    while begun.elapsed() < time {
        let mut client = LoadClient::connect(&target, true).await?;
        client.send("stream 200", None).await?;
        drop(client);
        done += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(done)
}

/// The slope of the line with the least squares.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|s| s.0), mean(|s| s.1));
    let over: f64 = samples.iter().map(|s| (s.0 - x) * (s.1 - y)).sum();
    let under: f64 = samples.iter().map(|s| (s.0 - x) * (s.0 - x)).sum();
    if under == 0.0 { 0.0 } else { over / under }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes() {
        assert_eq!(slope(&[]), 0.0);
        assert_eq!(slope(&[(1.0, 5.0)]), 0.0);
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), 2.0);
        assert_eq!(slope(&[(0.0, 4.0), (1.0, 4.0), (2.0, 4.0)]), 0.0);
    }
}
