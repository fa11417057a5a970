//! The Anthropic Messages wire: `POST /v1/messages`, answered as a stream of events.

mod decode;
pub(crate) mod request;

use skep_core::provider::{ModelRequest, RawEndpoint};

use crate::link::{Wire, WireProvider};

pub(crate) use decode::stop_reason;
pub use request::render;

pub(crate) const VENDOR: &str = "anthropic";
/// The name of this wire format in a message's meta.
pub(crate) const API: &str = "anthropic-messages";

pub type AnthropicProvider = WireProvider<Anthropic>;

#[derive(Debug)]
pub struct Anthropic;

impl Wire for Anthropic {
    const VENDOR: &'static str = VENDOR;
    const PATH: &'static str = "/v1/messages";
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];
    const RAW_PATHS: &'static [(RawEndpoint, &'static str)] = &[
        (RawEndpoint::Messages, "/v1/messages"),
        (RawEndpoint::CountTokens, "/v1/messages/count_tokens"),
    ];

    type Decoder = decode::Decoder;

    fn at(_base_url: &str) -> Self {
        Self
    }

    fn key_header(key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn render(&self, request: &ModelRequest) -> String {
        render(request)
    }
}
