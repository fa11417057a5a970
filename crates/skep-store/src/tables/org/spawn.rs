//! A new agent: begun, placed, active. What is between is files; a crash undoes all of it.

use serde_json::json;
use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::ids::{AgentId, AgentName, ItemId, SessionKey, TurnId};

use super::chain::{self, ChainLimits, ChainPlace};
use super::hierarchy::{CallingAgent, Guarded};
use super::new_item::NewItem;
use super::ops::{self, OpKind, OpStanding};
use super::results::sender;
use super::teams;
use crate::tables::inbox::NORMAL;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args};

/// The session that a new agent begins in.
const FIRST_SESSION: &str = "main";

/// Who wants a new agent.
#[derive(Clone)]
pub enum Spawner {
    /// The agent of this turn; the new one will be below it.
    Turn { turn: TurnId, limits: ChainLimits },
    /// A person.
    Person { parent: Option<AgentName> },
}

/// Puts on record that an agent is to be made. Wanted again, it says how that stands.
#[derive(Clone)]
pub struct BeginSpawn {
    pub op: String,
    pub name: AgentName,
    pub spawner: Spawner,
    pub by: String,
    pub now: Millis,
}

impl Run for BeginSpawn {
    type Out = OpStanding;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let op = (self.op.as_str(), OpKind::Spawn);
        if let Some(standing) = ops::wanted_before(tx.conn, op, &self.name).await? {
            return Ok(standing);
        }
        if let Err((code, why)) = self.guard(tx).await? {
            return Ok(OpStanding::Refused { code, why });
        }
        Ok(ops::begin(tx, op, &self.name, &self.by, self.now).await?)
    }
}

impl BeginSpawn {
    async fn guard(&self, tx: &mut Tx<'_>) -> Result<Guarded<()>, Refusal> {
        let parent = match &self.spawner {
            Spawner::Turn { turn, limits } => {
                let (caller, place) = CallingAgent::in_chain(tx, turn).await?;
                if let Some(why) = chain::over(tx, &place, 1, *limits).await? {
                    chain::notice(tx, &place, caller.agent_name.as_str(), &why, self.now).await?;
                    return Ok(Err(("chain_limit", why)));
                }
                Some(caller.agent_name)
            }
            Spawner::Person { parent } => parent.clone(),
        };
        if let Some(parent) = parent {
            let select = "SELECT closing IS NOT NULL FROM agents WHERE name = $1 \
                          AND removed_at IS NULL AND installed = 1 AND spawning IS NULL";
            match tx.conn.find::<bool>(select, &args![parent]).await? {
                Some(false) => {}
                Some(true) => return Ok(Err(("closing", format!("{parent} is being removed")))),
                None => return Ok(Err(("unknown_team", format!("there is no agent {parent}")))),
            }
        }
        Ok(match is_taken(tx.conn, &self.name).await? {
            false => Ok(()),
            true => Err(("name_taken", format!("there is an agent {} already", self.name))),
        })
    }
}

/// Whether an agent could be made now; nothing is put on record. `Some`: a word, and why not.
#[derive(Clone)]
pub struct CheckSpawn(pub BeginSpawn);

impl Run for CheckSpawn {
    type Out = Option<(&'static str, String)>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        Ok(self.0.guard(tx).await?.err())
    }
}

async fn is_taken(conn: &mut Conn, name: &AgentName) -> Result<bool, SqlError> {
    let select = "SELECT 1 FROM agents WHERE name = $1 AND removed_at IS NULL";
    Ok(conn.find::<i64>(select, &args![name]).await?.is_some())
}

/// Gives the agent its row, which nobody uses yet, and what it takes work for.
#[derive(Clone)]
pub struct PlaceSpawned {
    pub op: String,
    pub name: AgentName,
    pub words: Vec<String>,
    pub now: Millis,
}

impl Run for PlaceSpawned {
    type Out = AgentId;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<AgentId, Refusal> {
        if ops::standing(tx.conn, &self.op).await? != Some(OpStanding::Unfinished) {
            return Err(Refusal::not_found("the change of the tree"));
        }
        if is_taken(tx.conn, &self.name).await? {
            let detail = format!("there is an agent {} by now", self.name);
            return Err(Refusal::conflict("name_taken", detail));
        }
        let insert = "INSERT INTO agents (name, created_at, spawning, bootstrapped) \
                      VALUES ($1, $2, $3, 0) RETURNING id";
        let made = args![self.name, self.now, self.op];
        let id: AgentId = tx.conn.one(insert, &made, "an insert gave no id").await?;
        for word in &self.words {
            teams::add_word(tx, id, word).await?;
        }
        Ok(id)
    }
}

