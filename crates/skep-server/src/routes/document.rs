//! The OpenAPI document of every route, and a page to read it.

use std::sync::Arc;

use axum::extract::Extension;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Map, Value, json};
use skep_core::event::Event;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use crate::request::{OpenAiError, ProblemBody};
use crate::routes::declared::BEARER;
use crate::routes::reader;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Skep",
        description = "A hive of agents. Every refusal is application/problem+json with a stable \
                       `code`. Who may use a route stands at it as `x-skep-roles`: `all`, `own` \
                       (the role's own conversations) or `nothing`.",
    ),
    components(schemas(ProblemBody, OpenAiError, Event))
)]
struct Frame;

/// What stands around the routes.
pub(crate) fn frame() -> utoipa::openapi::OpenApi {
    let mut document = Frame::openapi();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    document.components.get_or_insert_default().add_security_scheme(BEARER, scheme);
    document
}

/// The document as it is served; it does not change while the program runs.
#[derive(Clone)]
pub(crate) struct Served {
    json: Arc<str>,
    html: Arc<str>,
}

/// The OpenAPI document of this program.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "document",
    responses((status = 200, description = "OpenAPI 3.1.", body = serde_json::Value))
)]
pub(crate) async fn json(Extension(served): Extension<Served>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], served.json.to_string()).into_response()
}

/// This interface, to read in a browser.
#[utoipa::path(
    get, path = "/api", tag = "document",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"))
)]
pub(crate) async fn page(Extension(served): Extension<Served>) -> Response {
    let policy = [(header::CONTENT_SECURITY_POLICY, reader::POLICY.as_str())];
    (policy, Html(served.html.to_string())).into_response()
}

impl Served {
    pub(crate) fn new(document: &utoipa::openapi::OpenApi) -> Self {
        let value = to_json(document);
        Self { json: value.to_string().into(), html: reader::render(&value).into() }
    }
}

pub(crate) fn to_json(document: &utoipa::openapi::OpenApi) -> Value {
    // The document is plain data: it always serialises.
    let mut value = serde_json::to_value(document).unwrap_or_default();
    name_choices(&mut value["components"]["schemas"]);
    value
}

/// Gives every choice of a schema that is made of another one a name of its own: makers of clients
/// lose a choice that has none, and with it everything that refers to it.
fn name_choices(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else { return };
    spread_choices(schemas);
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for (number, choice) in choices.into_iter().flatten().enumerate() {
            if choice.get("allOf").is_some() {
                let own = format!("{name}Choice{number}");
                let reference = json!({"$ref": format!("#/components/schemas/{own}")});
                named.insert(own, std::mem::replace(choice, reference));
            }
        }
    }
    schemas.extend(named);
}

/// Puts what a schema adds to a choice into every one of its choices: makers of clients cannot
/// join a choice and an object.
fn spread_choices(schemas: &mut Map<String, Value>) {
    let known = schemas.clone();
    let choices_of = |part: &Value| {
        let name = part["$ref"].as_str()?.rsplit('/').next()?;
        known.get(name)?.get("oneOf")?.as_array()
    };
    for schema in schemas.values_mut() {
        let Some(parts) = schema["allOf"].as_array().cloned() else { continue };
        let found = parts.iter().enumerate().find_map(|(at, part)| Some((at, choices_of(part)?)));
        let Some((at, choices)) = found else { continue };
        let joined = choices.iter().map(|choice| {
            let mut parts = parts.clone();
            parts[at] = choice.clone();
            json!({"allOf": parts})
        });
        *schema = json!({"oneOf": joined.collect::<Vec<_>>()});
    }
}
