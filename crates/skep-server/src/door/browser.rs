//! What a browser carries: a cookie that scripts cannot read and a key that only our page sends.

use axum::http::{HeaderMap, HeaderName, header};
use skep_runtime::door::Identity;

use crate::door::state::DoorState;
use crate::request::{Problem, only};

pub(crate) const KEY: HeaderName = HeaderName::from_static("x-skep-key");
/// Said by our page when it opens a socket, and the only answer to it.
pub(crate) const PROTOCOL: &str = "skep.v1";
const KEY_PROTOCOL: &str = "skep-key.";
/// Longer than any cookie or key of ours.
const LONGEST: usize = 128;

/// What a browser without a bearer token says it is.
pub(crate) enum Carried {
    /// Neither cookie nor key.
    Nothing,
    Known(Identity),
    /// Half of it, or worthless.
    Wrong,
}

pub(crate) fn carried(doors: &DoorState, headers: &HeaderMap) -> Result<Carried, Problem> {
    let cookie = doors.site.cookie_of(headers);
    let key = match only(headers, &KEY)? {
        Some(key) => Some(key),
        None => key_in_protocol(only(headers, &header::SEC_WEBSOCKET_PROTOCOL)?),
    };
    Ok(match (cookie, key) {
        (None, None) => Carried::Nothing,
        (Some(cookie), Some(key)) if cookie.len() <= LONGEST && key.len() <= LONGEST => {
            let known = doors.hive.authenticate_browser(cookie, key);
            known.map_or(Carried::Wrong, Carried::Known)
        }
        _ => Carried::Wrong,
    })
}

/// A browser cannot give a socket a header of its own; the list of protocols is what it has.
fn key_in_protocol(protocols: Option<&str>) -> Option<&str> {
    protocols?.split(',').find_map(|one| one.trim().strip_prefix(KEY_PROTOCOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_among_protocols() {
        let cases = [
            (None, None),
            (Some("skep.v1"), None),
            (Some("skep.v1, skep-key.abc"), Some("abc")),
            (Some("skep-key.abc,skep.v1"), Some("abc")),
        ];
        for (protocols, key) in cases {
            assert_eq!(key_in_protocol(protocols), key, "{protocols:?}");
        }
    }
}
