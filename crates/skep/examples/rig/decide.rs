//! The rig's door for decisions on waiting calls: `POST /decide {turn, call, value}` on a port of
//! its own, named by a line on standard output.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use skep_core::ids::{CallId, TurnId};
use skep_runtime::Hive;

#[derive(Deserialize)]
struct Decision {
    turn: TurnId,
    call: CallId,
    value: Value,
}

pub fn open(hive: &Hive) {
    let router = Router::new().route("/decide", post(decide)).with_state(hive.clone());
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
