//! Secrets are taken out of whatever this process writes, sends or shows: those it knows, and those
//! that are written as their issuers write them (see [`formats`]).
//!
//! A known secret is replaced by `[secret:NAME]` in every form in which it usually travels (see
//! [`forms`]) and behind every escape that can be taken back (see [`decode`]); a stream waits for
//! the end of each word, whatever it is (see [`stream`]). Against a program that disguises a secret
//! on purpose this is no wall: those do not get it in the first place.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

mod cut;
mod decode;
mod form_set;
mod formats;
mod forms;
mod marker;
mod open_word;
#[cfg(test)]
mod overlap_tests;
mod reader;
mod stream;
#[cfg(test)]
mod work;

use decode::DecodedLevel;
use form_set::FormSet;
pub use formats::issuers;
use marker::MARK;
pub use marker::marker;
pub use reader::CleanReader;
pub use stream::Stream;

/// Shorter ones would be found in ordinary text.
pub const SHORTEST: usize = 8;

/// A value that must not be seen, and the name that is shown in its place.
pub struct Secret {
    pub name: String,
    pub value: SecretString,
    pub owner: Owner,
}

/// Whose secret it is. Where one of an agent overlaps with one of people, only the latter is seen:
/// an agent could else learn it letter by letter from which of its own values are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    People,
    Agent,
}

impl Secret {
    pub fn new(name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { name: name.into(), value: value.into(), owner: Owner::People }
    }

    /// One that an agent set itself.
    pub fn of_agent(name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        Self { owner: Owner::Agent, ..Self::new(name, value) }
    }

    /// How long the value is.
    pub fn bytes(&self) -> usize {
        self.value.expose_secret().len()
    }

    /// Whether it is the same value under the same name.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.value.expose_secret() == other.value.expose_secret()
    }
}

/// The secrets of this process. One for all: what is secret is a fact of the process, as its
/// environment is, and the log and the panic hook, which need it too, belong to no part of it.
pub fn known() -> &'static Scrubber {
    static KNOWN: LazyLock<Scrubber> = LazyLock::new(Scrubber::default);
    &KNOWN
}

/// Knows secrets and replaces them. A secret stays known until it is forgotten by name: one that
/// was in use may still turn up after the configuration no longer names it.
#[derive(Default)]
pub struct Scrubber {
    /// Written when a secret becomes known, read everywhere at any time.
    table: RwLock<Arc<Table>>,
    /// Held while a table is made of the one before: no reader waits for that.
    changing: Mutex<()>,
}

/// Every form of every secret, ready to be searched for.
#[derive(Default)]
struct Table {
    /// One for each name that a value has.
    secrets: Vec<Arc<Secret>>,
    /// Other than that of every table before.
    version: usize,
    people: FormSet,
    agents: FormSet,
    longest: usize,
    /// Some secret holds what is written with a backslash.
    backslashes: bool,
    /// So many bytes of every stream wait, whatever they are, where some secret is more than one
    /// word: as many as its longest form has, within bounds.
    lag: usize,
}

