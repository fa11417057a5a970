//! The Anthropic Messages wire: `POST /v1/messages`, answered as a stream of events.

mod decode;
mod failure;
mod request;
mod stream;

use std::sync::Arc;

use reqwest::Client;
use secrecy::SecretString;
use skep_core::BoxStream;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider};
use skep_core::settings::Timeouts;
use skep_guard::http::{self, ClientError};

pub use request::render;

pub(crate) const VENDOR: &str = "anthropic";
/// The name of this wire format in a message's meta.
pub(crate) const API: &str = "anthropic-messages";

#[derive(Debug, Clone)]
pub struct AnthropicSettings {
    /// Where the wire starts; `/v1/messages` is added.
    pub base_url: String,
    pub key: SecretString,
    pub timeouts: Timeouts,
    /// Sent with every request, after ours; the operator wrote them.
    pub extra_headers: Vec<(String, SecretString)>,
}

#[derive(Debug, Clone)]
pub struct AnthropicProvider {
    link: Arc<Link>,
}

/// What every call needs, shared by all of them.
#[derive(Debug)]
struct Link {
    client: Client,
    url: String,
    key: SecretString,
    timeouts: Timeouts,
    extra_headers: Vec<(String, SecretString)>,
}

impl AnthropicProvider {
    pub fn new(settings: AnthropicSettings) -> Result<Self, ClientError> {
        let base = settings.base_url.trim_end_matches('/');
        let client = http::client(base, settings.timeouts.connect)?;
        let link = Link {
            client,
            url: format!("{base}/v1/messages"),
            key: settings.key,
            timeouts: settings.timeouts,
            extra_headers: settings.extra_headers,
        };
        Ok(Self { link: Arc::new(link) })
    }
}

impl Provider for AnthropicProvider {
    fn id(&self) -> &str {
        VENDOR
    }

    fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        stream::open(Arc::clone(&self.link), request)
    }
}
