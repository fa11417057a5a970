//! The last look at what leaves. A row may be older than what is known as a secret today: a key
//! that somebody pasted before it was put into a profile.

use axum::body::{self, Body, HttpBody};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;

/// On an answer whose purpose is to show a secret, this once.
#[derive(Clone, Copy)]
pub(crate) struct ShowsSecret;

/// The answer without secrets. Streams are cleaned where their pieces are made.
pub(crate) async fn clean(response: Response) -> Response {
    let shows = response.extensions().get::<ShowsSecret>().is_some();
    let whole = response.body().size_hint().exact().is_some();
    if shows || !whole || !is_json(response.headers()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    // All of it is in memory already.
    let body = body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(parts, Body::from(clean_bytes(body)))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/") && kind.contains("json"))
}

fn clean_bytes(bytes: Bytes) -> Bytes {
    match String::from_utf8(bytes.into()) {
        Ok(text) => skep_scrub::known().clean_json_text(text).into(),
        Err(other) => other.into_bytes().into(),
    }
}
