//! What a turn defers to its next commit: steps whose calls only looked, and the results of calls
//! that come to the same when they are made again. A crash loses nothing but the looking, after
//! which the model is asked again and may look elsewhere, and the results, which are had again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use skep_core::event::CallState;
use skep_core::message::{Message, history_tag};
use skep_store::journal::{Entry, cost_of};

use super::state::{Turn, TurnState};

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
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// How many rows wait.
    pub fn rows(&self) -> usize {
        self.entries.iter().filter_map(Entry::message).count()
    }

    /// What waits, and then these.
    pub fn with(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let waiting = std::mem::take(self);
        if waiting.entries.is_empty() {
            return entries;
        }
        waiting.entries.into_iter().chain(entries).collect()
    }

    /// When it has waited long enough.
    pub fn until(&self) -> Option<Instant> {
        self.since.map(|since| since + LONGEST_WAIT)
    }
}

impl Turn {
    /// Keeps a step for the next commit and gives its rows as they will be, but for their place;
    /// gives the step back where it is better written now.
    pub fn defer(
        &self,
        state: &mut TurnState,
        entries: Vec<Entry>,
    ) -> Result<Vec<Arc<Message>>, Vec<Entry>> {
        let bytes = cost_of(&entries);
        let deferred = &mut state.deferred;
        // Whoever wrote meanwhile joins the turn with this commit.
        if !entries.iter().all(may_wait)
            || (self.can_steer && self.running.has_arrivals())
            || deferred.bytes.saturating_add(bytes) > MOST_BYTES
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
            timestamp: self.env.now(),
            body: message.body.clone(),
        });
        let rows = rows.map(Arc::new).collect();
        deferred.entries.extend(entries);
        deferred.bytes += bytes;
        deferred.since.get_or_insert_with(Instant::now);
        Ok(rows)
    }
}

/// What a crash may undo: nobody outside has seen it, or its start is on the disk.
fn may_wait(entry: &Entry) -> bool {
    match entry {
        Entry::Assistant { .. } | Entry::Started { .. } | Entry::Note { .. } => true,
        Entry::Result { state, .. } => *state == CallState::Done,
        Entry::Queued
        | Entry::Unstarted { .. }
        | Entry::Seam { .. }
        | Entry::Approved { .. }
        | Entry::Seen { .. }
        | Entry::Asked { .. }
        | Entry::Expired { .. } => false,
    }
}
