//! Which live events a watcher asked for.

use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentName, SessionId, SessionKey};
use skep_core::message::View;
use skep_runtime::Hive;
use skep_runtime::door::{ActiveTurn, DoorError, HistoryQuery, SessionChoice};

/// Everything, one agent, or one conversation named by its id or its key.
#[derive(Debug, Default)]
pub(crate) struct EventFilter {
    agent: Option<AgentName>,
    session: Option<String>,
    /// The session the key leads to. Most events carry the id only, so it is learnt: at first from
    /// the hive, then from each turn that starts under the key.
    current: Option<SessionId>,
}

impl EventFilter {
    pub(crate) fn new(agent: Option<AgentName>, session: Option<String>) -> Self {
        Self { agent, session, current: None }
    }

    /// Finds the session behind the key, and the model call under way in it. An agent that is
    /// not there is refused: nothing would ever come.
    pub(crate) async fn resolve(&mut self, hive: &Hive) -> Result<Option<ActiveTurn>, DoorError> {
        if let Some(agent) = &self.agent {
            hive.check_agent(agent)?;
        }
        let (Some(agent), Some(session)) = (&self.agent, &self.session) else {
            return Ok(None);
        };
        let query = HistoryQuery {
            agent: agent.clone(),
            session: SessionChoice::Key(SessionKey::new(session.clone())),
            view: View::Simple,
            before: None,
            limit: 1,
        };
        let page = hive.history(query).await?;
        self.current = page.session;
        Ok(page.active)
    }

    pub(crate) fn admits(&mut self, event: &Event) -> bool {
        if self.agent.as_ref().is_some_and(|agent| *agent != event.agent) {
            return false;
        }
        let Some(wanted) = self.session.as_deref() else {
            return true;
        };
        match &event.kind {
            EventKind::TurnStart { session_key, .. } if session_key.as_str() == wanted => {
                self.current.clone_from(&event.session);
                true
            }
            EventKind::InboxAccepted { session_key, .. } if session_key.as_str() == wanted => true,
            _ => event.session.as_ref().is_some_and(|session| {
                session.as_str() == wanted || self.current.as_ref() == Some(session)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skep_core::ids::Token;

    fn event(agent: &str, session: &str, kind: EventKind) -> Event {
        Event {
            seq: Some(1),
            at: 0,
            agent: AgentName::new(agent),
            session: Some(SessionId::new(session)),
            turn: None,
            kind,
        }
    }

    fn updated() -> EventKind {
        EventKind::HistoryUpdated { first: 1, last: 1 }
    }

    fn start(key: &str) -> EventKind {
        EventKind::TurnStart {
            session_key: SessionKey::new(key),
            token: Token(1),
            from: "operator".to_owned(),
            body: "hi".to_owned(),
            resumed: false,
        }
    }

    #[test]
    fn by_agent() {
        let mut filter = EventFilter::new(Some(AgentName::new("main")), None);
        assert!(filter.admits(&event("main", "s", updated())));
        assert!(!filter.admits(&event("cto", "s", updated())));
        assert!(EventFilter::default().admits(&event("cto", "s", updated())));
    }

    #[test]
    fn by_session_id_or_by_a_key_that_moves_on() {
        let mut by_id = EventFilter::new(None, Some("s1".to_owned()));
        assert!(by_id.admits(&event("main", "s1", updated())));
        assert!(!by_id.admits(&event("main", "s2", updated())));

        let mut by_key = EventFilter::new(None, Some("desk".to_owned()));
        assert!(!by_key.admits(&event("main", "s1", updated())));
        assert!(by_key.admits(&event("main", "s1", start("desk"))));
        assert!(by_key.admits(&event("main", "s1", updated())));
        assert!(!by_key.admits(&event("main", "s2", start("other"))));
        assert!(by_key.admits(&event("main", "s2", start("desk"))));
        assert!(!by_key.admits(&event("main", "s1", updated())));
        assert!(by_key.admits(&event("main", "s2", updated())));
    }
}
