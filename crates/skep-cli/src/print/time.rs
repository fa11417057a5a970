//! Times for people: in the zone of whoever reads, with its distance from UTC.

use skep_core::time::utc;
use skep_guard::clock;

/// `2026-02-03 05:05:06+01:00` from milliseconds since 1970; `Z` where that is UTC.
pub fn stamp(at: i64) -> String {
    stamp_in(at, clock::zone_offset(at))
}

/// `05:05`, for what was a moment ago.
pub fn clock(at: i64) -> String {
    stamp(at)[11..16].to_owned()
}

/// As short as it can be told apart: `05:05` of today, `Fri` of the last days, else the date.
pub fn short(at: i64, now: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    // 1970 began on a Thursday.
    let day = |at: i64| (at / 1000 + clock::zone_offset(at)).div_euclid(86_400);
    match day(now) - day(at) {
        0 => clock(at),
        1..7 => DAYS.get(day(at).rem_euclid(7) as usize).copied().unwrap_or_default().to_owned(),
        _ => stamp(at)[..10].to_owned(),
    }
}

/// The same in UTC, for names of files.
pub fn stamp_utc(at: i64) -> String {
    stamp_in(at, 0)
}

fn stamp_in(at: i64, offset: i64) -> String {
    let text = utc(at.saturating_add(offset * 1000));
    let minutes = offset.abs() / 60;
    let zone = match offset {
        0 => "Z".to_owned(),
        _ => {
            format!("{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
        }
    };
    format!("{} {}{zone}", &text[..10], &text[11..19])
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

/// `40 ms`, `3.1 s`, `2m 5s`: how long a part of a turn took.
pub fn precise(milliseconds: i64) -> String {
    match milliseconds.max(0) {
        short @ 0..1000 => format!("{short} ms"),
        seconds @ 1000..60_000 => format!("{}.{} s", seconds / 1000, seconds % 1000 / 100),
        longer => span(longer),
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
            assert_eq!(stamp_utc(at), text);
        }
        let zones = [
            (3600, "2026-03-01 00:59:59+01:00"),
            (-12_600, "2026-02-28 20:29:59-03:30"),
            (20_700, "2026-03-01 05:44:59+05:45"),
        ];
        for (offset, text) in zones {
            assert_eq!(stamp_in(1_772_323_199_999, offset), text);
        }
    }

    #[test]
    fn spans() {
        let cases = [(999, "0s"), (61_000, "1m 1s"), (7_500_000, "2h 5m"), (90_000_000, "1d 1h")];
        for (span_ms, text) in cases {
            assert_eq!(span(span_ms), text);
        }
        for (ms, text) in [(40, "40 ms"), (3_140, "3.1 s"), (61_000, "1m 1s"), (-5, "0 ms")] {
            assert_eq!(precise(ms), text);
        }
    }
}
