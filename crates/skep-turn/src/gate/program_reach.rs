//! The network of programs that a call starts: the lists they live under, and the rows of the audit
//! trail about the hosts they ask for. It outlives the call where its program goes on.

use std::sync::Arc;

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::ids::{AgentId, AgentName, CallId};
use skep_core::policy::network::NetworkRules;
use skep_core::settings::SandboxNetwork;
use skep_core::tool::ProgramReach;
use skep_store::audit::AddAudit;

use skep_store::Store;
use skep_store::leases::Lease;

use crate::snapshot::SnapshotCell;

pub(crate) struct CallReach {
    pub snapshot: Arc<SnapshotCell>,
    pub store: Store,
    /// The wall clock.
    pub clock: fn() -> Millis,
    pub agent: AgentId,
    pub name: AgentName,
    /// All of a row but its host and verdict.
    pub row: AuditRow,
}

/// A row about a host that a program of the call asks for.
pub(crate) fn contact_row(lease: &Lease, agent: &AgentName, call: &CallId) -> AuditRow {
    AuditRow {
        principal: Some(lease.requester.principal.0.clone()),
        agent: Some(agent.0.clone()),
        agent_id: Some(lease.agent),
        session: Some(lease.session.0.clone()),
        turn: Some(lease.turn.0.clone()),
        call_id: Some(call.0.clone()),
        decision: "[]".to_owned(),
        ..AuditRow::new(AuditKind::Contact, 0, "")
    }
}

impl ProgramReach for CallReach {
    fn rules(&self) -> Arc<NetworkRules> {
        let agent = self.snapshot.current().agent(self.agent, &self.name).ok();
        // The network was taken away from commands, or the agent is gone: that holds for those that
        // run, too.
        let reaching = agent.filter(|agent| agent.sandbox.network != SandboxNetwork::None);
        reaching.map(|agent| Arc::clone(&agent.policy.network)).unwrap_or_default()
    }

    fn contact(&self, tool: &str, host: &str, verdict: &str) {
        let host = skep_scrub::known().clean(host);
        let row = AuditRow {
            at: (self.clock)(),
            tool: Some(tool.to_owned()),
            arguments: json!({ "host": host }).to_string(),
            outcome: verdict.to_owned(),
            ..self.row.clone()
        };
        let store = self.store.clone();
        // As it happens and not with the call's end, which a program may outlive.
        tokio::spawn(async move {
            if let Err(error) = store.write(AddAudit { row }).await {
                tracing::warn!(%error, "a host that a command asked for is not in the audit trail");
            }
        });
    }
}
