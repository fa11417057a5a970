//! The way in: every request passes here first, whatever its route.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use skep_guard::random;
use skep_runtime::door::Identity;
use tokio::sync::OwnedSemaphorePermit;

use crate::door::browser::{self, Carried};
use crate::door::cors::Cors;
use crate::door::redact_response;
use crate::door::state::{DoorState, Doors};
use crate::door::strangers::StrangerPlace;
use crate::request::{Intake, Problem, is_id, only, openai_error};

/// Longer than any address of ours with all its parameters.
pub(crate) const URI_BYTES: usize = 8192;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer than any token of ours.
const TOKEN_BYTES: usize = 512;

/// Who is at the other end of a connection, as the kernel says. Nothing in a request changes it.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    Network {
        remote: SocketAddr,
        local: SocketAddr,
    },
    /// The local socket, opened by the owner of the home.
    Owner,
    /// The local socket, opened by somebody else.
    Stranger,
}

/// A connection's place among those we hold; what outlives the request keeps a copy.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    _permit: Arc<OwnedSemaphorePermit>,
    stranger: Arc<Mutex<Option<StrangerPlace>>>,
}

impl ConnectionSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Arc::new(permit), stranger: Arc::default() }
    }

    pub(crate) fn of_stranger(permit: OwnedSemaphorePermit, place: StrangerPlace) -> Self {
        Self { stranger: Arc::new(Mutex::new(Some(place))), ..Self::new(permit) }
    }

    /// Somebody showed a right credential here.
    fn known(&self) {
        self.stranger.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// What is needed to let somebody in.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) doors: Doors,
    /// What needs no credential.
    pub(crate) open: Arc<OpenRoutes>,
}

/// What needs no credential: it says that a hive is here and no more, or lets somebody in.
#[derive(Default)]
pub(crate) struct OpenRoutes(HashSet<(Method, String)>);

impl OpenRoutes {
    pub(crate) fn add(&mut self, method: Method, path: &str) {
        self.0.insert((method, path.to_owned()));
    }

    pub(crate) fn has(&self, method: &Method, path: &str) -> bool {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.contains(&(method, path.to_owned()))
    }
}

pub(crate) async fn admit(
    State(entrance): State<Entrance>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let openai = parts.uri.path().starts_with("/v1/");
    let asked = Asked::of(&parts);
    let request_id = request_id(&parts.headers);
    let cors = Cors::of(&entrance.doors.site.hosts, &parts.headers);
    let question = cors.as_ref().and_then(|cors| cors.preflight(&parts));
    let mut response = match check(&entrance, &parts, question.is_some()).await {
        Ok(None) if question.is_some() => question.unwrap_or_default(),
        Ok(identity) => {
            let wanted = identity.clone().zip(asked.decision(&parts));
            if let Some(identity) = identity {
                parts.extensions.insert(identity);
            }
            let response = answer(Request::from_parts(parts, body), next).await;
            if let Some((identity, approval)) = wanted
                && response.status() == StatusCode::FORBIDDEN
            {
                entrance.doors.hive.note_refused(&approval, &identity, "rest").await;
            }
            response
        }
        Err(problem) => problem.into_response(),
    };
    if openai {
        response = openai_error::reshape(response);
    }
    response = redact_response::clean(response).await;
    harden(response.headers_mut());
    if let Some(cors) = cors {
        cors.allow(response.headers_mut());
    }
    tracing::debug!(
        request_id = request_id.to_str().unwrap_or_default(),
        method = asked.method,
        route = asked.route,
        status = response.status().as_u16(),
        "answered"
    );
    response.headers_mut().insert(REQUEST_ID, request_id);
    entrance.doors.metrics.answered(asked.method, &asked.route, response.status().as_u16());
    response
}

