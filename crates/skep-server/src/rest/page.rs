//! What a browser finds: a page that says where it is. It contains nothing that varies.

use axum::response::Html;

pub(crate) async fn show() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
