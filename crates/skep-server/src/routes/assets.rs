//! The dashboard's files, built with the program and part of it.

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

pub(crate) struct Asset {
    pub(crate) path: &'static str,
    plain: &'static [u8],
    zipped: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Scripts, styles and pictures of our own and nothing else; words of a model are text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' blob:; connect-src 'self'; manifest-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page itself; nothing where the program was built without it.
pub(crate) fn index() -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == "index.html")
}

impl Asset {
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let zips = asked.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        let zipped = zips.is_some_and(|zips| zips.contains("gzip"));
        let body = if zipped { self.zipped } else { self.plain };
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind()));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if zipped {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if self.path.starts_with("assets/") {
            // Their names hold a hash of what is in them.
            let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
            headers.insert(CACHE_CONTROL, kept);
        }
        response
    }

    fn kind(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("webmanifest") => "application/manifest+json",
            _ => "application/octet-stream",
        }
    }
}
