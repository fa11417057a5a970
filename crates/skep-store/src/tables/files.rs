//! Files of messages: their bytes once for each content, and who refers to them.

use std::collections::HashMap;

use skep_core::Millis;
use skep_core::file::{File, FileData};
use skep_core::ids::{ItemId, SessionId};
use skep_core::message::{Body, Message};
use skep_core::role::Sight;
use skep_db::{Conn, SqlError, Tx, args};

/// Keeps the bytes of these files. One without bytes must be there already.
pub(crate) async fn keep(
    tx: &mut Tx<'_>,
    files: impl Iterator<Item = &File>,
    now: Millis,
) -> Result<(), SqlError> {
    for file in files {
        let Some(data) = &file.data else { continue };
        let insert = "INSERT INTO files (hash, bytes, added_at) VALUES ($1, $2, $3) \
                      ON CONFLICT (hash) DO NOTHING";
        tx.conn.run(insert, &args![file.hash, data.0[..], now]).await?;
    }
    Ok(())
}

/// Notes which files a history row has.
pub(crate) async fn refer(
    tx: &mut Tx<'_>,
    session: &SessionId,
    seq: i64,
    files: impl Iterator<Item = &File>,
) -> Result<(), SqlError> {
    for file in files {
        let insert = "INSERT INTO history_files (session, seq, hash) VALUES ($1, $2, $3) \
                      ON CONFLICT (hash, session, seq) DO NOTHING";
        tx.conn.run(insert, &args![session, seq, file.hash]).await?;
    }
    Ok(())
}

/// Keeps the files of a message that goes to the inbox.
pub(crate) async fn keep_with_item(
    tx: &mut Tx<'_>,
    item: &ItemId,
    files: &[File],
    now: Millis,
) -> Result<(), SqlError> {
    keep(tx, files.iter(), now).await?;
    for (position, file) in (0_i64..).zip(files) {
        let insert = "INSERT INTO item_files (item, position, hash, name, mime, size) \
                      VALUES ($1, $2, $3, $4, $5, $6)";
        let args = args![item, position, file.hash, file.name, file.mime, file.size];
        tx.conn.run(insert, &args).await?;
    }
    Ok(())
}

/// The files of a message in the inbox, without their bytes.
pub async fn of_item(conn: &mut Conn, item: &ItemId) -> Result<Vec<File>, SqlError> {
    let select = "SELECT name, mime, size, hash FROM item_files WHERE item = $1 \
                  ORDER BY position";
    let files: Vec<(String, String, u64, String)> = conn.list(select, &args![item]).await?;
    let file = |(name, mime, size, hash)| File { name, mime, size, hash, data: None };
    Ok(files.into_iter().map(file).collect())
}

pub async fn bytes(conn: &mut Conn, hash: &str) -> Result<Option<Vec<u8>>, SqlError> {
    let select = "SELECT bytes FROM files WHERE hash = $1";
    conn.find(select, &args![hash]).await
}

/// Puts the bytes into the files of these messages, for those that are `wanted`. The same content
/// is read once and shared.
pub async fn fill<'m>(
    conn: &mut Conn,
    messages: impl Iterator<Item = &'m mut Message>,
    wanted: impl Fn(&File) -> bool,
) -> Result<(), SqlError> {
    let mut known: HashMap<String, FileData> = HashMap::new();
    for message in messages {
        for file in message.body.files_mut().filter(|file| file.data.is_none() && wanted(file)) {
            if !known.contains_key(&file.hash)
                && let Some(bytes) = bytes(conn, &file.hash).await?
            {
                known.insert(file.hash.clone(), FileData(bytes.into()));
            }
            file.data = known.get(&file.hash).cloned();
        }
    }
    Ok(())
}

/// The file as it stands in a conversation that is in sight, the newest first.
pub async fn in_sight(
    conn: &mut Conn,
    hash: &str,
    sight: &Sight,
) -> Result<Option<File>, SqlError> {
    let body: Option<Body> = match sight {
        Sight::All => conn.find(IN_ANY, &args![hash]).await?,
        Sight::Keys { prefix, .. } => conn.find(UNDER_KEYS, &args![hash, prefix]).await?,
        Sight::Agent(agent) => conn.find(OF_AGENT, &args![hash, agent]).await?,
    };
    Ok(body.and_then(|body| body.files().find(|file| file.hash == hash).cloned()))
}

macro_rules! with_file {
    ($seen:literal) => {
        concat!(
            "SELECT h.body FROM history_files f JOIN sessions s ON s.id = f.session ",
            "JOIN history h ON h.session = f.session AND h.seq = f.seq WHERE f.hash = $1",
            $seen,
            " ORDER BY f.session DESC, f.seq DESC LIMIT 1"
        )
    };
}

const IN_ANY: &str = with_file!("");
const UNDER_KEYS: &str = with_file!(" AND substr(s.key, 1, length($2)) = $2");
const OF_AGENT: &str = with_file!(" AND s.agent = $2");

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
