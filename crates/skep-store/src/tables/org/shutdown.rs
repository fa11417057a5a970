//! Agents that are removed, with everybody below them: closed to new work first, then their work is
//! ended, then their rows go. History and the audit trail stay. After a crash it goes on.

use serde_json::json;
use skep_core::Millis;
use skep_core::approval::ApprovalState;
use skep_core::audit::AuditRow;
use skep_core::cause::CallRef;
use skep_core::event::{CancelReason, Event, EventKind, TurnState};
use skep_core::ids::{AgentId, AgentName, ItemId, TurnId};
use skep_core::task::TaskState;

use super::cancel::{self, CancelledTasks};
use super::hierarchy::{self, CallingAgent, Guarded};
use super::ops::{self, OpKind, OpStanding};
use super::results::{self, Task, TaskEnd};
use super::{letters, reminders};
use crate::tables::inbox::EndedTurn;
use crate::tables::leases::request_cancel;
use crate::tables::{approvals, lanes, pending};
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

/// So that one command never holds the writer long; the caller comes again.
const AT_ONCE: i64 = 200;
/// The root that every hive has.
const MAIN: &str = "main";

/// Closes an agent, and with `cascade` those below it, to new work, and ends what was given them.
/// Wanted again, it says how that stands.
#[derive(Clone)]
pub struct BeginShutdown {
    pub op: String,
    pub name: AgentName,
    pub cascade: bool,
    /// The call that wants it; nobody: a person.
    pub call: Option<CallRef>,
    pub by: String,
    pub now: Millis,
}

impl Run for BeginShutdown {
    type Out = OpStanding;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let op = (self.op.as_str(), OpKind::Shutdown);
        if let Some(standing) = ops::wanted_before(tx.conn, op, &self.name).await? {
            return Ok(standing);
        }
        let all = match self.guard(tx).await? {
            Ok(all) => all,
            Err((code, why)) => return Ok(OpStanding::Refused { code, why }),
        };
        let begun = ops::begin(tx, op, &self.name, &self.by, self.now).await?;
        if begun != OpStanding::Begun {
            return Ok(begun);
        }
        for agent in &all {
            let close = "UPDATE agents SET closing = $2, wanted = 'stopped' WHERE id = $1";
            tx.conn.run(close, &args![agent, self.op]).await?;
            lanes::refresh_agent(tx, *agent).await?;
        }
        Ok(begun)
    }
}

/// Whether agents could be removed now; nothing is put on record. `Some`: a word, and why not.
#[derive(Clone)]
pub struct CheckShutdown(pub BeginShutdown);

impl Run for CheckShutdown {
    type Out = Option<(&'static str, String)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        Ok(self.0.guard(tx).await?.err())
    }
}

impl BeginShutdown {
    /// Everybody who is to go.
    async fn guard(&self, tx: &mut Tx<'_>) -> Result<Guarded<Vec<AgentId>>, Refusal> {
        let top = match self.target(tx).await? {
            Ok(top) => top,
            Err(no) => return Ok(Err(no)),
        };
        let all = with_descendants(tx.conn, top).await?;
        if all.len() > 1 && !self.cascade {
            let below = all.len() - 1;
            let others = if below == 1 { "another agent" } else { "other agents" };
            let why = format!("{} leads {others} ({below}); `cascade` removes all", self.name);
            return Ok(Err(("has_children", why)));
        }
        Ok(match &self.call {
            Some(call) => hierarchy::as_asked(tx.conn, call, &all).await?.map(|()| all),
            None => Ok(all),
        })
    }

    async fn target(&self, tx: &mut Tx<'_>) -> Result<Guarded<AgentId>, Refusal> {
        if self.name.as_str() == MAIN {
            return Ok(Err(("main_stays", "every hive has `main`".to_owned())));
        }
        if let Some(call) = &self.call {
            let caller = CallingAgent::of_turn(tx, &call.turn).await?;
            let team = caller.team(tx.conn, &self.name).await?;
            return Ok(team.map(|team| team.agent));
        }
        let select = "SELECT id FROM agents WHERE name = $1 AND removed_at IS NULL";
        let found: Option<AgentId> = tx.conn.find(select, &args![self.name]).await?;
        Ok(found.ok_or_else(|| ("unknown_team", format!("there is no agent {}", self.name))))
    }
}

