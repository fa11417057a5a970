//! A new agent, all or nothing: on record, files, row, vault, files in their place, in force, and
//! its first item. Whatever fails undoes what was done before it, and so does a start after a
//! crash.

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use skep_core::ids::{AgentName, ItemId, TurnId};
use skep_guard::vault::{NewVaultEntry, Owner};
use skep_guard::{clock, random};
use skep_store::StoreError;
use skep_store::ops::{self, OpStanding, OpenOp};
use skep_store::spawn::{
    BeginSpawn, BeginUndo, Bootstrap, CheckSpawn, FinishSpawn, PlaceSpawned, Spawner, UndoSpawn,
};

use super::leftovers;
use crate::door::{AgentDraft, FileWriters, FolderStep};
use crate::hive::Shared;

/// An agent that somebody wants.
pub(crate) struct SpawnOrder {
    /// The change: wanted again under this id, it happens once.
    pub op: String,
    pub draft: AgentDraft,
    /// What it takes work for.
    pub words: Vec<String>,
    pub credentials: Vec<(String, SecretString)>,
    pub spawner: Spawner,
    /// Who wants it, for the audit trail.
    pub by: String,
    /// Whoever wanted it does not any more.
    pub cancel: CancellationToken,
}

impl SpawnOrder {
    fn begin(&self) -> BeginSpawn {
        BeginSpawn {
            op: self.op.clone(),
            name: self.draft.name.clone(),
            spawner: self.spawner.clone(),
            by: self.by.clone(),
            now: clock::now_ms(),
        }
    }
}

/// Whether the agent could be made as things stand now.
pub(crate) async fn check(shared: &Shared, order: &SpawnOrder) -> Result<(), SpawnFailure> {
    match shared.store.write(CheckSpawn(order.begin())).await {
        Ok(None) => Ok(()),
        Ok(Some((code, why))) => Err(SpawnFailure { code, step: None, why }),
        Err(error) => Err(SpawnFailure::store(&error)),
    }
}

/// Why there is no new agent.
#[derive(Debug)]
pub(crate) struct SpawnFailure {
    pub code: &'static str,
    /// What failed; nothing where it was not begun.
    pub step: Option<&'static str>,
    pub why: String,
}

impl SpawnFailure {
    fn at(step: &'static str, why: impl ToString) -> Self {
        Self { code: "spawn_failed", step: Some(step), why: why.to_string() }
    }

    fn store(error: &StoreError) -> Self {
        tracing::warn!(%error, "an agent is not made: the store did not take it");
        let why = "the hive could not keep this now; call again later";
        Self { code: "store", step: None, why: why.to_owned() }
    }
}

/// Makes an agent; what came of it, also where it was made before. Goes on to its end though the
/// caller goes away.
pub(crate) async fn spawn(shared: &Arc<Shared>, order: SpawnOrder) -> Result<Value, SpawnFailure> {
    let hive = Arc::clone(shared);
    let task = shared.tasks.spawn(async move { spawn_now(&hive, order).await });
    task.await.unwrap_or_else(|_| Err(SpawnFailure::at("begin", "the hive is stopping")))
}

async fn spawn_now(shared: &Arc<Shared>, order: SpawnOrder) -> Result<Value, SpawnFailure> {
    // One change of the tree at a time: what is open in the store is nobody's but ours.
    let _changing = shared.changing.lock().await;
    undo_spawns(shared).await;
    match shared.store.write(order.begin()).await.map_err(|error| SpawnFailure::store(&error))? {
        OpStanding::Begun => {}
        OpStanding::Done(result) => return Ok(read(&result)),
        OpStanding::Unfinished => {
            let why = "an earlier try could not be undone; call again";
            return Err(SpawnFailure::at("undo", why));
        }
        OpStanding::Refused { code, why } => {
            return Err(SpawnFailure { code, step: None, why });
        }
    }
    shared.unfinished.add(&order.draft.name);
    let made = make(shared, &order).await;
    let op = OpenOp { id: order.op, name: order.draft.name };
    let result = match made {
        Ok(result) => result,
        Err(failure) => {
            tracing::warn!(agent = %op.name, step = failure.step, "an agent was not made");
            match undo(shared, &op).await {
                Undone::Gone => return Err(failure),
                Undone::NotYet => {
                    leftovers::try_later(shared);
                    return Err(failure);
                }
                // The last step had counted, though nobody could say so then.
                Undone::Made(result) => read(&result),
            }
        }
    };
    shared.unfinished.remove(&op.name);
    shared.env().lanes.wake();
    let settle = FolderStep::Settle { op: op.id, name: op.name };
    if let Err(why) = step(shared, settle).await {
        tracing::warn!(why, "a new agent's folder keeps the mark of its making");
    }
    Ok(result)
}

fn read(result: &str) -> Value {
    serde_json::from_str(result).unwrap_or(Value::Null)
}

