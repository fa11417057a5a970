//! The journey of `org_journey` while the hive is killed again and again, or loses its power: the
//! person has the same last word, once; every team is made once, every task ends once with its
//! result, and no effect happens twice.

use std::time::Duration;

use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};

use crate::fault_sweep::{at_points, power_loss, settle};
use crate::org_journey::{Person, is_whole, live, script};
use crate::org_spawn::rows;
use crate::stage::Stage;

/// From one kill to the next.
const LIFE: Duration = Duration::from_secs(1);
/// Of a model call, where the work must last for several lives: twelve come one after the other.
const SLOW: Duration = Duration::from_millis(300);

/// A home that was started once and stopped in order.
async fn template() -> Stage {
    let stage = Stage::new().await;
    settle(&stage).await;
    stage
}

async fn scene(template: &Stage, takes: Duration) -> Stage {
    let scene = template.again().await;
    script(&scene, takes);
    scene
}

/// How many operations a start takes, and a start with the work.
async fn operations(template: &Stage) -> (u64, u64) {
    let scene = scene(template, Duration::ZERO).await;
    let shim = Shim::new(scene.home()).unwrap();
    let play = scene.run(scene.start().shim(&shim)).await;
    let begun = shim.count().unwrap();
    let mut person = Person::default();
    live(&play, &mut person).await;
    let whole = shim.count().unwrap();
    is_whole(&scene, &play, &person, "nothing").await;
    (begun, whole)
}

async fn sweep(points: u64, end: impl Fn(u64) -> End + Copy) {
    let template = &template().await;
    let (begun, whole) = operations(template).await;
    let operations = begun + 1..whole + 1;
    let cut = at_points(points, operations, |_, at| ended_at(template, end(at))).await;
    let cut = cut.into_iter().filter(|cut| *cut).count() as u64;
    println!("{points} points over {} operations, {cut} in the middle", whole - begun);
    assert!(cut >= points / 2, "{cut} of {points} points met work under way");
}

/// Whether it met work under way.
async fn ended_at(template: &Stage, end: End) -> bool {
    let scene = scene(template, Duration::ZERO).await;
    let shim = Shim::new(scene.home()).unwrap();
    shim.prepare(end).unwrap();
    let mut person = Person::default();
    if let Ok(hive) = scene.start().shim(&shim).listening().await {
        let mut play = scene.play(hive);
        live(&play, &mut person).await;
        let _ = play.hive.kill().await;
    }
    assert_eq!(shim.untracked().unwrap(), 0, "{end:?}");
    let cut = !person.has_last_word();
    let play = scene.up().await;
    live(&play, &mut person).await;
    is_whole(&scene, &play, &person, &format!("{end:?}")).await;
    cut
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journey_survives_kills_at_counted_operations() {
    sweep(if skep_testkit::all() { 60 } else { 12 }, End::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journey_survives_power_loss() {
    let points = if skep_testkit::all() { 20 } else { 4 };
    sweep(points, power_loss).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journey_survives_a_kill_every_second() {
    let scene = scene(&template().await, SLOW).await;
    let mut person = Person::default();
    let mut kills = 0;
    let play = loop {
        let mut play = scene.up().await;
        tokio::select! {
            () = live(&play, &mut person) => {}
            () = life(&scene) => {}
        }
        if person.has_last_word() {
            break play;
        }
        play.hive.kill().await.unwrap();
        kills += 1;
        // At most three for each of some thirty steps.
        assert!(kills < 200, "the work never ends");
    };
    println!("{kills} kills");
    assert!(kills > 2, "{kills} kills met the work");
    is_whole(&scene, &play, &person, "a kill every second").await;
}

/// A second, and longer where a step has met two kills already: the third would be its last.
async fn life(scene: &Stage) {
    tokio::time::sleep(LIFE).await;
    let tried = "SELECT count(*) FROM turns WHERE ended_at IS NULL AND attempts > 1";
    let goes_on = || (rows(scene, tried) == "0").then_some(());
    wait::until("a step to be made", PATIENCE, goes_on).await.unwrap();
}
