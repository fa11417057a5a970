//! Chains: what one request leads to, through any number of agents.

use serde_json::json;
use skep_core::Millis;
use skep_core::frame::FrameKind;
use skep_core::ids::{ChannelId, ItemId, TurnId};
use skep_core::tool::ChainOrigin;

use crate::tables::outbox::{self, NewFrame};
use skep_db::{Columns, Conn, Record, Refusal, SqlError, Tx, args};

/// Where a turn, and what it makes, stands in its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainPlace {
    /// The item that the turn began with.
    pub item: ItemId,
    /// The first item of the chain.
    pub root: ItemId,
    /// How far it is from there.
    pub hops: i64,
    pub origin: ChainOrigin,
    /// The task that the turn works at.
    pub task: Option<ItemId>,
}

impl Record for ChainPlace {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self {
            item: row.take()?,
            root: row.take()?,
            hops: row.take()?,
            origin: row.take()?,
            task: row.take()?,
        })
    }
}

macro_rules! select_place {
    ($from:literal) => {
        concat!(
            "SELECT i.id, coalesce(i.chain_root, i.id), i.hops, ",
            "coalesce(i.origin_channel, i.channel), i.origin_topic, ",
            "coalesce(i.origin_principal, i.principal), ",
            "CASE WHEN i.kind IN ('event', 'approved') THEN (SELECT c.parent_task FROM tasks c ",
            "WHERE c.item = i.correlation) ",
            "WHEN i.kind = 'continue' THEN i.correlation ",
            "ELSE (SELECT c.item FROM tasks c WHERE c.item = i.id) END ",
            $from
        )
    };
}

impl ChainPlace {
    pub async fn of_turn(conn: &mut Conn, turn: &TurnId) -> Result<Option<Self>, SqlError> {
        let select = select_place!("FROM items i WHERE i.turn = $1 ORDER BY i.ord LIMIT 1");
        conn.find(select, &args![turn]).await
    }

    pub async fn of_item(conn: &mut Conn, item: &ItemId) -> Result<Option<Self>, SqlError> {
        let select = select_place!("FROM items i WHERE i.id = $1");
        conn.find(select, &args![item]).await
    }

    /// Where the end of a task is told: with whoever gave it.
    pub fn back(mut self) -> Self {
        self.hops = (self.hops - 1).max(0);
        self
    }
}

/// How long a chain may become.
#[derive(Clone, Copy, Debug)]
pub struct ChainLimits {
    pub hops: u32,
    pub items: u32,
}

/// Which limit keeps a chain from making so many items more. Nobody is told here.
pub(crate) async fn over(
    tx: &mut Tx<'_>,
    place: &ChainPlace,
    more: usize,
    limits: ChainLimits,
) -> Result<Option<String>, SqlError> {
    if place.hops + 1 > i64::from(limits.hops) {
        return Ok(Some(format!(
            "this work came through {} hands already, and {} are the most (limits.hops)",
            place.hops, limits.hops
        )));
    }
    let select = "SELECT items FROM chains WHERE root = $1";
    let made: i64 = tx.conn.find(select, &args![place.root]).await?.unwrap_or(0);
    let more = i64::try_from(more).unwrap_or(i64::MAX);
    Ok((made.saturating_add(more) > i64::from(limits.items)).then(|| {
        format!(
            "what one request began has made {made} items already, and {} are the most \
             (limits.items_per_root)",
            limits.items
        )
    }))
}

pub(crate) async fn count(
    tx: &mut Tx<'_>,
    root: &ItemId,
    items: usize,
    noticed: bool,
) -> Result<(), SqlError> {
    let count = "INSERT INTO chains (root, items, noticed) VALUES ($1, $2, $3) \
                 ON CONFLICT (root) DO UPDATE SET items = items + excluded.items, \
                 noticed = max(noticed, excluded.noticed)";
    tx.conn.run(count, &args![root, items, noticed]).await?;
    Ok(())
}

/// Tells whoever is behind the chain that it was stopped, once.
pub(crate) async fn notice(
    tx: &mut Tx<'_>,
    place: &ChainPlace,
    agent: &str,
    why: &str,
    now: Millis,
) -> Result<(), Refusal> {
    let select = "SELECT noticed FROM chains WHERE root = $1";
    if tx.conn.find::<bool>(select, &args![place.root]).await? == Some(true) {
        return Ok(());
    }
    count(tx, &place.root, 0, true).await?;
    let payload = json!({
        "content": format!("{agent} wanted to hand work on and was stopped: {why}."),
        "code": "chain_limit", "agent": agent, "root": place.root,
    });
    notify(tx, place, format!("{}.limit", place.root), payload, now).await
}

/// A notification for whoever is behind the chain, where they can be reached.
pub(crate) async fn notify(
    tx: &mut Tx<'_>,
    place: &ChainPlace,
    id: String,
    payload: serde_json::Value,
    now: Millis,
) -> Result<(), Refusal> {
    let Some(channel) = place.origin.channel.as_ref().map(ChannelId::new) else { return Ok(()) };
    let (channel, item, kind) = (&channel, &place.item, FrameKind::Notification);
    let new = NewFrame { id, channel, item, kind, payload, now };
    outbox::push_if_known(tx, new).await.map(drop)
}
