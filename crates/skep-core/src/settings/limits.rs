//! What turns, people and model calls may use.

use std::time::Duration;

use crate::vocab::budget::Caps;
use crate::vocab::money::Money;

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub concurrent_turns: usize,
    /// Turns that run at the same time for one person who is no operator.
    pub turns_per_user: usize,
    /// What one person who is no operator may store in messages and attachments.
    pub user_storage_bytes: u64,
    /// Requests and frames of one person who is no operator in a minute.
    pub user_requests_per_minute: u32,
    /// Time a turn may run; waiting does not count.
    pub turn: Duration,
    /// Leases that may end without a new step before an item is dead.
    pub attempts: u32,
    /// Model calls in a turn.
    pub steps: u32,
    /// How long an engine keeps its process while its turn waits for a person.
    pub park: Duration,
    /// Processes of engines; beyond them the oldest of those that only wait ends.
    pub engine_processes: usize,
    /// Time running turns get after SIGTERM.
    pub drain: Duration,
    pub tool_output_bytes: usize,
    pub inbox_body_bytes: usize,
    /// After this much silence a session key starts a new session.
    pub session_idle: Duration,
    /// An unanswered approval expires after this time.
    pub approval: Duration,
    /// How far a chain of items may reach from its first one.
    pub hops: u32,
    /// Items that one chain may make.
    pub items_per_root: u32,
    /// A task that has not ended by then has failed.
    pub task: Duration,
    /// What one agent may ask one host in a minute, besides its model calls.
    pub requests_per_minute: u32,
    /// How long a durable event and a delivered frame can be asked for again.
    pub keep_events: Duration,
    pub keep_frames: Duration,
    pub keep_audit: Duration,
    /// What all model calls of a day (UTC) may use together.
    pub tokens_per_day: Option<u64>,
    pub cost_per_day: Option<Money>,
    /// What the model calls of one turn may use.
    pub per_turn: Caps,
}

impl Limits {
    pub fn day_caps(&self) -> Caps {
        Caps { tokens: self.tokens_per_day, cost: self.cost_per_day }
    }
}

/// Limits for the model calls of one agent, besides those of the hive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    pub day: Caps,
    pub turn: Caps,
    /// Of a day, with everybody below it.
    pub team: Caps,
    /// Instead of the hive's.
    pub turn_time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            concurrent_turns: 64,
            turns_per_user: 16,
            user_storage_bytes: 512 << 20,
            user_requests_per_minute: 3000,
            turn: Duration::from_secs(1800),
            attempts: 3,
            steps: 50,
            park: Duration::from_secs(600),
            engine_processes: 8,
            drain: Duration::from_secs(5),
            tool_output_bytes: 65536,
            inbox_body_bytes: 262_144,
            session_idle: Duration::from_secs(360 * 60),
            approval: day,
            hops: 16,
            items_per_root: 200,
            task: day,
            requests_per_minute: 60,
            keep_events: 7 * day,
            keep_frames: 30 * day,
            keep_audit: 365 * day,
            tokens_per_day: None,
            cost_per_day: None,
            per_turn: Caps::default(),
        }
    }
}
