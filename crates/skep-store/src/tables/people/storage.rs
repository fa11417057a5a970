//! How much one person has stored: the bytes of their messages and attachments. Counted only for
//! people who have a limit.

use skep_core::file::File;
use skep_core::ids::{ItemId, Principal};
use skep_db::{Refusal, SqlError, Tx, args};

/// Bytes of a row besides its text.
const ROW: usize = 512;

/// Adds a message to what its sender has stored; refused where that is more than `most`.
pub(crate) async fn charge(
    tx: &mut Tx<'_>,
    principal: &Principal,
    bytes: usize,
    most: Option<u64>,
) -> Result<(), Refusal> {
    let Some(most) = most else { return Ok(()) };
    let bytes = i64::try_from(bytes.saturating_add(ROW)).unwrap_or(i64::MAX);
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let add = "INSERT INTO storage (principal, bytes) VALUES ($1, $2) \
               ON CONFLICT (principal) DO UPDATE SET bytes = bytes + $2 RETURNING bytes";
    let now: i64 = tx.conn.find(add, &args![principal, bytes]).await?.unwrap_or(0);
    if now <= limit {
        return Ok(());
    }
    let detail = format!(
        "the message was not kept: with it you would have stored {} MiB, more than \
         limits.user_storage_mib ({}) allows one user. Leave out attachments, delete \
         conversations, or ask an operator to raise the limit",
        now.unsigned_abs().div_ceil(1 << 20),
        most >> 20
    );
    let left = most.saturating_sub(now.saturating_sub(bytes).unsigned_abs());
    Err(Refusal::Quota { code: "user_storage", detail, most, left })
}

/// Takes the words and files of an item off what its sender has stored. Files that came without
/// their bytes were never added.
pub(crate) async fn release(
    tx: &mut Tx<'_>,
    principal: &Principal,
    item: &ItemId,
) -> Result<(), SqlError> {
    let size = "SELECT octet_length(body) + coalesce(octet_length(skill_text), 0) \
                + CASE WHEN retry_of IS NULL THEN \
                coalesce((SELECT sum(size) FROM item_files WHERE item = $1), 0) ELSE 0 END \
                FROM items WHERE id = $1";
    let size: Option<i64> = tx.conn.find(size, &args![item]).await?;
    let less = "UPDATE storage SET bytes = CASE WHEN bytes > $2 THEN bytes - $2 ELSE 0 END \
                WHERE principal = $1";
    tx.conn.run(less, &args![principal, size.unwrap_or(0)]).await.map(drop)
}

/// Bytes of a text and its files, as far as they come with it.
pub(crate) fn size(text: &str, files: &[File]) -> usize {
    let data = files.iter().filter_map(|file| file.data.as_ref());
    text.len() + data.map(|data| data.0.len()).sum::<usize>()
}
