//! An item that the hive itself puts into an inbox.

use skep_core::Millis;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::event::{Event, EventKind, ItemState};
use skep_core::ids::{AgentId, AgentName, ItemId, MessageId, Principal, SessionKey};
use skep_core::inbound::AckState;

use super::chain::ChainPlace;
use crate::tables::agents::{Tally, tally};
use crate::tables::lanes;
use skep_db::{Refusal, Tx, args};

pub(crate) struct NewItem<'a> {
    pub id: &'a ItemId,
    pub agent: AgentId,
    pub agent_name: &'a AgentName,
    pub key: &'a SessionKey,
    pub cause: Cause,
    pub options: ItemOptions,
    pub priority: i64,
    /// Whom it is from.
    pub principal: Principal,
    pub body: &'a str,
    /// Where it stands in its chain.
    pub place: &'a ChainPlace,
    pub hops: i64,
    pub correlation: Option<&'a str>,
    pub dedup: &'a str,
    pub now: Millis,
}

impl NewItem<'_> {
    /// False: the agent has an item with this `dedup` already.
    pub async fn insert(&self, tx: &mut Tx<'_>) -> Result<bool, Refusal> {
        let known = "SELECT 1 FROM items WHERE agent = $1 AND dedup = $2";
        if tx.conn.find::<i64>(known, &args![self.agent, self.dedup]).await?.is_some() {
            return Ok(false);
        }
        let lane = match &self.options.subagent {
            Some(_) => lanes::make_apart(tx, self.agent, self.key).await?,
            None => lanes::find_or_make(tx, self.agent, self.key.as_str()).await?,
        };
        let ord = tx.next_ord().await?;
        let ((kind, more), options) = (self.cause.stored(), self.options.stored());
        let (kind, ack, state) = (kind.as_ref(), AckState::Queued, ItemState::Pending);
        let message_id = MessageId(self.id.0.clone());
        let origin = &self.place.origin;
        let insert = "INSERT INTO items (id, ord, agent, lane, kind, cause, priority, message_id, \
                      principal, body, ack, state, created_at, parent_item, origin_channel, \
                      origin_topic, origin_principal, chain_root, hops, correlation, dedup, \
                      options) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
                      $14, $15, $16, $17, $18, $19, $20, $21, $22)";
        let args = args![
            self.id,
            ord,
            self.agent,
            lane.id,
            kind,
            more,
            self.priority,
            message_id,
            self.principal,
            self.body,
            ack,
            state,
            self.now,
            self.place.item,
            origin.channel,
            origin.topic,
            origin.principal,
            self.place.root,
            self.hops,
            self.correlation,
            self.dedup,
            options,
        ];
        tx.conn.run(insert, &args).await?;
        lanes::add_pending(tx, &lane, self.agent, (self.priority, ord), self.now).await?;
        tally(tx, self.agent, Tally { pending: 1, ..Tally::default() }).await?;
        let kind = EventKind::InboxAccepted {
            item: self.id.clone(),
            message_id,
            session_key: self.key.clone(),
        };
        tx.event(Event::of(self.agent, self.agent_name, self.now, kind));
        Ok(true)
    }
}
