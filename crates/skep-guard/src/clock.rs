//! The only reader of the wall clock and of the zone it is read in. Durations are measured with
//! tokio's clock instead, which tests can pause.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970. A clock set before 1970 reads as 0.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        .unwrap_or(0)
}

/// Seconds that the local time is ahead of UTC at a moment, by `TZ` or the system's zone; 0 where
/// the zone is not known.
pub fn zone_offset(at_ms: i64) -> i64 {
    let seconds = at_ms.div_euclid(1000);
    // SAFETY: `tm` is plain data that the call fills in; nothing in it is freed or kept.
    unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        match libc::localtime_r(&seconds, &mut local).is_null() {
            true => 0,
            false => local.tm_gmtoff,
        }
    }
}
