//! Pending items: accepted, and not yet part of a turn.

use skep_core::Millis;
use skep_core::file::File;
use skep_core::ids::{ItemId, MessageId};
use skep_core::message::Body;
use skep_core::settings::Think;

use crate::engine::conn::Row;
use crate::engine::error::SqlError;
use crate::engine::tx::Tx;
use crate::tables::files;
use crate::tables::inbox::{ORDER, UserText, as_ordered, user_body};
use crate::tables::lanes::think_level;

/// The first pending items of a lane.
pub(crate) const NEXT_ITEMS: &str = "SELECT id, message_id, channel, principal, body, priority, \
                                     ord, fresh, files, think, kind, again FROM items \
                                     WHERE lane = $1 AND state = 'pending' AND turn IS NULL \
                                     ORDER BY priority, ord LIMIT $2";

/// A pending item.
pub(crate) struct PendingItem {
    pub id: ItemId,
    pub message_id: MessageId,
    pub channel: Option<String>,
    pub principal: String,
    pub body: String,
    pub priority: i64,
    pub ord: i64,
    /// Its turn begins a new session.
    pub fresh: bool,
    /// A command that its turn carries out.
    pub order: bool,
    pub files: Vec<File>,
    pub think: Option<Think>,
    /// The call it is there to run, as JSON.
    pub again: Option<String>,
}

impl PendingItem {
    pub async fn read(tx: &mut Tx<'_>, row: &Row) -> Result<Self, SqlError> {
        let id = ItemId(row.text(0)?);
        let files = match row.int(8)? {
            0 => Vec::new(),
            _ => files::of_item(tx.conn, &id).await?,
        };
        Ok(Self {
            id,
            files,
            message_id: MessageId(row.text(1)?),
            channel: row.text_opt(2)?,
            principal: row.text(3)?,
            body: row.text(4)?,
            priority: row.int(5)?,
            ord: row.int(6)?,
            fresh: row.bool(7)?,
            think: think_level(row.text_opt(9)?)?,
            order: row.text(10)? == ORDER,
            again: row.text_opt(11)?,
        })
    }

    pub fn message(&self, now: Millis) -> Body {
        let body = user_body(UserText {
            item: &self.id,
            message_id: &self.message_id,
            channel: self.channel.as_deref(),
            principal: &self.principal,
            text: &self.body,
            files: self.files.clone(),
            now,
        });
        let details = self.again.as_deref().and_then(|again| serde_json::from_str(again).ok());
        as_ordered(Body { details, ..body }, self.order)
    }
}
