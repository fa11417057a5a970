//! `channels.yaml`: where messages come from. Every key is optional.

use schemars::JsonSchema;
use serde::Deserialize;

use super::problem::Problem;
use super::source::Source;
use super::yaml;

/// The doors people and programs talk through.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawChannels {
    ws: RawWebSocket,
}

/// WebSocket clients at `/ws`.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawWebSocket {
    /// Whether they are let in at all (true).
    enabled: bool,
}

impl Default for RawWebSocket {
    fn default() -> Self {
        Self { enabled: true }
    }
}

pub struct Channels {
    pub ws_enabled: bool,
}

pub fn read(source: &Source) -> Result<Channels, Problem> {
    let raw: RawChannels = yaml::parse(source)?;
    Ok(Channels { ws_enabled: raw.ws.enabled })
}
