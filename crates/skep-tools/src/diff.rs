//! What a write changed, as a unified diff of bounded size.

use std::borrow::Cow;
use std::time::Duration;

use similar::{Algorithm, TextDiff};

/// The most of a diff that is kept beside an answer.
const DIFF_BYTES: usize = 32 * 1024;
/// Above this nobody reads the diff and computing it takes long.
pub(crate) const DIFFED_BYTES: u64 = 4 * 1024 * 1024;
/// Lines of both sides: each costs many times its bytes while they are compared.
const DIFFED_LINES: usize = 100_000;
/// After this the rest is shown as replaced as a whole.
const TIME: Duration = Duration::from_millis(500);

/// `None` where either side is not text or both together are too long.
pub fn unified(path: &str, before: &[u8], after: &[u8]) -> Option<String> {
    if (before.len() + after.len()) as u64 > DIFFED_BYTES {
        return None;
    }
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    if lines(before) + lines(after) > DIFFED_LINES {
        return None;
    }
    // Before the signs of a diff stand between the lines of a secret.
    let clean =
        |text| skep_scrub::known().clean_lines(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let before = clean(std::str::from_utf8(before).ok()?);
    let after = clean(std::str::from_utf8(after).ok()?);
    let diff =
        TextDiff::configure().algorithm(Algorithm::Myers).timeout(TIME).diff_lines(&before, &after);
    let mut text = diff.unified_diff().context_radius(3).header(path, path).to_string();
    if text.len() > DIFF_BYTES {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(DIFF_BYTES));
        text.push_str(&format!("\n[cut: the diff has {whole} bytes]\n"));
    }
    Some(text)
}
