//! How a route is declared: its handler, its description and who may use it, all in one line.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use skep_core::role::decide;
use skep_runtime::door::{Action, Identity, Role};
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::ParameterIn::{self, Query};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{OpenApi, RefOr, Required};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::door::{Doors, OpenRoutes};
use crate::request::{
    BODY_BYTES, BadBody, Clash, IdempotencyKey, LINES, LINES_BYTES, Nothing, Params, Permit,
    Problem, described, openai_error,
};
use crate::routes::keyed;

/// The name of the credential in the document.
pub(crate) const BEARER: &str = "token";

/// What every route may answer before its handler is asked.
const AT_THE_DOOR: [(u16, &str); 6] = [
    (400, "Something in the request cannot be used; `detail` says what."),
    (403, "The page this comes from, or the role of the token, may not do this."),
    (414, "The address is too long."),
    (421, "The Host is not a name of this hive."),
    (429, "Too many requests of this credential or address; `Retry-After` says when to go on."),
    (500, "The hive failed; its log says why."),
];
const BEHIND_IT: [(u16, &str); 2] = [
    (401, "No credential, or a wrong one."),
    (503, "Stopping, or the store cannot answer now: try again later, with the same id."),
];

/// Routes with their description.
pub(crate) struct Routes {
    router: OpenApiRouter<Doors>,
    open: OpenRoutes,
    /// Types as each route describes them: in the document one of a name is left.
    #[cfg(test)]
    pub(crate) types: Vec<(String, RefOr<utoipa::openapi::Schema>)>,
}

impl Routes {
    pub(crate) fn new(document: OpenApi) -> Self {
        Self {
            router: OpenApiRouter::with_openapi(document),
            open: OpenRoutes::default(),
            #[cfg(test)]
            types: Vec::new(),
        }
    }

    /// For those whom the table of roles lets do this.
    pub(crate) fn guarded(mut self, action: Action, routes: UtoipaMethodRouter<Doors>) -> Self {
        #[cfg(test)]
        self.types.extend(routes.0.iter().cloned());
        self.router = self.router.routes(declare(Some(action), routes));
        self
    }

    /// For everybody, without a credential. Such a path has no variable parts.
    pub(crate) fn open(mut self, routes: UtoipaMethodRouter<Doors>) -> Self {
        #[cfg(test)]
        self.types.extend(routes.0.iter().cloned());
        let mut paths = routes.1.paths.clone();
        for (path, item) in &mut paths {
            for (method, _) in operations(item) {
                self.open.add(method, path);
            }
        }
        self.router = self.router.routes(declare(None, routes));
        self
    }

    /// The routes, their description, and the paths that need no credential.
    pub(crate) fn split(self) -> (Router<Doors>, OpenApi, OpenRoutes) {
        let (router, document) = self.router.split_for_parts();
        (router, document, self.open)
    }
}

/// Variable parts of paths that many routes have: the word before each, its name, what it is.
const IN_PATHS: [(&str, &str, &str); 6] = [
    ("agents", "agent", "The name of an agent."),
    ("approvals", "id", "The id of an approval."),
    ("questions", "id", "The id of a question."),
    ("inbox", "id", "The id of an item."),
    ("sessions", "id", "The id of a session."),
    ("turns", "id", "The id of a turn."),
];

/// What holds for one path.
struct Rule {
    /// Nothing: open to everybody.
    action: Option<Action>,
    /// The statuses its document names.
    declared: HashMap<Method, BTreeSet<u16>>,
    /// Those whose document names no parameters of the address: none are accepted.
    bare: HashSet<Method>,
    /// Writes whose handler does not look at their `Idempotency-Key`, with their largest body.
    keyed: HashMap<Method, usize>,
}

fn declare(
    action: Option<Action>,
    (schemas, mut paths, router): UtoipaMethodRouter<Doors>,
) -> UtoipaMethodRouter<Doors> {
    let (mut declared, mut keyed, mut bare) = (HashMap::new(), HashMap::new(), HashSet::new());
    let all = paths.paths.iter_mut().flat_map(|(path, item)| {
        operations(item).into_iter().map(move |(method, operation)| (path, method, operation))
    });
    for (path, method, operation) in all {
        describe(action, operation);
        describe_path(path, operation);
        if action.is_some() && !parameters(operation).any(|known| known.parameter_in == Query) {
            bare.insert(method.clone());
        }
        if action.is_some() && method != Method::GET && describe_key(operation) {
            keyed.insert(method.clone(), largest_body(operation));
        }
        operation.operation_id = Some(id_of(&method, path));
        if path.starts_with("/v1/") {
            describe_for_openai(operation);
        }
        let statuses = operation.responses.responses.keys();
        declared.insert(method, statuses.filter_map(|text| text.parse().ok()).collect());
    }
    let rule = Arc::new(Rule { action, declared, bare, keyed });
    let guard = middleware::from_fn(move |request, next| pass(Arc::clone(&rule), request, next));
    (schemas, paths, router.route_layer(guard))
}

/// `post_api_agents_agent_stop`: handlers share short names, ids must not.
fn id_of(method: &Method, path: &str) -> String {
    let path = path.replacen("/api/v1/", "/api/", 1);
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let method = method.as_str().to_ascii_lowercase();
    std::iter::once(method.as_str()).chain(words).collect::<Vec<_>>().join("_")
}

fn operations(item: &mut PathItem) -> Vec<(Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?))).collect()
}

