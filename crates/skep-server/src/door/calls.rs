//! Calls whose client may go away before the answer. Clients send a call again when they have
//! waited for too long; such a call is the first one, not another turn. A turn that nobody waits
//! for any more ends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skep_core::ids::{AgentName, ItemId, MessageId, Principal};
use skep_guard::{clock, random};
use skep_runtime::door::EarlierCall;
use tokio::time::Instant;

use crate::door::state::Doors;
use crate::request::header::OnClose;

/// How long clients are waited for. Tests shorten it.
#[derive(Clone, Copy, Debug)]
pub struct CallTimes {
    /// A turn goes on for this long after its client has gone.
    pub grace: Duration,
    /// The same call within this time after the first connection closed is the first call.
    pub join: Duration,
    /// An answer in one piece begins with its headers after this long.
    pub headers: Duration,
    /// Then white space keeps the connection alive, this often.
    pub space: Duration,
}

impl Default for CallTimes {
    /// Proxies give up after 60 s of silence, the fetch of Node after 300 s.
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(15),
            join: Duration::from_secs(60),
            headers: Duration::from_secs(25),
            space: Duration::from_secs(15),
        }
    }
}

/// Calls without a connection that are remembered at most; the oldest go first.
const REMEMBERED: usize = 4096;
/// Ids of calls begin with this.
const PREFIX: &str = "v1:";

/// A call by its parts: `v1:s:NONCE:DIGEST`, with `k` for one whose turn is kept. It is the
/// message id of its item, so that calls are known again after a restart. Nonces that are made here
/// grow with the time: rows that are written together lie on the same page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    on_close: OnClose,
    /// The same for the same token and body.
    digest: String,
    nonce: String,
}

impl CallId {
    pub(crate) fn new(on_close: OnClose, digest: String, nonce: Option<String>) -> Self {
        let nonce = nonce.unwrap_or_else(|| random::uuid().simple().to_string());
        Self { on_close, digest, nonce }
    }

    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(crate) fn message_id(&self) -> MessageId {
        let word = if self.on_close == OnClose::Stop { 's' } else { 'k' };
        MessageId(format!("{PREFIX}{word}:{}:{}", self.nonce, self.digest))
    }

    fn parse(id: &MessageId) -> Option<Self> {
        let mut parts = id.as_str().strip_prefix(PREFIX)?.split(':');
        let on_close = match parts.next()? {
            "s" => OnClose::Stop,
            "k" => OnClose::Keep,
            _ => return None,
        };
        let (nonce, digest) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        parts.next().is_none().then_some(Self { on_close, digest, nonce })
    }
}

/// Whose call it is.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) agent: AgentName,
    pub(crate) principal: Principal,
    /// Where its message id is not the id of the call.
    pub(crate) item: Option<ItemId>,
}

/// What a client says about its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Nothing.
    First,
    /// It is a repetition.
    Again,
    /// It has an id of its own, which decides alone.
    Named,
}

// A lock and not a task: an update is a few instructions and never waits.
pub(crate) struct Calls {
    pub(crate) times: CallTimes,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_digest: HashMap<String, Vec<Call>>,
    /// Calls without a connection in the order in which they were left.
    left: VecDeque<(Instant, CallId)>,
}

struct Call {
    id: CallId,
    /// Connections that wait for it.
    open: usize,
    joined: usize,
    /// Since when nobody has waited.
    left: Option<Instant>,
    /// The end was handed to a connection.
    delivered: bool,
    /// Its turn is being ended: nobody joins it any more.
    ending: bool,
}

impl Call {
    fn new(id: CallId) -> Self {
        Self { id, open: 1, joined: 0, left: None, delivered: false, ending: false }
    }

    /// How well the call that comes in fits this one; the lowest fits best.
    fn fits(&self, attempt: Attempt) -> Option<(u8, usize)> {
        let rank = match (self.open > 0, self.delivered) {
            _ if self.ending => return None,
            (false, false) => 0,
            // Two equal calls at once are two. Only a client that says so repeats a call whose
            // answer is on its way or has arrived: at a proxy that gave up on it.
            _ if attempt == Attempt::First => return None,
            (true, _) => 1,
            (false, true) => 2,
        };
        Some((rank, self.joined))
    }
}

impl Calls {
    pub(crate) fn new(times: CallTimes) -> Self {
        Self { times, known: Mutex::default() }
    }

