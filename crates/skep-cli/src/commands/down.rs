//! `skep down`: asks the hive to stop and waits until it has.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use skep_guard::lock::{LockError, Look};
use tokio::time::{Instant, sleep};

use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, Globals, Home};

/// The hive bounds its own drain time; this bound only detects a hang.
const PATIENCE: Duration = Duration::from_secs(3600 + 30);
const POLL: Duration = Duration::from_millis(50);

#[derive(Args)]
#[command(after_help = "Examples:
  skep down
  skep down --home /srv/hive

Running turns get the drain time of skep.yaml (limits.drain_seconds) to finish; what is cut off
goes on at the next start.")]
pub struct DownArgs {}

pub async fn run(_: DownArgs, globals: &Globals) -> Result<(), Failure> {
    let attempted = "stop the hive";
    if globals.url.is_some() {
        let why = "only the owner of the home can stop it, on its own machine";
        return Err(
            Failure::new(Exit::Usage, attempted, why).next("on the hive's machine: skep down")
        );
    }
    let home = globals.home()?;
    let client = Client::open(globals)?;
    let asked = client.post("/api/v1/shutdown", &json!({}), None).await;
    asked.map_err(|error| match error {
        CallError::Unreachable { connected: false, .. } if !is_held(&home) => {
            let why = format!("{} does not run: there is nothing to stop", client.hive);
            Failure::new(Exit::Failed, attempted, why)
        }
        error => client.failure(attempted, error),
    })?;
    // The lock is released last; then the next `skep up` can start.
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let gone = matches!(client.get("/health").await, Err(CallError::Unreachable { .. }));
        if gone && !is_held(&home) {
            globals.print(&json!({ "stopped": true }), ["stopped".to_owned()]);
            return Ok(());
        }
        sleep(POLL).await;
    }
    let failure = Failure::new(Exit::Failed, attempted, "it was told to stop and still runs");
    Err(failure.next("skep status"))
}

fn is_held(home: &Home) -> bool {
    matches!(Look::take(home.root(), &home.lock()), Err(LockError::Held { .. }))
}
