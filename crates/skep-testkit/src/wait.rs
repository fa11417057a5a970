//! Waiting for a condition with a deadline; tests never just sleep.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a test waits for what should happen at once. Long, because machines are shared.
pub const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(2);
/// Of a tick of `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

/// Measures the time of this machine: what a host took from it meanwhile does not count.
pub struct Stopwatch {
    begun: Instant,
    stolen: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { begun: Instant::now(), stolen: stolen() }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed().saturating_sub(stolen().saturating_sub(self.stolen))
    }
}

/// What all processors together were denied since the machine started.
fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().next().unwrap_or_default();
    let ticks = all.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok());
    TICK * ticks.unwrap_or(0)
}

/// Asks until the answer is `Some`; `what` names the condition when the time is up.
pub async fn until<T>(
    what: &str,
    patience: Duration,
    mut ask: impl FnMut() -> Option<T>,
) -> Result<T> {
    until_async(what, patience, || std::future::ready(ask())).await
}

pub async fn until_async<T, F>(
    what: &str,
    patience: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("waited {patience:?} in vain for: {what}");
        }
        tokio::time::sleep(STEP).await;
    }
}

/// The same for a plain condition.
pub async fn until_true(
    what: &str,
    patience: Duration,
    mut ask: impl FnMut() -> bool,
) -> Result<()> {
    until(what, patience, || ask().then_some(())).await
}
