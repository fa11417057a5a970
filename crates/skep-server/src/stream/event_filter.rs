//! Which live events a watcher asked for.

use std::collections::HashMap;

use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, SessionId, SessionKey};
use skep_core::message::View;
use skep_runtime::Hive;
use skep_runtime::door::{ActiveTurn, Credential, DoorError, HistoryQuery, SessionChoice, Sight};

/// Sessions whose key is remembered, for a watcher that does not see all of them.
const REMEMBERED: usize = 4096;

/// Everything one may see, one agent, or one conversation named by its id or its key.
#[derive(Debug)]
pub(crate) struct EventFilter {
    agent: Option<AgentName>,
    /// Of the agent that had the name when it was asked for.
    agent_id: Option<AgentId>,
    session: Option<String>,
    /// The session the key leads to. Most events carry the id only, so it is learnt: at first from
    /// the hive, then from each turn that starts under the key.
    current: Option<SessionId>,
    sight: Sight,
    /// Which sessions the watcher sees: events carry the id, and its key decides.
    seen: HashMap<SessionId, bool>,
}

impl EventFilter {
    pub(crate) fn new(agent: Option<AgentName>, session: Option<String>, sight: Sight) -> Self {
        Self { agent, agent_id: None, session, current: None, sight, seen: HashMap::new() }
    }

    /// Finds the session behind the key, and the model call under way in it. An agent that is
    /// not there is refused: nothing would ever come.
    pub(crate) async fn resolve(
        &mut self,
        hive: &Hive,
        credential: &Credential,
    ) -> Result<Option<ActiveTurn>, DoorError> {
        if let Some(agent) = &self.agent {
            self.agent_id = Some(hive.agent_id(agent)?);
        }
        let (Some(agent), Some(session)) = (&self.agent, &self.session) else { return Ok(None) };
        let query = HistoryQuery {
            agent: agent.clone(),
            session: SessionChoice::Key(self.key(session)),
            view: View::Simple,
            before: None,
            after: None,
            limit: 1,
        };
        let page = hive.history(query, credential, &self.sight).await?;
        self.current = page.session;
        Ok(page.active)
    }

    /// Users name their conversations without what sets them apart from others'.
    fn key(&self, named: &str) -> SessionKey {
        match &self.sight {
            Sight::Keys { prefix, .. } if !named.starts_with(prefix.as_str()) => {
                SessionKey::new(format!("{prefix}{named}"))
            }
            _ => SessionKey::new(named),
        }
    }

    pub(crate) async fn admits(&mut self, hive: &Hive, event: &Event) -> bool {
        self.asked_for(event) && self.sees(hive, event).await
    }

    fn asked_for(&mut self, event: &Event) -> bool {
        if self.agent.is_some() && self.agent_id != event.agent_id {
            return false;
        }
        let Some(wanted) = self.session.as_deref() else { return true };
        let key = self.key(wanted);
        match &event.kind {
            EventKind::TurnStart { session_key, .. } if *session_key == key => {
                self.current.clone_from(&event.session);
                true
            }
            EventKind::InboxAccepted { session_key, .. }
            | EventKind::QuestionAsked { session_key, .. }
                if *session_key == key =>
            {
                true
            }
            _ => event.session.as_ref().is_some_and(|session| {
                session.as_str() == wanted || self.current.as_ref() == Some(session)
            }),
        }
    }

    async fn sees(&mut self, hive: &Hive, event: &Event) -> bool {
        match &self.sight {
            Sight::All => return true,
            Sight::Agent(own) => return event.agent_id == Some(*own),
            Sight::Keys { .. } => {}
        }
        // How an agent fares concerns whoever talks to it. Whatever else belongs to no
        // conversation is for those who see all.
        if matches!(event.kind, EventKind::Status { .. }) {
            return true;
        }
        if let Some(seen) = event.session.as_ref().and_then(|session| self.seen.get(session)) {
            return *seen;
        }
        let key = match hive.key_of(event).await {
            Ok(key) => key,
            Err(error) => {
                tracing::warn!(%error, "an event is held back: its conversation cannot be read");
                return false;
            }
        };
        let seen = key.zip(event.agent_id).is_some_and(|(key, id)| self.sight.covers(id, &key));
        if let Some(session) = &event.session {
            if self.seen.len() >= REMEMBERED {
                self.seen.clear();
            }
            self.seen.insert(session.clone(), seen);
        }
        seen
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
            agent_id: Some(AgentId(if agent == "main" { 1 } else { 2 })),
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
        let mut filter = EventFilter::new(Some(AgentName::new("main")), None, Sight::All);
        filter.agent_id = Some(AgentId(1));
        assert!(filter.asked_for(&event("main", "s", updated())));
        let namesake = Event { agent_id: Some(AgentId(3)), ..event("main", "s", updated()) };
        assert!(!filter.asked_for(&namesake));
        assert!(!filter.asked_for(&event("cto", "s", updated())));
        assert!(EventFilter::new(None, None, Sight::All).asked_for(&event("cto", "s", updated())));
    }

    #[test]
    fn by_session_id_or_by_a_key_that_moves_on() {
        let mut by_id = EventFilter::new(None, Some("s1".to_owned()), Sight::All);
        assert!(by_id.asked_for(&event("main", "s1", updated())));
        assert!(!by_id.asked_for(&event("main", "s2", updated())));

        let mut by_key = EventFilter::new(None, Some("desk".to_owned()), Sight::All);
        assert!(!by_key.asked_for(&event("main", "s1", updated())));
        assert!(by_key.asked_for(&event("main", "s1", start("desk"))));
        assert!(by_key.asked_for(&event("main", "s1", updated())));
        assert!(!by_key.asked_for(&event("main", "s2", start("other"))));
        assert!(by_key.asked_for(&event("main", "s2", start("desk"))));
        assert!(!by_key.asked_for(&event("main", "s1", updated())));
        assert!(by_key.asked_for(&event("main", "s2", updated())));
    }
}
