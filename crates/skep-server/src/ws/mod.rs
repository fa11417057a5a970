//! The WebSocket channel, `/ws` (protocol: see `frame`).
//!
//! `?channel=<id>&since=<seq>` takes a channel up again: every durable frame after `seq` is sent
//! once and in order, then live ones follow without gap or double. `?stream=true` adds `delta` and
//! `progress` frames of the conversations this socket talks in.

mod frame;
mod hub;
mod incoming;
mod outgoing;
mod socket;

pub(crate) use hub::{Feed, Hub};

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use skep_core::ids::ChannelId;
use skep_runtime::door::Identity;

use crate::admission::Slot;
use crate::doors::Doors;
use crate::extract::{Params, is_id};
use crate::problem::Problem;
use socket::Socket;

/// The largest message a client may send.
const INBOUND_BYTES: usize = 1024 * 1024;
/// The library keeps 128 KiB for reading a socket by default; idle sockets are many.
const READ_BUFFER: usize = 4 * 1024;
/// Frames written together before the kernel is asked to take them.
const WRITE_BUFFER: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketParams {
    channel: Option<String>,
    since: Option<i64>,
    #[serde(default)]
    stream: bool,
}

pub(crate) async fn upgrade(
    State(doors): State<Doors>,
    Extension(identity): Extension<Identity>,
    slot: Option<Extension<Slot>>,
    Params(params): Params<SocketParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    if !doors.settings.ws_enabled {
        let detail = "the WebSocket channel is switched off (ws.enabled in channels.yaml)";
        return Err(Problem::new(StatusCode::NOT_FOUND, "ws_disabled", detail));
    }
    let upgrade = upgrade.map_err(|error| {
        let detail = format!("this address speaks WebSocket only: {}", error.body_text());
        Problem::new(StatusCode::UPGRADE_REQUIRED, "not_websocket", detail)
    })?;
    if doors.closing.is_cancelled() {
        return Err(Problem::stopping());
    }
    let wanted = wanted(&params)?;
    let opened = doors.hive.open_channel("ws", &identity.principal, wanted).await?;
    let socket = Socket {
        opened,
        since: params.since,
        stream: params.stream,
        principal: identity.principal,
        goodbye: doors.hive.goodbye(),
        _slot: slot.map(|Extension(slot)| slot),
        _task: doors.tasks.token(),
        doors,
    };
    let upgrade = upgrade
        .max_message_size(INBOUND_BYTES)
        .max_frame_size(INBOUND_BYTES)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER);
    Ok(upgrade.on_upgrade(move |connection| socket.serve(connection)))
}

fn wanted(params: &SocketParams) -> Result<Option<ChannelId>, Problem> {
    match (&params.channel, params.since) {
        (None, Some(_)) => {
            let detail = "since needs the channel it counts in: ?channel=…&since=…";
            Err(Problem::bad_request("invalid_query", detail))
        }
        (_, Some(since)) if since < 0 => {
            Err(Problem::bad_request("invalid_query", "since is a number from 0"))
        }
        (Some(channel), _) => {
            let ours = channel.starts_with("ws:") && is_id(channel);
            let detail = "there is no such channel; connect without ?channel= to get a new one";
            match ours {
                true => Ok(Some(ChannelId::new(channel.clone()))),
                false => Err(Problem::new(StatusCode::NOT_FOUND, "unknown_channel", detail)),
            }
        }
        (None, None) => Ok(None),
    }
}
