//! A text that comes in pieces: what may be the beginning of a secret waits for what follows.

use secrecy::zeroize::Zeroizing;

use super::{Scrubber, Table};

/// One running text. Whatever the pieces, the output is that of the whole text scrubbed at once.
#[derive(Default)]
pub struct Stream {
    /// Shorter than the longest form of a secret.
    held: Zeroizing<String>,
    found: bool,
}

impl Stream {
    /// Takes a piece in; gives back what can be shown by now, which may be nothing.
    pub fn push(&mut self, scrubber: &Scrubber, piece: String) -> String {
        let table = scrubber.table();
        if table.finder.is_none() && self.held.is_empty() {
            return piece;
        }
        let text = match self.held.is_empty() {
            true => piece,
            false => {
                let mut text = std::mem::take(&mut *self.held);
                text.push_str(&piece);
                text
            }
        };
        self.pass(&table, text)
    }

    /// The text ends here: what was held back is not the beginning of anything.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        let held = std::mem::take(&mut *self.held);
        let cleaned = scrubber.clean_owned(held.clone());
        self.found |= cleaned != held;
        cleaned
    }

    /// The text so far is void.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a secret was replaced since the stream began.
    pub fn has_found(&self) -> bool {
        self.found
    }

    fn pass(&mut self, table: &Table, text: String) -> String {
        let mut passed = String::new();
        let mut done = 0;
        loop {
            let waits = table.unfinished(&text, done);
            // A secret that begins later may turn out to lie inside the one that waits, and one
            // that begins at the same place to be longer.
            match table.find(&text, done).filter(|found| found.start < waits) {
                Some(found) => {
                    passed.push_str(&text[done..found.start]);
                    passed.push_str(found.marker);
                    done = found.end;
                    self.found = true;
                }
                None if done == 0 && waits == text.len() => return text,
                None => {
                    passed.push_str(&text[done..waits]);
                    text[waits..].clone_into(&mut self.held);
                    return passed;
                }
            }
        }
    }
}
