#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};

use crate::tests::{scrubber, streamed};

/// Nor a bit of the value in the digits beside those that it decides alone.
#[test]
fn of_base64_no_digit_is_left() {
    for value in ["hive-Zz9_x8Yy7Ww6", "hive-Zz9_x8Yy7Ww6V", "hive-Zz9_x8Yy7Ww6Vv"] {
        let scrubber = scrubber(&[value]);
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE] {
            assert_eq!(scrubber.clean(&engine.encode(value)), "[secret:s0]", "{value}");
            for before in ["", "a", "ab", "abc"] {
                for behind in ["", "x", "xy", "xyz"] {
                    // With any other value of that length, what is left is the same.
                    let encoded = |value: &str| engine.encode(format!("{before}{value}{behind}"));
                    let (text, other) = (encoded(value), encoded(&"~".repeat(value.len())));
                    let shown = scrubber.clean(&text).into_owned();
                    let (start, end) = shown.split_once("[secret:s0]").unwrap();
                    assert!(other.starts_with(start) && other.ends_with(end), "{shown} {other}");
                    assert_eq!(streamed(&scrubber, &text.split("").collect::<Vec<_>>()), shown);
                }
            }
        }
    }
}

/// As Kubernetes keeps the password of a registry: `user:password` in base64, in JSON, in base64.
#[test]
fn of_base64_inside_base64_no_digit_is_left() {
    for value in ["hive-Zz9_x8Yy7Ww6", "hive-Zz9_x8Yy7Ww6V", "hive-~~~?>?>?>~~~"] {
        let scrubber = scrubber(&[value]);
        for (inner, outer) in
            [(STANDARD, STANDARD), (URL_SAFE, STANDARD_NO_PAD), (STANDARD_NO_PAD, URL_SAFE)]
        {
            for (user, host) in (0..9)
                .map(|n| ("user:".repeat(n % 3 + 1), "host".repeat(n / 3) + &"x".repeat(n / 3)))
            {
                for behind in ["", "x", "xy"] {
                    let encoded = |value: &str| {
                        let auth = inner.encode(format!("{user}{value}{behind}"));
                        outer
                            .encode(format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"{auth}\"}}}}}}"))
                    };
                    let (text, other) = (encoded(value), encoded(&"~".repeat(value.len())));
                    let shown = scrubber.clean(&text).into_owned();
                    let (start, end) = shown.split_once("[secret:s0]").unwrap();
                    assert!(other.starts_with(start) && other.ends_with(end), "{shown} {other}");
                    assert_eq!(streamed(&scrubber, &text.split("").collect::<Vec<_>>()), shown);
                }
            }
        }
    }
}
