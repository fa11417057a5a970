#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn headers_of_the_connection_and_of_its_owner_stay_here() {
    let table = [
        ("accept", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "one,two"),
        ("user-agent", "program/1"),
        ("Authorization", "Bearer x"),
        ("X-Api-Key", "x"),
        ("cookie", "a=b"),
        ("host", "model.skep"),
        ("connection", "keep-alive, X-Private"),
        ("x-private", "1"),
        ("accept-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("expect", "100-continue"),
        ("openai-organization", "org"),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in table {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    let mut went: Vec<String> = to_vendor(&headers).into_iter().map(|(name, _)| name).collect();
    went.sort();
    assert_eq!(went, ["accept", "anthropic-beta", "anthropic-version", "user-agent"]);

    let answered = ["retry-after", "request-id", "content-type", "set-cookie", "connection", "x-y"];
    let answered = answered.map(|name| (name.to_owned(), b"x-y".to_vec()));
    let came = to_process(answered.to_vec());
    let mut came: Vec<&str> = came.keys().map(HeaderName::as_str).collect();
    came.sort_unstable();
    assert_eq!(came, ["content-type", "request-id", "retry-after"]);
}
