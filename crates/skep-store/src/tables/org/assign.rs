//! Giving a task: every guard, the item, the task, and what counts them, in one commit.

use serde_json::json;
use skep_core::Millis;
use skep_core::cause::{CallRef, Cause, ItemOptions};
use skep_core::event::{EventKind, ItemState};
use skep_core::heads;
use skep_core::ids::{AgentName, CallId, ItemId, Principal, SessionKey, TurnId};
use skep_core::overlap::{self, InFlight, Overlap, OverlapVerdict};
use skep_core::question::{AnswerForm, PeerQuestion};
use skep_core::task::{TaskKind, TaskState};

use super::cancel::{self, CancelledTasks};
pub use super::chain::ChainLimits;
use super::chain::{self, ChainPlace};
pub use super::hierarchy::OPERATOR;
use super::hierarchy::{CallingAgent, Guarded, TargetAgent};
use super::new_item::NewItem;
use super::questions;
use super::results::{self, Task, TaskEnd, sender};
use super::task_views::{self, TaskRow};
use super::waits;
use crate::tables::inbox::EndedTurn;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args};

/// Pieces of work that a busy team is shown with.
const SHOWN: i64 = 20;
/// Pieces of work that one task takes the place of.
const REPLACED: i64 = 1000;
/// Tasks that one agent may hand up in a minute.
const HAND_UPS: usize = 5;
const MINUTE: Millis = 60_000;
/// The same hand-up again within this time is the first one.
const SAME_HAND_UP: Millis = 5 * MINUTE;

/// Gives a task, or the same one to several teams. Calling it again with the same call changes
/// nothing.
#[derive(Clone)]
pub struct Assign {
    pub turn: TurnId,
    pub call: CallId,
    pub kind: TaskKind,
    /// Names and ids for the items; of what goes up, the id alone.
    pub teams: Vec<(ItemId, AgentName)>,
    pub body: String,
    /// The text of the skill that it is to be done with.
    pub skill: Option<String>,
    pub priority: i64,
    pub overlap: Overlap,
    pub correlation: Option<String>,
    pub limits: ChainLimits,
    pub deadline: Millis,
    /// The call waits for the answers until then.
    pub until: Option<Millis>,
    /// Of a question.
    pub question: Option<NewQuestion>,
    /// Of the items.
    pub options: ItemOptions,
    pub now: Millis,
}

/// What a question has beside its words.
#[derive(Clone)]
pub struct NewQuestion {
    pub form: AnswerForm,
    /// Whom the agent may ask, as its settings say.
    pub recipients: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// These tasks are there; `new`: since now.
    Given { tasks: Vec<TaskRow>, new: bool, turns: Vec<EndedTurn> },
    /// The team has other work, and nothing was given.
    Busy { verdict: OverlapVerdict, in_flight: Vec<TaskRow> },
    /// Nothing was given: a word, and why.
    Refused { code: &'static str, why: String },
}

impl Run for Assign {
    type Out = Assigned;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let given = self.given(tx.conn).await?;
        if !given.is_empty() {
            return Ok(Assigned::Given { tasks: given, new: false, turns: Vec::new() });
        }
        let (giver, place) = CallingAgent::in_chain(tx, &self.turn).await?;
        let targets = match self.targets(tx.conn, &giver).await? {
            Ok(targets) => targets,
            Err((code, why)) => return Ok(Assigned::Refused { code, why }),
        };
        if self.kind == TaskKind::HandUp
            && let Some(assigned) = self.guard_hand_up(tx.conn, &giver).await?
        {
            return Ok(assigned);
        }
        if let Some(why) = chain::over(tx, &place, targets.len(), self.limits).await? {
            chain::notice(tx, &place, giver.agent_name.as_str(), &why, self.now).await?;
            return Ok(Assigned::Refused { code: "chain_limit", why });
        }
        let mut turns = Vec::new();
        if self.kind == TaskKind::Delegate {
            match self.guard_busy(tx, &targets, &place.origin.principal).await? {
                Ok(ended) => turns = ended,
                Err(busy) => return Ok(busy),
            }
        }
        for ((item, _), target) in self.teams.iter().zip(&targets) {
            self.give(tx, &giver, &place, item, target).await?;
        }
        chain::count(tx, &place.root, targets.len(), false).await?;
        let items = self.teams.iter().map(|(item, _)| item);
        Ok(Assigned::Given { tasks: rows(tx.conn, items).await?, new: true, turns })
    }

    fn cost(&self) -> usize {
        (self.body.len() + self.skill.as_ref().map_or(0, String::len) + 1024) * self.teams.len()
    }
}

async fn rows(
    conn: &mut Conn,
    items: impl Iterator<Item = &ItemId>,
) -> Result<Vec<TaskRow>, SqlError> {
    let mut rows = Vec::new();
    for item in items {
        rows.extend(task_views::task(conn, item).await?);
    }
    Ok(rows)
}

impl Assign {
    /// What this call gave before.
    async fn given(&self, conn: &mut Conn) -> Result<Vec<TaskRow>, SqlError> {
        let given = "SELECT item FROM tasks WHERE from_turn = $1 AND from_call = $2";
        let given: Vec<ItemId> = conn.list(given, &args![self.turn, self.call]).await?;
        rows(conn, given.iter()).await
    }

