//! Times as people read them, in UTC: the hive may be in another zone than its reader.

/// `2026-02-03 04:05:06Z` from milliseconds since 1970.
pub fn stamp(at: i64) -> String {
    let seconds = at.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
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

/// Year, month and day of a day counted from 1970-01-01. Counts in eras of 400 years, which all
/// have the same number of days, with years that begin in March so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
