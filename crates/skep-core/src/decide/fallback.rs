//! Which of several profiles is asked, and in which order.

use crate::Millis;
use crate::traits::provider::ModelError;

/// A profile that failed is passed over for this long, so that not every step waits for it.
pub const REST_MS: Millis = 60_000;

/// The order in which profiles are asked: as they are written, those that failed lately last.
/// `failed_at` says for each when it failed last.
pub fn order(failed_at: &[Option<Millis>], now: Millis) -> Vec<usize> {
    let rests =
        |index: &usize| failed_at[*index].is_some_and(|at| now.saturating_sub(at) < REST_MS);
    let (late, ready): (Vec<usize>, Vec<usize>) = (0..failed_at.len()).partition(rests);
    ready.into_iter().chain(late).collect()
}

/// Whether another profile may have what this one lacks. A request that is refused for what it
/// says would be refused elsewhere too.
pub fn helps(error: &ModelError) -> bool {
    match error {
        ModelError::Passing { .. } | ModelError::Auth { .. } | ModelError::NotFound { .. } => true,
        ModelError::Rejected { .. } | ModelError::ContextTooLong { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::failure::RetryCode;

    #[test]
    fn the_order_of_profiles() {
        let now = 1_000_000;
        let ago = |ms| Some(now - ms);
        let cases: [(&[Option<Millis>], &[usize]); 8] = [
            (&[None], &[0]),
            (&[ago(1)], &[0]),
            (&[None, None, None], &[0, 1, 2]),
            (&[ago(1), None, None], &[1, 2, 0]),
            (&[ago(59_999), None], &[1, 0]),
            (&[ago(60_000), None], &[0, 1]),
            (&[ago(5), ago(70_000), ago(2)], &[1, 0, 2]),
            // All failed: as if none had.
            (&[ago(1), ago(30), ago(2)], &[0, 1, 2]),
        ];
        for (failed, expected) in cases {
            assert_eq!(order(failed, now), expected, "{failed:?}");
        }
        // The clock was set back: the failure counts as new, so that it does not block for long.
        assert_eq!(order(&[Some(now + 5), None], now), [1, 0]);
    }

    #[test]
    fn what_another_profile_helps_against() {
        let text = String::new;
        let passing =
            ModelError::Passing { code: RetryCode::Overloaded, text: text(), retry_after: None };
        assert!(helps(&passing) && helps(&ModelError::Auth { text: text() }));
        assert!(helps(&ModelError::NotFound { text: text() }));
        assert!(!helps(&ModelError::Rejected { text: text() }));
        assert!(!helps(&ModelError::ContextTooLong { text: text() }));
    }
}