    /// Who is to do it, where the giver may say so.
    async fn targets(
        &self,
        conn: &mut Conn,
        giver: &CallingAgent,
    ) -> Result<Guarded<Vec<TargetAgent>>, SqlError> {
        let mut targets = Vec::with_capacity(self.teams.len());
        for (_, team) in &self.teams {
            match self.target(conn, giver, team).await? {
                Ok(target) => targets.push(target),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        Ok(Ok(targets))
    }

    async fn target(
        &self,
        conn: &mut Conn,
        giver: &CallingAgent,
        team: &AgentName,
    ) -> Result<Guarded<TargetAgent>, SqlError> {
        if let Some(question) = &self.question {
            let allowed = giver.recipient(conn, team, &question.recipients).await?;
            return match allowed {
                Ok(TargetAgent { agent: OPERATOR, .. }) => giver.operator(conn).await,
                other => Ok(other),
            };
        }
        if self.kind == TaskKind::Subagent {
            return giver.itself(conn).await;
        }
        if matches!(self.kind, TaskKind::Escalate | TaskKind::HandUp) {
            let why = || format!("there is no agent above {}", giver.agent_name);
            return match (giver.above(conn).await?, self.kind) {
                (Some(above), _) => Ok(Ok(above)),
                (None, TaskKind::Escalate) => giver.operator(conn).await,
                (None, _) => Ok(Err(("no_parent", why()))),
            };
        }
        giver.team(conn, team).await
    }

    /// At most so many a minute, and the same one once.
    async fn guard_hand_up(
        &self,
        conn: &mut Conn,
        giver: &CallingAgent,
    ) -> Result<Option<Assigned>, SqlError> {
        let select = "SELECT t.item, i.body, t.created_at FROM tasks t \
                      JOIN items i ON i.id = t.item WHERE t.from_agent = $1 \
                      AND t.created_at > $2 AND t.kind = 'hand_up' ORDER BY t.created_at DESC \
                      LIMIT 100";
        let since = self.now - SAME_HAND_UP;
        let recent: Vec<(ItemId, String, Millis)> =
            conn.list(select, &args![giver.agent, since]).await?;
        let wanted = heads::quoted(&self.body);
        if let Some((same, ..)) = recent.iter().find(|(_, body, _)| *body == wanted) {
            let tasks = task_views::task(conn, same).await?.into_iter().collect();
            return Ok(Some(Assigned::Given { tasks, new: false, turns: Vec::new() }));
        }
        let in_minute = recent.iter().filter(|(.., at)| *at > self.now - MINUTE).count();
        Ok((in_minute >= HAND_UPS).then(|| Assigned::Refused {
            code: "rate_limited",
            why: format!("{} has handed {HAND_UPS} tasks up in a minute", giver.agent_name),
        }))
    }

    /// What becomes of the task where a team has work: the turns to be ended, or why it is not
    /// given.
    async fn guard_busy(
        &self,
        tx: &mut Tx<'_>,
        targets: &[TargetAgent],
        behind: &Principal,
    ) -> Result<Result<Vec<EndedTurn>, Assigned>, Refusal> {
        let mut cancelled = CancelledTasks::default();
        for target in targets {
            let most = if self.overlap == Overlap::Replace { REPLACED } else { SHOWN };
            let mut work = task_views::assigned(tx.conn, target.agent, most).await?;
            let in_flight: Vec<InFlight> =
                work.iter().map(|task| task.in_flight(self.now)).collect();
            let verdict = match overlap::decide(self.overlap, &in_flight) {
                // What others wanted is theirs to cancel.
                OverlapVerdict::Replace if work.iter().any(|task| task.origin != *behind) => {
                    OverlapVerdict::Confirm
                }
                verdict => verdict,
            };
            match verdict {
                OverlapVerdict::Enqueue => {}
                OverlapVerdict::Replace => {
                    for task in work {
                        self.replace(tx, &task.id, &mut cancelled).await?;
                    }
                }
                verdict => {
                    work.truncate(usize::try_from(SHOWN).unwrap_or(0));
                    return Ok(Err(Assigned::Busy { verdict, in_flight: work }));
                }
            }
        }
        Ok(Ok(cancelled.turns))
    }

    async fn replace(
        &self,
        tx: &mut Tx<'_>,
        task: &ItemId,
        cancelled: &mut CancelledTasks,
    ) -> Result<(), Refusal> {
        let Some(task) = Task::open(tx.conn, task).await? else { return Ok(()) };
        cancel::tree(tx, &task, self.now, cancelled).await?;
        let (state, code, now) = (TaskState::Cancelled, Some("replaced"), self.now);
        let text = "Another task took its place.";
        results::end(tx, &task, &TaskEnd { state, code, text, file: None, now }).await?;
        Ok(())
    }

    async fn give(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
        item: &ItemId,
        target: &TargetAgent,
    ) -> Result<(), Refusal> {
        if target.agent == OPERATOR {
            self.tell_origin(tx, giver, place, item).await?;
        } else {
            self.put(tx, giver, place, item, target).await?;
        }
        self.insert(tx, giver, place, item, target).await?;
        if let Some(question) = &self.question {
            questions::insert(tx, item, &question.form).await?;
        }
        if target.agent == OPERATOR || self.kind == TaskKind::Question {
            let kind = EventKind::QuestionAsked {
                question: item.clone(),
                session_key: giver.key.clone(),
                to: target.agent_name.to_string(),
                expires_at: Some(self.deadline),
            };
            questions::tell(tx, &self.turn, kind, self.now).await?;
        }
        if let (Some(task), true) = (&place.task, self.kind.is_awaited()) {
            let more = "UPDATE tasks SET open = open + 1 WHERE item = $1";
            tx.conn.run(more, &args![task]).await?;
        }
        match self.until {
            Some(until) => Ok(waits::insert(tx, &self.turn, &self.call, item, until).await?),
            None => Ok(()),
        }
    }

    /// Whoever is behind the chain hears that the operator is asked.
    async fn tell_origin(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
        item: &ItemId,
    ) -> Result<(), Refusal> {
        let (content, status) = match self.kind {
            TaskKind::Question => ("has asked the operator something.", "asked"),
            _ => ("has asked the operator for help.", "escalated"),
        };
        let payload = json!({
            "content": format!("{} {content}", giver.agent_name),
            "status": status, "task": item, "root": place.root, "agent": giver.agent_name,
        });
        chain::notify(tx, place, format!("{item}.status"), payload, self.now).await
    }

    /// Puts it into the inbox of whoever is to do it.
    async fn put(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
        item: &ItemId,
        target: &TargetAgent,
    ) -> Result<(), Refusal> {
        let key = self.key(tx.conn, place, item, target).await?;
        let call = CallRef { turn: self.turn.clone(), call: self.call.clone() };
        let cause = match self.kind {
            TaskKind::Escalate => Cause::Escalation,
            TaskKind::Question => Cause::Question,
            // A change of the hive is no work of an agent; it is asked for elsewhere.
            TaskKind::Delegate
            | TaskKind::Query
            | TaskKind::HandUp
            | TaskKind::Subagent
            | TaskKind::Shape => Cause::Task { call },
        };
        let body = match &self.question {
            Some(question) => {
                let (id, from) = (item.as_str(), giver.agent_name.as_str());
                PeerQuestion { id, from, text: &self.body, form: &question.form }.text()
            }
            None => heads::quoted(&self.body),
        };
        let new = NewItem {
            id: item,
            agent: target.agent,
            agent_name: &target.agent_name,
            key: &key,
            cause,
            options: self.options.clone(),
            priority: self.priority,
            principal: sender(&giver.agent_name),
            body: &body,
            place,
            hops: place.hops + 1,
            correlation: self.correlation.as_deref(),
            dedup: &format!("call:{}/{}", self.turn, self.call),
            now: self.now,
        };
        if !new.insert(tx).await? {
            let detail = format!("{} was named twice", target.agent_name);
            return Err(Refusal::conflict("named_twice", detail));
        }
        if let Some(skill) = &self.skill {
            let with = "UPDATE items SET skill_text = $2 WHERE id = $1";
            tx.conn.run(with, &args![item, skill]).await?;
        }
        Ok(())
    }

    async fn insert(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
        item: &ItemId,
        target: &TargetAgent,
    ) -> Result<(), SqlError> {
        let insert = "INSERT INTO tasks (item, root, parent_task, agent, from_agent, from_key, \
                      from_turn, from_call, kind, created_at, deadline, body) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let kind = self.kind.as_str();
        let own = target.agent == OPERATOR || self.kind == TaskKind::Question;
        let body = own.then_some(&self.body);
        let args = args![
            item,
            place.root,
            place.task,
            target.agent,
            giver.agent,
            giver.key,
            self.turn,
            self.call,
            kind,
            self.now,
            self.deadline,
            body,
        ];
        tx.conn.run(insert, &args).await?;
        Ok(())
    }

    /// The session it is worked at in: one for each chain, one for each task of a subagent, and
    /// what goes up goes where the work came from.
    async fn key(
        &self,
        conn: &mut Conn,
        place: &ChainPlace,
        item: &ItemId,
        target: &TargetAgent,
    ) -> Result<SessionKey, SqlError> {
        if self.kind == TaskKind::Subagent {
            return Ok(SessionKey(format!("sub:{item}")));
        }
        if self.kind == TaskKind::Escalate
            && let Some(task) = &place.task
        {
            let select = "SELECT from_key FROM tasks WHERE item = $1 AND from_agent = $2";
            if let Some(key) = conn.find(select, &args![task, target.agent]).await? {
                return Ok(key);
            }
        }
        Ok(SessionKey(format!("task:{}", place.root)))
    }
}

impl TaskRow {
    /// As the busy guard sees it.
    pub fn in_flight(&self, now: Millis) -> InFlight {
        let begun = self.started_at.is_some() || self.item_state != ItemState::Pending;
        InFlight { begun, age_ms: now - self.started_at.unwrap_or(self.created_at) }
    }
}
