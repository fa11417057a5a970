//! The table of limits in docs/doors.md, against what is in force.
#![allow(clippy::unwrap_used)]

use skep_core::settings::Limits;

use crate::door::{Places, admission, connection, lockout, rates, strangers};
use crate::request::{attachment, extract, intake};
use crate::rest::session;
use crate::ws::incoming;

const DOCS: &str = include_str!("../../../docs/doors.md");

#[test]
fn the_docs_tell_every_limit_as_it_is() {
    let bytes = |count: usize| format!("{count} bytes");
    let large = |of: &str| format!("bodies and messages above {} bytes, of {of}", intake::LARGE);
    let unread = "bytes that were sent and are not worked off, of one connection".to_owned();
    let room = |of: &str| format!("room for them, of {of}");
    let head = format!("{} bytes, {} lines", connection::HEAD_BYTES, connection::HEADERS);
    let free = lockout::FREE_FAILURES;
    let free = format!("{free} in {} minutes", lockout::FORGET_AFTER.as_secs() / 60);
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let user = Limits::default().user_requests_per_minute;
    let user = format!("`limits.user_requests_per_minute`: {user}");
    let rows = [
        ("connections".to_owned(), "network", Places::MOST.network.to_string()),
        ("connections".to_owned(), "unix socket", Places::MOST.local.to_string()),
        (
            "connections that have shown no right credential".to_owned(),
            "network",
            strangers::STRANGERS.to_string(),
        ),
        ("time for a head".to_owned(), "HTTP", seconds(connection::HEAD_TIME)),
        ("head".to_owned(), "HTTP", head),
        ("address".to_owned(), "HTTP", bytes(admission::URI_BYTES)),
        (
            "body of `POST session`, which needs no credential".to_owned(),
            "HTTP",
            bytes(session::LINK_BYTES),
        ),
        ("body".to_owned(), "HTTP", bytes(extract::BODY_BYTES)),
        (
            "body of a message or `/v1` call, with its files".to_owned(),
            "HTTP",
            bytes(attachment::LARGE_BYTES),
        ),
        ("body of an imported session".to_owned(), "HTTP", bytes(extract::LINES_BYTES)),
        ("time for a body".to_owned(), "HTTP", seconds(extract::BODY_TIME)),
        (
            "time for a body of one of the larger kinds".to_owned(),
            "HTTP",
            seconds(extract::LARGE_BODY_TIME),
        ),
        ("message, in one frame or many".to_owned(), "WebSocket", bytes(attachment::LARGE_BYTES)),
        ("time for a message".to_owned(), "WebSocket", seconds(extract::LARGE_BODY_TIME)),
        (
            "silence, also without an answer to pings".to_owned(),
            "WebSocket",
            seconds(incoming::SILENCE),
        ),
        ("messages without their receipt".to_owned(), "WebSocket", incoming::UNDER_WAY.to_string()),
        ("values in a JSON text".to_owned(), "HTTP, WebSocket", extract::VALUES.to_string()),
        ("lists and objects in each other".to_owned(), "HTTP, WebSocket", depth().to_string()),
        (unread, "all", bytes(intake::FREE)),
        (room("one address without a credential"), "network", bytes(intake::SHARE_OF_STRANGERS)),
        (
            room("all without a credential, less what others have"),
            "network",
            bytes(intake::ROOM_OF_STRANGERS),
        ),
        (room("one credential"), "all", bytes(intake::SHARE)),
        (room("all"), "all", bytes(intake::ROOM)),
        (large("one credential"), "all", 1.to_string()),
        (large("all"), "all", intake::LARGE_AT_ONCE.to_string()),
        ("requests of a user, channel, agent or viewer".to_owned(), "HTTP", user.clone()),
        ("messages of the same, counted with them".to_owned(), "WebSocket", user),
        (
            "requests of one address without a right credential".to_owned(),
            "network",
            format!("{} a minute", rates::PER_ADDRESS),
        ),
        (
            "wrong credentials and links of one address that are answered at once".to_owned(),
            "network",
            free,
        ),
        (
            "such answers that wait, of one address".to_owned(),
            "network",
            lockout::WAITING_OF_ADDRESS.to_string(),
        ),
        (
            "such answers that wait, of all".to_owned(),
            "network",
            lockout::WAITING_ANSWERS.to_string(),
        ),
    ];
    for (what, place, most) in rows {
        let row = format!("\n| {what} | {place} | {most} | ");
        assert!(DOCS.contains(&row), "docs/doors.md has no row {row}");
    }
    let delays = [lockout::FIRST_DELAY, 2 * lockout::FIRST_DELAY].map(|delay| delay.as_millis());
    let longest = lockout::LONGEST_DELAY.as_secs();
    let delays = format!("after {} ms, then {} ms, up to {longest} s |", delays[0], delays[1]);
    assert!(DOCS.contains(&delays), "docs/doors.md has no {delays}");
}

/// What the library reads.
fn depth() -> usize {
    let reads = |depth: usize| {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        serde_json::from_str::<serde_json::Value>(&text).is_ok()
    };
    (1..1000).take_while(|depth| reads(*depth)).count()
}
