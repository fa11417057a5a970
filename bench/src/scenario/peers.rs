//! The same turns through other programs, in the same rounds as through Skep. In these rows the
//! column of the floor holds Skep, and the ratio says how many times Skep's cost theirs is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bench::{Bench, Side};
use crate::client::{Endpoint, LoadClient};
use crate::hive::{self, MeasuredHive};
use crate::peer::{PeerProgram, RunningPeer};
use crate::report::ReportRow;
use crate::stats::{self, ms};

/// Until a program that has started is at rest.
const SETTLE: Duration = Duration::from_secs(2);

/// One value a round.
#[derive(Default)]
struct Figures {
    turn: Vec<f64>,
    cpu: Vec<f64>,
    stream: Vec<f64>,
    stream_cpu: Vec<f64>,
    first: Vec<f64>,
    idle: Vec<f64>,
}

pub async fn measure(bench: &Bench, cache: &Path) -> Result<Vec<ReportRow>> {
    let turns = if bench.options.quick { 20 } else { 40 };
    let mut skep = Figures::default();
    let mut peers: Vec<(PeerProgram, String, Figures)> = Vec::new();
    for peer in PeerProgram::ALL {
        peers.push((peer, peer.title(cache)?, Figures::default()));
    }
    for round in 0..bench.rounds() {
        one_of_skep(bench, turns, round, &mut skep).await?;
        for (peer, title, figures) in &mut peers {
            let measured = one_of_peer(bench, *peer, cache, turns, figures).await;
            measured.with_context(|| title.clone())?;
        }
    }
    let mut rows = Vec::new();
    for (peer, title, figures) in &peers {
        let mut add = |key: &str, what: &str, unit: &'static str, of: fn(&Figures) -> &Vec<f64>| {
            let (low, high) = stats::spread(of(figures));
            let (key, what) = (format!("peer_{}_{key}", peer.key()), format!("{title}: {what}"));
            rows.push(
                ReportRow::new(key, what, stats::median(of(figures)), unit)
                    .floor(stats::median(of(&skep)))
                    .note(format!("rounds {low:.2}–{high:.2}; the column floor is Skep")),
            );
        };
        add("turn", "turn, 1 token, p50", "ms", |it| &it.turn);
        add("turn_cpu", "turn, 1 token, CPU", "ms", |it| &it.cpu);
        add("stream", "stream of 200, p50", "ms", |it| &it.stream);
        add("stream_cpu", "stream of 200, CPU", "ms", |it| &it.stream_cpu);
        add("start", "start to first finished turn", "ms", |it| &it.first);
        add("idle", "memory at rest after 1 turn", "MiB", |it| &it.idle);
    }
    Ok(rows)
}

async fn one_of_peer(
    bench: &Bench,
    peer: PeerProgram,
    cache: &Path,
    turns: usize,
    figures: &mut Figures,
) -> Result<()> {
    let folder = hive::scratch()?;
    let begun = Instant::now();
    let mut running = RunningPeer::start(peer, cache, &bench.model.url, folder.path()).await?;
    running.turn("hello").await?;
    figures.first.push(ms(begun.elapsed()));
    tokio::time::sleep(SETTLE).await;
    figures.idle.push(running.memory()?);
    for (words, time, cpu) in [
        ("hello", &mut figures.turn, &mut figures.cpu),
        ("stream 200", &mut figures.stream, &mut figures.stream_cpu),
    ] {
        // The first warms it up.
        running.turn(words).await?;
        let before = running.cpu()?;
        let mut times = Vec::with_capacity(turns);
        for _ in 0..turns {
            times.push(ms(running.turn(words).await?));
        }
        time.push(stats::median(&times));
        cpu.push(ms(running.cpu()?.saturating_sub(before)) / turns as f64);
    }
    Ok(())
}

async fn one_of_skep(
    bench: &Bench,
    turns: usize,
    round: usize,
    figures: &mut Figures,
) -> Result<()> {
    let MeasuredHive { child, home, target } = bench.start_hive(10).await?;
    child.stop().await?;
    let begun = Instant::now();
    let (child, _) = MeasuredHive::cold(&bench.program(), &home).await?;
    let target = Endpoint { url: child.url.clone(), token: target.token };
    let mut client = LoadClient::connect(&target, true).await?;
    client.turn("hello", None).await?;
    figures.first.push(ms(begun.elapsed()));
    tokio::time::sleep(SETTLE).await;
    figures.idle.push(child.memory()?);
    child.stop().await?;
    let (child, target) = bench.side(Side::Hive);
    let mut client = LoadClient::connect(&target, true).await?;
    for (words, time, cpu) in [
        ("hello", &mut figures.turn, &mut figures.cpu),
        ("stream 200", &mut figures.stream, &mut figures.stream_cpu),
    ] {
        let session = format!("peers-{round}-{words}");
        client.turn(words, Some(&session)).await?;
        let before = child.cpu()?;
        let mut times = Vec::with_capacity(turns);
        for _ in 0..turns {
            times.push(ms(client.turn(words, Some(&session)).await?));
        }
        time.push(stats::median(&times));
        cpu.push(ms(child.cpu()?.saturating_sub(before)) / turns as f64);
    }
    Ok(())
}
