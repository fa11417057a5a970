//! The test rig: the product's own root with tools and an engine that only tests need, short
//! pauses, a second channel, and a door for decisions and for a source of tools. Everything else is
//! what `skep` runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod blunt;
mod channel;
mod door;
mod hooks;
mod tools;
mod unbuilt;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use skep::cli::{self, Program};
use skep::compose::{self, Extras};
use skep_core::retry::RetryPolicy;
use skep_runtime::Offer;
use skep_server::CallTimes;

fn main() -> ExitCode {
    unbuilt::if_asked();
    cli::main(Program {
        known: compose::known_with(&["native", "blunt"], tools::NAMES),
        serve: async |home, loaded| compose::serve(home, loaded, extras()).await,
    })
}

fn extras() -> Extras {
    Extras {
        engines: Box::new(|native| vec![Arc::new(blunt::BluntEngine::new(Arc::clone(native)))]),
        offer: Offer { tools: tools::all(), hooks: hooks::all(), subagents: None },
        retry: RetryPolicy {
            tries: 4,
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(80),
            longest_retry_after: longest_retry_after(),
            longest_park: Duration::from_secs(3600),
            requeue: Duration::from_millis(200),
        },
        call_times: call_times(),
        opened: Box::new(door::open),
    }
}

/// `RIG_LONGEST_RETRY_AFTER`, in seconds.
fn longest_retry_after() -> Duration {
    let given = std::env::var("RIG_LONGEST_RETRY_AFTER").map(|given| given.parse().unwrap());
    Duration::from_secs(given.unwrap_or(1))
}

/// `RIG_CALL_TIMES`: grace, join, headers and space in milliseconds.
fn call_times() -> CallTimes {
    let Ok(given) = std::env::var("RIG_CALL_TIMES") else { return CallTimes::default() };
    let times: Vec<u64> = given.split(' ').map(|time| time.parse().unwrap()).collect();
    let [grace, join, headers, space] = times[..] else { panic!("RIG_CALL_TIMES: {given}") };
    let [grace, join, headers, space] = [grace, join, headers, space].map(Duration::from_millis);
    CallTimes { grace, join, headers, space }
}
