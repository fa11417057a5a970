use std::io::{Cursor, Read};

use super::{BLOCK, CleanReader};
use crate::{Scrubber, Secret};

const VALUE: &str = "first-line-of-a-value\nsecond-line-of-it\nthird";
const MARK: &str = "[secret:vault.LINES]";

fn scrubber() -> Scrubber {
    let scrubber = Scrubber::default();
    scrubber.add([Secret::new("vault.LINES", VALUE)]);
    scrubber
}

fn private_key() -> String {
    let digits = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let body = format!("{digits}\n").repeat(25);
    format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n")
}

fn read(scrubber: &Scrubber, bytes: &[u8], before: usize) -> Vec<u8> {
    let mut clean = Vec::new();
    CleanReader::new(scrubber, Cursor::new(bytes), before).read_to_end(&mut clean).unwrap();
    clean
}

#[test]
fn each_line_of_a_secret_is_replaced_and_the_others_keep_their_numbers() {
    let scrubber = scrubber();
    let text = format!("one\n{VALUE} and {VALUE}\nlast");
    let expected = format!("one\n{MARK}\n{MARK}\n{MARK} and {MARK}\n{MARK}\n{MARK}\nlast");
    assert_eq!(scrubber.clean_lines(&text), Some(expected.clone()));
    assert_eq!(read(&scrubber, text.as_bytes(), 0), expected.as_bytes());
    assert_eq!(scrubber.clean_lines("nothing here"), None);
    let key = private_key();
    let clean = scrubber.clean_lines(&format!("a\n{key}b\n")).unwrap();
    assert_eq!(clean, format!("a\n{}b\n", "[secret:format.private-key]\n".repeat(27)));
    // The end of a line belongs to the value: the next line is not part of it.
    scrubber.add([Secret::new("vault.END", "a-value-with-an-end\n")]);
    let clean = scrubber.clean_lines("a-value-with-an-end\nnext\n");
    assert_eq!(clean.as_deref(), Some("[secret:vault.END]\nnext\n"));
}

#[test]
fn wherever_reading_begins_the_rest_of_a_secret_is_not_read() {
    let scrubber = scrubber();
    for secret in [VALUE.to_owned(), private_key()] {
        let text = format!("before\n{secret}\nafter\n");
        let whole = read(&scrubber, text.as_bytes(), 0);
        for (at, _) in text.match_indices('\n') {
            let part = read(&scrubber, text.as_bytes(), at + 1);
            assert!(whole.ends_with(&part), "{at}: {}", String::from_utf8_lossy(&part));
        }
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines(&whole), lines(text.as_bytes()));
    }
}

#[test]
fn a_secret_at_the_edge_of_a_block_is_found_in_lines_and_in_one_endless_line() {
    let scrubber = scrubber();
    let key = private_key();
    for (secret, mark) in [(VALUE, MARK), (key.trim_end(), "[secret:format.private-key]")] {
        for filler in ["ä b\n", "äb "] {
            for shift in [0, 1, 2, 3, 5, 8, 13, 300, secret.len() - 1, secret.len()] {
                let mut text = filler.repeat(BLOCK / filler.len() + 1);
                let at = text.floor_char_boundary(BLOCK - shift);
                text.truncate(at);
                let text = format!("{text} {secret} {text} {secret}\n{text}");
                let clean = String::from_utf8(read(&scrubber, text.as_bytes(), 0)).unwrap();
                let first = secret.lines().next().unwrap();
                let last = secret.lines().last().unwrap();
                assert!(!clean.contains(first) && !clean.contains(last), "{filler:?} {shift}");
                assert!(clean.matches(mark).count() >= 2 * secret.lines().count());
                assert_eq!(clean.lines().count(), text.lines().count());
            }
        }
    }
}

#[test]
fn bytes_that_are_no_text_stay_as_they_are() {
    let bytes: Vec<u8> = (0..=255).cycle().take(3 * BLOCK).collect();
    assert_eq!(read(&scrubber(), &bytes, 0), bytes);
    assert_eq!(read(&scrubber(), b"", 0), b"");
    assert_eq!(read(&scrubber(), b"short", 9), b"");
    let mixed = [b"\xff\n", VALUE.as_bytes(), b"\n\xfe"].concat();
    let expected = format!("\u{fffd}\n{MARK}\n{MARK}\n{MARK}\n\u{fffd}");
    assert_eq!(String::from_utf8(read(&scrubber(), &mixed, 0)).unwrap(), expected);
}
