//! `kill`, `start`, `restart`: what managers do with the agents directly below them.

use serde_json::json;

use skep_core::ids::Principal;
use skep_core::tool::ToolAnswer;
use skep_store::teams::GuardTeam;

use super::arguments::AgentArguments;
use super::tool::{OrgCall, answered, failed, refused};
use crate::hive::Hive;
use crate::people::life_cycle::LifeCycle;

pub(super) async fn run(call: OrgCall, arguments: AgentArguments, change: LifeCycle) -> ToolAnswer {
    let AgentArguments { agent } = arguments;
    if agent == call.context.agent {
        return refused("itself", "nobody does this to itself");
    }
    if !call.is_manager() {
        return refused("not_manager", "only an agent with `manager: true` may do this");
    }
    let guard = GuardTeam { call: call.context.reference(), team: agent.clone() };
    match call.shared.store.write(guard).await {
        Ok(None) => {}
        Ok(Some((code, why))) => return refused(code, &why),
        Err(error) => return failed(&error),
    }
    let hive = Hive { shared: std::sync::Arc::clone(&call.shared) };
    let by = Principal(format!("agent:{}", call.context.agent));
    match hive.change_life(&agent, change, &by).await {
        Ok(changed) => answered(&json!({"success": true, "agent": agent, "changed": changed})),
        Err(error) => refused(error.code, &error.text),
    }
}