/// An agent and everybody below it; each after the one above it.
async fn with_descendants(conn: &mut Conn, top: AgentId) -> Result<Vec<AgentId>, SqlError> {
    let mut all = vec![top];
    let mut at = 0;
    while let Some(agent) = all.get(at).copied() {
        let select = "SELECT id FROM agents WHERE parent_id = $1 AND removed_at IS NULL";
        let below: Vec<AgentId> = conn.list(select, &args![agent]).await?;
        let news: Vec<AgentId> = below.into_iter().filter(|id| !all.contains(id)).collect();
        all.extend(news);
        at += 1;
    }
    Ok(all)
}

/// An agent that is being removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingAgent {
    pub agent: AgentId,
    pub name: AgentName,
    parent: Option<AgentId>,
}

record!(ClosingAgent { agent, name, parent });

/// Those that a change removes, each before the one above it.
pub async fn closing(conn: &mut Conn, op: &str) -> Result<Vec<ClosingAgent>, SqlError> {
    let select = "SELECT id, name, parent_id FROM agents WHERE closing = $1 AND removed_at IS NULL";
    let mut left: Vec<ClosingAgent> = conn.list(select, &args![op]).await?;
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let leads = |agent: &ClosingAgent| left.iter().any(|it| it.parent == Some(agent.agent));
        let (leaders, leaves): (Vec<_>, Vec<_>) =
            left.iter().cloned().partition(|agent| leads(agent));
        // A circle has no leaves; its order is as good as any.
        if leaves.is_empty() {
            ordered.extend(leaders);
            break;
        }
        ordered.extend(leaves);
        left = leaders;
    }
    Ok(ordered)
}

/// The names of all agents that are being removed.
pub async fn closing_names(conn: &mut Conn) -> Result<Vec<AgentName>, SqlError> {
    let select = "SELECT name FROM agents WHERE closing IS NOT NULL AND removed_at IS NULL";
    conn.list(select, &[]).await
}

/// Ends work of agents that are being removed, a part of it at a time.
#[derive(Clone)]
pub struct EndWork {
    pub op: String,
    pub now: Millis,
}

/// What ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedWork {
    /// There is more.
    pub more: bool,
    /// Turns that were asked to end and have not: the caller ends them.
    pub turns: Vec<EndedTurn>,
}

impl Run for EndWork {
    type Out = EndedWork;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mut ended = EndedWork::default();
        let mut cancelled = CancelledTasks::default();
        for agent in closing(tx.conn, &self.op).await? {
            ended.more |= self.end_tasks(tx, &agent, &mut cancelled).await?;
            ended.more |= self.end_items(tx, &agent).await?;
            let open = "SELECT t.id, t.state FROM turns t \
                        WHERE t.ended_at IS NULL AND t.agent = $1 LIMIT $2";
            let open: Vec<(TurnId, TurnState)> =
                tx.conn.list(open, &args![agent.agent, AT_ONCE]).await?;
            for (turn, state) in open {
                request_cancel(tx, &turn, CancelReason::Stop, self.now).await?;
                ended.turns.push(EndedTurn { turn, idle: state != TurnState::Running });
            }
        }
        // Turns elsewhere end too that worked for what was given here.
        for turn in cancelled.turns {
            if !ended.turns.contains(&turn) {
                ended.turns.push(turn);
            }
        }
        Ok(ended)
    }
}

impl EndWork {
    /// What others gave the agent has failed; what it gave is not wanted any more.
    async fn end_tasks(
        &self,
        tx: &mut Tx<'_>,
        agent: &ClosingAgent,
        cancelled: &mut CancelledTasks,
    ) -> Result<bool, Refusal> {
        let given = Task::of_worker(tx.conn, agent.agent, AT_ONCE).await?;
        let mut more = given.len() as i64 == AT_ONCE;
        for task in given {
            cancel::tree(tx, &task, self.now, cancelled).await?;
            let text = format!("The team {} was removed.", agent.name);
            let (state, code, now) = (TaskState::Failed, Some("team_removed"), self.now);
            let end = TaskEnd { state, code, text: &text, file: None, now };
            results::end(tx, &task, &end).await?;
        }
        let gave = Task::of_giver(tx.conn, agent.agent, AT_ONCE).await?;
        more |= gave.len() as i64 == AT_ONCE;
        for task in gave {
            cancel::silently(tx, &task, self.now, cancelled).await?;
        }
        Ok(more)
    }

