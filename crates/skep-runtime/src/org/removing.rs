//! Agents are removed, with those below them: closed to new work, their work ended, their folders
//! out of sight, their rows gone, and then the folders. Once begun it always goes on, also after a
//! crash.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use skep_core::cause::CallRef;
use skep_core::event::CancelReason;
use skep_core::ids::{AgentName, Principal};
use skep_guard::clock;
use skep_store::ops::{self, OpStanding, OpenOp};
use skep_store::shutdown::{
    self, BeginShutdown, CheckShutdown, ClosingAgent, EndShutdown, EndWork, RemoveAgents,
};
use skep_store::{StoreError, tokens};

use super::leftovers;
use super::making::step;
use crate::door::FolderStep;
use crate::hive::{Hive, Shared};

/// Turns that are asked to end do so within this time.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Agents that somebody wants removed.
pub(crate) struct ShutdownOrder {
    /// The change: wanted again under this id, it happens once.
    pub op: String,
    pub name: AgentName,
    pub cascade: bool,
    /// The call that wants it; nobody: a person.
    pub call: Option<CallRef>,
    pub by: String,
}

impl ShutdownOrder {
    fn begin(&self) -> BeginShutdown {
        BeginShutdown {
            op: self.op.clone(),
            name: self.name.clone(),
            cascade: self.cascade,
            call: self.call.clone(),
            by: self.by.clone(),
            now: clock::now_ms(),
        }
    }
}

/// Whether the agents could be removed as things stand now.
pub(crate) async fn check(shared: &Shared, order: &ShutdownOrder) -> Result<(), ShutdownFailure> {
    match shared.store.write(CheckShutdown(order.begin())).await {
        Ok(None) => Ok(()),
        Ok(Some((code, why))) => Err(ShutdownFailure { code, why }),
        Err(error) => Err(ShutdownFailure::store(&error)),
    }
}

/// Why the agents are not removed, or not yet.
#[derive(Debug)]
pub(crate) struct ShutdownFailure {
    pub code: &'static str,
    pub why: String,
}

impl ShutdownFailure {
    fn store(error: &StoreError) -> Self {
        tracing::warn!(%error, "an agent is not removed: the store did not take it");
        let why = "the hive could not keep this now; call again later";
        Self { code: "store", why: why.to_owned() }
    }

    /// It was begun, and goes on by itself.
    fn unfinished(why: impl ToString) -> Self {
        let why = why.to_string();
        let why = format!("it is closed to new work, and its removal goes on later: {why}");
        Self { code: "unfinished", why }
    }
}

/// Removes agents; what came of it, also where that happened before. Goes on to its end though the
/// caller goes away.
pub(crate) async fn shut_down(
    shared: &Arc<Shared>,
    order: ShutdownOrder,
) -> Result<Value, ShutdownFailure> {
    let hive = Arc::clone(shared);
    let task = shared.tasks.spawn(async move { remove_now(&hive, order).await });
    task.await.unwrap_or_else(|_| Err(ShutdownFailure::unfinished("the hive is stopping")))
}

async fn remove_now(shared: &Arc<Shared>, order: ShutdownOrder) -> Result<Value, ShutdownFailure> {
    let _changing = shared.changing.lock().await;
    let begun = shared.store.write(order.begin()).await;
    match begun.map_err(|error| ShutdownFailure::store(&error))? {
        OpStanding::Begun | OpStanding::Unfinished => {}
        OpStanding::Done(result) => {
            return Ok(serde_json::from_str(&result).unwrap_or(Value::Null));
        }
        OpStanding::Refused { code, why } => return Err(ShutdownFailure { code, why }),
    }
    let op = OpenOp { id: order.op, name: order.name };
    let result = go_on(shared, &op, &order.by).await.map_err(|why| {
        leftovers::try_later(shared);
        ShutdownFailure::unfinished(why)
    })?;
    Ok(serde_json::from_str(&result).unwrap_or(Value::Null))
}

/// Brings to an end what a process before this one began.
pub(super) async fn finish_shutdowns(shared: &Arc<Shared>) {
    match shared.store.read(ops::shutdowns).await {
        Ok(open) => {
            for op in open {
                tracing::info!(agent = %op.name, "the removal of an agent goes on");
                if let Err(why) = go_on(shared, &op, "the hive").await {
                    tracing::error!(agent = %op.name, why, "an agent could not be removed");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "agents that are half removed were not looked for"),
    }
}

/// Every step after the first; each may be taken again. Gives the answer.
async fn go_on(shared: &Arc<Shared>, op: &OpenOp, by: &str) -> Result<String, String> {
    let failed = |error: StoreError| error.to_string();
    let read = shared.store.read(async |conn| shutdown::closing(conn, &op.id).await);
    let agents = read.await.map_err(failed)?;
    if !agents.is_empty() {
        for agent in &agents {
            shared.unfinished.add(&agent.name);
        }
        end_work(shared, op).await?;
        for ClosingAgent { agent, name, .. } in &agents {
            let (op, name, agent) = (op.id.clone(), name.clone(), *agent);
            step(shared, FolderStep::Retire { op, name, agent }).await?;
        }
        forget_secrets(shared, &agents, by).await?;
        let names: Vec<&AgentName> = agents.iter().map(|agent| &agent.name).collect();
        let result = json!({ "success": true, "status": "removed", "removed": names });
        let (op, by, result) = (op.id.clone(), by.to_owned(), result.to_string());
        let remove = RemoveAgents { op, by, result, now: clock::now_ms() };
        shared.store.write(remove).await.map_err(failed)?;
        for agent in &agents {
            shared.unfinished.remove(&agent.name);
        }
    }
    step(shared, FolderStep::Discard { op: op.id.clone() }).await?;
    let end = EndShutdown { op: op.id.clone(), now: clock::now_ms() };
    shared.store.write(end).await.map_err(failed)
}

/// Ends tasks, messages and turns, until there are none.
async fn end_work(shared: &Shared, op: &OpenOp) -> Result<(), String> {
    let since = Instant::now();
    loop {
        let end = EndWork { op: op.id.clone(), now: clock::now_ms() };
        let ended = shared.store.write(end).await.map_err(|error| error.to_string())?;
        shared.env().lanes.wake();
        if ended.more {
            continue;
        }
        if ended.turns.is_empty() {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("{} turns do not end", ended.turns.len()));
        }
        for turn in &ended.turns {
            shared.turns.end(turn, CancelReason::Stop);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What was only theirs opens nothing any more.
async fn forget_secrets(
    shared: &Arc<Shared>,
    agents: &[ClosingAgent],
    by: &str,
) -> Result<(), String> {
    let hive = Hive { shared: Arc::clone(shared) };
    let rows = shared.store.read(tokens::all).await.map_err(|error| error.to_string())?;
    for agent in agents {
        shared.vault.remove_owner(agent.agent.0).await.map_err(|error| error.to_string())?;
        let own = rows.iter().filter(|row| row.grant.agent == Some(agent.agent));
        for token in own.filter(|row| row.revoked_at.is_none()) {
            let revoked = hive.revoke_token(&token.id, &Principal::new(by)).await;
            revoked.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