/// Every step after the first; none of them leaves anything that [`undo`] does not find.
async fn make(shared: &Shared, order: &SpawnOrder) -> Result<Value, SpawnFailure> {
    let (op, draft) = (&order.op, &order.draft);
    let name = &draft.name;
    let stage = FolderStep::Stage { op: op.clone(), draft: draft.clone() };
    step(shared, stage).await.map_err(|why| SpawnFailure::at("files", why))?;
    let (words, now) = (order.words.clone(), clock::now_ms());
    let place = PlaceSpawned { op: op.clone(), name: name.clone(), words, now };
    let placed = shared.store.write(place).await;
    let agent = placed.map_err(|error| SpawnFailure::at("row", error))?;
    for (key, value) in &order.credentials {
        let entry = NewVaultEntry {
            owner: agent.0,
            name: key.clone(),
            value: Some(value.clone()),
            secret: true,
            given_by: Owner::Agent,
            hosts: Vec::new(),
        };
        let set = shared.vault.set(entry, Some(order.by.clone()), clock::now_ms()).await;
        set.map_err(|error| SpawnFailure::at("vault", format!("{key}: {error}")))?;
    }
    let publish = FolderStep::Publish { op: op.clone(), name: name.clone() };
    step(shared, publish).await.map_err(|why| SpawnFailure::at("folder", why))?;
    let apply = FolderStep::Apply { name: name.clone() };
    step(shared, apply).await.map_err(|why| SpawnFailure::at("apply", why))?;
    if order.cancel.is_cancelled() {
        return Err(SpawnFailure::at("bootstrap", "it is not wanted any more"));
    }
    let bootstrap = match &order.spawner {
        Spawner::Turn { turn, .. } => Some(bootstrap(order, turn)),
        Spawner::Person { .. } => None,
    };
    let result = result(draft, bootstrap.as_ref());
    let finish = FinishSpawn {
        op: op.clone(),
        name: name.clone(),
        bootstrap,
        by: order.by.clone(),
        result: result.to_string(),
        now: clock::now_ms(),
    };
    let finished = shared.store.write(finish).await;
    finished.map_err(|error| SpawnFailure::at("bootstrap", error))?;
    Ok(result)
}

fn result(draft: &AgentDraft, bootstrap: Option<&Bootstrap>) -> Value {
    let name = &draft.name;
    json!({
        "success": true, "status": "queued", "team": name,
        "bootstrap_id": bootstrap.map(|bootstrap| &bootstrap.item),
        "allowed_tools": draft.allowed_tools,
        "message_for_user": format!("The team {name} is there and gets ready."),
    })
}

fn bootstrap(order: &SpawnOrder, turn: &TurnId) -> Bootstrap {
    let draft = &order.draft;
    let parent = draft.parent.as_ref().map_or("", AgentName::as_str);
    let body = include_str!("bootstrap.md")
        .replace("{name}", draft.name.as_str())
        .replace("{parent}", parent)
        .replace("{keywords}", &order.words.join(", "))
        .replace("{description}", &draft.description);
    Bootstrap { item: ItemId(random::uuid().to_string()), turn: turn.clone(), body }
}

pub(super) async fn step(shared: &Shared, step: FolderStep) -> Result<(), String> {
    let Some(FileWriters { folders, .. }) = shared.facts.writers.get() else {
        return Err("this hive cannot change its files".to_owned());
    };
    folders(step).await
}

/// Takes back every spawn that was begun and is not under way.
pub(super) async fn undo_spawns(shared: &Shared) {
    match shared.store.read(ops::spawns).await {
        Ok(open) => {
            for op in open {
                tracing::info!(agent = %op.name, "an agent that was half made is taken back");
                undo(shared, &op).await;
            }
        }
        Err(error) => tracing::warn!(%error, "agents that are half made were not looked for"),
    }
}

/// What became of a spawn that was to be taken back.
enum Undone {
    /// There is nothing of it.
    Gone,
    /// There may be something of it; its name stays out of use.
    NotYet,
    /// It had ended, with this answer.
    Made(String),
}

/// Takes back what a spawn did. Where that fails, somebody has to try again.
async fn undo(shared: &Shared, op: &OpenOp) -> Undone {
    match try_undo(shared, op).await {
        Ok(undone) => {
            shared.unfinished.remove(&op.name);
            undone
        }
        Err(why) => {
            tracing::error!(agent = %op.name, why, "an agent that is half made is still there");
            Undone::NotYet
        }
    }
}

async fn try_undo(shared: &Shared, op: &OpenOp) -> Result<Undone, String> {
    let failed = |error: StoreError| error.to_string();
    // A commit more: what the one before it came to is certain then.
    let begin = BeginUndo { op: op.id.clone() };
    if let Some(result) = shared.store.write(begin).await.map_err(failed)? {
        return Ok(Undone::Made(result));
    }
    let withdraw = FolderStep::Withdraw { op: op.id.clone(), name: op.name.clone() };
    step(shared, withdraw).await?;
    let row = shared.store.read(async |conn| ops::spawning(conn, &op.id).await);
    if let Some(agent) = row.await.map_err(failed)? {
        shared.vault.remove_owner(agent.0).await.map_err(|error| error.to_string())?;
    }
    shared.store.write(UndoSpawn { op: op.id.clone() }).await.map_err(failed)?;
    Ok(Undone::Gone)
}
