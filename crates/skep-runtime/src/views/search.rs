//! Search over what was said.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use skep_core::ids::Principal;
use skep_core::query;
use skep_store::search::{self, Hit, IndexSpoken, MARK, Search};
use skep_store::sessions;

use crate::door::{Credential, DoorError, ErrorKind, SearchHit, SearchPage, SearchWish, Sight};
use crate::hive::{Hive, door_error};
use crate::views::sessions::{described, shown_title};

/// A search waits for no more rows than this; more there are only after an upgrade.
const ON_DEMAND: u32 = 1024;
/// A query that matches far too much is given up.
const LONGEST: Duration = Duration::from_secs(2);
/// Conversations that are found by their titles.
const MOST_TITLED: usize = 20;
/// Characters of an excerpt, and those of them before the first match.
const EXCERPT: usize = 240;
const LEAD: usize = 60;

impl Hive {
    /// Messages with all of these words, of the conversations in sight.
    pub async fn search(
        &self,
        wish: SearchWish,
        (reader, credential): (&Principal, &Credential),
        sight: &Sight,
    ) -> Result<SearchPage, DoorError> {
        let query = query::parse(&wish.query)
            .map_err(|why| DoorError::new(ErrorKind::Invalid, "bad_query", format!("{why}.")))?;
        if let (Sight::Agent(own), Some(other)) = (sight, &wish.agent)
            && self.shared.agent_id(other).ok() != Some(*own)
        {
            return Ok(SearchPage::default());
        }
        let agent = self.shared.only_agent(wish.agent.as_ref(), sight).await?;
        let unindexed = self.catch_up().await?;
        let expression = search::expression(&query.notation(), agent);
        let prefix = match sight {
            Sight::Keys { prefix, .. } => prefix.clone(),
            Sight::All | Sight::Agent(_) => String::new(),
        };
        let (began, before, limit) = (Instant::now(), wish.before, wish.limit);
        let read = self.shared.store.read_long(credential.name(), async move |conn| {
            let titled = match before {
                None => {
                    sessions::titled(conn, agent, &prefix, MOST_TITLED, |it| query.fits(it)).await?
                }
                Some(_) => Vec::new(),
            };
            let wanted = Search { expression: &expression, prefix: &prefix, before, limit };
            let hits = search::search(conn, wanted, move || began.elapsed() < LONGEST).await?;
            Ok(hits.map(|hits| (hits, titled)))
        });
        let Some((found, titled)) = read.await.map_err(door_error)? else {
            let text = "The words stand in too many messages to look through; add another one.";
            return Err(DoorError::new(ErrorKind::Invalid, "too_broad", text));
        };
        let full = u32::try_from(found.len()).is_ok_and(|count| count >= wish.limit);
        let before = found.last().filter(|_| full).map(|hit| hit.place);
        let hits = found.into_iter().map(|hit| {
            let sender = hit.principal.as_deref().and_then(|it| self.sender(it, reader));
            shown(hit, sender)
        });
        let hits = hits.collect();
        let conversations = titled.into_iter().map(|(agent, row)| described(&agent, row)).collect();
        let unindexed = (unindexed > 0).then_some(unindexed);
        Ok(SearchPage { hits, conversations, before, unindexed })
    }

    /// What others call whoever sent a message; nothing where that is the reader.
    pub(crate) fn sender(&self, principal: &str, reader: &Principal) -> Option<String> {
        let name = || self.shared.person(principal).name.unwrap_or_else(|| principal.to_owned());
        (principal != reader.as_str()).then(name)
    }

    /// Brings the index up to now where little is missing; how much still is. A store that
    /// cannot write leaves it where it is: what is in it can be found all the same.
    async fn catch_up(&self) -> Result<i64, DoorError> {
        let store = &self.shared.store;
        let behind = store.read(search::behind).await.map_err(door_error)?;
        if behind == 0 || behind > i64::from(ON_DEMAND) {
            return Ok(behind);
        }
        Ok(store.write(IndexSpoken { rows: ON_DEMAND }).await.unwrap_or(behind))
    }
}

fn shown(hit: Hit, sender: Option<String>) -> SearchHit {
    let (excerpt, excerpt_at, cut, marks) = excerpt(&hit.text, &hit.marked);
    SearchHit {
        agent: hit.agent,
        session: hit.session,
        session_key: hit.session_key,
        title: shown_title(hit.title),
        archived: hit.archived,
        seq: hit.seq,
        timestamp: hit.at,
        role: hit.role,
        sender,
        excerpt,
        excerpt_at,
        cut,
        marks,
    }
}

/// The part of the text around its first match; its place, whether more follows, its matches.
fn excerpt(text: &str, marked: &str) -> (String, usize, bool, Vec<(usize, usize)>) {
    let (text, marks) = hidden(text, marks(text, marked));
    let first = marks.first().map_or(0, |(at, _)| *at);
    let from = match first.checked_sub(LEAD) {
        None | Some(0) => 0,
        Some(from) => {
            // Not in the middle of a word, unless it has no beginning nearby.
            let lead = text.chars().skip(from).take(LEAD);
            let gap = lead.take_while(|c| !c.is_whitespace()).count();
            if gap < LEAD { from + gap + 1 } else { from }
        }
    };
    let mut rest = text.chars().skip(from);
    let shown: String = rest.by_ref().take(EXCERPT).collect();
    let end = from + shown.chars().count();
    let inside = marks.into_iter().filter(|(at, length)| *at >= from && at + length <= end);
    let inside = inside.map(|(at, length)| (at - from, length)).collect();
    (shown, from, rest.next().is_some(), inside)
}

/// The text without secrets, and the matches outside them where they stand then.
fn hidden(text: &str, marks: Vec<(usize, usize)>) -> (Cow<'_, str>, Vec<(usize, usize)>) {
    let places = skep_scrub::known().places(text);
    if places.is_empty() {
        return (Cow::Borrowed(text), marks);
    }
    let (mut clean, mut moved) = (String::with_capacity(text.len()), Vec::new());
    let mut marks = marks.into_iter().peekable();
    let (mut done, mut at) = (0, 0);
    let end = (text.len()..text.len(), String::new());
    for (place, marker) in places.into_iter().chain([end]) {
        let between = &text[done..place.start];
        let (shift, next) = (clean.chars().count(), at + between.chars().count());
        while let Some((from, length)) = marks.next_if(|(from, _)| *from < next) {
            if from >= at && from + length <= next {
                moved.push((from - at + shift, length));
            }
        }
        clean.push_str(between);
        clean.push_str(&marker);
        at = next + text[place.clone()].chars().count();
        done = place.end;
    }
    (Cow::Owned(clean), moved)
}

/// The matches in the text, by its characters: first and length.
fn marks(text: &str, marked: &str) -> Vec<(usize, usize)> {
    // A text that holds the marks itself cannot be told apart.
    if text.contains([MARK.0, MARK.1]) {
        return Vec::new();
    }
    let mut marks = Vec::new();
    let (mut at, mut began) = (0, 0);
    for character in marked.chars() {
        if character == MARK.0 {
            began = at;
        } else if character == MARK.1 {
            marks.push((began, at - began));
        } else {
            at += 1;
        }
    }
    marks
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