    /// A call that comes in: one that is known already, or `id`.
    pub(crate) fn enter(
        &self,
        doors: &Doors,
        id: CallId,
        caller: Caller,
        attempt: Attempt,
    ) -> Presence {
        let mut known = self.lock();
        known.tidy(self.times.join);
        let calls = known.by_digest.entry(id.digest.clone()).or_default();
        let place = match attempt {
            Attempt::Named => calls.iter().position(|call| call.id == id && !call.ending),
            Attempt::First | Attempt::Again => {
                let fitting = calls.iter().enumerate();
                let fitting = fitting.filter_map(|(at, call)| Some((call.fits(attempt)?, at)));
                fitting.min().map(|(_, at)| at)
            }
        };
        let id = match place.and_then(|place| calls.get_mut(place)) {
            Some(call) => {
                call.open += 1;
                call.joined += 1;
                call.left = None;
                call.id.clone()
            }
            None => {
                calls.push(Call::new(id.clone()));
                id
            }
        };
        let joined = place.is_some();
        Presence { doors: Arc::clone(doors), id, caller, joined, delivered: false }
    }

    /// A connection that waits for a message of another door. With [`OnClose::Keep`] it only
    /// counts where an earlier one asked for the turn to be stopped.
    pub(crate) fn watch(
        &self,
        doors: &Doors,
        principal: &Principal,
        (agent, item): (&AgentName, &ItemId),
        on_close: OnClose,
    ) -> Option<Presence> {
        let id = CallId::new(OnClose::Stop, item.0.clone(), Some(String::new()));
        if on_close == OnClose::Keep && self.lock().find(&id).is_none() {
            return None;
        }
        let (agent, principal) = (agent.clone(), principal.clone());
        let caller = Caller { agent, principal, item: Some(item.clone()) };
        Some(self.enter(doors, id, caller, Attempt::Named))
    }

