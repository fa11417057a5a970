//! How many requests may still be made: a bucket that fills evenly, and is full after a minute.

use crate::Millis;

/// What one request takes; as much as a bucket of one request a minute gains in that minute.
const REQUEST: i64 = 60_000;
/// An empty bucket is full after this time, whatever its size.
pub const FILLS_IN: Millis = 60_000;

/// What was left in a bucket, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// In parts of a request: 60 000 are one.
    pub tokens: i64,
    pub at: Millis,
}

impl Bucket {
    pub fn full(per_minute: u32, now: Millis) -> Self {
        Self { tokens: i64::from(per_minute) * REQUEST, at: now }
    }

    /// The bucket after one more request; `Err`: how long until there is one left. A clock that
    /// was set back fills nothing.
    pub fn take(self, per_minute: u32, now: Millis) -> Result<Self, Millis> {
        let gained = now.saturating_sub(self.at).clamp(0, FILLS_IN);
        let rate = i64::from(per_minute.max(1));
        let tokens = self.tokens.saturating_add(gained * rate).clamp(0, rate * REQUEST);
        match tokens - REQUEST {
            left @ 0.. => Ok(Self { tokens: left, at: now }),
            missing => Err((-missing + rate - 1) / rate),
        }
    }

    /// Nobody has to remember it.
    pub fn is_full(self, now: Millis) -> bool {
        now.saturating_sub(self.at) >= FILLS_IN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_size_at_once_and_then_one_by_one() {
        let mut bucket = Bucket::full(3, 0);
        for _ in 0..3 {
            bucket = bucket.take(3, 0).unwrap_or(Bucket { tokens: -1, at: 0 });
        }
        assert_eq!(bucket, Bucket { tokens: 0, at: 0 });
        assert_eq!(bucket.take(3, 0), Err(20_000));
        assert_eq!(bucket.take(3, 19_999), Err(1));
        assert_eq!(bucket.take(3, 20_000), Ok(Bucket { tokens: 0, at: 20_000 }));
        assert_eq!(bucket.take(3, 3_600_000), Ok(Bucket { tokens: 120_000, at: 3_600_000 }));
        assert!(!bucket.is_full(59_999) && bucket.is_full(60_000));
    }

    #[test]
    fn a_bucket_survives_odd_clocks_and_other_sizes() {
        let late = Bucket { tokens: 0, at: 1_000_000 };
        assert_eq!(late.take(60, 0), Err(1000));
        let odd = Bucket { tokens: i64::MAX, at: i64::MIN };
        assert_eq!(odd.take(1, i64::MAX), Ok(Bucket { tokens: 0, at: i64::MAX }));
        assert_eq!(Bucket::full(100, 0).take(2, 0), Ok(Bucket { tokens: 60_000, at: 0 }));
        assert_eq!(Bucket { tokens: -5, at: 0 }.take(0, 0), Err(60_000));
    }
}
