//! What agents want to be reminded of, and turns they want to go on in.

use skep_core::Millis;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::heads;
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, SessionKey, TurnId};
use skep_core::prompt;

use super::chain::{self, ChainLimits, ChainPlace};
use super::hierarchy::CallingAgent;
use super::new_item::NewItem;
use super::results::sender;
use crate::tables::inbox::NORMAL;
use skep_db::{Columns, Conn, Record, Refusal, Run, SqlError, Tx, args};

/// Reminders of one agent that are to come.
const PENDING: i64 = 50;
/// One that is so far away begins a chain of its own.
pub const OWN_CHAIN: Millis = 15 * 60_000;

/// Reminds an agent of something in the same conversation. Calling it again with the same call
/// changes nothing.
#[derive(Clone)]
pub struct Remind {
    pub turn: TurnId,
    pub call: CallId,
    pub id: ItemId,
    pub body: String,
    /// Nothing: as soon as the turn has ended.
    pub at: Option<Millis>,
    pub limits: ChainLimits,
    pub now: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reminded {
    Set {
        id: ItemId,
    },
    /// Nothing was kept: a word, and why.
    Refused {
        code: &'static str,
        why: String,
    },
}

impl Run for Remind {
    type Out = Reminded;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Reminded, Refusal> {
        let (giver, place) = CallingAgent::in_chain(tx, &self.turn).await?;
        if let Some(id) = self.kept(tx.conn, giver.agent).await? {
            return Ok(Reminded::Set { id });
        }
        let own = self.at.is_some_and(|at| at - self.now >= OWN_CHAIN);
        if !own && let Some(why) = chain::over(tx, &place, 1, self.limits).await? {
            chain::notice(tx, &place, giver.agent_name.as_str(), &why, self.now).await?;
            return Ok(Reminded::Refused { code: "chain_limit", why });
        }
        let place = match own {
            true => ChainPlace { root: self.id.clone(), hops: 0, ..place },
            false => ChainPlace { hops: place.hops + 1, ..place },
        };
        match self.at {
            Some(at) => {
                if self.is_full(tx.conn, giver.agent).await? {
                    let why = format!("{PENDING} reminders of yours are to come already");
                    return Ok(Reminded::Refused { code: "rate_limited", why });
                }
                self.keep(tx, &giver, &place, at).await?;
            }
            None => self.go_on(tx, &giver, &place).await?,
        }
        chain::count(tx, &place.root, 1, false).await?;
        Ok(Reminded::Set { id: self.id.clone() })
    }

    fn cost(&self) -> usize {
        self.body.len() + 1024
    }
}

impl Remind {
    fn dedup(&self) -> String {
        format!("call:{}/{}", self.turn, self.call)
    }

    /// What this call has set before; its time may have come since.
    async fn kept(&self, conn: &mut Conn, agent: AgentId) -> Result<Option<ItemId>, SqlError> {
        let to_come = "SELECT id FROM reminders WHERE turn = $1 AND call = $2";
        let to_come: Option<ItemId> = conn.find(to_come, &args![self.turn, self.call]).await?;
        if to_come.is_some() {
            return Ok(to_come);
        }
        let come = "SELECT id FROM items WHERE agent = $1 AND dedup = $2";
        conn.find(come, &args![agent, self.dedup()]).await
    }

    async fn is_full(&self, conn: &mut Conn, agent: AgentId) -> Result<bool, SqlError> {
        let pending = "SELECT id FROM reminders WHERE agent = $1 LIMIT $2";
        let pending: Vec<String> = conn.list(pending, &args![agent, PENDING]).await?;
        Ok(pending.len() as i64 >= PENDING)
    }

