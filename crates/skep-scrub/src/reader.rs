//! A file that is read without its secrets, line by line as it is written: whoever numbers, cuts
//! or searches its lines afterwards has nothing left to cut apart.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memrchr;
use secrecy::zeroize::Zeroizing;

use super::{Formats, Scrubber, Table};

/// Bytes that are looked at together, and more where a secret is longer.
const BLOCK: usize = 256 << 10;
/// So far may a secret reach that nobody told us of: see `formats` and its private keys.
const FORMAT: usize = 32 << 10;

impl Scrubber {
    /// As [`Self::clean`], or nothing where there is no secret; of one of several lines each line
    /// is replaced, so that all lines of the text keep their numbers.
    pub fn clean_lines(&self, text: &str) -> Option<String> {
        self.table().clean_part(text, 0..text.len())
    }

    /// So many bytes before a place tell whether a secret goes on there.
    pub fn reach(&self) -> usize {
        // A letter that is escaped has up to six, or more where that is escaped again.
        FORMAT.max(16 * self.table().longest)
    }
}

impl Table {
    /// A part of a text without the secrets that stand or reach into it, where there are any.
    fn clean_part(&self, text: &str, part: Range<usize>) -> Option<String> {
        let all = self.view(text, Formats::Found).all();
        let mut inside =
            all.iter().filter(|it| it.start < part.end && it.end > part.start).peekable();
        inside.peek()?;
        let mut cleaned = String::with_capacity(part.len());
        let mut done = part.start;
        for found in inside {
            let (start, end) = (found.start.max(part.start), found.end.min(part.end));
            cleaned.push_str(&text[done..start]);
            for (number, line) in text[start..end].split('\n').enumerate() {
                cleaned.push_str(if number > 0 { "\n" } else { "" });
                cleaned.push_str(if line.trim().is_empty() { "" } else { found.marker });
            }
            done = end;
        }
        cleaned.push_str(&text[done..part.end]);
        Some(cleaned)
    }
}

/// Reads what `source` reads, as [`Scrubber::clean_lines`] would have it. Bytes that are no text
/// stay as they are, but for blocks with secrets.
pub struct CleanReader<'s, R> {
    scrubber: &'s Scrubber,
    source: R,
    has_ended: bool,
    /// What was passed on last, then what was not.
    raw: Zeroizing<Vec<u8>>,
    passed: usize,
    clean: Vec<u8>,
    taken: usize,
}

impl<'s, R: Read> CleanReader<'s, R> {
    /// The first `before` bytes of the source are looked at and not passed on: what begins in
    /// them, and ends behind them, is a secret as well.
    pub fn new(scrubber: &'s Scrubber, source: R, before: usize) -> Self {
        let (raw, clean) = (Zeroizing::default(), Vec::new());
        Self { scrubber, source, has_ended: false, raw, passed: before, clean, taken: 0 }
    }

    fn fill(&mut self) -> io::Result<()> {
        let reach = self.scrubber.reach();
        let wanted = self.passed + BLOCK.max(reach) + reach;
        let missing = wanted.saturating_sub(self.raw.len());
        let read = self.source.by_ref().take(missing as u64).read_to_end(&mut self.raw)?;
        self.has_ended |= read < missing;
        let end = self.end(reach);
        let start = self.passed.min(end);
        let table = self.scrubber.table();
        let cleaned = match str::from_utf8(&self.raw) {
            Ok(text) => table.clean_part(text, start..end),
            Err(_) => {
                let (text, part) = lossy(&self.raw, start..end);
                table.clean_part(&text, part)
            }
        };
        self.clean = cleaned.map_or_else(|| self.raw[start..end].to_vec(), String::into_bytes);
        self.taken = 0;
        let kept = end.saturating_sub(reach);
        self.raw.drain(..kept);
        self.passed = end - kept;
        Ok(())
    }

    /// Where the next block ends: with a line, or where that is too long with a letter.
    fn end(&self, reach: usize) -> usize {
        if self.has_ended {
            return self.raw.len();
        }
        let most = self.raw.len() - reach;
        let block = &self.raw[self.passed..most];
        let is_inside = |at: &usize| self.raw[*at] & 0xC0 == 0x80;
        match memrchr(b'\n', block) {
            Some(line) => self.passed + line + 1,
            None => most - (most - 3..=most).rev().take_while(is_inside).count().min(3),
        }
    }
}

/// The bytes as text, and where a part of them stands in it.
fn lossy(bytes: &[u8], part: Range<usize>) -> (Zeroizing<String>, Range<usize>) {
    let mut text = Zeroizing::new(String::from_utf8_lossy(&bytes[..part.start]).into_owned());
    let start = text.len();
    text.push_str(&String::from_utf8_lossy(&bytes[part.clone()]));
    let end = text.len();
    text.push_str(&String::from_utf8_lossy(&bytes[part.end..]));
    (text, start..end)
}

impl<R: Read> Read for CleanReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.clean.len() && !self.has_ended {
            self.fill()?;
        }
        let ready = &self.clean[self.taken..];
        let count = ready.len().min(into.len());
        into[..count].copy_from_slice(&ready[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