/// The client's own id of the request, or one of ours: both sides can look for it in their logs.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(&REQUEST_ID).filter(|given| given.to_str().is_ok_and(is_id));
    if let Some(given) = given {
        return given.clone();
    }
    let made = format!("req_{}", random::uuid().simple());
    HeaderValue::from_str(&made).unwrap_or(HeaderValue::from_static("req_"))
}

/// A request as it is counted: by the route as declared, never by its address.
struct Asked {
    method: &'static str,
    route: String,
}

impl Asked {
    fn of(request: &Parts) -> Self {
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = known.into_iter().find(|known| request.method == *known).unwrap_or("other");
        let matched = request.extensions.get::<MatchedPath>();
        let route = matched.map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
        Self { method, route }
    }

    /// The approval that is to be decided or asked again.
    fn decision(&self, request: &Parts) -> Option<String> {
        let rest = self.route.strip_prefix("/api/v1/approvals/{id}/")?;
        let at = request.uri.path().split('/').nth(4)?;
        (self.method == "POST" && !rest.is_empty()).then(|| at.to_owned())
    }
}

/// A panic in a handler ends its own request alone.
async fn answer(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request handler panicked");
            let detail = "something went wrong inside; the log of the hive has the details";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
        }
    }
}

/// Who comes in; nobody in particular on the open routes, and where a browser only `asks`.
async fn check(
    entrance: &Entrance,
    request: &Parts,
    asks: bool,
) -> Result<Option<Identity>, Problem> {
    let Entrance { doors, open } = entrance;
    let uri = &request.uri;
    if uri_length(uri) > URI_BYTES {
        let detail = format!("the address is longer than {URI_BYTES} bytes");
        return Err(Problem::new(StatusCode::URI_TOO_LONG, "uri_too_long", detail));
    }
    refuse_token_in_url(uri)?;
    let peer = request.extensions.get::<Peer>().cloned().unwrap_or(Peer::Stranger);
    let headers = &request.headers;
    match peer {
        Peer::Stranger => {
            let detail = "this socket serves processes of the home's owner only; run as that \
                          user, or use --url with a token in SKEP_TOKEN";
            Err(Problem::new(StatusCode::FORBIDDEN, "not_owner", detail))
        }
        Peer::Owner => {
            check_origin(doors, headers, None)?;
            Ok(Some(Identity::owner()))
        }
        Peer::Network { remote, local } => {
            let open = asks || open.has(&request.method, uri.path());
            let unknown = match recognise(doors, request, local, open) {
                Ok(Some(identity)) => {
                    note_known(request, &identity);
                    return doors.rates.known(&doors.hive, &identity).map(|()| Some(identity));
                }
                unknown => unknown,
            };
            doors.rates.stranger(remote.ip())?;
            match unknown {
                Ok(_) => Ok(None),
                Err(Unknown::Refused(problem)) => Err(problem),
                Err(Unknown::Wrong(why)) => {
                    let quota = doors.lockout.hold_back(remote.ip(), &doors.closing).await?;
                    Err(unauthorized(why).limited(quota))
                }
            }
        }
    }
}

/// From here on the connection is theirs.
fn note_known(request: &Parts, identity: &Identity) {
    if let Some(slot) = request.extensions.get::<ConnectionSlot>() {
        slot.known();
    }
    if let Some(intake) = request.extensions.get::<Intake>() {
        intake.belongs_to(&identity.principal);
    }
}

fn uri_length(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// Addresses end up in logs, histories and referrers; a credential there is as good as lost.
fn refuse_token_in_url(uri: &Uri) -> Result<(), Problem> {
    let Some(query) = uri.query() else { return Ok(()) };
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or(pair));
    for name in names {
        let name = name.to_ascii_lowercase();
        let secret = ["token", "access_token", "auth", "authorization", "api_key", "apikey", "key"];
        if secret.contains(&name.as_str()) {
            let detail = format!(
                "a credential in an address ({name}=…) is not accepted: addresses are logged. \
                 Send it as the header Authorization: Bearer …, and revoke the one just sent"
            );
            return Err(Problem::bad_request("token_in_url", detail));
        }
    }
    Ok(())
}

