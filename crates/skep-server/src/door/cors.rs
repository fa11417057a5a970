//! Pages of other origins that the operator listed: what a browser asks before it lets one call,
//! and what the page may read of the answer. They bring a token; cookies do not go across.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::door::hosts::Hosts;

const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
/// What a page needs beyond the body.
const READABLE: &str = "ratelimit, ratelimit-policy, retry-after, x-request-id, x-should-retry";
/// Seconds a browser keeps the answer.
const KEPT: &str = "600";

/// A request that a page of a listed origin makes.
pub(crate) struct Cors {
    origin: HeaderValue,
}

impl Cors {
    pub(crate) fn of(hosts: &Hosts, headers: &HeaderMap) -> Option<Self> {
        let origin = headers.get(header::ORIGIN)?;
        hosts.lists_origin(origin.to_str().ok()?).then(|| Self { origin: origin.clone() })
    }

    /// The answer to the browser's question, where the request is one; no credential comes with it.
    pub(crate) fn preflight(&self, request: &Parts) -> Option<Response> {
        let asks = request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if request.method != Method::OPTIONS || !asks {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(KEPT));
        // The operator trusts the origin, and no header but the token gives a right: libraries
        // send headers of their own, which no list of ours could name.
        if let Some(asked) = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        }
        Some(response)
    }

    /// Lets the page read the answer.
    pub(crate) fn allow(self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READABLE));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}