    /// Messages that nobody has begun: their senders are told.
    async fn end_items(&self, tx: &mut Tx<'_>, agent: &ClosingAgent) -> Result<bool, Refusal> {
        let select = "SELECT id FROM items WHERE agent = $1 AND state = 'pending' \
                      AND state <> 'running' AND turn IS NULL LIMIT $2";
        let items: Vec<ItemId> = tx.conn.list(select, &args![agent.agent, AT_ONCE]).await?;
        for item in &items {
            pending::end(tx, item, CancelReason::Stop, self.now).await?;
        }
        Ok(items.len() as i64 == AT_ONCE)
    }
}

/// Removes the rows of agents whose work has ended and whose folders are gone. The vault and tokens
/// are the caller's.
#[derive(Clone)]
pub struct RemoveAgents {
    pub op: String,
    pub by: String,
    /// The answer, for when all has ended.
    pub result: String,
    pub now: Millis,
}

impl Run for RemoveAgents {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        for agent in closing(tx.conn, &self.op).await? {
            let busy = "SELECT 1 FROM turns t WHERE t.ended_at IS NULL AND t.agent = $1 LIMIT 1";
            let left = "SELECT 1 FROM items WHERE agent = $1 AND state = 'pending' \
                        AND state <> 'running' AND turn IS NULL LIMIT 1";
            for sql in [busy, left] {
                if tx.conn.find::<i64>(sql, &args![agent.agent]).await?.is_some() {
                    let detail = format!("{} has work again", agent.name);
                    return Err(Refusal::conflict("busy", detail));
                }
            }
            self.remove(tx, &agent).await?;
        }
        let keep = "UPDATE org_ops SET result = $2 WHERE id = $1 AND ended_at IS NULL";
        tx.conn.run(keep, &args![self.op, self.result]).await?;
        Ok(())
    }
}

impl RemoveAgents {
    async fn remove(&self, tx: &mut Tx<'_>, agent: &ClosingAgent) -> Result<(), Refusal> {
        let ClosingAgent { agent: id, name, .. } = agent;
        let open = "SELECT id FROM approvals WHERE agent = $1 AND state = 'open'";
        for approval in tx.conn.list::<String>(open, &args![id]).await? {
            let withdrawn = ApprovalState::Withdrawn;
            approvals::end_open(tx, &approval, withdrawn, self.now).await?;
        }
        letters::withdraw(tx, *id, self.now).await?;
        reminders::forget(tx, *id).await?;
        for sql in [
            "DELETE FROM agent_scope WHERE agent = $1",
            "DELETE FROM grants WHERE agent = $1 AND revoked_at IS NULL",
            "DELETE FROM egress_buckets WHERE agent = $1",
            "UPDATE lanes SET ready_priority = NULL, ready_ord = NULL, due_at = NULL \
             WHERE agent = $1",
        ] {
            tx.conn.run(sql, &args![id]).await?;
        }
        let row = "UPDATE agents SET removed_at = $2, installed = 0, closing = NULL, \
                   ready_priority = NULL WHERE id = $1";
        tx.conn.run(row, &args![id, self.now]).await?;
        let kind = EventKind::Status { state: "removed".to_owned(), reason: None };
        tx.event(Event::of(*id, name, self.now, kind));
        let what = json!({ "agent": name, "agent_id": id });
        tx.audit(AuditRow::change("agent_removed", Some(&self.by), &what, self.now)).await?;
        Ok(())
    }
}

/// Nothing is left: it has ended.
#[derive(Clone)]
pub struct EndShutdown {
    pub op: String,
    pub now: Millis,
}

impl Run for EndShutdown {
    /// The answer.
    type Out = String;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<String, Refusal> {
        let select = "SELECT result FROM org_ops WHERE id = $1 AND ended_at IS NULL";
        let result: Option<Option<String>> = tx.conn.find(select, &args![self.op]).await?;
        let result = result.flatten().unwrap_or_default();
        ops::end(tx, &self.op, &result, self.now).await?;
        Ok(result)
    }
}
