//! What a person does with a session, for the plans of its statements.

use skep_core::ids::*;

use super::Story;
use crate::leases::Lease;
use crate::sessions::{self, DeleteSession, EditSession};

impl Story {
    pub(super) async fn delete(&mut self, lease: &Lease) {
        let (agent, agent_name) = (self.agent, AgentName::new("main"));
        let session = SessionId::new("new");
        let edit = EditSession {
            agent,
            agent_name: agent_name.clone(),
            session: session.clone(),
            title: Some(String::new()),
            pinned: Some(true),
            archived: None,
            now: 9,
        };
        self.store.write(edit).await.unwrap();
        let read = self.store.read(async |conn| {
            assert_eq!(sessions::page(conn, agent, Some(false), None, 50).await?.len(), 4);
            assert_eq!(sessions::page_of_keys(conn, agent, "f", None, None, 9).await?.len(), 1);
            for agent in [None, Some(agent)] {
                assert!(!sessions::titled(conn, agent, "", 9, |_| true).await?.is_empty());
            }
            sessions::attachments(conn, &session).await
        });
        read.await.unwrap();
        for (session, busy) in [(lease.session.clone(), true), (session, false)] {
            let read = self.store.read(async |conn| sessions::parts(conn, &session).await);
            let delete = DeleteSession {
                agent,
                agent_name: agent_name.clone(),
                parts: read.await.unwrap(),
                session,
                principal: Principal::new("operator"),
                now: 9,
            };
            assert_eq!(self.store.write(delete).await.is_err(), busy);
        }
    }
}