/// The agent is there: it has its first item, and whoever wanted it their answer.
#[derive(Clone)]
pub struct FinishSpawn {
    pub op: String,
    pub name: AgentName,
    pub bootstrap: Option<Bootstrap>,
    pub by: String,
    /// The answer.
    pub result: String,
    pub now: Millis,
}

/// The first item of a new agent.
#[derive(Clone)]
pub struct Bootstrap {
    pub item: ItemId,
    /// The turn that wanted the agent.
    pub turn: TurnId,
    pub body: String,
}

impl Run for FinishSpawn {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let agent = ops::spawning(tx.conn, &self.op).await?;
        let agent = agent.ok_or_else(|| Refusal::not_found("the row of the new agent"))?;
        let update = "UPDATE agents SET spawning = NULL, bootstrapped = $2 WHERE id = $1";
        tx.conn.run(update, &args![agent, self.bootstrap.is_none()]).await?;
        if let Some(bootstrap) = &self.bootstrap {
            self.put(tx, agent, bootstrap).await?;
        }
        let what = json!({ "agent": self.name, "agent_id": agent });
        tx.audit(AuditRow::change("agent_spawned", Some(&self.by), &what, self.now)).await?;
        ops::end(tx, &self.op, &self.result, self.now).await
    }
}

impl FinishSpawn {
    async fn put(
        &self,
        tx: &mut Tx<'_>,
        agent: AgentId,
        bootstrap: &Bootstrap,
    ) -> Result<(), Refusal> {
        let place = ChainPlace::of_turn(tx.conn, &bootstrap.turn).await?.ok_or(Refusal::Stale)?;
        let name = "SELECT a.name FROM turns t JOIN agents a ON a.id = t.agent WHERE t.id = $1";
        let name: Option<AgentName> = tx.conn.find(name, &args![bootstrap.turn]).await?;
        let item = NewItem {
            id: &bootstrap.item,
            agent,
            agent_name: &self.name,
            key: &SessionKey::new(FIRST_SESSION),
            cause: Cause::Bootstrap,
            options: ItemOptions::default(),
            priority: NORMAL,
            principal: sender(&name.ok_or(Refusal::Stale)?),
            body: &bootstrap.body,
            place: &place,
            hops: place.hops + 1,
            correlation: None,
            dedup: &format!("bootstrap:{}", self.op),
            now: self.now,
        };
        item.insert(tx).await?;
        chain::count(tx, &place.root, 1, false).await?;
        Ok(())
    }
}

/// A spawn is to be taken back.
#[derive(Clone)]
pub struct BeginUndo {
    pub op: String,
}

impl Run for BeginUndo {
    /// It had ended: its answer.
    type Out = Option<String>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        let mark = "UPDATE org_ops SET result = 'undone' WHERE id = $1 AND ended_at IS NULL";
        tx.conn.run(mark, &args![self.op]).await?;
        Ok(match ops::standing(tx.conn, &self.op).await? {
            Some(OpStanding::Done(result)) => Some(result),
            _ => None,
        })
    }
}

/// Takes back what a spawn has written. Its files and what is in the vault are the caller's.
#[derive(Clone)]
pub struct UndoSpawn {
    pub op: String,
}

impl Run for UndoSpawn {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        if let Some(agent) = ops::spawning(tx.conn, &self.op).await? {
            let words = "DELETE FROM agent_scope WHERE agent = $1";
            tx.conn.run(words, &args![agent]).await?;
            // Nothing was ever accepted for it: no other row names it.
            let row = "DELETE FROM agents WHERE id = $1 AND spawning IS NOT NULL";
            tx.conn.run(row, &args![agent]).await?;
        }
        let op = "DELETE FROM org_ops WHERE id = $1 AND ended_at IS NULL";
        tx.conn.run(op, &args![self.op]).await?;
        Ok(())
    }
}
