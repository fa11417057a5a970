//! Browsers: a link signs one in, once. The cookie cannot be read by scripts, the key cannot be
//! sent by other pages; requests need both.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use skep_core::role::decide;
use skep_runtime::door::{Action, ErrorKind, Reach, Role};
use utoipa::ToSchema;

use crate::door::{Doors, Peer, ShowsSecret};
use crate::request::{BadBody, JsonBody, NotKept, Nothing, Params, Permit, Problem};
use crate::rest::tokens::RESERVED;

const ONCE_BYTES: usize = 128;
/// The largest body before anybody is known.
pub(crate) const LINK_BYTES: usize = 4096;
const NAME_CHARACTERS: usize = 64;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// What stands behind `#once=` in the link.
    #[schema(max_length = 128)]
    once: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Entered {
    name: String,
    role: Role,
    /// What the role may do.
    may: Vec<Action>,
    /// For the header `X-Skep-Key`, beside the cookie that comes with this answer.
    key: String,
}

/// Signs this browser in.
#[utoipa::path(
    post, path = "/api/v1/session", tag = "browsers", request_body = Link,
    responses(
        (status = 201, description = "Signed in for 30 days.", body = Entered), BadBody, NotKept
    )
)]
pub(crate) async fn enter(
    State(doors): State<Doors>,
    Extension(peer): Extension<Peer>,
    Params(Nothing {}): Params<Nothing>,
    JsonBody(link): JsonBody<Link, LINK_BYTES>,
) -> Result<Response, Problem> {
    if link.once.len() > ONCE_BYTES {
        return Err(Problem::bad_request("invalid_body", "no link of ours is that long"));
    }
    let entered = match doors.hive.sign_in(&link.once).await {
        // A guess as good as a wrong token.
        Err(error) if error.kind == ErrorKind::Forbidden => {
            let problem = Problem::from(error);
            let Peer::Network { remote, .. } = peer else { return Err(problem) };
            let quota = doors.lockout.hold_back(remote.ip(), &doors.closing).await?;
            return Err(problem.limited(quota));
        }
        entered => entered?,
    };
    let cookie = doors.site.cookie(&entered.cookie, entered.seconds);
    let (role, may) = (entered.role, may(entered.role));
    let body = Entered { name: entered.name, role, may, key: entered.key };
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    name: String,
    role: Role,
    /// What the role may do; what it may not is refused by every door.
    may: Vec<Action>,
}

/// As the table of roles has it. The hive is ended through its local socket alone.
fn may(role: Role) -> Vec<Action> {
    let mut actions = Action::ALL.to_vec();
    actions.retain(|it| *it != Action::Shutdown && decide(role, *it) != Reach::Nothing);
    actions
}

/// Who is asking.
#[utoipa::path(
    get, path = "/api/v1/session", tag = "browsers",
    responses((status = 200, description = "Who the credential belongs to.", body = Me))
)]
pub(crate) async fn show(permit: Permit, Params(Nothing {}): Params<Nothing>) -> Json<Me> {
    let role = permit.role();
    Json(Me { name: permit.principal().to_string(), role, may: may(role) })
}

/// Signs this browser out.
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "browsers",
    responses(
        (status = 204, description = "The cookie and the key open nothing any more; what they \
         kept open is closed."), NotKept
    )
)]
pub(crate) async fn leave(
    State(doors): State<Doors>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(cookie) = doors.site.cookie_of(&headers) {
        let browser = doors.hive.forget_browser(cookie);
        if let Some(browser) = browser {
            doors.standing.revoke(&browser);
            doors.hive.sign_out(&browser).await?;
        }
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&doors.site.cookie("", 0)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLink {
    /// Whose browser it is.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[\w.-]([\w. -]*[\w.-])?$")]
    name: Option<String>,
    role: Option<LinkRole>,
}

/// Roles that people have.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LinkRole {
    Operator,
    User,
    Viewer,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct MadeLink {
    /// Opens the dashboard and signs in, once, within ten minutes.
    link: String,
}

/// Makes a link that signs one browser in.
#[utoipa::path(
    post, path = "/api/v1/links", tag = "browsers", request_body = NewLink,
    responses((status = 201, description = "The link.", body = MadeLink), BadBody)
)]
pub(crate) async fn link(
    State(doors): State<Doors>,
    JsonBody(wanted): JsonBody<NewLink>,
) -> Result<Response, Problem> {
    let role = match wanted.role.unwrap_or(LinkRole::Operator) {
        LinkRole::Operator => Role::Operator,
        LinkRole::User => Role::User,
        LinkRole::Viewer => Role::Viewer,
    };
    let name = wanted.name.as_deref().unwrap_or(role.as_str()).trim();
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARACTERS;
    let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '));
    if !fits || !plain {
        let detail = "a name has 1 to 64 letters, digits, spaces, dots, dashes";
        return Err(Problem::bad_request("invalid_name", detail));
    }
    if role != Role::Operator && RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        let detail = format!("{name} means somebody else in rules; give the link another name");
        return Err(Problem::bad_request("invalid_name", detail));
    }
    let link = doors.site.link(&doors.hive.new_link(name, role));
    Ok((StatusCode::CREATED, Extension(ShowsSecret), Json(MadeLink { link })).into_response())
}
