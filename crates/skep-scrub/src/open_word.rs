//! The word that a text ends with: where it begins, told for a whole text and kept up piece by
//! piece. A line end inside base64 is part of it.

use super::decode;
use super::stream::is_of_word;

/// Where the word begins that the bytes end with, from `at` on.
pub(super) fn start(bytes: &[u8], at: usize, is_escaped: bool) -> usize {
    let is_digit = |byte| is_digit(byte, is_escaped);
    let mut start = back(bytes, bytes.len(), is_of_word);
    // Of every line end down to here it is known that it is inside.
    let mut inside = usize::MAX;
    while let Some(end) = line_end(bytes, start)
        && end > at
    {
        if end < inside {
            let Some(line) = long_line(bytes, end, is_digit) else { break };
            inside = line;
        }
        start = back(bytes, end, is_of_word);
    }
    start.max(at)
}

/// Where the line ends whose successor begins at `start`.
fn line_end(bytes: &[u8], start: usize) -> Option<usize> {
    let end = back(bytes, start, |byte| byte.is_ascii_whitespace());
    matches!(bytes[end..start], [b'\n' | b'\r', ..]).then_some(end)
}

/// Where the line ends because of which [`decode`] leaves out the line end at `at`: enough digits
/// of base64, and nothing else in the lines from there on.
fn long_line(bytes: &[u8], mut at: usize, is_digit: impl Fn(u8) -> bool + Copy) -> Option<usize> {
    loop {
        let line = back(bytes, at, is_digit);
        if at - line >= decode::LINE {
            return Some(at);
        }
        at = line_end(bytes, line)?;
    }
}

/// Where the bytes begin that are such ones up to `end`.
fn back(bytes: &[u8], end: usize, is_such: impl Fn(u8) -> bool) -> usize {
    let start = bytes[..end].iter().rposition(|byte| !is_such(*byte)).map_or(0, |other| other + 1);
    #[cfg(test)]
    super::work::add(end - start);
    start
}

/// Behind escapes every letter may be a digit of base64.
fn is_digit(byte: u8, is_escaped: bool) -> bool {
    if is_escaped { is_of_word(byte) } else { decode::is_digit(byte) }
}

/// What [`start`] gives for a text that grows, without a look back.
#[derive(Default)]
pub(super) struct OpenWord {
    is_escaped: bool,
    length: usize,
    start: usize,
    /// Digits directly before the end, those of earlier lines not included.
    run: usize,
    /// The line has digits alone, and the line end before it is part of the word.
    goes_on: bool,
    gap: Gap,
}

/// What the text ends with.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Gap {
    /// A letter.
    #[default]
    None,
    /// Blanks that are part of the word.
    Inside,
    /// Blanks that end it.
    Between,
}

impl OpenWord {
    pub(super) fn of(is_escaped: bool) -> Self {
        Self { is_escaped, ..Self::default() }
    }

    pub(super) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The text has grown to these bytes.
    pub(super) fn follow(&mut self, bytes: &[u8]) {
        bytes[self.length..].iter().for_each(|byte| self.step(*byte));
    }

    fn step(&mut self, byte: u8) {
        self.length += 1;
        if is_of_word(byte) {
            let is_digit = is_digit(byte, self.is_escaped);
            let is_line = self.gap != Gap::None;
            let was_inside = if is_line { self.gap == Gap::Inside } else { self.goes_on };
            self.goes_on = is_digit && was_inside;
            self.run = match is_digit {
                true if is_line => 1,
                true => self.run + 1,
                false => 0,
            };
            self.gap = Gap::None;
            return;
        }
        self.gap = match (self.gap, byte) {
            (_, byte) if !byte.is_ascii_whitespace() => Gap::None,
            (Gap::None, b'\n' | b'\r') if self.goes_on || self.run >= decode::LINE => Gap::Inside,
            (Gap::None, _) => Gap::Between,
            (gap, _) => gap,
        };
        if self.gap != Gap::Inside {
            self.start = self.length;
        }
        if self.gap == Gap::None {
            (self.run, self.goes_on) = (0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_up_is_what_a_look_back_gives(
            text in "([a-c]{1,20}|[a-c]{16,24}|\n|\r\n|\n  | |\t|=|%61|é|\u{1}){0,24}",
        ) {
            for is_escaped in [false, true] {
                let mut word = OpenWord::of(is_escaped);
                for end in 0..text.len() {
                    let bytes = &text.as_bytes()[..=end];
                    word.follow(bytes);
                    prop_assert_eq!(word.start(), start(bytes, 0, is_escaped), "{:?}", bytes);
                }
            }
        }
    }
}
