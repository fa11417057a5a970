//! Times as text, in UTC.

use crate::Millis;

/// With milliseconds, always of the same length, so that texts sort as the times do:
/// `2026-02-03T04:05:06.789Z`.
pub fn utc(at: Millis) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Reads a time with its zone, such as `2026-02-03T04:05:06Z`.
pub fn parse(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_times() {
        for (at, text) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_772_323_199_009, "2026-02-28T23:59:59.009Z")]
        {
            assert_eq!(utc(at), text);
            assert_eq!(parse(text), Some(at));
        }
        assert_eq!(parse("yesterday"), None);
    }
}
