//! Every route there is, how one is declared, and the document that describes them.
//!
//! A route is declared in three places that the compiler and the tests keep together:
//! 1. Its handler carries `#[utoipa::path(…)]`: method, path, parameters (`params(…)`, from an
//!    `IntoParams` struct for the query), body, every answer. `responses(…)` lists the good ones
//!    and names the groups of refusals that apply (`problem::{Missing, Clash, BadBody, NotKept}`).
//!    What every route may answer (400, 401, 403, 414, 421, 429, 500, 503) is added by itself. The
//!    doc comment of the handler is what a reader of the document sees. Types it shows derive
//!    `ToSchema`.
//! 2. It takes a [`Permit`](crate::request::permit::Permit) and hands `permit.sight()` to whatever
//!    it reads, and `permit.session_key(given, "main")` to whatever it writes: users and channels
//!    reach only their own conversations.
//! 3. A line in [`routes`] under the action of the table of roles (`skep_core::role`) it belongs
//!    to: `.guarded(Action::ReadHistory, routes!(agents::history))`.
//!
//! An answer with a status that is not declared is a 500 in debug builds, so that tests fail.

mod assets;
mod declared;
mod document;
mod keyed;
mod page;
#[cfg(test)]
mod page_types_tests;
mod reader;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware;
use axum::routing::get;
use skep_runtime::door::Action;
use utoipa_axum::routes;

use crate::door::{Doors, Entrance, admission};
use crate::request::problem::Problem;
use crate::rest::{
    agents, approvals, audit, budgets, calls, commands, events, files, hive, items, logs, messages,
    metrics, policies, providers, questions, search, session, sessions, tokens, usage, vault,
    workspace,
};
use crate::{openai, ws};
use declared::Routes;

/// Every route there is.
fn routes() -> Routes {
    Routes::new(document::frame())
        .open(routes!(page::show))
        .open(routes!(session::enter))
        .guarded(Action::SeeSelf, routes!(session::show, session::leave))
        .guarded(Action::ManageTokens, routes!(session::link))
        .open(routes!(document::page))
        .open(routes!(document::json))
        .open(routes!(hive::health))
        .open(routes!(hive::health_short))
        .open(routes!(hive::ready))
        .open(routes!(hive::ready_short))
        .guarded(Action::ListAgents, routes!(agents::list))
        .guarded(Action::ListAgents, routes!(commands::list))
        .guarded(Action::ReadHistory, routes!(agents::history))
        .guarded(Action::ReadHistory, routes!(search::search))
        .guarded(Action::ReadHistory, routes!(sessions::list))
        .guarded(Action::ReadHistory, routes!(sessions::show))
        .guarded(Action::ReadHistory, routes!(sessions::export))
        .guarded(Action::ReadHistory, routes!(sessions::changes))
        .guarded(Action::ReadFiles, routes!(workspace::show))
        .guarded(Action::ReadFiles, routes!(workspace::content))
        .guarded(Action::Talk, routes!(sessions::edit, sessions::delete))
        .guarded(Action::Talk, routes!(sessions::fork))
        .guarded(Action::Talk, routes!(sessions::regenerate))
        .guarded(Action::Talk, routes!(sessions::compact))
        .guarded(Action::Configure, routes!(sessions::import))
        .guarded(Action::ReadHistory, routes!(messages::follow))
        .guarded(Action::ReadHistory, routes!(files::show))
        .guarded(Action::Talk, routes!(messages::send))
        .guarded(Action::Talk, routes!(agents::stop))
        .guarded(Action::Configure, routes!(agents::life))
        .guarded(Action::Configure, routes!(agents::create))
        .guarded(Action::Configure, routes!(agents::remove))
        .guarded(Action::ReadSettings, routes!(agents::templates))
        .guarded(Action::Configure, routes!(agents::make_team))
        .guarded(Action::ReadSettings, routes!(agents::settings))
        .guarded(Action::Configure, routes!(agents::save_settings))
        .guarded(Action::Configure, routes!(agents::check_settings))
        .guarded(Action::Watch, routes!(hive::state))
        .guarded(Action::Watch, routes!(hive::inbox))
        .guarded(Action::Watch, routes!(items::work))
        .guarded(Action::Watch, routes!(items::timing))
        .guarded(Action::Watch, routes!(items::show))
        .guarded(Action::Talk, routes!(items::cancel))
        .guarded(Action::Talk, routes!(items::retry))
        .guarded(Action::Talk, routes!(items::retry_now))
        .guarded(Action::Watch, routes!(events::stream))
        .guarded(Action::ReadMetrics, routes!(metrics::show))
        .guarded(Action::ReadMetrics, routes!(usage::list))
        .guarded(Action::Connect, routes!(ws::upgrade))
        .guarded(Action::ListAgents, routes!(openai::models))
        .guarded(Action::ListAgents, routes!(openai::model))
        .guarded(Action::Talk, routes!(openai::complete))
        .guarded(Action::Watch, routes!(approvals::list))
        .guarded(Action::Watch, routes!(approvals::show))
        .guarded(Action::Watch, routes!(approvals::covers))
        .guarded(Action::Watch, routes!(approvals::file))
        .guarded(Action::Decide, routes!(approvals::decide))
        .guarded(Action::Approve, routes!(approvals::reopen))
        .guarded(Action::ReadSettings, routes!(policies::show))
        .guarded(Action::ReadSettings, routes!(agents::prompt))
        .guarded(Action::ReadSettings, routes!(agents::skills))
        .guarded(Action::ReadSettings, routes!(policies::why))
        .guarded(Action::ReadSettings, routes!(policies::grants))
        .guarded(Action::Approve, routes!(policies::grant))
        .guarded(Action::Approve, routes!(policies::revoke))
        .guarded(Action::ReadLogs, routes!(logs::list))
        .guarded(Action::ReadAudit, routes!(audit::list))
        .guarded(Action::ReadAudit, routes!(budgets::list))
        .guarded(Action::ReadAudit, routes!(calls::list_unknown))
        .guarded(Action::Configure, routes!(calls::resolve))
        .guarded(Action::ReadAudit, routes!(questions::list))
        .guarded(Action::Approve, routes!(questions::answer))
        .guarded(Action::Approve, routes!(questions::close))
        .guarded(Action::ReadAudit, routes!(audit::verify))
        .guarded(Action::ReadAudit, routes!(audit::export))
        .guarded(Action::ReadSettings, routes!(providers::list))
        .guarded(Action::Configure, routes!(providers::save, providers::remove))
        .guarded(Action::Configure, routes!(providers::try_out))
        .guarded(Action::ManageTokens, routes!(tokens::list, tokens::create))
        .guarded(Action::ManageTokens, routes!(tokens::revoke))
        .guarded(Action::ManageTokens, routes!(vault::show))
        .guarded(Action::ManageTokens, routes!(vault::set, vault::remove))
        .guarded(Action::ManageTokens, routes!(vault::rotate))
        .guarded(Action::ManageTokens, routes!(vault::move_in))
        .guarded(Action::ManageTokens, routes!(vault::scan))
        .guarded(Action::Shutdown, routes!(hive::shutdown))
}

