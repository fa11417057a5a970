//! The files of messages, for doors.

use skep_store::files;

use crate::door::{Credential, DoorError, ErrorKind, Sight};
use crate::hive::{Hive, door_error};

impl Hive {
    /// The name and the content of a file that stands in a conversation in sight.
    pub async fn file(
        &self,
        hash: &str,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<(String, Vec<u8>), DoorError> {
        let (hash, sight) = (hash.to_owned(), sight.clone());
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            let Some(file) = files::in_sight(conn, &hash, &sight).await? else { return Ok(None) };
            let bytes = files::bytes(conn, &hash).await?;
            Ok(bytes.map(|bytes| (file.name, bytes)))
        });
        read.await.map_err(door_error)?.ok_or_else(|| {
            let text = "No conversation you may see has this file.";
            DoorError::new(ErrorKind::NotFound, "unknown_file", text)
        })
    }
}
