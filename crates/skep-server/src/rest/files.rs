//! The files of messages.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use skep_core::file::{image_type, is_hash};
use utoipa::ToSchema;

use crate::door::state::Doors;
use crate::request::{Missing, Permit, Problem, Segments};

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes an answer in the OpenAPI document")]
pub(super) struct FileContent(Vec<u8>);

/// A file of a message, for whoever may see a conversation that has it.
///
/// Pictures come as what they are; everything else is for saving, never for showing here.
#[utoipa::path(
    get, path = "/api/v1/files/{hash}", tag = "history",
    params(("hash" = String, Path, pattern = "^[0-9a-f]{64}$",
            description = "The `hash` of a file block: the SHA-256 of the content.")),
    responses(
        (status = 200, description = "The content.", content(
            (FileContent = "application/octet-stream"), (FileContent = "image/png"),
            (FileContent = "image/jpeg"), (FileContent = "image/gif"), (FileContent = "image/webp")
        )),
        Missing
    )
)]
pub(crate) async fn show(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(hash): Segments<String>,
) -> Result<Response, Problem> {
    if !is_hash(&hash) {
        let detail = "the hash of a file has 64 hexadecimal digits in lower case";
        return Err(Problem::bad_request("invalid_path", detail));
    }
    let (credential, sight) = (permit.credential(), permit.sight());
    let (name, bytes) = doors.hive.file(&hash, credential, &sight).await?;
    // The address is the content: it never changes. Who may see it can.
    let picture = image_type(&bytes);
    Ok(answer(&name, picture, bytes.into(), "private, max-age=3600, immutable"))
}

/// A file as an answer. The bytes decide: whatever a name or a row says, nothing but a picture is
/// shown in a browser.
pub(super) fn answer(
    name: &str,
    kind: Option<&'static str>,
    body: Body,
    cache: &'static str,
) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    let plain = |text| HeaderValue::from_static(text);
    let fixed = [
        (header::CONTENT_TYPE, plain(kind.unwrap_or("application/octet-stream"))),
        (header::X_CONTENT_TYPE_OPTIONS, plain("nosniff")),
        (header::CONTENT_SECURITY_POLICY, plain("default-src 'none'; sandbox")),
        (HeaderName::from_static("cross-origin-resource-policy"), plain("same-origin")),
        (header::CACHE_CONTROL, plain(cache)),
    ];
    for (name, value) in fixed {
        headers.insert(name, value);
    }
    let how = if kind.is_some() { "inline" } else { "attachment" };
    let name = skep_scrub::known().clean(name);
    let disposition = format!("{how}; filename*=UTF-8''{}", escaped(&name));
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// A name as RFC 8187 wants it in a header.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_the_header() {
        let hostile = "a\"; filename=x\r\nSet-Cookie: ä.html";
        assert_eq!(escaped(hostile), "a%22%3B%20filename%3Dx%0D%0ASet-Cookie%3A%20%C3%A4.html");
    }
}
