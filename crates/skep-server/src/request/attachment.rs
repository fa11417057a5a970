//! Files that come with a message, as every door takes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use skep_core::file::{Attachment, FILES_PER_MESSAGE, MESSAGE_BYTES};
use skep_runtime::door::{DoorError, ErrorKind};
use utoipa::ToSchema;

/// A request or frame that may carry files: their base64, and as much as any other has.
pub(crate) const LARGE_BYTES: usize = 28 << 20;
/// How a client is told.
pub(crate) const LARGE_TEXT: &str = "a frame may have 28 MiB";
const _: () = assert!(LARGE_BYTES >= MESSAGE_BYTES / 3 * 4 + crate::request::extract::BODY_BYTES);

/// A file with a message: a picture (PNG, JPEG, GIF, WebP) of up to 5 MiB, or UTF-8 text of up to
/// 256 KiB. The bytes decide which.
#[derive(Debug, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a file: an object with name and data")]
pub(crate) struct RawAttachment {
    #[schema(min_length = 1, max_length = 200, example = "notes.txt")]
    name: String,
    /// What kind of text it is; of a picture the bytes say it.
    #[schema(max_length = 100, example = "text/plain")]
    mime: Option<String>,
    /// Base64.
    #[schema(content_encoding = "base64", example = "aGVsbG8=")]
    data: String,
}

pub(crate) fn decode(raw: Option<Vec<RawAttachment>>) -> Result<Vec<Attachment>, DoorError> {
    let raw = raw.unwrap_or_default();
    if raw.len() > FILES_PER_MESSAGE {
        let text = format!("A message has {FILES_PER_MESSAGE} attachments at most.");
        return Err(DoorError::new(ErrorKind::TooLarge, "too_large", text));
    }
    let one = |raw: RawAttachment| {
        let bytes = STANDARD.decode(&raw.data).map_err(|error| {
            let name = skep_scrub::known().beginning(&raw.name, 60);
            let text = format!("The data of the attachment {name:?} is no base64: {error}.");
            DoorError::new(ErrorKind::Invalid, "unsupported_attachment", text)
        })?;
        Ok(Attachment { name: raw.name, mime: raw.mime, bytes })
    };
    raw.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_told_as_it_is() {
        assert_eq!(LARGE_TEXT, format!("a frame may have {} MiB", LARGE_BYTES >> 20));
        let docs = include_str!("../../../../docs/doors.md");
        assert!(docs.contains("A frame may have 28 MiB"));
    }
}