    async fn keep(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
        at: Millis,
    ) -> Result<(), SqlError> {
        let insert = "INSERT INTO reminders (id, agent, key, turn, call, body, at, created_at, \
                      parent_item, root, hops, origin_channel, origin_topic, origin_principal) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        let args = args![
            self.id,
            giver.agent,
            giver.key,
            self.turn,
            self.call,
            self.body,
            at,
            self.now,
            place.item,
            place.root,
            place.hops,
            place.origin.channel,
            place.origin.topic,
            place.origin.principal,
        ];
        tx.conn.run(insert, &args).await?;
        Ok(())
    }

    async fn go_on(
        &self,
        tx: &mut Tx<'_>,
        giver: &CallingAgent,
        place: &ChainPlace,
    ) -> Result<(), Refusal> {
        let item = NewItem {
            id: &self.id,
            agent: giver.agent,
            agent_name: &giver.agent_name,
            key: &giver.key,
            cause: Cause::Continue,
            options: ItemOptions::default(),
            priority: NORMAL,
            principal: sender(&giver.agent_name),
            body: &heads::quoted(&self.body),
            place,
            hops: place.hops,
            // The task that it goes on with is open until then.
            correlation: place.task.as_ref().map(ItemId::as_str),
            dedup: &self.dedup(),
            now: self.now,
        };
        item.insert(tx).await.map(drop)
    }
}

/// One whose time has come.
struct Due {
    id: ItemId,
    agent: AgentId,
    /// Absent where the agent is not there any more.
    agent_name: Option<AgentName>,
    key: SessionKey,
    turn: TurnId,
    call: CallId,
    body: String,
    created_at: Millis,
    place: ChainPlace,
}

impl Record for Due {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.take()?,
            agent: row.take()?,
            agent_name: row.take()?,
            key: row.take()?,
            turn: row.take()?,
            call: row.take()?,
            body: row.take()?,
            created_at: row.take()?,
            place: row.take()?,
        })
    }
}

/// Puts those whose time has come into the inbox. True: a lane has work.
pub(crate) async fn fire(tx: &mut Tx<'_>, now: Millis, most: i64) -> Result<bool, Refusal> {
    let due = "SELECT r.id, r.agent, a.name, r.key, r.turn, r.call, r.body, r.created_at, \
               r.parent_item, r.root, r.hops, r.origin_channel, r.origin_topic, \
               r.origin_principal, NULL FROM reminders r LEFT JOIN agents a ON a.id = r.agent \
               AND a.removed_at IS NULL AND a.installed = 1 AND a.closing IS NULL \
               WHERE r.at <= $1 ORDER BY r.at LIMIT $2";
    let due: Vec<Due> = tx.conn.list(due, &args![now, most]).await?;
    let mut woke = false;
    for due in due {
        tx.conn.run("DELETE FROM reminders WHERE id = $1", &args![due.id]).await?;
        let Some(agent_name) = &due.agent_name else { continue };
        let set = prompt::time(due.created_at);
        let body = format!("[reminder {} | set {set}]\n{}", due.id, heads::quoted(&due.body));
        let item = NewItem {
            id: &due.id,
            agent: due.agent,
            agent_name,
            key: &due.key,
            cause: Cause::Reminder,
            options: ItemOptions::default(),
            priority: NORMAL,
            principal: sender(agent_name),
            body: &body,
            place: &due.place,
            hops: due.place.hops,
            correlation: None,
            dedup: &format!("call:{}/{}", due.turn, due.call),
            now,
        };
        woke |= item.insert(tx).await?;
    }
    Ok(woke)
}

/// An agent that is removed is reminded of nothing.
pub(crate) async fn forget(tx: &mut Tx<'_>, agent: AgentId) -> Result<(), SqlError> {
    tx.conn.run("DELETE FROM reminders WHERE agent = $1", &args![agent]).await?;
    Ok(())
}

pub(crate) async fn next(conn: &mut Conn) -> Result<Option<Millis>, SqlError> {
    conn.find("SELECT at FROM reminders WHERE at > 0 ORDER BY at LIMIT 1", &[]).await
}