    /// Takes up the calls of the run before: their connections closed with it.
    pub(crate) async fn adopt(&self, doors: &Doors) {
        let join = i64::try_from(self.times.join.as_millis()).unwrap_or(i64::MAX);
        let since = clock::now_ms().saturating_sub(join);
        let earlier = match doors.hive.earlier_calls(PREFIX, since).await {
            Ok(earlier) => earlier,
            Err(error) => {
                tracing::warn!(%error, "calls of the run before cannot be read");
                return;
            }
        };
        for EarlierCall { call, agent, principal, ended } in earlier {
            let Some(id) = CallId::parse(&call) else { continue };
            let mut taken = Call::new(id.clone());
            // Most probably; a client that says it asks again has it all the same.
            taken.delivered = ended;
            self.lock().by_digest.entry(id.digest.clone()).or_default().push(taken);
            drop(Presence {
                doors: Arc::clone(doors),
                id,
                caller: Caller { agent, principal, item: None },
                joined: true,
                delivered: ended,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&mut self, id: &CallId) -> Option<&mut Call> {
        self.by_digest.get_mut(&id.digest)?.iter_mut().find(|call| call.id == *id)
    }

    fn forget(&mut self, id: &CallId) {
        if let Some(calls) = self.by_digest.get_mut(&id.digest) {
            calls.retain(|call| call.id != *id);
            if calls.is_empty() {
                self.by_digest.remove(&id.digest);
            }
        }
    }

    /// Forgets calls that nobody can join any more.
    fn tidy(&mut self, join: Duration) {
        while let Some((at, id)) = self.left.front() {
            if at.elapsed() <= join && self.left.len() <= REMEMBERED {
                return;
            }
            let (at, id) = (*at, id.clone());
            self.left.pop_front();
            if self.find(&id).is_some_and(|call| call.left == Some(at)) {
                self.forget(&id);
            }
        }
    }

    /// One connection less. When it was the last: since when nobody waits for an answer.
    fn leave(&mut self, id: &CallId, delivered: bool) -> Option<Instant> {
        let call = self.find(id)?;
        call.open = call.open.saturating_sub(1);
        call.delivered |= delivered;
        if call.open > 0 {
            return None;
        }
        let now = Instant::now();
        call.left = Some(now);
        let waits = !call.delivered;
        self.left.push_back((now, id.clone()));
        waits.then_some(now)
    }
}

/// A connection that waits for a call. Dropped before the end was delivered, it was closed.
pub(crate) struct Presence {
    doors: Doors,
    id: CallId,
    caller: Caller,
    joined: bool,
    delivered: bool,
}

impl Presence {
    pub(crate) fn id(&self) -> &CallId {
        &self.id
    }

    /// The end is on its way to the client.
    pub(crate) fn delivered(&mut self) {
        self.delivered = true;
    }

    /// The call was not accepted: there is nothing to join.
    pub(crate) fn refused(&mut self) {
        if !self.joined {
            self.doors.calls.lock().forget(&self.id);
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let left = self.doors.calls.lock().leave(&self.id, self.delivered);
        let Some(left) = left else { return };
        // A hive that stops goes on with it at the next start, and counts anew.
        if self.id.on_close == OnClose::Keep || self.doors.closing.is_cancelled() {
            return;
        }
        let gone = Gone { id: self.id.clone(), caller: self.caller.clone(), left };
        let doors = Arc::clone(&self.doors);
        self.doors.tasks.spawn(async move { gone.wait_and_end(&doors).await });
    }
}

/// A call that nobody waits for.
struct Gone {
    id: CallId,
    caller: Caller,
    left: Instant,
}

impl Gone {
    async fn wait_and_end(self, doors: &Doors) {
        let calls = &doors.calls;
        tokio::select! {
            () = tokio::time::sleep(calls.times.grace) => {}
            () = doors.closing.cancelled() => return,
        }
        match calls.lock().find(&self.id) {
            Some(call) if call.left != Some(self.left) => return,
            Some(call) => call.ending = true,
            // Forgotten, because so many others were left since: nobody can join it.
            None => {}
        }
        let Caller { agent, principal, item } = &self.caller;
        let id = item.as_ref().map_or_else(|| self.id.message_id().0, |item| item.0.clone());
        match doors.hive.client_gone(agent, &id, principal).await {
            // It ended by itself in time: whoever asks again finds that.
            Ok(false) => {
                if let Some(call) = calls.lock().find(&self.id) {
                    call.ending = false;
                }
            }
            Ok(true) => calls.lock().forget(&self.id),
            Err(error) => {
                tracing::warn!(%error, "a turn whose client has gone was not ended");
                calls.lock().forget(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_again() {
        let made = || {
            let digest = "d1".to_owned();
            [
                CallId::new(OnClose::Stop, digest.clone(), None),
                CallId::new(OnClose::Keep, digest, Some("n1".to_owned())),
            ]
        };
        for id in made() {
            assert_eq!(CallId::parse(&id.message_id()), Some(id));
        }
        assert_ne!(made()[0], made()[0], "each call without a key is one of its own");
        for other in ["", "v1:", "v1:s:d", "v1:x:d:n", "v1:s:d:n:more", "v2:s:d:n"] {
            assert_eq!(CallId::parse(&MessageId::new(other)), None, "{other}");
        }
    }

    #[test]
    fn which_call_is_meant() {
        let id = || CallId::new(OnClose::Stop, "d".to_owned(), None);
        let call = |open, delivered, ending| Call {
            id: id(),
            open,
            joined: 0,
            left: None,
            delivered,
            ending,
        };
        // (open, delivered, ending), and what a first and a repeated call make of it.
        let cases = [
            ((0, false, false), Some(0), Some(0)),
            ((1, false, false), None, Some(1)),
            ((0, true, false), None, Some(2)),
            ((0, false, true), None, None),
        ];
        for ((open, delivered, ending), first, again) in cases {
            let rank = |attempt| call(open, delivered, ending).fits(attempt).map(|(rank, _)| rank);
            let found = (rank(Attempt::First), rank(Attempt::Again));
            assert_eq!(found, (first, again), "{open} {delivered} {ending}");
        }
    }

    #[test]
    fn what_nobody_can_join_is_forgotten() {
        let mut known = Known::default();
        let ids: Vec<CallId> = (0..REMEMBERED + 2)
            .map(|number| CallId::new(OnClose::Stop, number.to_string(), None))
            .collect();
        for id in &ids {
            known.by_digest.entry(id.digest.clone()).or_default().push(Call::new(id.clone()));
        }
        // The first is open again when its turn comes to be forgotten.
        for id in &ids {
            assert!(known.leave(id, false).is_some());
        }
        if let Some(call) = known.find(&ids[0]) {
            call.left = None;
        }
        known.tidy(Duration::from_secs(60));
        assert!(known.find(&ids[0]).is_some() && known.find(&ids[1]).is_none());
        assert_eq!(known.by_digest.len(), REMEMBERED + 1);
        known.tidy(Duration::ZERO);
        assert_eq!(known.by_digest.len(), 1, "only the open one is left");
    }
}
