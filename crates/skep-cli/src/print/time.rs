//! Times for people, in UTC: the hive and its user may be in different zones.

use skep_core::time::utc;

/// `2026-02-03 04:05:06Z` from milliseconds since 1970.
pub fn stamp(at: i64) -> String {
    let text = utc(at);
    format!("{} {}Z", &text[..10], &text[11..19])
}

/// `2h 5m`, `17s`: the two largest units of a span.
pub fn span(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    let (days, hours) = (seconds / 86_400, seconds % 86_400 / 3600);
    let (minutes, rest) = (seconds % 3600 / 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest}s"),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        let cases = [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_772_323_199_999, "2026-02-28 23:59:59Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ];
        for (at, text) in cases {
            assert_eq!(stamp(at), text);
        }
    }

    #[test]
    fn spans() {
        let cases = [(999, "0s"), (61_000, "1m 1s"), (7_500_000, "2h 5m"), (90_000_000, "1d 1h")];
        for (span_ms, text) in cases {
            assert_eq!(span(span_ms), text);
        }
    }
}
