//! A text that comes in pieces: what may be the beginning of a secret waits for what follows.

use secrecy::zeroize::Zeroizing;

use super::{Ahead, Formats, Scrubber, View, Wait, decode};

/// Bytes that wait at most, or more where a secret is longer: a run of escapes without an end is
/// not the beginning of one.
const MOST_HELD: usize = 256 << 10;

/// What was passed on directly before stays to be read: digits of base64 for [`decode`], and for
/// formats what tells whether a word begins, or stands before their fixed letters.
const CONTEXT: usize = decode::LINE + 8;

/// One running text. Whatever the pieces, no secret passes, and what passes is the whole text
/// scrubbed at once; only that the first few letters of a long secret (see `Table::early`), or the
/// beginning that all secrets of a format have, may stand before its name: nearly every piece ends
/// with a letter some secret begins with, and a reader should not miss it until the next piece.
#[derive(Default)]
pub struct Stream {
    held: Zeroizing<String>,
    /// So much of its beginning was passed on and is done with.
    context: usize,
    /// So much of its beginning was passed on already.
    shown: usize,
    formats: Formats,
    found: bool,
}

impl Stream {
    /// For the content of a file, as [`Scrubber::clean_file`].
    pub fn of_file() -> Self {
        Self { formats: Formats::Kept, ..Self::default() }
    }

    /// Takes a piece in; gives back what can be shown by now, which may be nothing.
    pub fn push(&mut self, scrubber: &Scrubber, piece: String) -> String {
        let table = scrubber.table();
        if table.finder.is_none() && self.formats == Formats::Kept {
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
        let view = table.view(&text, self.formats);
        let most = MOST_HELD.max(16 * table.longest);
        let end = Wait { at: text.len(), shows: text.len() };
        let (mut passed, waits) = self.pass(&view, |from| {
            let wait = view.unfinished(from);
            if text.len() - wait.at <= most { wait } else { Wait { ..end } }
        });
        let shown = self.shown.max(waits.at);
        if waits.shows > shown {
            passed.push_str(&text[shown..waits.shows]);
        }
        let from = text.floor_char_boundary(waits.at.saturating_sub(CONTEXT));
        text[from..].clone_into(&mut self.held);
        self.context = waits.at - from;
        self.shown = shown.max(waits.shows) - from;
        passed
    }

    /// The text ends here: what was held back is not the beginning of anything.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        let text = std::mem::take(&mut *self.held);
        let table = scrubber.table();
        let view = table.view(&text, self.formats);
        let (passed, _) = self.pass(&view, |_| Wait { at: text.len(), shows: text.len() });
        (self.shown, self.context) = (0, 0);
        passed
    }

    /// The text so far is void.
    pub fn clear(&mut self) {
        *self = Self { formats: self.formats, ..Self::default() };
    }

    /// Whether a secret was replaced since the stream began.
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// The text without secrets up to where it has to wait, and where that is.
    fn pass(&mut self, view: &View<'_>, waits: impl Fn(usize) -> Wait) -> (String, Wait) {
        let text = view.text;
        let mut passed = String::new();
        let (mut done, mut ahead) = (self.context, Ahead::new());
        // What was shown before is not shown again.
        let pass = |from: usize, to: usize, passed: &mut String| {
            passed.push_str(&text[from.max(self.shown).min(to)..to]);
        };
        loop {
            let mut waits = waits(done);
            // A secret that begins later may turn out to lie inside the one that waits, and one
            // that begins at the same place to be longer.
            match view.find(done, &mut ahead) {
                Some(found) if found.start < waits.at => {
                    pass(done, found.start, &mut passed);
                    passed.push_str(found.marker);
                    done = found.end;
                    self.found = true;
                }
                found => {
                    waits.shows = found.map_or(waits.shows, |found| found.start.min(waits.shows));
                    pass(done, waits.at, &mut passed);
                    return (passed, waits);
                }
            }
        }
    }
}