pub(crate) fn router(doors: Doors) -> Router {
    let (mut router, document, mut open) = routes().split();
    for asset in assets::ASSETS.iter().filter(|asset| asset.path != "index.html") {
        let path = format!("/{}", asset.path);
        open.add(Method::GET, &path);
        router = router.route(&path, get(async |headers: HeaderMap| asset.answer(&headers)));
    }
    let entrance = Entrance { doors: Arc::clone(&doors), open: Arc::new(open) };
    router
        .layer(axum::Extension(document::Served::new(&document)))
        .layer(axum::Extension(Doors::clone(&doors)))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(entrance, admission::admit))
        .with_state(doors)
}

async fn unknown_route(uri: Uri) -> Problem {
    let shown = skep_scrub::known().beginning(uri.path(), 200);
    let detail = format!("there is nothing at {shown}");
    Problem::new(StatusCode::NOT_FOUND, "unknown_route", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let shown = skep_scrub::known().beginning(uri.path(), 200);
    let detail = format!("{shown} does not answer to {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_route_says_who_may_and_has_a_name_of_its_own() {
        let (_, document, open) = routes().split();
        let document = serde_json::to_value(document).unwrap();
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{id} is twice there");
                let guarded = operation["x-skep-roles"] != Value::Null;
                let way = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                assert_ne!(guarded, open.has(&way, path), "{method} {path}");
                assert!(guarded || !path.contains('{'), "{path} is open and varies");
                assert!(operation["summary"].is_string(), "{method} {path} says nothing");
            }
        }
        assert!(ids.len() > 20, "{ids:?}");
    }

    #[test]
    fn every_write_of_somebody_known_takes_a_key() {
        let (_, document, open) = routes().split();
        let document = serde_json::to_value(document).unwrap();
        let mut writes = 0;
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let way = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                let parameters = operation["parameters"].as_array();
                let keys = parameters.into_iter().flatten();
                let keys = keys.filter(|parameter| parameter["name"] == "Idempotency-Key").count();
                let write = way != Method::GET && !open.has(&way, path);
                assert_eq!(keys, usize::from(write), "{method} {path}");
                writes += keys;
            }
        }
        assert!(writes > 15, "{writes}");
    }

    /// Of two types with one name the document would show one, for both.
    #[test]
    fn every_type_has_a_name_of_its_own() {
        let types = routes().types;
        let mut known = BTreeMap::new();
        for (name, schema) in &types {
            let schema = serde_json::to_value(schema).unwrap();
            let before = known.entry(name).or_insert_with(|| schema.clone());
            assert_eq!(*before, schema, "two types are called {name}");
        }
        assert!(known.len() > 30, "{:?}", known.keys());
    }
}
