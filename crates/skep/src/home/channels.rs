//! `channels.yaml`: where messages come from. Every key is optional.

use schemars::JsonSchema;
use serde::Deserialize;

use super::mistake::Mistake;
use super::source::SourceText;
use super::yaml;

/// The doors people and programs use.
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

pub struct ChannelSettings {
    pub ws_enabled: bool,
}

pub fn read(source: &SourceText) -> Result<ChannelSettings, Mistake> {
    let raw: RawChannels = yaml::parse(source)?;
    Ok(ChannelSettings { ws_enabled: raw.ws.enabled })
}
