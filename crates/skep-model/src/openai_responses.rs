//! The OpenAI Responses wire: `POST {base}/responses`, answered as a stream of events.
//!
//! Nothing is kept at the vendor: thinking comes back encrypted, is stored with the message and
//! goes out again word for word.

mod decode;
pub(crate) mod request;

use skep_core::provider::{ModelRequest, RawEndpoint};

use crate::link::{Wire, WireProvider};

pub use request::{input, render};

pub(crate) const VENDOR: &str = "openai-responses";
/// The name of this wire format in a message's meta.
pub(crate) const API: &str = "openai-responses";

pub type OpenAiResponsesProvider = WireProvider<OpenAiResponses>;

#[derive(Debug)]
pub struct OpenAiResponses;

impl Wire for OpenAiResponses {
    const VENDOR: &'static str = VENDOR;
    const PATH: &'static str = "/responses";
    const RAW_PATHS: &'static [(RawEndpoint, &'static str)] =
        &[(RawEndpoint::Responses, "/responses")];

    type Decoder = decode::Decoder;

    fn at(_base_url: &str) -> Self {
        Self
    }

    fn render(&self, request: &ModelRequest) -> String {
        render(request).to_string()
    }
}
