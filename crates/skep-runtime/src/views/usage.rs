//! What model calls used, by hour or by day: the sums behind charts.

use serde::Serialize;
use skep_core::Millis;
use skep_core::ids::AgentName;
use skep_core::money::Money;
use skep_core::spend::{self, HOUR_MS, HOURS, Span};
use skep_guard::clock;
use skep_store::spend::UsageRow;
use utoipa::ToSchema;

use crate::door::{DoorError, ErrorKind, Sight};
use crate::hive::{Hive, door_error};

/// So many spans at most in one answer; the sums of a day or hour are one row per agent and model.
const MOST_HOURS: i64 = 14 * HOURS;
const MOST_DAYS: i64 = 366;
/// The days of an answer when nobody says since when.
const USUAL_DAYS: i64 = 30;

pub struct UsageWish {
    pub by: Span,
    pub agent: Option<AgentName>,
    /// Only what was asked of this profile.
    pub profile: Option<String>,
    /// From the hour or day this is in; by default the present day, or the last thirty.
    pub since: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct UsagePage {
    pub by: Span,
    /// The first moment that is counted.
    pub since: Millis,
    /// The end of the present hour or day.
    pub until: Millis,
    /// Oldest first; hours and days without a model call are left out.
    pub rows: Vec<UsageInfo>,
}

/// What one agent used of one model in one hour or day (UTC).
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct UsageInfo {
    /// When the hour or day began.
    pub at: Millis,
    pub agent: AgentName,
    pub profile: String,
    /// Empty where it was not kept apart.
    pub model: String,
    pub calls: u64,
    /// Turns whose first answer came then.
    pub turns: u64,
    /// Tokens of prompts that came from no cache and went into none.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Of all four kinds.
    pub tokens: u64,
    /// Dollars; null when the price of a call is not known.
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
    /// Dollars of the calls whose price is known.
    #[schema(value_type = f64)]
    pub known_cost: Money,
    pub unpriced_calls: u64,
}

impl Hive {
    pub async fn usage(&self, wish: UsageWish) -> Result<UsagePage, DoorError> {
        let agent = self.shared.only_agent(wish.agent.as_ref(), &Sight::All).await?;
        let (now, width) = (spend::hour_of(clock::now_ms()), wish.by.hours());
        let end = (now.div_euclid(width) + 1) * width;
        let (usual, most) = match wish.by {
            Span::Hour => (now.div_euclid(HOURS) * HOURS, MOST_HOURS),
            Span::Day => (end - USUAL_DAYS * HOURS, MOST_DAYS * HOURS),
        };
        let begin = wish.since.map_or(usual, |at| spend::hour_of(at).div_euclid(width) * width);
        if !(0..=most).contains(&end.saturating_sub(begin)) {
            let text = format!(
                "`since` must lie in the last {} days when sums are by {}.",
                most / HOURS,
                wish.by.as_str()
            );
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_query", text));
        }
        let read = self
            .shared
            .store
            .read(async |conn| skep_store::spend::usage(conn, begin..end, wish.by, agent).await);
        let mut rows = read.await.map_err(door_error)?;
        if let Some(profile) = &wish.profile {
            rows.retain(|row| row.profile == *profile);
        }
        Ok(UsagePage {
            by: wish.by,
            since: begin * HOUR_MS,
            until: end * HOUR_MS,
            rows: rows.into_iter().map(|row| told(row, width)).collect(),
        })
    }
}

fn told(row: UsageRow, width: i64) -> UsageInfo {
    let spend = row.spend;
    UsageInfo {
        at: row.span * width * HOUR_MS,
        agent: row.agent,
        profile: row.profile,
        model: row.model,
        calls: spend.calls,
        turns: row.turns,
        input: row.input,
        output: row.output,
        cache_read: row.cache_read,
        cache_write: row.cache_write,
        tokens: spend.tokens,
        cost: (spend.unpriced_calls == 0).then_some(spend.cost),
        known_cost: spend.cost,
        unpriced_calls: spend.unpriced_calls,
    }
}
