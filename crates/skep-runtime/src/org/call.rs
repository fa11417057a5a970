//! A call of a tool at work in the hive, and how it is answered. Every refusal is an answer with
//! its reason.

use std::sync::{Arc, Weak};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Notify, SetOnce};

use skep_core::event::CancelReason;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Prepared, ToolAnswer, ToolContext};
use skep_store::assign::{Assign, Assigned};
use skep_store::cancel::CancelledTasks;
use skep_store::inbox::EndedTurn;
use skep_store::{Refusal, StoreError};

use crate::hive::Shared;

/// The tools of the organisation, made before the hive that they work in.
#[derive(Default)]
pub struct Organisation {
    pub(super) hive: SetOnce<Weak<Shared>>,
    /// Something has a time that was not known.
    pub(super) changed: Notify,
}

impl Organisation {
    /// The hive; nothing where it has ended.
    pub(super) async fn hive(&self) -> Option<Arc<Shared>> {
        self.hive.wait().await.upgrade()
    }

    /// Gives a task, and sees to what follows from it.
    pub(super) async fn assign(
        &self,
        shared: &Shared,
        assign: Assign,
    ) -> Result<Assigned, StoreError> {
        let assigned = shared.store.write(assign).await?;
        if let Assigned::Given { turns, new: true, .. } = &assigned {
            end_turns(shared, turns);
            self.changed.notify_one();
        }
        shared.env().lanes.wake();
        Ok(assigned)
    }
}

fn end_turns(shared: &Shared, turns: &[EndedTurn]) {
    for ended in turns {
        shared.turns.end(ended, CancelReason::Stop);
    }
}

pub(super) fn follow(shared: &Shared, cancelled: &CancelledTasks) {
    end_turns(shared, &cancelled.turns);
    shared.env().lanes.wake();
}

/// A call at work.
pub(super) struct OrgCall {
    pub organisation: Arc<Organisation>,
    pub shared: Arc<Shared>,
    pub context: ToolContext,
}

impl OrgCall {
    /// Whom the agent may write to now; nobody where it is not in the settings any more.
    pub fn recipients(&self) -> Vec<String> {
        let (id, name) = (self.context.agent_id, &self.context.agent);
        let agent = self.shared.snapshot().agent(id, name);
        agent.map(|agent| agent.allowed_recipients.clone()).unwrap_or_default()
    }
}

/// A call that works in the hive.
pub(super) fn prepared<F>(
    organisation: &Arc<Organisation>,
    work: impl FnOnce(OrgCall) -> F + Send + 'static,
) -> Prepared
where
    F: Future<Output = ToolAnswer> + Send + 'static,
{
    let organisation = Arc::clone(organisation);
    Box::new(move |context| {
        Box::pin(async move {
            match organisation.hive().await {
                Some(shared) => work(OrgCall { organisation, shared, context }).await,
                None => refused("stopping", "the hive is stopping"),
            }
        })
    })
}

pub(super) fn read<T: DeserializeOwned>(spec: &ToolSpec, arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("{}: {error}", spec.name))
}

pub(super) fn answered(value: &Value) -> ToolAnswer {
    ToolAnswer::ok(value.to_string())
}

pub(super) fn refused(code: &str, why: &str) -> ToolAnswer {
    ToolAnswer::error(json!({"success": false, "error": code, "reason": why}).to_string())
}

/// The store did not take it.
pub(super) fn failed(error: &StoreError) -> ToolAnswer {
    match error {
        StoreError::Refused(Refusal::Conflict { code, detail }) => return refused(code, detail),
        StoreError::Refused(Refusal::NotFound { what }) => {
            return refused("not_found", &format!("{what} does not exist"));
        }
        _ => {}
    }
    tracing::warn!(%error, "a tool of the organisation could not write");
    refused("store", "the hive could not keep this now; call again later")
}