/// Adds what holds for every route: the refusals at the door, and who may.
fn describe(action: Option<Action>, operation: &mut Operation) {
    let mut add = |(status, why): (u16, &str)| {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_string()).or_insert_with(|| RefOr::T(described(why)));
    };
    AT_THE_DOOR.into_iter().for_each(&mut add);
    let Some(action) = action else {
        operation.security = Some(Vec::new());
        return;
    };
    BEHIND_IT.into_iter().for_each(&mut add);
    let none: [&str; 0] = [];
    operation.security = Some(vec![SecurityRequirement::new(BEARER, none)]);
    let reach = |role: &Role| (role.as_str().to_owned(), decide(*role, action).as_str().into());
    let roles: serde_json::Map<String, Value> = Role::ALL.iter().map(reach).collect();
    let extensions = ExtensionsBuilder::new()
        .add("x-skep-action", action.as_str())
        .add("x-skep-roles", Value::Object(roles))
        .build();
    operation.extensions = Some(extensions);
}

/// Adds what is known of the variable parts of a path, where the handler says nothing of them.
fn describe_path(path: &str, operation: &mut Operation) {
    let words: Vec<&str> = path.split('/').collect();
    let is_in = |word: &str, name: &str| {
        words.windows(2).any(|pair| pair[0] == word && pair[1] == format!("{{{name}}}"))
    };
    for (word, name, what) in IN_PATHS.into_iter().rev() {
        if is_in(word, name) && !parameters(operation).any(|known| known.name == name) {
            let text = ObjectBuilder::new().schema_type(Type::String);
            let parameter = ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .description(Some(what))
                .schema(Some(text));
            operation.parameters.get_or_insert_default().insert(0, RefOr::T(parameter.build()));
        }
    }
}

fn parameters(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    })
}

/// Adds the header to a write whose handler does not have it. True: it was added.
fn describe_key(operation: &mut Operation) -> bool {
    let key = IdempotencyKey::parameter();
    if parameters(operation).any(|known| known.name == key.name) {
        return false;
    }
    operation.parameters.get_or_insert_default().push(RefOr::T(key));
    for (status, why) in BadBody::responses().into_iter().chain(Clash::responses()) {
        operation.responses.responses.entry(status).or_insert(why);
    }
    true
}

fn largest_body(operation: &Operation) -> usize {
    let lines = match &operation.request_body {
        Some(RefOr::T(body)) => body.content.contains_key(LINES),
        _ => false,
    };
    if lines { LINES_BYTES } else { BODY_BYTES }
}

/// The same refusals in the form of that interface.
fn describe_for_openai(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.starts_with(['4', '5'])
        {
            *response = openai_error::described(&response.description);
        }
    }
}

async fn pass(rule: Arc<Rule>, mut request: Request, next: Next) -> Response {
    if let Some(action) = rule.action {
        let Some(identity) = request.extensions().get::<Identity>() else {
            return broken("a guarded route was reached without a credential");
        };
        match Permit::ask(identity, action) {
            Ok(permit) => drop(request.extensions_mut().insert(permit)),
            Err(refused) => return Problem::from(refused).into_response(),
        }
    }
    let method = match request.method() {
        &Method::HEAD => Method::GET,
        method => method.clone(),
    };
    if rule.bare.contains(&method)
        && let Err(refused) = Params::<Nothing>::of(request.uri())
    {
        return refused.into_response();
    }
    let response = match rule.keyed.get(&method) {
        Some(&most) => {
            answer_once(request, most, next).await.unwrap_or_else(IntoResponse::into_response)
        }
        None => next.run(request).await,
    };
    rule.check(&method, response)
}

/// A write; one with a key is carried out once.
async fn answer_once(request: Request, most: usize, next: Next) -> Result<Response, Problem> {
    let known = request.extensions().get::<Doors>().zip(request.extensions().get::<Identity>());
    match (IdempotencyKey::of(request.headers())?.0, known) {
        (None, _) => Ok(next.run(request).await),
        (Some(_), None) => Ok(broken("a write was reached without a credential")),
        (Some(key), Some((doors, identity))) => {
            let (doors, principal) = (Doors::clone(doors), identity.principal.clone());
            keyed::answer(&doors, &principal, key, most, request, next).await
        }
    }
}

impl Rule {
    /// An answer that the document does not name is a mistake of ours. While it is being worked
    /// on it shows; in a release whoever asked still gets it.
    fn check(&self, method: &Method, response: Response) -> Response {
        let status = response.status().as_u16();
        let known = self.declared.get(method).is_some_and(|known| known.contains(&status));
        if known || status == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        match cfg!(debug_assertions) {
            true => broken(&format!("the status {status} is not declared for this route")),
            false => {
                tracing::warn!(status, "an answer with a status that is not declared");
                response
            }
        }
    }
}

fn broken(why: &str) -> Response {
    tracing::error!(why, "a route is declared wrongly");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_status_that_is_not_declared_does_not_pass() {
        let declared = HashMap::from([(Method::GET, BTreeSet::from([200, 404]))]);
        let rule = Rule { action: None, declared, bare: HashSet::new(), keyed: HashMap::new() };
        let answer = |status: StatusCode| rule.check(&Method::GET, status.into_response());
        assert_eq!(answer(StatusCode::NOT_FOUND).status(), 404);
        assert_eq!(answer(StatusCode::CONFLICT).status(), 500);
    }
}
