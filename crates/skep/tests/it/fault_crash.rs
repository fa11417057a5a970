//! Crashes: `kill -9` at random moments, at counted file operations, and power loss. Every promise
//! made before is kept after, and nothing is done twice.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use skep_testkit::shim::{End, Shim};

use crate::fault_crash_journal::Journal;
use crate::fault_crash_scene::Scene;
use crate::stage::Stage;

/// Messages of each client in a round.
const MESSAGES: usize = 2;
/// Points of a sweep that run side by side: most of a point is waiting for the disk.
const SIDE_BY_SIDE: usize = 3;

/// splitmix64: the same seed gives the same moments.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// A home that was started once and stopped in order.
async fn template() -> Stage {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    play.hive.terminate().unwrap();
    let ended = play.hive.wait(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", play.hive.stderr());
    stage
}

/// One home for all rounds. Each start first lets the hive go quiet; in one round of three it is
/// killed once more on the way there, so no step ever sees three kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_random_moments_keeps_every_promise() {
    let rounds = if skep_testkit::all() { 200 } else { 50 };
    let seed = u64::from(std::process::id());
    let mut dice = Dice(seed);
    let mut scene = Scene::on(template().await.again().await).await;
    let (mut open_turns, mut in_recovery) = (0, 0);
    for round in 0..rounds {
        let before = Journal::of(scene.stage.home());
        open_turns += before.open_turns().count();
        let asked = scene.asked().await;
        if round % 3 == 2 {
            let mut hive = scene.start().spawn().unwrap();
            kill_after(&mut hive, Duration::from_millis(dice.below(300))).await;
            in_recovery += 1;
            let after = Journal::of(scene.stage.home());
            assert!(after.history.len() >= before.history.len(), "round {round}: rows are gone");
        }
        let (before, asked) = match round % 3 {
            2 => (Journal::of(scene.stage.home()), scene.asked().await),
            _ => (before, asked),
        };
        let play = scene.up(scene.start()).await.expect("it starts after a crash");
        let target = play.target();
        scene.settle(&target).await;
        scene.check_resumed(&before, asked).await;
        if round % 5 == 4 {
            // Quiet: what these clients were promised is checked; others come.
            scene.check_quiet(play).await;
            scene.new_clients(&format!("r{round}c"));
            continue;
        }
        let mut play = play;
        let moment = Duration::from_millis(dice.below(250));
        tokio::join!(scene.load(&target, MESSAGES), kill_after(&mut play.hive, moment));
    }
    let play = scene.up(scene.start()).await.expect("it starts after a crash");
    scene.settle(&play.target()).await;
    scene.check_quiet(play).await;
    println!(
        "seed {seed}: {rounds} kills and {in_recovery} while starting, {open_turns} turns \
         redelivered, slowest start {:?}",
        scene.slowest_start
    );
    assert!(open_turns > rounds / 4, "the kills met {open_turns} running turns only");
}

async fn kill_after(hive: &mut skep_testkit::Hive, moment: Duration) {
    tokio::time::sleep(moment).await;
    hive.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_counted_operations_keeps_every_promise() {
    let points = if skep_testkit::all() { 200 } else { 50 };
    sweep(points, |at| End::Kill(at)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_keeps_every_promise() {
    let points = if skep_testkit::all() { 200 } else { 20 };
    // Every other time a part of what was not synced reaches the disk all the same.
    sweep(points, |at| End::PowerLoss { at, seed: if at % 2 == 0 { 0 } else { at } }).await;
}

struct Point {
    /// The end came at the counted operation, not after the work was done.
    hit: bool,
    open_turns: usize,
    slowest_start: Duration,
}

/// Ends the program at points spread evenly over its work, each on a home of its own.
async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let template = template().await;
    let template = &template;
    let whole = operations(template).await;
    let at = |point: u64| 1 + point * whole / points;
    let ran = stream::iter(0..points).map(|point| ended_at(template, end(at(point))));
    let ran: Vec<Point> = ran.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let hit = ran.iter().filter(|point| point.hit).count();
    let open_turns: usize = ran.iter().map(|point| point.open_turns).sum();
    let slowest = ran.iter().map(|point| point.slowest_start).max();
    println!(
        "{points} points over {whole} operations, {hit} hit, {open_turns} turns redelivered, \
         slowest start {slowest:?}"
    );
    assert!(hit as u64 >= points * 3 / 4, "{hit} of {points} points were hit");
    assert!(open_turns as u64 >= points / 2, "{open_turns} turns were open");
}

/// File operations of a start and the work, undisturbed.
async fn operations(template: &Stage) -> u64 {
    let mut scene = Scene::on(template.again().await).await;
    let shim = Shim::new(scene.stage.home()).unwrap();
    let play = scene.up(scene.start().shim(&shim)).await.expect("nothing is in its way");
    scene.load(&play.target(), MESSAGES).await;
    let count = shim.count().unwrap();
    scene.check_quiet(play).await;
    count
}

async fn ended_at(template: &Stage, end: End) -> Point {
    let mut scene = Scene::on(template.again().await).await;
    let shim = Shim::new(scene.stage.home()).unwrap();
    shim.prepare(end).unwrap();
    let mut hit = true;
    if let Some(mut play) = scene.up(scene.start().shim(&shim)).await {
        scene.load(&play.target(), MESSAGES).await;
        // Batches are never quite the same: the work may be done before the point.
        hit = !play.hive.is_running();
        if !hit {
            play.hive.kill().await.unwrap();
        }
    }
    assert_eq!(shim.untracked().unwrap(), 0, "{end:?}");
    let before = Journal::of(scene.stage.home());
    let asked = scene.asked().await;
    let play = scene.up(scene.start()).await.expect("it starts after a crash");
    let target = play.target();
    scene.load(&target, 1).await;
    scene.settle(&target).await;
    scene.check_resumed(&before, asked).await;
    scene.check_quiet(play).await;
    Point { hit, open_turns: before.open_turns().count(), slowest_start: scene.slowest_start }
}
