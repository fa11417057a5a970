//! Sessions whose last turn ended a moment ago, as their model was shown them: the next turn goes
//! on from there and reads nothing. Rows of history never change, so what is kept here is either
//! the newest or, told by the place of its last row, of no use.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use skep_core::ids::SessionId;
use skep_core::message::{Block, Message};
use skep_store::compactions::Compaction;

/// Of all sessions together; those nobody has used for longest go first.
const MOST_BYTES: usize = 8 << 20;
/// What a row takes besides its words.
const ROW_BYTES: usize = 700;

pub struct CachedSession {
    pub compaction: Option<Compaction>,
    /// Every row after it, without gaps.
    pub rows: Vec<Arc<Message>>,
    /// The version of the secrets that the rows were cleaned of.
    pub secrets: usize,
}

/// Locked to put one in or take one out.
#[derive(Default)]
pub struct SessionCache(Mutex<CacheEntries>);

#[derive(Default)]
struct CacheEntries {
    sessions: HashMap<SessionId, (u64, usize, CachedSession)>,
    /// In the order in which they were put in; one that was taken since has another number or none.
    order: VecDeque<(u64, SessionId)>,
    number: u64,
    bytes: usize,
}

impl SessionCache {
    /// The session up to the row before `next`.
    pub fn take(&self, session: &SessionId, next: i64, secrets: usize) -> Option<CachedSession> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = kept.remove(session)?;
        let last = cached.rows.last()?.seq;
        (last + 1 == next && cached.secrets == secrets).then_some(cached)
    }

    /// It was deleted.
    pub fn forget(&self, session: &SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    pub fn put(&self, session: SessionId, cached: CachedSession) {
        let gap = cached.rows.windows(2).any(|pair| pair[0].seq + 1 != pair[1].seq);
        // The bytes of files are kept once, in the store.
        let files = cached.rows.iter().any(|row| row.body.files().next().is_some());
        let bytes = cached.rows.iter().map(|row| size(row)).sum();
        if gap || files || bytes > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&session);
        kept.number += 1;
        let number = kept.number;
        kept.order.push_back((number, session.clone()));
        kept.sessions.insert(session, (number, bytes, cached));
        kept.bytes += bytes;
        kept.forget_oldest();
    }
}

impl CacheEntries {
    fn remove(&mut self, session: &SessionId) -> Option<CachedSession> {
        let (_, bytes, cached) = self.sessions.remove(session)?;
        self.bytes -= bytes;
        Some(cached)
    }

    fn forget_oldest(&mut self) {
        // Numbers of sessions that were taken meanwhile go as well, or the queue would grow.
        while self.bytes > MOST_BYTES || self.order.len() > 2 * self.sessions.len() + 16 {
            let Some((number, session)) = self.order.pop_front() else { return };
            if self.sessions.get(&session).is_some_and(|(kept, ..)| *kept == number) {
                if self.bytes > MOST_BYTES {
                    self.remove(&session);
                } else {
                    self.order.push_back((number, session));
                }
            }
        }
    }
}

fn size(row: &Message) -> usize {
    let words = row.body.content.iter().map(|block| match block {
        Block::Text { text } => text.len(),
        Block::Thinking { thinking, signature } => {
            thinking.len() + signature.as_ref().map_or(0, String::len)
        }
        Block::RedactedThinking { data } => data.len(),
        Block::ToolCall { arguments, .. } => 2 * arguments.to_string().len(),
        Block::File(_) => 0,
    });
    ROW_BYTES + words.sum::<usize>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use skep_core::ids::{AgentName, TurnId};
    use skep_core::message::{Body, history_tag};

    fn cached(seqs: std::ops::RangeInclusive<i64>, text: &str) -> CachedSession {
        let row = |seq| Message {
            tag: history_tag(),
            id: String::new(),
            agent_id: AgentName::new("main"),
            session_id: SessionId::new("s"),
            turn: TurnId::new("t"),
            seq,
            timestamp: 0,
            body: Body::assistant(vec![Block::text(text)], None),
        };
        CachedSession { compaction: None, rows: seqs.map(row).map(Arc::new).collect(), secrets: 1 }
    }

    #[test]
    fn core_a_cached_session_is_taken_once_and_only_where_it_is_the_newest() {
        let (recent, id) = (SessionCache::default(), SessionId::new("s"));
        recent.put(id.clone(), cached(1..=4, "word"));
        assert_eq!(recent.take(&id, 5, 1).unwrap().rows.len(), 4);
        assert!(recent.take(&id, 5, 1).is_none());
        recent.put(id.clone(), cached(1..=4, "word"));
        assert!(recent.take(&id, 6, 1).is_none(), "somebody wrote a row in between");
        recent.put(id.clone(), cached(1..=4, "word"));
        assert!(recent.take(&id, 5, 2).is_none(), "a secret became known");
        let mut gap = cached(1..=4, "word");
        gap.rows.remove(1);
        recent.put(id.clone(), gap);
        assert!(recent.take(&id, 5, 1).is_none());
    }

    #[test]
    fn core_the_sessions_kept_have_a_bound_and_the_oldest_go_first() {
        let recent = SessionCache::default();
        let text = "x".repeat(MOST_BYTES / 4);
        let id = |number: usize| SessionId::new(format!("s{number}"));
        for number in 0..5 {
            recent.put(id(number), cached(1..=1, &text));
        }
        let kept = |number| recent.take(&id(number), 2, 1).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(kept), [false, false, true, true, true]);
        for _ in 0..1000 {
            recent.put(id(0), cached(1..=1, "short"));
            recent.take(&id(0), 2, 1).unwrap();
        }
        let kept = recent.0.lock().unwrap();
        assert_eq!((kept.bytes, kept.sessions.len()), (0, 0));
        assert!(kept.order.len() <= 18, "{}", kept.order.len());
    }
}