fn check_host(
    doors: &DoorState,
    uri: &Uri,
    headers: &HeaderMap,
    local: SocketAddr,
) -> Result<(), Problem> {
    let Some(host) = only(headers, &header::HOST)? else {
        return Err(Problem::bad_request("host_missing", "the request has no Host header"));
    };
    // A request line with a whole address in it names its host twice.
    let agrees = uri.authority().is_none_or(|authority| authority.as_str() == host);
    if agrees && doors.site.hosts.allows_host(host, local) {
        return Ok(());
    }
    let detail = "this name is not one of this hive; use the address `skep up` printed, or set \
                  server.public_url in skep.yaml";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host_not_allowed", detail))
}

fn check_origin(
    doors: &DoorState,
    headers: &HeaderMap,
    local: Option<SocketAddr>,
) -> Result<(), Problem> {
    let Some(origin) = only(headers, &header::ORIGIN)? else { return Ok(()) };
    let host = only(headers, &header::HOST)?;
    if doors.site.hosts.allows_origin(origin, host, local) {
        return Ok(());
    }
    let detail = "pages of this origin may not use this hive; list it under \
                  server.allowed_origins in skep.yaml if they should";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin_not_allowed", detail))
}

/// Why nobody was recognised.
enum Unknown {
    Refused(Problem),
    /// A credential that opens nothing, and what to do.
    Wrong(&'static str),
}

impl From<Problem> for Unknown {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// Who sends this; nobody in particular where it is `open` to everybody.
fn recognise(
    doors: &DoorState,
    request: &Parts,
    local: SocketAddr,
    open: bool,
) -> Result<Option<Identity>, Unknown> {
    let headers = &request.headers;
    check_host(doors, &request.uri, headers, local)?;
    check_origin(doors, headers, Some(local))?;
    if open {
        return Ok(None);
    }
    if let Some(given) = only(headers, &header::AUTHORIZATION)? {
        let found = bearer(given).and_then(|token| doors.hive.authenticate(token));
        let wrong = "this token is not valid (any more); `skep token new NAME` makes one";
        return found.map(Some).ok_or(Unknown::Wrong(wrong));
    }
    match browser::carried(doors, headers)? {
        Carried::Known(identity) => Ok(Some(identity)),
        Carried::Wrong => Err(Unknown::Wrong(
            "this browser is not signed in (any more); `skep link` makes a link",
        )),
        Carried::Nothing => Err(Unknown::Refused(unauthorized(
            "this needs a token: send Authorization: Bearer <token> (`skep token new NAME` makes \
             one), or sign in with a link (`skep link`)",
        ))),
    }
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let usable = !token.is_empty() && token.len() <= TOKEN_BYTES;
    (scheme.eq_ignore_ascii_case("bearer") && usable).then_some(token)
}

fn harden(headers: &mut HeaderMap) {
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Files of the page, the same for everybody, may be kept.
    let kept = headers.entry(header::CACHE_CONTROL);
    kept.or_insert(HeaderValue::from_static("no-store"));
    // A page of ours says itself what it needs.
    let nothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(nothing));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bearer_values() {
        let long = format!("Bearer {}", "x".repeat(TOKEN_BYTES + 1));
        let cases = [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
            (long.as_str(), None),
        ];
        for (value, expected) in cases {
            assert_eq!(bearer(value), expected, "{value}");
        }
    }

    #[test]
    fn credentials_in_addresses() {
        for bad in ["/?token=x", "/ws?channel=a&access_token=x", "/?Api_Key", "/x?a=b&KEY=1"] {
            assert!(refuse_token_in_url(&bad.parse().unwrap()).is_err(), "{bad}");
        }
        for good in ["/", "/token", "/x?session_key=main", "/x?q=token"] {
            assert!(refuse_token_in_url(&good.parse().unwrap()).is_ok(), "{good}");
        }
    }
}
