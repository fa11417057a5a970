//! The profiles a turn may ask: the one it was given, and those that stand in for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skep_core::Millis;
use skep_core::engine::{FailureCode, RetryCode, TurnEnd, TurnRequest};
use skep_core::message::{Block, Message};
use skep_core::provider::{ModelError, Provider};
use skep_core::settings::Profile;

pub(crate) struct Candidate {
    pub profile: Arc<Profile>,
    pub provider: Arc<dyn Provider>,
}

/// The turn's profile and its fallbacks, as far as they can be reached at all.
pub(crate) fn of(request: &TurnRequest) -> Vec<Candidate> {
    let all = std::iter::once(&request.profile).chain(&request.profile.fallback);
    let candidates = all.filter_map(|profile| {
        let provider = request.providers.get(&profile.name)?;
        Some(Candidate { profile: Arc::clone(profile), provider })
    });
    candidates.collect()
}

/// When each profile failed last. Locked for single map operations by all turns.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<String, Millis>>);

impl Failures {
    pub fn last(&self, profile: &str) -> Option<Millis> {
        self.lock().get(profile).copied()
    }

    pub fn note(&self, profile: &str, now: Millis) {
        self.lock().insert(profile.to_owned(), now);
    }

    pub fn forget(&self, profile: &str) {
        self.lock().remove(profile);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A profile that is not asked again in this step.
pub(crate) struct GivenUp {
    pub profile: String,
    pub error: ModelError,
    /// When its vendor takes requests again, where it said so.
    pub until: Option<Millis>,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile {}: {}", self.profile, self.error)
    }
}

/// What is left to do when nobody answered. What may pass soon comes before what passes at a
/// known time, and that before what does not pass.
pub(crate) fn end_of(given_up: Vec<GivenUp>) -> TurnEnd {
    let text = match given_up.as_slice() {
        // A name of a model or a key is wrong in one place.
        [
            GivenUp {
                profile,
                error: ModelError::NotFound { text } | ModelError::Auth { text },
                ..
            },
        ] => format!("{text} (profile {profile})"),
        [only] => only.error.to_string(),
        all => all.iter().map(GivenUp::to_string).collect::<Vec<_>>().join("; "),
    };
    let failed = |code, text| TurnEnd::Failed { code, text };
    match given_up.last().map(|last| &last.error) {
        Some(ModelError::Rejected { .. }) => return failed(FailureCode::ProviderRejected, text),
        Some(ModelError::ContextTooLong { .. }) => {
            let text = format!("{text}; start a new conversation with /new");
            return failed(FailureCode::ContextTooLong, text);
        }
        _ => {}
    }
    let code = given_up.iter().rev().find_map(|given| given.error.retry_code());
    let code = code.unwrap_or(RetryCode::Unavailable);
    let passing = |given: &&GivenUp| matches!(given.error, ModelError::Passing { .. });
    if given_up.iter().filter(passing).any(|given| given.until.is_none()) {
        return TurnEnd::Retry { code, text };
    }
    match given_up.iter().filter_map(|given| given.until).min() {
        Some(until) => TurnEnd::Park { until, code, reason: text },
        None if given_up.iter().any(|given| matches!(given.error, ModelError::Auth { .. })) => {
            failed(FailureCode::ProviderAuth, text)
        }
        None => failed(FailureCode::ProviderRejected, text),
    }
}

/// What another profile thought is not shown to this one: the signatures are bound to the vendor
/// and often to the key, and a request with foreign ones is refused.
pub(crate) fn without_foreign_thinking(rows: &[Arc<Message>], profile: &str) -> Vec<Arc<Message>> {
    let thinks =
        |block: &Block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. });
    let shown = rows.iter().map(|row| {
        let by = row.body.meta.as_ref().and_then(|meta| meta.profile.as_deref());
        let foreign = by.is_some_and(|by| by != profile);
        if !foreign || !row.body.content.iter().any(thinks) {
            return Arc::clone(row);
        }
        let mut row = Message::clone(row);
        row.body.content.retain(|block| !thinks(block));
        Arc::new(row)
    });
    shown.collect()
}

#[cfg(test)]
#[path = "candidates_tests.rs"]
mod tests;
