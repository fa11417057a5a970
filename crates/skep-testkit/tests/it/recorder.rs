//! The recording client: an honest server passes through any number of dropped connections, and
//! each way of breaking a promise is found.

use std::time::Duration;

use skep_testkit::recorder::{Promise, Recorder};
use skep_testkit::ws::WsTarget;

use crate::stand_in::{Lie, StandIn};

const MESSAGES: usize = 12;
const PATIENCE: Duration = Duration::from_secs(2);

async fn after(lie: Lie) -> (Recorder, Result<(), String>) {
    let server = StandIn::start(lie).await;
    let target = WsTarget::new(&server.url, Some("right"));
    let mut recorder = Recorder::new("client", |number| format!("message {number}"));
    let run = async {
        while recorder.sent().len() < MESSAGES {
            let left = MESSAGES - recorder.sent().len();
            // A message without its answer would be waited for; `settle` finds that out below.
            let bounded = tokio::time::timeout(PATIENCE, recorder.run(&target, left)).await;
            bounded.unwrap_or(Ok(()))?;
        }
        recorder.settle(&target, PATIENCE).await
    };
    let done: anyhow::Result<()> = run.await;
    let done = done.map_err(|error| format!("{error:#}"));
    (recorder, done)
}

async fn broken_promise(lie: Lie) -> String {
    let (recorder, done) = after(lie).await;
    match done {
        Err(error) => error,
        Ok(()) => format!("{:#}", recorder.verify().unwrap_err()),
    }
}

#[tokio::test]
async fn an_honest_server_passes_and_so_does_one_that_drops_connections() {
    for lie in [Lie::None, Lie::Drops] {
        let (recorder, done) = after(lie).await;
        done.unwrap();
        let tally = recorder.verify().unwrap();
        assert_eq!((tally.acked, tally.refused, tally.responses), (MESSAGES, 0, MESSAGES));
        assert_eq!(recorder.frames().len(), 2 * MESSAGES, "every durable frame exactly once");
    }
}

#[tokio::test]
async fn a_refusal_is_no_loss_and_an_unknown_outcome_is_asked_again() {
    let (recorder, done) = after(Lie::Refuses).await;
    done.unwrap();
    assert_eq!(recorder.sent()[2].promise, Promise::Refused("store_busy".to_owned()));
    assert_eq!(recorder.verify().unwrap().refused, 1);
    let (recorder, done) = after(Lie::Unsynced).await;
    done.unwrap();
    assert_eq!(recorder.verify().unwrap().acked, MESSAGES);
    assert!(recorder.sent()[2].unsynced);
}

#[tokio::test]
async fn every_broken_promise_is_found() {
    let cases = [
        (Lie::Loses, "not settled"),
        (Lie::Repeats, "answered by frame"),
        (Lie::Swaps, "was answered after"),
        (Lie::RefusesAndAnswers, "answered all the same"),
        (Lie::Skips, "never came"),
    ];
    for (lie, expected) in cases {
        let found = broken_promise(lie).await;
        assert!(found.contains(expected), "{lie:?}: {found}");
    }
}
