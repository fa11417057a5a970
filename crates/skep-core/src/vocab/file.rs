//! Files in messages: what may be attached, and how a file stands in a row.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// The largest picture the vendors take.
pub const IMAGE_BYTES: usize = 5 << 20;
pub const TEXT_BYTES: usize = 256 << 10;
pub const FILES_PER_MESSAGE: usize = 10;
/// All files of a message: as base64 they stay below the smallest request limit of a vendor,
/// 32 MB, with room for the rest of the request.
pub const MESSAGE_BYTES: usize = 20 << 20;
const NAME_BYTES: usize = 200;

/// A file of a message. Its row has everything but the bytes: those are kept once for each hash
/// and put in again for whoever needs them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct File {
    pub name: String,
    pub mime: String,
    pub size: u64,
    /// SHA-256 of the bytes, in hex.
    pub hash: String,
    /// Base64; only where the bytes were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub data: Option<FileData>,
}

/// The bytes of a file; base64 in JSON. Shared: the same picture may stand in many requests.
#[derive(Clone, PartialEq, Eq)]
pub struct FileData(pub Arc<[u8]>);

impl File {
    pub fn new(
        name: impl Into<String>,
        mime: impl Into<String>,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Self {
        let bytes: Arc<[u8]> = bytes.into();
        Self {
            name: name.into(),
            mime: mime.into(),
            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            hash: hash_of(&bytes),
            data: Some(FileData(bytes)),
        }
    }

    pub fn is_image(&self) -> bool {
        IMAGES.iter().any(|(mime, _)| *mime == self.mime)
    }

    /// Whether the bytes, where they are here, are those the row speaks of.
    pub fn is_whole(&self) -> bool {
        self.data.as_ref().is_none_or(|data| {
            u64::try_from(data.0.len()) == Ok(self.size) && hash_of(&data.0) == self.hash
        })
    }

    /// The row without the bytes.
    pub fn without_data(&self) -> Self {
        Self { data: None, ..self.clone() }
    }

    pub fn text(&self) -> Option<&str> {
        let data = self.data.as_ref().filter(|_| !self.is_image())?;
        std::str::from_utf8(&data.0).ok()
    }
}

/// A file on its way in: what a door was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    pub name: String,
    /// What the sender calls it. The bytes decide.
    pub mime: Option<String>,
    pub bytes: Vec<u8>,
}

/// Why a message's files were not taken. The text says what, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    TooLarge(String),
}

/// The files of a message, or why it cannot be taken with them.
pub fn accept(attachments: Vec<Attachment>) -> Result<Vec<File>, Unfit> {
    if attachments.len() > FILES_PER_MESSAGE {
        return Err(Unfit::TooLarge(format!(
            "The message has {} attachments; {FILES_PER_MESSAGE} are the most. Send the others \
             with another message.",
            attachments.len()
        )));
    }
    let whole: usize = attachments.iter().map(|one| one.bytes.len()).sum();
    if whole > MESSAGE_BYTES {
        return Err(Unfit::TooLarge(format!(
            "The attachments have {whole} bytes together; {MESSAGE_BYTES} are the most for one \
             message. Send some of them with another message."
        )));
    }
    attachments.into_iter().map(accept_one).collect()
}

fn accept_one(attachment: Attachment) -> Result<File, Unfit> {
    let Attachment { name, mime, bytes } = attachment;
    let shown = shown_name(&name);
    if name.trim().is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        return Err(Unfit::Unsupported(format!(
            "The attachment {shown:?} needs a name of 1 to {NAME_BYTES} bytes without control \
             characters."
        )));
    }
    if let Some(image) = image_type(&bytes) {
        if bytes.len() > IMAGE_BYTES {
            return Err(Unfit::TooLarge(format!(
                "The picture {shown:?} has {} bytes; models take {IMAGE_BYTES} at most. Make it \
                 smaller.",
                bytes.len()
            )));
        }
        return Ok(File::new(name, image, bytes));
    }
    if mime.as_deref().is_some_and(|mime| mime.starts_with("image/")) {
        return Err(Unfit::Unsupported(format!(
            "The attachment {shown:?} is called a picture, but its bytes are no PNG, JPEG, GIF or \
             WebP, which are the kinds that models take."
        )));
    }
    if bytes.contains(&0) || std::str::from_utf8(&bytes).is_err() {
        return Err(Unfit::Unsupported(format!(
            "The attachment {shown:?} is neither a picture (PNG, JPEG, GIF, WebP) nor text in \
             UTF-8. Put the file into the agent's workspace and name it instead."
        )));
    }
    if bytes.len() > TEXT_BYTES {
        return Err(Unfit::TooLarge(format!(
            "The text file {shown:?} has {} bytes; {TEXT_BYTES} are the most. Put it into the \
             agent's workspace and name it instead.",
            bytes.len()
        )));
    }
    let mime = mime.filter(|mime| is_text_type(mime)).unwrap_or_else(|| "text/plain".to_owned());
    Ok(File::new(name, mime, bytes))
}

type Magic = fn(&[u8]) -> bool;

/// The pictures every vendor takes, by their first bytes.
const IMAGES: [(&str, Magic); 4] = [
    ("image/png", |bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", |bytes| bytes.starts_with(b"\xff\xd8\xff")),
    ("image/gif", |bytes| bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a")),
    ("image/webp", |bytes| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")),
];

/// Which picture the bytes are; names and claims do not count.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    IMAGES.iter().find(|(_, is)| is(bytes)).map(|(mime, _)| *mime)
}

/// A sender's word for text is kept when it can stand in a header.
fn is_text_type(mime: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.+-".contains(c);
    mime.len() <= 100 && mime.matches('/').count() == 1 && mime.chars().all(plain)
}

fn shown_name(name: &str) -> String {
    name.chars().take(60).collect()
}

fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text can be the hash of a file.
pub fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl FileData {
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.0)
    }

    pub fn from_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok().map(|bytes| Self(bytes.into()))
    }
}

/// The bytes themselves say nothing to a reader of a log.
impl std::fmt::Debug for FileData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileData({} bytes)", self.0.len())
    }
}

impl Serialize for FileData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for FileData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::from_base64(&text).ok_or_else(|| serde::de::Error::custom("data is no base64"))
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
