//! The tools by which agents talk to each other, to the operator and to themselves, as the gate
//! sees them.

use std::sync::Arc;

use serde_json::Value;
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool};

use super::call::{Organisation, prepared, read};
use super::{ask, letters, reminders, threads};

#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerAction {
    Ask,
    Answer,
    Send,
    Recv,
    Remind,
    NextTurn,
    OpenThreads,
    CancelThread,
    WhoAmI,
    SetStatus,
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
            (PeerAction::Send, letters::send_spec()),
            (PeerAction::Recv, letters::recv_spec()),
            (PeerAction::Remind, reminders::remind_spec()),
            (PeerAction::NextTurn, reminders::next_turn_spec()),
            (PeerAction::OpenThreads, threads::open_spec()),
            (PeerAction::CancelThread, threads::cancel_spec()),
            (PeerAction::WhoAmI, threads::whoami_spec()),
            (PeerAction::SetStatus, threads::status_spec()),
        ];
        let tool = |(action, spec)| Self { spec, action, organisation: Arc::clone(organisation) };
        tools.into_iter().map(tool).collect()
    }
}

impl Tool for PeerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.action {
            PeerAction::Recv => Manner::TAKE,
            PeerAction::OpenThreads | PeerAction::WhoAmI => Manner::POLL,
            _ => Manner::keyed(Class::Write),
        }
    }

    fn aliases(&self) -> &[&'static str] {
        match self.action {
            PeerAction::Ask => &["ask"],
            PeerAction::Send => &["send"],
            _ => &[],
        }
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let (spec, organisation) = (&self.spec, &self.organisation);
        Ok(match self.action {
            PeerAction::Ask => {
                let arguments = read(spec, arguments)?;
                prepared(organisation, |call| async move { ask::ask(&call, arguments).await })
            }
            PeerAction::Answer => {
                let arguments = read(spec, arguments)?;
                prepared(organisation, |call| async move { ask::answer(&call, arguments).await })
            }
            PeerAction::Send => {
                let arguments = read(spec, arguments)?;
                prepared(organisation, |call| async move { letters::send(&call, arguments).await })
            }
            PeerAction::Recv => {
                let arguments = read(spec, arguments)?;
                prepared(organisation, |call| async move { letters::recv(&call, arguments).await })
            }
            PeerAction::Remind => {
                let arguments = read(spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { reminders::remind(&call, arguments).await },
                )
            }
            PeerAction::NextTurn => {
                let arguments = read(spec, arguments)?;
                prepared(organisation, |call| async move {
                    reminders::next_turn(&call, arguments).await
                })
            }
            PeerAction::OpenThreads => {
                let threads::NoArguments {} = read(spec, arguments)?;
                prepared(organisation, |call| async move { threads::open(&call).await })
            }
            PeerAction::CancelThread => {
                let arguments = read(spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { threads::cancel(&call, arguments).await },
                )
            }
            PeerAction::WhoAmI => {
                let threads::NoArguments {} = read(spec, arguments)?;
                prepared(organisation, |call| async move { threads::whoami(&call).await })
            }
            PeerAction::SetStatus => {
                let arguments = read(spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { threads::set_status(&call, arguments).await },
                )
            }
        })
    }
}
