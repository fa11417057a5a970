//! The rig's door, on a port of its own that a line on standard output names: `POST /decide {turn,
//! call, value}` for waiting calls, `POST /offer {tools, hooks}` for what a source of tools offers
//! from now on.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use skep_core::hook::Hook;
use skep_core::ids::{AgentName, CallId, TurnId};
use skep_runtime::{Hive, Offer};

use crate::{channel, hooks, tools};

#[derive(Deserialize)]
struct Decision {
    turn: TurnId,
    call: CallId,
    value: Value,
}

#[derive(Deserialize)]
struct Offered {
    tools: Vec<String>,
    hooks: Vec<OfferedHook>,
}

#[derive(Deserialize)]
struct OfferedHook {
    name: String,
    agent: Option<AgentName>,
    priority: i32,
}

pub fn open(hive: &Hive) {
    let router = Router::new().route("/decide", post(decide)).route("/offer", post(offer));
    let router = router.with_state(hive.clone()).merge(channel::routes(hive));
    tokio::spawn(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("deciding on http://{}", listener.local_addr().unwrap());
        axum::serve(listener, router).await.unwrap();
    });
}

async fn decide(State(hive): State<Hive>, Json(decision): Json<Decision>) -> StatusCode {
    match hive.decide(&decision.turn, &decision.call, decision.value).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::CONFLICT,
    }
}

async fn offer(State(hive): State<Hive>, Json(offered): Json<Offered>) -> (StatusCode, String) {
    let hooks = offered.hooks.into_iter().map(|OfferedHook { name, agent, priority }| Hook {
        agent,
        priority,
        ..hooks::named(&name)
    });
    let tools = offered.tools.iter().map(|name| tools::look(name)).collect();
    match hive.offer("rig", Offer { tools, hooks: hooks.collect(), subagents: None }) {
        Ok(()) => (StatusCode::NO_CONTENT, String::new()),
        Err(why) => (StatusCode::CONFLICT, why),
    }
}
