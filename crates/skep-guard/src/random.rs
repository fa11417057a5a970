//! The only source of randomness: the kernel's.

use uuid::Uuid;

use crate::clock;

/// `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut buffer = [0_u8; N];
    if let Err(error) = getrandom::fill(&mut buffer) {
        // Tokens made of zeros would be worse than no process at all, and no caller could go on.
        tracing::error!(%error, "the kernel gives no random bytes; ending the process");
        std::process::abort();
    }
    buffer
}

/// A credential of 32 random bytes as 64 hexadecimal digits.
pub fn token() -> String {
    hex(&bytes::<32>())
}

/// A time-ordered identifier. It is unique, but not an order: two nodes may disagree on time.
pub fn uuid() -> Uuid {
    let now = u64::try_from(clock::now_ms()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(now, &bytes::<10>()).into_uuid()
}

/// A number in `0.0 <= n < 1.0`, for spreading retries.
pub fn jitter() -> f64 {
    // 53 bits fill the mantissa of an f64 exactly.
    let bits = u64::from_le_bytes(bytes::<8>()) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_hex_and_differ() {
        let (one, two) = (token(), token());
        assert_eq!(one.len(), 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, two);
    }

    #[test]
    fn uuids_are_version_seven_with_the_current_time() {
        let id = uuid();
        assert_eq!(id.get_version_num(), 7);
        let (seconds, _) = id.get_timestamp().map(|time| time.to_unix()).unwrap_or((0, 0));
        let now = u64::try_from(clock::now_ms() / 1000).unwrap_or(0);
        assert!(now.abs_diff(seconds) < 60, "{seconds} is not near {now}");
    }

    #[test]
    fn jitter_stays_in_its_range() {
        for _ in 0..1000 {
            let value = jitter();
            assert!((0.0..1.0).contains(&value), "{value}");
        }
    }
}
