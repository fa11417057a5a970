//! How long something may go on that a session started and that outlasts its turns: until the
//! session is stopped, is followed by a new one, its agent is gone, or the hive stops. That of a
//! subagent ends with its one turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use skep_core::ids::{AgentId, SessionId, SessionKey};
use skep_store::leases::Lease;

/// Beyond this many entries those that nobody holds any more are let go.
const PRUNED_FROM: usize = 1024;

/// Locked for single operations on the map.
#[derive(Default)]
pub struct SessionScopes {
    lanes: Mutex<HashMap<(AgentId, SessionKey), SessionScope>>,
}

struct SessionScope {
    session: SessionId,
    token: Weak<CancellationToken>,
}

impl SessionScope {
    fn end(&self) {
        if let Some(token) = self.token.upgrade() {
            token.cancel();
        }
    }
}

impl SessionScopes {
    /// The scope of a session. Another session in the same lane has ended with this.
    pub fn of(
        &self,
        agent: AgentId,
        key: &SessionKey,
        session: &SessionId,
        hive: &CancellationToken,
    ) -> Arc<CancellationToken> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = (agent, key.clone());
        if let Some(scope) = lanes.get(&lane) {
            match scope.token.upgrade() {
                Some(token) if scope.session == *session => return token,
                _ => scope.end(),
            }
        }
        if lanes.len() >= PRUNED_FROM {
            lanes.retain(|_, scope| scope.token.strong_count() > 0);
        }
        let token = Arc::new(hive.child_token());
        let scope = SessionScope { session: session.clone(), token: Arc::downgrade(&token) };
        lanes.insert(lane, scope);
        token
    }

    /// A turn of this session begins: what another session of the lane has running ends.
    pub fn begin(&self, agent: AgentId, key: &SessionKey, session: &SessionId) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let scope = lanes.get(&(agent, key.clone()));
        if let Some(scope) = scope.filter(|scope| scope.session != *session) {
            scope.end();
        }
    }

    /// Ends what agents have running that are not among these any more.
    pub fn keep(&self, stays: impl Fn(AgentId) -> bool) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|(agent, _), scope| {
            let stays = stays(*agent);
            if !stays {
                scope.end();
            }
            stays
        });
    }

    /// Ends what the lane's session has running.
    pub fn end(&self, agent: AgentId, key: &SessionKey) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = lanes.remove(&(agent, key.clone())) {
            scope.end();
        }
    }

    /// Nobody comes back to the session of a subagent: what it has running ends with its turn.
    pub fn end_subagent(&self, lease: &Lease) {
        if lease.options.subagent.is_some() {
            self.end(lease.agent, &lease.session_key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_with_its_session_and_with_the_hive() {
        let (scopes, hive) = (SessionScopes::default(), CancellationToken::new());
        let of = |key: &str, session: &str| {
            let (agent, key) = (AgentId(1), SessionKey::new(key));
            scopes.of(agent, &key, &SessionId::new(session), &hive)
        };
        let first = of("a", "1");
        let other = of("b", "2");
        assert!(!of("a", "1").is_cancelled(), "the same session goes on");
        let begin = |key: &str, session: &str| {
            let (agent, key) = (AgentId(1), SessionKey::new(key));
            scopes.begin(agent, &key, &SessionId::new(session));
        };
        begin("a", "1");
        assert!(!first.is_cancelled());
        begin("a", "3");
        assert!(first.is_cancelled());
        let second = of("a", "3");
        assert!(first.is_cancelled() && !second.is_cancelled() && !other.is_cancelled());
        scopes.end(AgentId(1), &SessionKey::new("a"));
        assert!(second.is_cancelled() && !other.is_cancelled());
        assert!(!of("a", "3").is_cancelled(), "what is started after a stop may run");
        scopes.keep(|agent| agent == AgentId(1));
        assert!(!other.is_cancelled());
        scopes.keep(|_| false);
        assert!(other.is_cancelled(), "its agent is gone");
        let last = of("a", "4");
        hive.cancel();
        assert!(last.is_cancelled());
    }
}
