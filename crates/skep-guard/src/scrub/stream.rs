//! A text that comes in pieces: what may be the beginning of a secret waits for what follows.

use secrecy::zeroize::Zeroizing;

use super::{Scrubber, View, decode};

/// Bytes that wait at most, or more where a secret is longer: a run of escapes without an end is
/// not the beginning of one.
const MOST_HELD: usize = 256 << 10;

/// One running text. Whatever the pieces, no secret passes, and what passes is the whole text
/// scrubbed at once; only that the first few letters of a long secret may stand before its name
/// (see `Table::early`): nearly every piece ends with a letter some secret begins with, and a
/// reader should not miss it until the next piece.
#[derive(Default)]
pub struct Stream {
    /// Shorter than the longest form of a secret.
    held: Zeroizing<String>,
    /// So much of its beginning was passed on already.
    shown: usize,
    /// Digits of base64 that were passed on directly before what is held.
    run: usize,
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
        let view = table.view(&text, self.run);
        let most = MOST_HELD.max(16 * table.longest);
        let waits = |from| Some(view.unfinished(from)).filter(|at| text.len() - at <= most);
        let (mut passed, waits) = self.pass(&view, |from| waits(from).unwrap_or(text.len()));
        self.run = decode::run_at_end(&text[..waits], self.run);
        text[waits..].clone_into(&mut self.held);
        self.shown = self.shown.saturating_sub(waits);
        if self.held.len() <= table.early {
            passed.push_str(&self.held[self.shown..]);
            self.shown = self.held.len();
        }
        passed
    }

    /// The text ends here: what was held back is not the beginning of anything.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        let text = std::mem::take(&mut *self.held);
        let table = scrubber.table();
        let (passed, _) = self.pass(&table.view(&text, self.run), |_| text.len());
        (self.shown, self.run) = (0, 0);
        passed
    }

    /// The text so far is void.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a secret was replaced since the stream began.
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// The text without secrets up to where it has to wait, and where that is.
    fn pass(&mut self, view: &View<'_>, waits: impl Fn(usize) -> usize) -> (String, usize) {
        let text = view.text;
        let mut passed = String::new();
        let mut done = 0;
        // What was shown before is not shown again.
        let pass = |from: usize, to: usize, passed: &mut String| {
            passed.push_str(&text[from.max(self.shown).min(to)..to]);
        };
        loop {
            let waits = waits(done);
            // A secret that begins later may turn out to lie inside the one that waits, and one
            // that begins at the same place to be longer.
            match view.find(done).filter(|found| found.start < waits) {
                Some(found) => {
                    pass(done, found.start, &mut passed);
                    passed.push_str(found.marker);
                    done = found.end;
                    self.found = true;
                }
                None => {
                    pass(done, waits, &mut passed);
                    return (passed, waits);
                }
            }
        }
    }
}
