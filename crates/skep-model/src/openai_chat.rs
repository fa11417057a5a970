//! The OpenAI Chat Completions wire, as OpenAI and the many compatible servers speak it:
//! `POST {base}/chat/completions`, answered as a stream of chunks.

mod decode;
pub(crate) mod request;

use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The server refused to be asked for counts at the end of a stream. Known until the profile
    /// is read anew.
    refuses_counts: AtomicBool,
}

impl Wire for OpenAiChat {
    const VENDOR: &'static str = VENDOR;
    const PATH: &'static str = "/chat/completions";

    type Decoder = decode::Decoder;

    fn at(base_url: &str) -> Self {
        Self { dialect: Dialect::of(base_url), refuses_counts: AtomicBool::new(false) }
    }

    fn render(&self, request: &ModelRequest) -> String {
        let counts = !self.refuses_counts.load(Ordering::Relaxed);
        render(request, Dialect { counts, ..self.dialect }).to_string()
    }

    fn concede(&self, refusal: &[u8]) -> bool {
        let named = ["stream_options", "include_usage"];
        let refusal = String::from_utf8_lossy(refusal);
        let refused = named.iter().any(|name| refusal.contains(name));
        // Also where another call learned it meanwhile.
        self.refuses_counts.fetch_or(refused, Ordering::Relaxed);
        refused
    }
}
