//! Pending items: accepted, and not yet part of a turn.

use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::file::File;
use skep_core::ids::{ItemId, LaneId, MessageId};
use skep_core::settings::Think;
use skep_core::tool::ChainOrigin;
use skep_db::{SqlError, Tx, args, record};

use crate::tables::files;
use crate::tables::inbox::UserText;

const NEXT_ITEMS: &str = "SELECT id, message_id, channel, principal, body, priority, ord, fresh, \
                          kind, cause, files, think, coalesce(origin_channel, channel), \
                          origin_topic, coalesce(origin_principal, principal) FROM items \
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
    has_files: bool,
    pub files: Vec<File>,
    pub think: Option<Think>,
}

record! { PendingItem {
    id, message_id, channel, principal, body, priority, ord, fresh, cause, has_files, think,
    origin; files = Vec::new()
} }

impl PendingItem {
    /// The first pending items of a lane.
    pub async fn next(tx: &mut Tx<'_>, lane: LaneId, most: i64) -> Result<Vec<Self>, SqlError> {
        let mut items: Vec<Self> = tx.conn.list(NEXT_ITEMS, &args![lane, most]).await?;
        for item in items.iter_mut().filter(|item| item.has_files) {
            item.files = files::of_item(tx.conn, &item.id).await?;
        }
        Ok(items)
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
