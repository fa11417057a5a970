//! What model calls used in a day, and whether another may be made.

use serde::Serialize;

use crate::Millis;
use crate::engine::FailureCode;
use crate::message::Usage;
use crate::money::{Money, Price};
use crate::settings::Limits;
use crate::words::words;

/// With `cost_per_day` and without `tokens_per_day`, calls whose price nobody knows have this many
/// tokens a day: an unknown cost is not a cost of nothing.
pub const UNPRICED_TOKENS_PER_DAY: u64 = 2_000_000;

pub const HOUR_MS: Millis = 60 * 60 * 1000;
/// Of a day.
pub const HOURS: i64 = 24;
pub const DAY_MS: Millis = HOURS * HOUR_MS;

words! {
    /// How finely sums are told.
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

/// A limit of the day is reached: no call until it frees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    pub code: FailureCode,
    /// What, how much, until when, and what to change.
    pub text: String,
}

/// What calls of unknown price may use, where nothing else limits their tokens.
pub fn unpriced_limit(limits: &Limits) -> Option<u64> {
    let needed = limits.cost_per_day.is_some() && limits.tokens_per_day.is_none();
    needed.then_some(UNPRICED_TOKENS_PER_DAY)
}

/// Whether a call at this price may be made. What is free is not held back by what others cost.
pub fn check(
    limits: &Limits,
    spent: &Spend,
    price: Option<&Price>,
    now: Millis,
) -> Result<(), Over> {
    let frees = frees(now);
    if let Some(limit) = limits.tokens_per_day
        && spent.tokens >= limit
    {
        let text = format!(
            "The day's limit of {limit} tokens is used up: {} since 00:00 UTC. {frees} or when \
             limits.tokens_per_day in skep.yaml is raised.",
            spent.tokens
        );
        return Err(Over { code: FailureCode::LimitTokens, text });
    }
    let Some(limit) = limits.cost_per_day else {
        return Ok(());
    };
    match price {
        Some(price) if *price == Price::FREE => Ok(()),
        Some(_) if spent.cost >= limit => {
            let text = format!(
                "The day's limit of {limit} is used up: {} spent since 00:00 UTC. {frees} or when \
                 limits.cost_per_day in skep.yaml is raised.",
                spent.cost
            );
            Err(Over { code: FailureCode::LimitCost, text })
        }
        None if unpriced_limit(limits).is_some_and(|most| spent.unpriced_tokens >= most) => {
            let text = format!(
                "Models of unknown price have {UNPRICED_TOKENS_PER_DAY} tokens a day while \
                 limits.cost_per_day is set, and {} are used since 00:00 UTC. {frees} or when \
                 the profile has a price in providers.yaml, or skep.yaml has \
                 limits.tokens_per_day.",
                spent.unpriced_tokens
            );
            Err(Over { code: FailureCode::LimitTokens, text })
        }
        _ => Ok(()),
    }
}

fn frees(now: Millis) -> String {
    let minutes = (next_day(now) - now).div_euclid(60_000);
    format!("Calls go on at 00:00 UTC, in {} h {} min,", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dollars(amount: f64) -> Money {
        Money::from_dollars(amount).unwrap()
    }

    #[test]
    fn every_limit_holds_from_its_own_number_on() {
        let price = Price { input: dollars(1.0), ..Price::FREE };
        let (paid, free, unknown) = (Some(&price), Some(&Price::FREE), None);
        let limits = |tokens_per_day, cost: Option<f64>| Limits {
            tokens_per_day,
            cost_per_day: cost.map(dollars),
            ..Limits::default()
        };
        let spent = |tokens, cost, unpriced_tokens| Spend {
            calls: 1,
            tokens,
            cost: dollars(cost),
            unpriced_calls: 0,
            unpriced_tokens,
        };
        let (tokens, cost) = (Some(FailureCode::LimitTokens), Some(FailureCode::LimitCost));
        let much = UNPRICED_TOKENS_PER_DAY;
        let cases = [
            (limits(None, None), spent(u64::MAX, 1e6, u64::MAX), paid, None),
            (limits(Some(10), None), spent(9, 0.0, 0), paid, None),
            (limits(Some(10), None), spent(10, 0.0, 0), paid, tokens),
            (limits(Some(10), None), spent(10, 0.0, 0), free, tokens),
            (limits(None, Some(1.0)), spent(9, 0.999_999_999, 0), paid, None),
            (limits(None, Some(1.0)), spent(9, 1.0, 0), paid, cost),
            (limits(None, Some(1.0)), spent(9, 1.0, 0), free, None),
            // Of unknown price: tokens limit, and money does not.
            (limits(None, Some(1.0)), spent(9, 5.0, much - 1), unknown, None),
            (limits(None, Some(1.0)), spent(9, 0.0, much), unknown, tokens),
            (limits(None, Some(1.0)), spent(9, 0.0, much), paid, None),
            (limits(Some(much * 2), Some(1.0)), spent(much, 0.0, much), unknown, None),
            (limits(None, Some(0.0)), spent(0, 0.0, 0), paid, cost),
        ];
        for (limits, spent, price, expected) in cases {
            let found = check(&limits, &spent, price, 0).err().map(|over| over.code);
            assert_eq!(found, expected, "{spent:?} {price:?}");
        }
    }

    #[test]
    fn a_refusal_says_limit_spent_when_and_which_key() {
        let limits = Limits { cost_per_day: Some(dollars(10.0)), ..Limits::default() };
        let spent = Spend { cost: dollars(10.25), ..Spend::default() };
        let price = Price { input: dollars(1.0), ..Price::FREE };
        let now = 20_000 * DAY_MS + 3_600_000 * 18 + 60_000 * 45 + 1;
        let over = check(&limits, &spent, Some(&price), now).unwrap_err();
        assert_eq!(
            over.text,
            "The day's limit of $10.00 is used up: $10.25 spent since 00:00 UTC. Calls go on at \
             00:00 UTC, in 5 h 14 min, or when limits.cost_per_day in skep.yaml is raised."
        );
    }

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
