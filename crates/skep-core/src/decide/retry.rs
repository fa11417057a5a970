//! Whether and when a model call is made again (spec 13 C).

use std::time::Duration;

use crate::traits::provider::ModelError;
use crate::vocab::failure::RetryCode;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Calls in all, the first included.
    pub tries: u32,
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// A vendor's Retry-After up to this is sat out in the call; a longer one parks the turn.
    pub longest_retry_after: Duration,
    /// No turn waits longer, whatever the vendor asks for: then it is asked again.
    pub longest_park: Duration,
    /// After the tries are used up the turn goes back to the inbox for this long.
    pub requeue: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(8),
            longest_retry_after: Duration::from_secs(60),
            longest_park: Duration::from_secs(3600),
            requeue: Duration::from_secs(30),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum RetryStep {
    Again { code: RetryCode, after: Duration },
    Park { after: Duration },
    GiveUp,
}

/// `tries` counts the calls made so far; `jitter` is in 0..1 and spreads the pause over its
/// upper half, so that many turns do not come back at the same instant.
pub fn decide(policy: &RetryPolicy, error: &ModelError, tries: u32, jitter: f64) -> RetryStep {
    let ModelError::Passing { code, retry_after, .. } = error else { return RetryStep::GiveUp };
    if let Some(after) = *retry_after
        && after > policy.longest_retry_after
    {
        return RetryStep::Park { after: after.min(policy.longest_park) };
    }
    if tries >= policy.tries {
        return RetryStep::GiveUp;
    }
    let doubled = policy.first_pause.saturating_mul(1 << (tries.saturating_sub(1)).min(16));
    let pause = doubled.min(policy.longest_pause).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    RetryStep::Again { code: *code, after: retry_after.map_or(pause, |after| after.max(pause)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(retry_after: Option<u64>) -> ModelError {
        ModelError::Passing {
            code: RetryCode::Overloaded,
            text: "overloaded".into(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_whole_table() {
        let policy = RetryPolicy::default();
        let code = RetryCode::Overloaded;
        let again = |ms| RetryStep::Again { code, after: Duration::from_millis(ms) };
        let cases = [
            (passing(None), 1, 1.0, again(500)),
            (passing(None), 1, 0.0, again(250)),
            (passing(None), 2, 1.0, again(1000)),
            (passing(None), 3, 1.0, again(2000)),
            (passing(None), 4, 1.0, RetryStep::GiveUp),
            (passing(Some(7)), 1, 1.0, again(7000)),
            (passing(Some(60)), 1, 1.0, again(60_000)),
            (passing(Some(60)), 4, 1.0, RetryStep::GiveUp),
            (passing(Some(61)), 1, 1.0, RetryStep::Park { after: Duration::from_secs(61) }),
            (passing(Some(u64::MAX)), 1, 1.0, RetryStep::Park { after: policy.longest_park }),
            (ModelError::Auth { text: "no".into() }, 1, 1.0, RetryStep::GiveUp),
            (ModelError::Rejected { text: "no".into() }, 1, 1.0, RetryStep::GiveUp),
            (ModelError::ContextTooLong { text: "no".into() }, 1, 1.0, RetryStep::GiveUp),
        ];
        for (error, tries, jitter, expected) in cases {
            assert_eq!(decide(&policy, &error, tries, jitter), expected, "{error:?} {tries}");
        }
        let many = RetryPolicy { tries: 99, ..policy };
        assert_eq!(decide(&many, &passing(None), 40, 1.0), again(8000));
    }
}
