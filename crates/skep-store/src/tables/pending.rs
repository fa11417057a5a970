//! Pending items: accepted, and not yet part of a turn.

use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::file::File;
use skep_core::ids::{ItemId, MessageId, Principal};
use skep_core::settings::Think;
use skep_core::tool::ChainOrigin;

use crate::engine::conn::Row;
use crate::engine::error::SqlError;
use crate::engine::tx::Tx;
use crate::tables::files;
use crate::tables::inbox::UserText;
use crate::tables::lanes::think_level;

/// The first pending items of a lane.
pub(crate) const NEXT_ITEMS: &str = "SELECT id, message_id, channel, principal, body, priority, \
                                     ord, fresh, files, think, kind, cause, \
                                     coalesce(origin_channel, channel), origin_topic, \
                                     coalesce(origin_principal, principal) FROM items \
                                     WHERE lane = $1 AND state = 'pending' AND turn IS NULL \
                                     ORDER BY priority, ord LIMIT $2";

/// A pending item.
pub(crate) struct PendingItem {
    pub id: ItemId,
    pub message_id: MessageId,
    pub channel: Option<String>,
    pub principal: String,
    pub origin: ChainOrigin,
    pub body: String,
    pub priority: i64,
    pub ord: i64,
    /// Its turn begins a new session.
    pub fresh: bool,
    pub cause: Cause,
    pub files: Vec<File>,
    pub think: Option<Think>,
}

/// What an item is there for, from two columns of its row.
pub(crate) fn cause(row: &Row, kind: usize, more: usize) -> Result<Cause, SqlError> {
    let read = Cause::read(&row.text(kind)?, row.text_opt(more)?.as_deref());
    read.map_err(|error| SqlError::decode(error.to_string()))
}

/// The first item of an item's chain, from three columns of its row.
pub(crate) fn origin(row: &Row, first: usize) -> Result<ChainOrigin, SqlError> {
    Ok(ChainOrigin {
        channel: row.text_opt(first)?,
        topic: row.text_opt(first + 1)?,
        principal: Principal(row.text(first + 2)?),
    })
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
            cause: cause(row, 10, 11)?,
            origin: origin(row, 12)?,
        })
    }

    pub fn text(&self, now: Millis) -> UserText<'_> {
        UserText {
            item: &self.id,
            cause: &self.cause,
            message_id: &self.message_id,
            channel: self.channel.as_deref(),
            principal: &self.principal,
            origin: &self.origin,
            text: &self.body,
            files: self.files.clone(),
            now,
        }
    }
}
