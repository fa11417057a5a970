//! Teams as the agents above them see them, and what they take work for.

use skep_core::Millis;
use skep_core::cause::CallRef;
use skep_core::event::TurnState;
use skep_core::ids::{AgentId, AgentName, Principal, TurnId};
use skep_core::task::TaskKind;

use super::hierarchy::{self, CallingAgent};
use super::task_views::{self, TaskRow};
use crate::tables::agents::AgentStatus;
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args, record};

/// Words that one team may have.
const WORDS: usize = 50;
/// Tasks that are looked at for the one that is worked at.
const SHOWN: i64 = 100;

/// A team, by its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRow {
    pub id: AgentId,
    pub name: AgentName,
    /// As it is shown: active, paused, stopped, failed.
    pub status: String,
    /// Why it cannot run, when it cannot.
    pub failure: Option<String>,
    pub one_at_a_time: bool,
    /// Items that nobody has begun, that are worked at, and that wait.
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    /// It needs no first item, or that has ended well.
    pub bootstrapped: bool,
}

impl Record for TeamRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (id, name) = (row.take()?, row.take()?);
        let status: AgentStatus = row.take()?;
        Ok(Self {
            id,
            name,
            status: status.word().to_owned(),
            failure: status.failure,
            one_at_a_time: row.take()?,
            pending: row.take()?,
            running: row.take()?,
            waiting: row.take()?,
            bootstrapped: row.take()?,
        })
    }
}

/// The teams directly below an agent, by name.
pub async fn below(conn: &mut Conn, agent: AgentId) -> Result<Vec<TeamRow>, SqlError> {
    let select = "SELECT id, name, wanted, installed, failure, parallel_one, pending, running, \
                  waiting, bootstrapped FROM agents WHERE parent_id = $1 AND removed_at IS NULL \
                  AND installed = 1 AND spawning IS NULL ORDER BY name";
    conn.list(select, &args![agent]).await
}

/// What a team takes work for.
pub async fn words(conn: &mut Conn, agent: AgentId) -> Result<Vec<String>, SqlError> {
    let select = "SELECT word FROM agent_scope WHERE agent = $1 ORDER BY word";
    conn.list(select, &args![agent]).await
}

/// A turn that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamTurn {
    pub id: TurnId,
    pub state: TurnState,
    pub started_at: Millis,
    pub waiting_for: Option<String>,
}

record!(TeamTurn { id, state, started_at, waiting_for });

/// The turns of an agent that have not ended, oldest first.
pub async fn open_turns(
    conn: &mut Conn,
    agent: AgentId,
    most: i64,
) -> Result<Vec<TeamTurn>, SqlError> {
    let select = "SELECT t.id, t.state, t.started_at, t.waiting_for FROM turns t \
                  WHERE t.ended_at IS NULL AND t.agent = $1 LIMIT $2";
    let mut turns: Vec<TeamTurn> = conn.list(select, &args![agent, most]).await?;
    turns.sort_by_key(|turn| turn.started_at);
    Ok(turns)
}

/// The oldest task that an agent works at, and whether it is known who is behind it.
pub async fn current_task(
    conn: &mut Conn,
    agent: AgentId,
    behind: Option<&Principal>,
) -> Result<Option<(TaskRow, bool)>, SqlError> {
    // A subagent is a part of what its agent does.
    let begun = |task: &TaskRow| task.started_at.is_some() && task.kind != TaskKind::Subagent;
    let tasks = task_views::in_flight(conn, agent, SHOWN).await?;
    Ok(tasks.into_iter().find(begun).map(|task| {
        let known = behind == Some(&task.origin);
        (task, known)
    }))
}

/// Whether a team is directly below the agent of the call, and no other than was asked about.
/// `Some`: a word, and why not.
#[derive(Clone)]
pub struct GuardTeam {
    pub call: CallRef,
    pub team: AgentName,
}

impl Run for GuardTeam {
    type Out = Option<(&'static str, String)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let caller = CallingAgent::of_turn(tx, &self.call.turn).await?;
        Ok(match caller.team(tx.conn, &self.team).await? {
            Ok(team) => hierarchy::as_asked(tx.conn, &self.call, &[team.agent]).await?.err(),
            Err(no) => Some(no),
        })
    }
}

/// Changes what a team directly below takes work for. Calling it again changes nothing.
#[derive(Clone)]
pub struct ChangeScope {
    pub turn: TurnId,
    pub team: AgentName,
    pub add: Vec<String>,
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeChange {
    /// Those of the team from now on.
    Changed(Vec<String>),
    /// Nothing was changed: a word, and why.
    Refused { code: &'static str, why: String },
}

impl Run for ChangeScope {
    type Out = ScopeChange;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let caller = CallingAgent::of_turn(tx, &self.turn).await?;
        let team = match caller.team(tx.conn, &self.team).await? {
            Ok(team) => team.agent,
            Err((code, why)) => return Ok(ScopeChange::Refused { code, why }),
        };
        let mut words = words(tx.conn, team).await?;
        words.retain(|word| !self.remove.contains(word));
        words.extend(self.add.iter().cloned());
        words.sort();
        words.dedup();
        let refused = |code, why| Ok(ScopeChange::Refused { code, why });
        if words.is_empty() && !self.remove.is_empty() {
            let why = format!("{} would be left without a keyword; add one first", self.team);
            return refused("no_keywords", why);
        }
        if words.len() > WORDS {
            let why = format!("{} would have more than {WORDS} keywords", self.team);
            return refused("too_many_keywords", why);
        }
        for word in &self.remove {
            let delete = "DELETE FROM agent_scope WHERE agent = $1 AND word = $2";
            tx.conn.run(delete, &args![team, word]).await?;
        }
        for word in &self.add {
            add_word(tx, team, word).await?;
        }
        Ok(ScopeChange::Changed(words))
    }
}

pub(crate) async fn add_word(tx: &mut Tx<'_>, agent: AgentId, word: &str) -> Result<(), SqlError> {
    let insert = "INSERT INTO agent_scope (agent, word) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    tx.conn.run(insert, &args![agent, word]).await?;
    Ok(())
}