impl Scrubber {
    /// From now on these are replaced. Gives back the names of those that are too short for that.
    /// One that holds a marker is no secret: it would take the marker's place everywhere.
    pub fn add(&self, secrets: impl IntoIterator<Item = Secret>) -> Vec<String> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.table();
        let mut all = known.secrets.clone();
        let mut too_short = Vec::new();
        for secret in secrets {
            let value = secret.value.expose_secret();
            match value.len() {
                0 => {}
                length if length < SHORTEST => too_short.push(secret.name),
                _ if value.contains(MARK) => {}
                _ if all.iter().any(|it| it.owner == secret.owner && it.is_same(&secret)) => {}
                _ => all.push(Arc::new(secret)),
            }
        }
        if all.len() > known.secrets.len() {
            self.replace(&known, all);
        }
        too_short
    }

    /// From now on these are not replaced, unless another name has the same value.
    pub fn forget(&self, gone: &[Secret]) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.table();
        let mut all = known.secrets.clone();
        all.retain(|secret| !gone.iter().any(|gone| gone.is_same(secret)));
        if all.len() < known.secrets.len() {
            self.replace(&known, all);
        }
    }

    fn replace(&self, known: &Table, secrets: Vec<Arc<Secret>>) {
        let table = Arc::new(Table::of(secrets, known.version + 1));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// Changes with the secrets that are known.
    pub fn version(&self) -> usize {
        self.table().version
    }

    /// How many secrets of this owner are known.
    pub fn count(&self, owner: Owner) -> usize {
        self.table().secrets.iter().filter(|secret| secret.owner == owner).count()
    }

    /// The text without secrets.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.table().clean(text, Formats::Found)
    }

    /// The content of a file without known secrets: what only looks like one stays, or a file
    /// would be another one afterwards.
    pub fn clean_file<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.table().clean(text, Formats::Kept)
    }

    /// Whether a file that is no text holds a known secret. It cannot be replaced there.
    pub fn is_in_file(&self, bytes: &[u8]) -> bool {
        matches!(self.clean_file(&String::from_utf8_lossy(bytes)), Cow::Owned(_))
    }

    /// The names of the secrets in a text, in their order, each with the byte where it begins.
    pub fn names(&self, text: &str) -> Vec<(usize, String)> {
        let places = self.places(text).into_iter();
        places.map(|(at, marker)| (at.start, marker::name(&marker).to_owned())).collect()
    }

    /// As [`Self::clean`], without a copy where there is nothing to replace.
    pub fn clean_owned(&self, text: String) -> String {
        match self.clean(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(cleaned) => cleaned,
        }
    }

    /// The same for a JSON text: only what stands inside its texts is replaced, so that a value
    /// which looks like a piece of JSON breaks nothing.
    pub fn clean_json_text(&self, text: String) -> String {
        let Cow::Owned(cleaned) = self.clean(&text) else { return text };
        match serde_json::from_str::<Value>(&text) {
            Ok(mut value) => {
                self.clean_json(&mut value);
                value.to_string()
            }
            Err(_) => cleaned,
        }
    }

    /// Replaces secrets in every text of a JSON value, keys included but for names of fields;
    /// whether there were any.
    pub fn clean_json(&self, value: &mut Value) -> bool {
        clean_json(&self.table(), value)
    }

    /// Whether the text holds the marker of a secret: one was taken out of it, or somebody means
    /// it by name.
    pub fn is_marked(&self, text: &str) -> bool {
        let table = self.table();
        has_mark(text)
            && (formats::is_marked(text)
                || table.markers().any(|marker| text.contains(marker.as_str())))
    }

    /// As [`Self::is_marked`], for any text of a JSON value.
    pub fn is_json_marked(&self, value: &Value) -> bool {
        any_text(value, &|text| self.is_marked(text))
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a text of the value holds what may be the marker of a secret, known or not.
pub fn has_json_mark(value: &Value) -> bool {
    any_text(value, &has_mark)
}

fn has_mark(text: &str) -> bool {
    text.contains(MARK)
}

fn any_text(value: &Value, holds: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, holds)),
        Value::Object(fields) => {
            fields.iter().any(|(key, item)| holds(key) || any_text(item, holds))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What becomes of secrets that are not known and look like one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Formats {
    #[default]
    Found,
    Kept,
}

/// The longest name of a field.
const FIELD: usize = 32;

/// Whether a key of JSON may be the name of a field: without it nobody could read the others. No
/// key or token is made of small letters and underscores alone.
fn is_field(key: &str) -> bool {
    key.len() <= FIELD && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn clean_json(table: &Table, value: &mut Value) -> bool {
    match value {
        Value::String(text) => match table.clean(text, Formats::Found) {
            Cow::Borrowed(_) => false,
            Cow::Owned(cleaned) => {
                *text = cleaned;
                true
            }
        },
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| clean_json(table, item) | found)
        }
        Value::Object(fields) => {
            let clean = |key: &str| match table.clean(key, Formats::Found) {
                Cow::Owned(clean) if !is_field(key) => Some(clean),
                _ => None,
            };
            let found = fields.keys().any(|key| clean(key).is_some());
            if found {
                let old = std::mem::take(fields).into_iter();
                *fields = old.map(|(key, item)| (clean(&key).unwrap_or(key), item)).collect();
            }
            fields.values_mut().fold(found, |found, item| clean_json(table, item) | found)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl Table {
    fn of(secrets: Vec<Arc<Secret>>, version: usize) -> Self {
        let of = |owner| secrets.iter().filter(move |secret| secret.owner == owner);
        // What people keep as well is theirs.
        let kept: HashSet<&str> = of(Owner::People).map(|it| it.value.expose_secret()).collect();
        let own = of(Owner::Agent).filter(|it| !kept.contains(it.value.expose_secret()));
        let (people, agents) =
            (FormSet::of(Owner::People, of(Owner::People)), FormSet::of(Owner::Agent, own));
        let forms = || people.forms.iter().chain(&agents.forms).map(ExposeSecret::expose_secret);
        let phrases = forms().filter(|form| !form.bytes().all(stream::is_of_word));
        let lag = phrases.map(str::len).max().unwrap_or(0).min(stream::MOST_LAG);
        let longest = people.longest.max(agents.longest);
        let escaped = |secret: &Arc<Secret>| {
            secret.value.expose_secret().contains(|c: char| c.is_control() || "\"\\/'`".contains(c))
        };
        let backslashes = secrets.iter().any(escaped);
        Self { secrets, version, people, agents, longest, backslashes, lag }
    }

    fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    fn markers(&self) -> impl Iterator<Item = &String> {
        self.people.markers.iter().chain(&self.agents.markers)
    }

    fn clean<'t>(&self, text: &'t str, formats: Formats) -> Cow<'t, str> {
        if self.is_empty() && formats == Formats::Kept {
            return Cow::Borrowed(text);
        }
        let all = self.view(text, formats).all();
        if all.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut cleaned = String::with_capacity(text.len());
        let mut done = 0;
        for found in all {
            cleaned.push_str(&text[done..found.start]);
            cleaned.push_str(found.marker);
            done = found.end;
        }
        cleaned.push_str(&text[done..]);
        Cow::Owned(cleaned)
    }

    fn view<'t>(&'t self, text: &'t str, formats: Formats) -> View<'t> {
        self.view_from(text, 0, Vec::new(), formats)
    }

    /// Nobody asks for secrets before `from`; where some stand there is told.
    fn view_from<'t>(
        &'t self,
        text: &'t str,
        from: usize,
        mut hidden: Vec<Range<usize>>,
        formats: Formats,
    ) -> View<'t> {
        #[cfg(test)]
        work::add(text.len());
        let (mut levels, cut) = decode::levels(text, self.reading());
        let lowered = decode::lowered(text);
        hidden.extend(self.people.places(text.as_bytes(), from));
        let (mut masked, mut matches) = (Cow::Borrowed(text.as_bytes()), Vec::new());
        if formats == Formats::Found {
            for level in levels.iter().chain(&lowered) {
                let places = self.people.places(&level.bytes, level.from(from));
                hidden.extend(places.map(|at| level.outside(&at)));
            }
            formats::mask(&mut masked, hidden.iter().cloned());
            matches = formats::all(&masked);
            levels.iter_mut().for_each(|level| level.find_formats(&hidden));
        }
        View { table: self, text, hidden, masked, matches, levels, lowered, cut, formats }
    }

    fn reading(&self) -> decode::DecodeOptions {
        decode::DecodeOptions { backslashes: self.backslashes, inner_first: false }
    }

    /// As [`FormSet::unfinished`], of either owner.
    fn unfinished(&self, bytes: &[u8], at: usize, least: usize) -> usize {
        let people = self.people.unfinished(bytes, at, least);
        people.min(self.agents.unfinished(bytes, at, least))
    }

    /// Whether this is the first half of a form, or more.
    fn is_most(&self, rest: &[u8]) -> bool {
        self.people.is_most(rest) || self.agents.is_most(rest)
    }
}

