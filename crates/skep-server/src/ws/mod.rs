//! The WebSocket channel, `/ws` (protocol: see [`crate::channel::frame`]).
//!
//! `?channel=<id>&since=<seq>` takes a channel up again: every durable frame after `seq` is sent
//! once and in order, then live ones follow without gap or double. `?stream=true` adds `delta` and
//! `progress` frames of the conversations this socket talks in.

pub(crate) mod incoming;
mod outgoing;
mod socket;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use skep_core::ids::ChannelId;
use utoipa::IntoParams;

use crate::door::{ConnectionSlot, Doors, browser};
use crate::request::{Intake, Missing, NotKept, Params, Permit, Problem, ProblemBody, is_id};
use socket::Socket;

/// The largest frame a client may send: one with files.
const INBOUND_BYTES: usize = crate::request::attachment::LARGE_BYTES;
/// The library keeps 128 KiB for reading a socket by default; idle sockets are many.
const READ_BUFFER: usize = 4 * 1024;
/// Frames written together before the kernel is asked to take them.
const WRITE_BUFFER: usize = 16 * 1024;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SocketParams {
    /// A channel to take up again; without it, a new one.
    channel: Option<String>,
    /// The last frame of it that was seen.
    #[param(minimum = 0)]
    since: Option<i64>,
    /// Also what is said while it is said.
    #[serde(default)]
    stream: bool,
}

/// The WebSocket channel.
#[utoipa::path(
    get, path = "/ws", tag = "messages", params(SocketParams),
    responses(
        (status = 101, description = "From here on frames."),
        (status = 426, description = "This speaks WebSocket only.", body = ProblemBody,
         content_type = "application/problem+json"),
        Missing, NotKept
    )
)]
pub(crate) async fn upgrade(
    State(doors): State<Doors>,
    permit: Permit,
    Extension(slot): Extension<ConnectionSlot>,
    Extension(intake): Extension<Intake>,
    Params(params): Params<SocketParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    if !doors.ws_enabled {
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
    let opened = doors.hive.open_channel("ws", permit.principal(), wanted).await?;
    let session = permit.session_key(None, opened.channel.as_str())?;
    let socket = Socket {
        opened,
        session,
        since: params.since,
        stream: params.stream,
        permit,
        goodbye: doors.hive.goodbye(),
        intake,
        _slot: slot,
        _task: doors.tasks.token(),
        doors,
    };
    let upgrade = upgrade
        .max_message_size(INBOUND_BYTES)
        .max_frame_size(INBOUND_BYTES)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .protocols([browser::PROTOCOL]);
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
