//! The rig's second channel, there when `RIG_CHANNEL` says what it does: `take`, `absent`.
//! `POST /say {channel?, text}` hands a message in through it, `GET /frames` gives its frames.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::channel::Channel;
use skep_core::ids::{AgentName, ChannelId, Principal, SessionKey};
use skep_core::inbound::{Inbound, Source};
use skep_runtime::Hive;
use skep_testkit::channel::{Manner, ScriptedChannel};

#[derive(Deserialize)]
struct Saying {
    channel: Option<ChannelId>,
    text: String,
}

type Rig = (Hive, Arc<ScriptedChannel>);

pub fn routes(hive: &Hive) -> Router {
    let manner = match std::env::var("RIG_CHANNEL").as_deref() {
        Ok("take") => Manner::Take,
        Ok("absent") => Manner::Absent,
        _ => return Router::new(),
    };
    let channel = ScriptedChannel::new("pigeon", manner);
    hive.add_channel(Arc::clone(&channel) as Arc<dyn Channel>);
    let router = Router::new().route("/say", post(say)).route("/frames", get(frames));
    router.with_state((hive.clone(), channel))
}

async fn say(State((hive, channel)): State<Rig>, Json(saying): Json<Saying>) -> Json<Value> {
    let principal = Principal::new("operator");
    let opened = hive.open_channel("pigeon", &principal, saying.channel).await.unwrap();
    let inbound = Inbound {
        agent: AgentName::new("main"),
        session_key: SessionKey::new(opened.channel.as_str()),
        text: saying.text,
        attachments: Vec::new(),
        mode: None,
        think: None,
        principal,
        source: Source::Socket { channel: opened.channel.clone(), id: None },
    };
    let receipt = channel.inbound().unwrap().submit(inbound).await.unwrap();
    Json(json!({"channel": opened.channel, "item_id": receipt.item_id}))
}

async fn frames(State((_, channel)): State<Rig>) -> Json<Value> {
    let sent = channel.sent();
    Json(sent.iter().map(|frame| frame.to_wire()).collect())
}
