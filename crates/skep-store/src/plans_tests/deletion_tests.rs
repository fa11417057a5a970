//! What a person does with a session and with the vault, for the plans of their statements.

use skep_core::ids::*;
use skep_core::policy::network::HostEntry;
use skep_core::policy::vault::{VaultRow, VaultWrite};

use super::Story;
use crate::leases::Lease;
use crate::sessions::{self, DeleteSession, EditSession};
use crate::vault::{self, ChangeVault};

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

    /// What is written is read, and the last of it is gone.
    pub(super) async fn change_vault(&mut self) {
        let (owner, name) = (self.agent.0, "KEY".to_owned());
        let row = VaultRow {
            owner,
            name: name.clone(),
            key_id: "k1".into(),
            sealed: vec![1, 2],
            secret: true,
            hosts: vec![HostEntry::parse("*.example.org:8443").unwrap()],
            set_at: 5,
            used_at: None,
        };
        let other = VaultRow { key_id: "k2".into(), sealed: vec![3], ..row.clone() };
        let used = VaultRow { used_at: Some(6), ..other.clone() };
        let steps = [
            (VaultWrite::Put(row.clone()), vec![row]),
            (VaultWrite::Reseal(vec![other.clone()]), vec![other]),
            (VaultWrite::Used { owner, name: name.clone(), at: 6 }, vec![used.clone()]),
            (VaultWrite::RemoveOwner(owner + 1), vec![used]),
            (VaultWrite::Remove { owner, name }, vec![]),
        ];
        for (change, expected) in steps {
            let by = Some("operator".to_owned());
            self.store.write(ChangeVault { change, by, now: 7 }).await.unwrap();
            assert_eq!(self.store.read(vault::all).await.unwrap(), expected);
        }
    }
}