/// A text at every depth of its escapes.
struct View<'t> {
    table: &'t Table,
    text: &'t str,
    /// What looks like a secret in the text itself.
    matches: Vec<formats::Match>,
    levels: Vec<DecodedLevel>,
    /// With small letters, for known secrets in hex.
    lowered: Option<DecodedLevel>,
    /// Where secrets of people stand in the text, and the text without them.
    hidden: Vec<Range<usize>>,
    masked: Cow<'t, [u8]>,
    /// Where the end of the text cuts an escape off.
    cut: usize,
    formats: Formats,
}

#[derive(Clone, Copy)]
struct Found<'t> {
    start: usize,
    end: usize,
    marker: &'t str,
}

/// What a way to look for secrets looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    OfPeople,
    OfAgents,
    Formats,
}

/// What each way to look for secrets finds next, nothing where it has not looked; and the next
/// secret that is none of an agent, with all that overlap with it.
#[derive(Default)]
struct Ahead<'t> {
    ways: Vec<Option<Option<Found<'t>>>>,
    first: Option<Option<Found<'t>>>,
}

impl<'t> View<'t> {
    fn all(&self) -> Vec<Found<'t>> {
        let (mut all, mut ahead, mut done) = (Vec::new(), Ahead::default(), 0);
        while let Some(found) = self.find(done, &mut ahead) {
            done = found.end;
            all.push(found);
        }
        all
    }

    /// The first secret from `at` on. Nobody looks again where he has looked: a text full of
    /// secrets takes no longer than another.
    fn find(&self, at: usize, ahead: &mut Ahead<'t>) -> Option<Found<'t>> {
        if ahead.ways.is_empty() && self.is_clean(at) {
            return None;
        }
        let first = match ahead.first {
            Some(first) if first.is_none_or(|first| first.start >= at) => first,
            _ => self.first(at, ahead),
        };
        ahead.first = Some(first);
        let bound = first.map_or(self.text.len(), |first| first.start);
        let mut from = at;
        while let Some(own) = self.next(from, &mut ahead.ways, Owner::Agent)
            && own.start < bound
        {
            if own.end <= bound {
                return Some(own);
            }
            from = from.max(own.start) + 1;
        }
        first
    }

    /// The first secret that is none of an agent, with all that overlap with it. A format ends
    /// where a known secret begins, which is a part of it then.
    fn first(&self, at: usize, ahead: &mut Ahead<'t>) -> Option<Found<'t>> {
        let mut first = self.next(at, &mut ahead.ways, Owner::People)?;
        let reach = usize::from(formats::is_marked(first.marker));
        let mut from = first.start + 1;
        while let Some(other) = self.next(from, &mut ahead.ways, Owner::People)
            && other.start < first.end + reach
        {
            first.end = first.end.max(other.end);
            from = from.max(other.start) + 1;
        }
        Some(first)
    }

    /// The first from `at` on; of two that begin together the longer. What only looks like a
    /// secret is one of people.
    fn next(
        &self,
        at: usize,
        ways: &mut Vec<Option<Option<Found<'t>>>>,
        owner: Owner,
    ) -> Option<Found<'t>> {
        let levels = || [None].into_iter().chain(self.levels.iter().map(Some));
        let known = || levels().chain(self.lowered.iter().map(Some));
        let people = known().map(|level| (level, Sought::OfPeople));
        let agents = known().map(|level| (level, Sought::OfAgents));
        let formats = levels().map(|level| (level, Sought::Formats));
        let formats = formats.filter(|_| self.formats == Formats::Found);
        let mut earliest: Option<Found<'_>> = None;
        for (way, (level, sought)) in people.chain(agents).chain(formats).enumerate() {
            if ways.len() == way {
                ways.push(None);
            }
            if (sought == Sought::OfAgents) != (owner == Owner::Agent) {
                continue;
            }
            let is_ahead = |found: &Option<Found<'_>>| found.is_none_or(|found| found.start >= at);
            let found = match &ways[way] {
                Some(found) if is_ahead(found) => *found,
                _ => self.look(level, sought, at),
            };
            ways[way] = Some(found);
            let rank = |found: Found<'_>| (found.start, usize::MAX - found.end);
            if let Some(found) = found
                && earliest.is_none_or(|other| rank(found) < rank(other))
            {
                earliest = Some(found);
            }
        }
        earliest
    }

    /// Whether nothing is there from `at` on, told without a list of ways: nearly always so.
    fn is_clean(&self, at: usize) -> bool {
        self.levels.is_empty()
            && self.lowered.is_none()
            && self.hidden.is_empty()
            && self.look(None, Sought::OfAgents, at).is_none()
            && (self.formats == Formats::Kept || self.look(None, Sought::Formats, at).is_none())
    }

    fn look(&self, level: Option<&DecodedLevel>, sought: Sought, at: usize) -> Option<Found<'t>> {
        let bytes = level.map_or(self.text.as_bytes(), |level| &level.bytes);
        let mut from = level.map_or(at, |level| level.from(at));
        let forms = match sought {
            Sought::OfPeople => &self.table.people,
            Sought::OfAgents => &self.table.agents,
            Sought::Formats => {
                let matches = level.map_or(&self.matches, |level| &level.matches);
                return formats::behind(matches, from)
                    .find_map(|(found, marker)| self.outside(level, &found, marker));
            }
        };
        loop {
            let (found, marker) = forms.find(bytes, from)?;
            if let Some(found) = self.outside(level, &found, marker) {
                return Some(found);
            }
            from = found.end;
        }
    }

    /// What was found at a depth, where it stands in the text.
    fn outside(
        &self,
        level: Option<&DecodedLevel>,
        found: &Range<usize>,
        marker: &'t str,
    ) -> Option<Found<'t>> {
        let Range { start, end } = level.map_or(found.clone(), |level| level.outside(found));
        let is_text = self.text.is_char_boundary(start) && self.text.is_char_boundary(end);
        is_text.then_some(Found { start, end, marker })
    }

    /// Where the earliest known secret begins that the rest of the text may be the beginning of,
    /// at any depth; the end of the text when there is none. At least so many bytes of it have to
    /// be there.
    fn unfinished(&self, at: usize, least: usize) -> usize {
        let bytes = self.text.as_bytes();
        let table = self.table;
        let up_to = |bytes: &[u8], cut: usize, at: usize| {
            let begun = table.unfinished(bytes, at, least);
            match cut < bytes.len() {
                true => begun.min(table.unfinished(&bytes[..cut], at.min(cut), least)),
                false => begun,
            }
        };
        let plain = up_to(bytes, self.cut, at);
        let deeper = self.levels.iter().chain(&self.lowered).map(|level| {
            let begun = up_to(&level.bytes, level.cut, level.from(at));
            // Behind the last byte there may be an escape that is cut off.
            if begun == level.bytes.len() { bytes.len() } else { level.start(begun) }
        });
        deeper.fold(plain, usize::min)
    }
}

/// Never a value, and not how many there are.
impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrubber")
    }
}

#[cfg(test)]
#[path = "scrub_tests.rs"]
mod tests;
