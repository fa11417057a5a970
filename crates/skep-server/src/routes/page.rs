//! What a browser finds: the dashboard, or a page that says how to get it where the program was
//! built without.

use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse, Response};

use crate::routes::assets;

/// The dashboard.
#[utoipa::path(
    get, path = "/", tag = "document",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"))
)]
pub(crate) async fn show(headers: HeaderMap) -> Response {
    match assets::index() {
        Some(page) => page.answer(&headers),
        None => Html(include_str!("page.html")).into_response(),
    }
}
