//! What a browser finds: a page that says where it is. It contains nothing that varies.

use axum::response::Html;

/// What a browser finds here.
#[utoipa::path(
    get, path = "/", tag = "document",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"))
)]
pub(crate) async fn show() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
