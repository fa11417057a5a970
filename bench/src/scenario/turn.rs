//! One client, one turn after the other.

use anyhow::Result;

use crate::bench::{Bench, Rounds, Side};
use crate::client::LoadClient;
use crate::report::{Goal, ReportRow};
use crate::stats::{self, ms};

/// Turns in a talk before the next begins: a long talk costs its own length on every call.
pub(super) const TALK: usize = 20;
/// A turn of ten calls is a talk of its own: the floor has nothing before it either.
pub(super) const ALONE: usize = 1;
/// Turns of one side before the other has its own.
const BOUT: usize = 5;

/// What is said, how often in a round, and how long the talks are.
pub(super) struct TurnScript {
    pub words: &'static str,
    pub turns: usize,
    pub talk: usize,
    pub stream: bool,
}

pub async fn one_token(bench: &Bench) -> Result<Vec<ReportRow>> {
    let turns = if bench.options.quick { 200 } else { 500 };
    let script = TurnScript { words: "hello", turns, talk: TALK, stream: false };
    let [b, hive] = interleaved(bench, [Side::B, Side::Hive], &script).await?;
    let note = format!("p50 of {turns} turns a round, rounds {} (floor {})", hive.said(), b.said());
    Ok(vec![
        ReportRow::new("turn_p50", "turn, 1 token, p50", hive.time(), "ms")
            .floor(b.time())
            .goal(Goal::Times(2.0))
            .note(note),
        p99("turn_p99", "turn, 1 token, p99", &hive, &b, Goal::Times(3.0)),
        cpu("turn_cpu", "turn, 1 token, CPU", &hive, &b, 2.5),
    ])
}

pub async fn stream(bench: &Bench) -> Result<Vec<ReportRow>> {
    let turns = if bench.options.quick { 60 } else { 150 };
    let script = TurnScript { words: "stream 200", turns, talk: TALK, stream: true };
    let [a, hive] = interleaved(bench, [Side::A, Side::Hive], &script).await?;
    let note = format!("rounds {} (floor A {})", hive.said(), a.said());
    Ok(vec![
        ReportRow::new("stream_p50", "stream of 200, p50", hive.time(), "ms")
            .floor(a.time())
            .goal(Goal::Times(2.0))
            .note(note),
        p99("stream_p99", "stream of 200, p99", &hive, &a, Goal::None),
        cpu("stream_cpu", "stream of 200, CPU", &hive, &a, 3.0),
    ])
}

/// What each of ten calls adds to a turn, through the whole gate.
pub async fn tools(bench: &Bench) -> Result<Vec<ReportRow>> {
    let turns = if bench.options.quick { 30 } else { 80 };
    let sides = [Side::B, Side::Hive];
    let script = |words| TurnScript { words, turns, talk: ALONE, stream: false };
    let [b0, hive0] = interleaved(bench, sides, &script("hello alone")).await?;
    let [b, hive] = interleaved(bench, sides, &script("tools 10")).await?;
    let added = |with: &Rounds, without: &Rounds| (with.time() - without.time()) / 10.0;
    let (ours, floor) = (added(&hive, &hive0), added(&b, &b0));
    let over = ours - floor;
    let note = format!("a call takes {ours:.3} ms here and {floor:.3} ms on floor B");
    let row = ReportRow::new("tool_call_added", "tool call (read), added to floor B", over, "ms")
        .goal(Goal::Most(0.5))
        .note(note);
    let whole = p99("tools_p99", "turn of ten tool calls, p99", &hive, &b, Goal::None);
    Ok(vec![row, whole])
}

pub(super) async fn interleaved(
    bench: &Bench,
    sides: [Side; 2],
    &TurnScript { words, turns, talk, stream }: &TurnScript,
) -> Result<[Rounds; 2]> {
    let mut found = [Rounds::default(), Rounds::default()];
    // The sides take short turns, and each is as often the first: a machine that grows slower
    // for a second grows slower for both.
    let bout = talk.max(BOUT);
    for round in 0..=bench.rounds() {
        let mut clients = Vec::new();
        for side in sides {
            clients.push(LoadClient::connect(&bench.side(side).1, stream).await?);
        }
        let mut times = [Vec::with_capacity(turns), Vec::with_capacity(turns)];
        for (number, first) in (0..turns).step_by(bout).enumerate() {
            for at in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let (child, _) = bench.side(sides[at]);
                let before = child.cpu()?;
                for turn in first..turns.min(first + bout) {
                    let session = format!("{words}-{round}-{}", turn / talk);
                    let session = sides[at].is_hive().then_some(session.as_str());
                    times[at].push(ms(clients[at].turn(words, session).await?));
                }
                // The first round warms everything up and counts for nobody.
                if round > 0 {
                    let cost = ms(child.cpu()? - before);
                    found[at].cpu.push(cost / (turns.min(first + bout) - first) as f64);
                }
            }
        }
        for (at, mut times) in times.into_iter().enumerate().filter(|_| round > 0) {
            found[at].time.push(stats::percentile(&mut times, 0.5));
            found[at].turns.append(&mut times);
        }
    }
    Ok(found)
}

/// Over the turns of all rounds together.
fn p99(key: &str, what: &str, hive: &Rounds, floor: &Rounds, goal: Goal) -> ReportRow {
    let note = format!("of {} turns; says something on a quiet machine only", hive.turns.len());
    ReportRow::new(key, what, hive.p99(), "ms").floor(floor.p99()).goal(goal).note(note)
}

fn cpu(key: &str, what: &str, hive: &Rounds, floor: &Rounds, most: f64) -> ReportRow {
    ReportRow::new(key, what, hive.cpu(), "ms").floor(floor.cpu()).goal(Goal::Times(most))
}
