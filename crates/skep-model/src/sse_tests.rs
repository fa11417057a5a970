#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn event(name: &str, data: &str) -> SseEvent {
    SseEvent { name: name.to_owned(), data: data.to_owned() }
}

/// Parses the text cut into pieces of `size` bytes.
fn parse(bytes: &[u8], size: usize) -> Result<Vec<SseEvent>, SseError> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for piece in bytes.chunks(size) {
        parser.push(piece, &mut events)?;
    }
    Ok(events)
}

#[test]
fn the_same_events_come_out_however_the_bytes_are_cut() {
    let text = "\u{feff}event: a\ndata: {\"t\":\"ä→🐝\"}\n\n: a comment\r\nevent:b\r\ndata:1\r\n\
                data: 2\r\n\r\nid: 7\rretry: 5\rdata\r\r\n\ndata: unfinished\n";
    let expected = [event("a", "{\"t\":\"ä→🐝\"}"), event("b", "1\n2"), event("", "")];
    for size in 1..=text.len() {
        assert_eq!(parse(text.as_bytes(), size).as_deref(), Ok(expected.as_slice()), "{size}");
    }
}

#[test]
fn an_event_without_data_is_none_and_its_name_does_not_leak() {
    assert_eq!(parse(b"event: a\n\ndata: 1\n\n", 64), Ok(vec![event("", "1")]));
}

#[test]
fn endless_events_and_foreign_bytes_are_errors() {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    let piece = vec![b'x'; EVENT_BYTES / 4];
    for _ in 0..3 {
        parser.push(&piece, &mut events).unwrap();
    }
    assert_eq!(parser.push(&piece, &mut events), Err(SseError::TooLong));

    let mut parser = Parser::default();
    let many_lines = "data: x\n".repeat(EVENT_BYTES / 8 + 1);
    assert_eq!(parser.push(many_lines.as_bytes(), &mut events), Err(SseError::TooLong));

    assert_eq!(parse(b"data: \xff\n\n", 3), Err(SseError::NotText));
}
