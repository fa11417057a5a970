//! What a turn holds back for its next commit: steps whose calls only looked. A crash loses nothing
//! but the looking; the model is asked again and may look elsewhere.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use skep_core::event::CallState;
use skep_core::message::{Message, history_tag};
use skep_guard::clock;
use skep_store::journal::{Entry, cost_of};

use crate::turn::Turn;
use crate::turn::persist::Lost;
use crate::turn::step::Steer;

/// An answer of the model that takes longer finds what led to it on the disk.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// More is written at once.
const MOST_BYTES: usize = 256 * 1024;

#[derive(Default)]
pub(crate) struct DeferredSteps {
    entries: Vec<Entry>,
    bytes: usize,
    since: Option<Instant>,
}

impl DeferredSteps {
    /// Whether these can wait with what waits already.
    fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= MOST_BYTES
    }
}

impl Turn {
    /// Keeps a step for the next commit and gives its rows as they will be, but for their place;
    /// gives the step back where it is better written now.
    pub(crate) fn defer(&self, entries: Vec<Entry>) -> Result<Vec<Arc<Message>>, Vec<Entry>> {
        let bytes = cost_of(&entries);
        let mut deferred = self.deferred();
        // Whoever wrote meanwhile joins the turn with this commit.
        if !entries.iter().all(may_wait)
            || (self.can_steer && self.running.has_arrivals())
            || !deferred.has_room_for(bytes)
        {
            return Err(entries);
        }
        let rows = entries.iter().filter_map(Entry::message).map(|message| Message {
            tag: history_tag(),
            id: message.id.clone(),
            agent_id: self.agent.name.clone(),
            session_id: self.lease.session.clone(),
            turn: self.lease.turn.clone(),
            seq: 0,
            timestamp: clock::now_ms(),
            body: message.body.clone(),
        });
        let rows = rows.map(Arc::new).collect();
        deferred.entries.extend(entries);
        deferred.bytes += bytes;
        deferred.since.get_or_insert_with(Instant::now);
        Ok(rows)
    }

    /// How many rows are deferred.
    pub(crate) fn deferred_rows(&self) -> usize {
        self.deferred().entries.iter().filter_map(Entry::message).count()
    }

    /// What is deferred, and then these.
    pub(crate) fn with_deferred(&self, entries: Vec<Entry>) -> Vec<Entry> {
        let deferred = std::mem::take(&mut *self.deferred());
        if deferred.entries.is_empty() {
            return entries;
        }
        deferred.entries.into_iter().chain(entries).collect()
    }

    /// When it has been deferred long enough.
    pub(crate) fn deferred_until(&self) -> Option<Instant> {
        self.deferred().since.map(|since| since + LONGEST_WAIT)
    }

    /// Before the model's next words: whoever watches is told things in the order they happened.
    pub(crate) async fn write_deferred_for_watchers(&self) -> Result<(), Lost> {
        if self.shared.bus.is_watched() { self.write_deferred().await } else { Ok(()) }
    }

    pub(crate) async fn write_deferred(&self) -> Result<(), Lost> {
        if self.deferred().since.is_some() {
            self.persist(self.journal(Vec::new(), Steer::No)).await?;
        }
        Ok(())
    }
}

/// What a crash may undo: nobody outside has seen it, and nothing was used up.
fn may_wait(entry: &Entry) -> bool {
    match entry {
        Entry::Assistant { .. } | Entry::Started { .. } | Entry::Note { .. } => true,
        Entry::Result { state, .. } => *state == CallState::Done,
        Entry::Queued
        | Entry::Unstarted { .. }
        | Entry::Seam { .. }
        | Entry::Approved { .. }
        | Entry::Expired { .. } => false,
    }
}
