//! The OpenAI Chat Completions wire, as OpenAI and the many compatible servers speak it:
//! `POST {base}/chat/completions`, answered as a stream of chunks.

mod decode;
pub(crate) mod request;

use skep_core::provider::ModelRequest;

use crate::link::{Wire, WireProvider};

pub use request::{Dialect, render};

pub(crate) const VENDOR: &str = "openai";
/// The name of this wire format in a message's meta.
pub(crate) const API: &str = "openai-chat";

pub type OpenAiChatProvider = WireProvider<OpenAiChat>;

#[derive(Debug)]
pub struct OpenAiChat {
    dialect: Dialect,
}

impl Wire for OpenAiChat {
    const VENDOR: &'static str = VENDOR;
    const PATH: &'static str = "/chat/completions";
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    type Decoder = decode::Decoder;

    fn at(base_url: &str) -> Self {
        Self { dialect: Dialect::of(base_url) }
    }

    fn key_header(key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn render(&self, request: &ModelRequest) -> String {
        render(request, self.dialect).to_string()
    }
}
