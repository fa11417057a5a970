//! The tools by which agents talk to each other and to the operator, as the gate sees them.

use std::sync::Arc;

use serde_json::Value;
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool};

use super::Organisation;
use super::ask;
use super::tool::{OrgCall, in_hive, read};

#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerAction {
    Ask,
    Answer,
}

pub(super) struct PeerTool {
    spec: ToolSpec,
    action: PeerAction,
    organisation: Arc<Organisation>,
}

impl PeerTool {
    pub fn all(organisation: &Arc<Organisation>) -> Vec<Self> {
        let tools = [
            (PeerAction::Ask, ask::ask_spec()),
            (PeerAction::Answer, ask::answer_spec()),
        ];
        let tool =
            |(action, spec)| Self { spec, action, organisation: Arc::clone(organisation) };
        tools.into_iter().map(tool).collect()
    }
}

impl Tool for PeerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.action {
            PeerAction::Ask | PeerAction::Answer => Manner::keyed(Class::Write),
        }
    }

    fn aliases(&self) -> &[&'static str] {
        match self.action {
            PeerAction::Ask => &["ask"],
            PeerAction::Answer => &[],
        }
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let (spec, organisation) = (&self.spec, &self.organisation);
        Ok(match self.action {
            PeerAction::Ask => {
                let arguments = read(spec, arguments)?;
                in_hive(organisation, |call| async move { ask::ask(&call, arguments).await })
            }
            PeerAction::Answer => {
                let arguments = read(spec, arguments)?;
                in_hive(organisation, |call| async move { ask::answer(&call, arguments).await })
            }
        })
    }
}

impl OrgCall {
    /// Whom the agent may write to now; nobody where it is not in the settings any more.
    pub fn recipients(&self) -> Vec<String> {
        let (id, name) = (self.context.agent_id, &self.context.agent);
        let agent = self.shared.snapshot().agent(id, name);
        agent.map(|agent| agent.allowed_recipients.clone()).unwrap_or_default()
    }
}
