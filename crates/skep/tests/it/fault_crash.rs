//! Crashes: `kill -9` at random moments, at counted file operations, and power loss. Every promise
//! made before is kept after, and nothing is done twice.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use skep_testkit::Hive;
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::PATIENCE;

use crate::fault_crash_journal::Journal;
use crate::fault_crash_scene::{Scene, Starts};
use crate::stage::Stage;

/// Kills at random moments on one home.
const ROUNDS: usize = 50;
/// Messages of each client in a round.
const MESSAGES: usize = 2;
/// The work of a round takes about this many milliseconds.
const LONGEST_MOMENT: u64 = 250;
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
struct Template {
    stage: Stage,
}

impl Template {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let mut play = stage.up().await;
        play.hive.terminate().unwrap();
        let ended = play.hive.wait(PATIENCE).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", play.hive.stderr());
        Template { stage }
    }

    /// Fresh, on a copy of the home.
    async fn scene(&self) -> Scene {
        Scene::on(self.stage.again().await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_random_moments_keeps_every_promise() {
    let homes = if skep_testkit::all() { 4 } else { 1 };
    let template = Template::new().await;
    for home in 0..homes {
        let seed = u64::from(std::process::id()) << 8 | home;
        random_kills(template.scene().await, seed).await;
    }
}

/// One home for all rounds. Each start first lets the hive go quiet; in one round of three it is
/// killed once more on the way there, so no step ever sees three kills.
async fn random_kills(mut scene: Scene, seed: u64) {
    let mut dice = Dice(seed);
    let (mut open_turns, mut in_recovery) = (0, 0);
    for round in 0..ROUNDS {
        let mut before = Journal::of(scene.stage.home());
        open_turns += before.open_turns().count();
        if round % 3 == 2 {
            let mut hive = scene.start().spawn().unwrap();
            kill_after(&mut hive, Duration::from_millis(dice.below(300))).await;
            in_recovery += 1;
            let rows = before.history.len();
            before = Journal::of(scene.stage.home());
            assert!(before.history.len() >= rows, "round {round}: rows are gone");
        }
        let asked = scene.asked().await;
        let mut play = scene.up(scene.start()).await.expect("it starts after a crash");
        scene.settle(&play.target()).await;
        scene.check_resumed(&before, asked).await;
        if round % 5 == 4 {
            // What these clients were promised is checked; others come.
            scene.check_quiet(play).await;
            scene.new_clients(&format!("r{round}c"));
            play = scene.up(scene.start()).await.expect("it starts after a crash");
        }
        let target = play.target();
        let moment = Duration::from_millis(dice.below(LONGEST_MOMENT));
        tokio::join!(scene.load(&target, MESSAGES), kill_after(&mut play.hive, moment));
    }
    let before = Journal::of(scene.stage.home());
    let asked = scene.asked().await;
    let play = scene.up(scene.start()).await.expect("it starts after a crash");
    scene.settle(&play.target()).await;
    scene.check_resumed(&before, asked).await;
    scene.check_quiet(play).await;
    println!(
        "seed {seed}: {ROUNDS} kills and {in_recovery} while starting, {open_turns} turns \
         redelivered, {}",
        scene.starts.check()
    );
    assert!(open_turns > ROUNDS / 4, "the kills met {open_turns} running turns only");
}

async fn kill_after(hive: &mut Hive, moment: Duration) {
    tokio::time::sleep(moment).await;
    hive.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_counted_operations_keeps_every_promise() {
    let points = if skep_testkit::all() { 200 } else { 50 };
    sweep(points, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_keeps_every_promise() {
    let points = if skep_testkit::all() { 200 } else { 20 };
    // Every other time a part of what was not synced reaches the disk all the same.
    sweep(points, |at| End::PowerLoss { at, seed: if at % 2 == 0 { 0 } else { at } }).await;
}

struct Point {
    open_turns: usize,
    starts: Starts,
}

/// Ends the program at points spread evenly over its work, each on a home of its own.
async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let template = &Template::new().await;
    let whole = operations(template).await;
    let at = |point: u64| 1 + point * whole / points;
    let ran = stream::iter(0..points).map(|point| ended_at(template, end(at(point))));
    let ran: Vec<Point> = ran.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let open_turns: usize = ran.iter().map(|point| point.open_turns).sum();
    let mut starts = Starts::default();
    ran.into_iter().for_each(|point| starts.add(point.starts));
    let starts = starts.check();
    println!("{points} points over {whole} operations, {open_turns} turns redelivered, {starts}");
    assert!(open_turns as u64 >= points / 2, "{open_turns} turns were open");
}

/// File operations of a start and the work, undisturbed.
async fn operations(template: &Template) -> u64 {
    let mut scene = template.scene().await;
    let shim = Shim::new(scene.stage.home()).unwrap();
    let play = scene.up(scene.start().shim(&shim)).await.expect("nothing is in its way");
    scene.load(&play.target(), MESSAGES).await;
    let count = shim.count().unwrap();
    scene.check_quiet(play).await;
    count
}

async fn ended_at(template: &Template, end: End) -> Point {
    let mut scene = template.scene().await;
    let shim = Shim::new(scene.stage.home()).unwrap();
    shim.prepare(end).unwrap();
    if let Some(mut play) = scene.up(scene.start().shim(&shim)).await {
        scene.load(&play.target(), MESSAGES).await;
        // Batches are never quite the same: the work may be done before the point.
        let begun = Instant::now();
        while play.hive.is_running() {
            assert!(begun.elapsed() < PATIENCE, "{end:?} was never reached");
            scene.load(&play.target(), 1).await;
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
    Point { open_turns: before.open_turns().count(), starts: scene.starts }
}
