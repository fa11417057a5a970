//! The only reader of the wall clock. Durations are measured with tokio's clock instead, which
//! tests can pause.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970. A clock set before 1970 reads as 0.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        .unwrap_or(0)
}
