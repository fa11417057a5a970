//! Pictures in requests: what the real services take, and what a test finds in a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::refusal::{Checked, Refusal, require};

const LARGEST: usize = 5 << 20;

/// A picture as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub mime: String,
    pub bytes: Vec<u8>,
}

/// Every picture below this value, in order, whatever the wire calls it.
pub(crate) fn all(value: &Value) -> Vec<Image> {
    let own = match value["type"].as_str() {
        Some("image") => parts(&value["source"]["media_type"], &value["source"]["data"]),
        Some("image_url") => of_url(&value["image_url"]["url"]),
        Some("input_image") => of_url(&value["image_url"]),
        _ => None,
    };
    if let Some(image) = own {
        return vec![image];
    }
    match value {
        Value::Array(items) => items.iter().flat_map(all).collect(),
        Value::Object(fields) => fields.values().flat_map(all).collect(),
        _ => Vec::new(),
    }
}

fn parts(mime: &Value, data: &Value) -> Option<Image> {
    let bytes = STANDARD.decode(data.as_str()?).ok()?;
    Some(Image { mime: mime.as_str()?.to_owned(), bytes })
}

fn of_url(url: &Value) -> Option<Image> {
    let (mime, data) = url.as_str()?.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Image { mime: mime.to_owned(), bytes: STANDARD.decode(data).ok()? })
}

/// The `source` of an Anthropic image block.
pub(crate) fn check_source(place: &str, source: &Value) -> Checked {
    match source["type"].as_str() {
        Some("url") => return Ok(()),
        Some("base64") => {}
        _ => return Err(Refusal::invalid(format!("{place}source.type: Field required"))),
    }
    let mime = source["media_type"].as_str().unwrap_or_default();
    require(KINDS.iter().any(|(kind, _)| *kind == mime), || {
        format!(
            "{place}source.base64.media_type: Input should be 'image/jpeg', 'image/png', \
             'image/gif' or 'image/webp'"
        )
    })?;
    let Some(image) = parts(&source["media_type"], &source["data"]) else {
        return Err(Refusal::invalid(format!("{place}source.base64: invalid base64 data")));
    };
    require(image.bytes.len() <= LARGEST, || {
        format!(
            "{place}source.base64: image exceeds 5 MB maximum: {} bytes > {LARGEST} bytes",
            image.bytes.len()
        )
    })?;
    let found = kind_of(&image.bytes);
    require(found == Some(mime), || {
        format!(
            "{place}source.base64.data: The image was specified using the {mime} media type, but \
             the image appears to be a {} image",
            found.unwrap_or("broken")
        )
    })
}

/// The address of a picture on the OpenAI wires.
pub(crate) fn check_url(place: &str, url: &Value) -> Checked {
    let text = url.as_str().unwrap_or_default();
    require(!text.is_empty(), || format!("Missing required parameter: '{place}'."))?;
    if !text.starts_with("data:") {
        return require(text.starts_with("https://"), || {
            format!(
                "Invalid '{place}'. Expected a valid URL, but got a value with an invalid \
                     format."
            )
        });
    }
    let Some(image) = of_url(url) else {
        return Err(Refusal::invalid(format!(
            "Invalid '{place}'. Expected a base64-encoded data URL with an image MIME type."
        )));
    };
    require(kind_of(&image.bytes).is_some() && image.mime.starts_with("image/"), || {
        "You uploaded an unsupported image. Please make sure your image has of one the following \
         formats: ['png', 'jpeg', 'gif', 'webp']."
            .to_owned()
    })
}

type Begins = fn(&[u8]) -> bool;

const KINDS: [(&str, Begins); 4] = [
    ("image/png", |bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", |bytes| bytes.starts_with(b"\xff\xd8\xff")),
    ("image/gif", |bytes| bytes.starts_with(b"GIF8")),
    ("image/webp", |bytes| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")),
];

fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    KINDS.iter().find(|(_, begins)| begins(bytes)).map(|(kind, _)| *kind)
}
