//! Money and prices, exact: integers of nano-dollars, so that sums never drift.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::vocab::message::Usage;

const NANO: f64 = 1e9;
const TOKENS_OF_A_PRICE: i128 = 1_000_000;

/// An amount in nano-dollars. In JSON it is a decimal number of dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(pub i64);

impl Money {
    pub const ZERO: Self = Self(0);
    /// More than a call costs, and little enough that no sum of the store runs over: a million
    /// dollars.
    pub const MOST: Self = Self(1_000_000_000_000_000);

    /// Rounds to the nearest nano-dollar; nothing for what is no amount.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANO).round();
        // Beyond 2^53 a float no longer names every integer: nine million dollars.
        (nanos.abs() <= 9_007_199_254_740_992.0).then_some(Self(nanos as i64))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANO
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// For people: cents where there are some, more digits where the amount is small.
impl std::fmt::Display for Money {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dollars = self.dollars();
        match self.0.unsigned_abs() {
            0 => write!(f, "$0"),
            1..10_000 => write!(f, "${dollars:.9}"),
            10_000..1_000_000_000 => write!(f, "${dollars:.4}"),
            _ => write!(f, "${dollars:.2}"),
        }
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("no amount of dollars"))
    }
}

/// What a million tokens of each kind cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub input: Money,
    pub output: Money,
    pub cache_read: Money,
    pub cache_write: Money,
    /// Another price for long requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

/// What everything in a request costs that has more than `above` tokens, cached ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPrice {
    pub above: u64,
    pub input: Money,
    pub output: Money,
    pub cache_read: Money,
    pub cache_write: Money,
}

impl Price {
    pub const FREE: Self = Self {
        input: Money::ZERO,
        output: Money::ZERO,
        cache_read: Money::ZERO,
        cache_write: Money::ZERO,
        long: None,
    };

    /// What a call of this size can cost: nothing of it cached before, all of it cached now.
    pub fn at_most(&self, request: u64, answer: u64) -> Money {
        let read = Usage::new(request, answer, 0, 0);
        let cached = Usage::new(0, answer, 0, request);
        self.of(&read).max(self.of(&cached))
    }

    /// The cost of one call, rounded once, to the nano-dollar.
    pub fn of(&self, usage: &Usage) -> Money {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let rates = match self.long.filter(|long| prompt > long.above) {
            Some(long) => [long.input, long.output, long.cache_read, long.cache_write],
            None => [self.input, self.output, self.cache_read, self.cache_write],
        };
        let tokens = [usage.input, usage.output, usage.cache_read, usage.cache_write];
        let parts: Vec<_> = tokens.into_iter().zip(rates).collect();
        let parts = parts.iter().map(|(tokens, price)| i128::from(*tokens) * i128::from(price.0));
        let whole = parts.fold(0_i128, i128::saturating_add);
        let nanos = whole.saturating_add(TOKENS_OF_A_PRICE / 2) / TOKENS_OF_A_PRICE;
        Money(i64::try_from(nanos).unwrap_or(i64::MAX)).min(Money::MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::message::MOST_TOKENS;

    fn money(dollars: f64) -> Money {
        Money::from_dollars(dollars).unwrap()
    }

    #[test]
    fn a_call_costs_what_its_tokens_cost() {
        let price = Price {
            input: money(3.0),
            output: money(15.0),
            cache_read: money(0.3),
            cache_write: money(3.75),
            long: None,
        };
        let usage = Usage::new(1000, 200, 10_000, 400);
        // 0.003 + 0.003 + 0.003 + 0.0015
        assert_eq!(price.of(&usage), money(0.0105));
        let odd = Price { cache_read: money(0.0375), ..Price::FREE };
        assert_eq!(odd.of(&Usage::new(0, 0, 3, 0)), Money(113), "112.5 nano-dollars, rounded once");
        let most = Price { input: Money(i64::MAX), ..Price::FREE };
        assert_eq!(most.of(&Usage::new(u64::MAX / 4, 0, 0, 0)), Money::MOST);
        let dear = Money(i64::MAX);
        let most =
            Price { input: dear, output: dear, cache_read: dear, cache_write: dear, long: None };
        let vast = Usage::new(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        assert_eq!((vast.total_tokens, most.of(&vast)), (4 * MOST_TOKENS, Money::MOST));
        let read = Usage { total_tokens: u64::MAX, ..vast };
        let mut sum = read;
        sum.add(vast);
        assert_eq!(sum.total_tokens, u64::MAX, "what a vendor says breaks no sum");
    }

    #[test]
    fn at_most_is_the_dearest_way() {
        let price = Price { input: money(3.0), output: money(15.0), ..Price::FREE };
        assert_eq!(price.at_most(1_000_000, 1_000_000), money(18.0));
        let caches = Price { cache_write: money(3.75), ..price };
        assert_eq!(caches.at_most(1_000_000, 0), money(3.75));
    }

    #[test]
    fn what_is_unknown_makes_a_sum_unknown_and_is_never_zero() {
        let price = Price { input: money(1.0), ..Price::FREE };
        let known = Usage::new(1_000_000, 5, 0, 0).priced(Some(&price));
        let mut sum = Usage::default();
        sum.add(known);
        sum.add(known);
        assert_eq!(sum.cost, Some(money(2.0)));
        sum.add(Usage::new(1, 1, 0, 0).priced(None));
        assert_eq!((sum.cost, sum.input), (None, 2_000_001));
        assert_eq!(Usage::new(0, 0, 0, 0).priced(Some(&price)).cost, None, "nothing was counted");
        let old: Usage = serde_json::from_str(
            r#"{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3}"#,
        )
        .unwrap();
        assert_eq!(old.cost, None, "a row from before prices were kept");
    }

    #[test]
    fn sums_are_exact_where_floats_drift_and_json_is_dollars() {
        let dime = money(0.1);
        let sum = (0..10).fold(Money::ZERO, |sum, _| sum.plus(dime));
        assert_eq!(sum, money(1.0));
        assert_ne!((0..10).fold(0.0, |sum, _| sum + 0.1), 1.0);
        for (amount, text) in
            [(Money(1), "1e-9"), (money(0.0105), "0.0105"), (Money(0), "0.0"), (money(7.0), "7.0")]
        {
            assert_eq!(serde_json::to_string(&amount).unwrap(), text);
            assert_eq!(serde_json::from_str::<Money>(text).unwrap(), amount);
        }
        assert_eq!(serde_json::from_str::<Money>("3").unwrap(), money(3.0));
        assert!(serde_json::from_str::<Money>("1e300").is_err());
    }

    #[test]
    fn people_read_amounts() {
        let shown = [Money(0), Money(75), money(0.0105), money(0.5), money(12.345)];
        let shown = shown.map(|amount| amount.to_string());
        assert_eq!(shown, ["$0", "$0.000000075", "$0.0105", "$0.5000", "$12.35"]);
    }
}
