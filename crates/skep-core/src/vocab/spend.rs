//! What model calls used in a day.

use serde::Serialize;

use crate::Millis;
use crate::vocab::message::Usage;
use crate::vocab::money::Money;
use crate::vocab::words::words;

pub const HOUR_MS: Millis = 60 * 60 * 1000;
/// Of a day.
pub const HOURS: i64 = 24;
pub const DAY_MS: Millis = HOURS * HOUR_MS;

words! {
    /// The span that one sum covers.
    Span {
        Hour = "hour",
        Day = "day",
    }
}

impl Span {
    pub fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => HOURS,
        }
    }
}

/// Sums of one day, or of another span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spend {
    pub calls: u64,
    pub tokens: u64,
    /// Of the calls whose price is known.
    pub cost: Money,
    pub unpriced_calls: u64,
    pub unpriced_tokens: u64,
}

impl Spend {
    pub fn add(&mut self, usage: &Usage) {
        self.calls += 1;
        self.tokens = self.tokens.saturating_add(usage.total_tokens);
        match usage.cost {
            Some(cost) => self.cost = self.cost.plus(cost),
            None => {
                self.unpriced_calls += 1;
                self.unpriced_tokens = self.unpriced_tokens.saturating_add(usage.total_tokens);
            }
        }
    }
}

impl Spend {
    pub fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.plus(other.cost);
        self.unpriced_calls += other.unpriced_calls;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }
}

/// Hours since the epoch.
pub fn hour_of(now: Millis) -> i64 {
    now.div_euclid(HOUR_MS)
}

/// Days since the epoch, UTC.
pub fn day_of(now: Millis) -> i64 {
    now.div_euclid(DAY_MS)
}

/// When the next day begins.
pub fn next_day(now: Millis) -> Millis {
    (day_of(now) + 1).saturating_mul(DAY_MS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_day_is_a_day_in_utc() {
        assert_eq!((day_of(0), day_of(DAY_MS - 1), day_of(DAY_MS)), (0, 0, 1));
        assert_eq!(
            (next_day(0), next_day(DAY_MS - 1), next_day(DAY_MS)),
            (DAY_MS, DAY_MS, 2 * DAY_MS)
        );
    }

    #[test]
    fn sums_keep_the_unknown_apart() {
        let mut spend = Spend::default();
        spend.add(&Usage { cost: Some(Money(5)), ..Usage::new(1, 2, 3, 4) });
        spend.add(&Usage::new(10, 0, 0, 0));
        let expected =
            Spend { calls: 2, tokens: 20, cost: Money(5), unpriced_calls: 1, unpriced_tokens: 10 };
        assert_eq!(spend, expected);
    }
}
