//! How a vendor is reached, and what a wire has to say about itself.

use std::fmt::Debug;
use std::sync::Arc;

use http::Method;
use secrecy::SecretString;
use skep_core::provider::{
    ModelError, ModelEvent, ModelRequest, Provider, RawAnswered, RawEndpoint, RawRequest,
};
use skep_core::settings::Timeouts;
use skep_core::{BoxFuture, BoxStream};
use skep_guard::egress::HttpClient;
use skep_guard::http::{self as guarded, ClientError};

use crate::answer::Decode;
use crate::call;
use crate::failure;
use crate::raw;

#[derive(Debug, Clone)]
pub struct WireSettings {
    /// Where the wire starts; the wire adds its own path.
    pub base_url: String,
    /// Empty for a server that asks for none.
    pub key: SecretString,
    pub timeouts: Timeouts,
    /// Sent with every request, after ours; the operator wrote them.
    pub extra_headers: Vec<(String, SecretString)>,
}

/// What differs between vendors in one call.
pub trait Wire: Debug + Send + Sync + Sized + 'static {
    /// The vendor's word, in the configuration and in a message's meta.
    const VENDOR: &'static str;
    /// After the base address.
    const PATH: &'static str;
    const HEADERS: &'static [(&'static str, &'static str)] = &[];
    /// Where requests that are written already are handed on to, after the base address.
    const RAW_PATHS: &'static [(RawEndpoint, &'static str)] = &[];

    type Decoder: Decode;

    /// The wire as the server at this address speaks it.
    fn at(base_url: &str) -> Self;

    /// The header that carries the key.
    fn key_header(key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    /// The body of a request.
    fn render(&self, request: &ModelRequest) -> String;

    /// A request was refused with this body. True where it may be sent again, because it is
    /// rendered without what was refused from now on.
    fn concede(&self, _refusal: &[u8]) -> bool {
        false
    }
}

#[derive(Debug)]
pub struct WireProvider<W> {
    link: Arc<WireLink<W>>,
}

/// What every call needs, shared by all of them.
#[derive(Debug)]
pub(crate) struct WireLink<W> {
    pub client: HttpClient,
    /// Without a slash at its end.
    pub base: String,
    pub url: String,
    pub key: SecretString,
    pub timeouts: Timeouts,
    pub extra_headers: Vec<(String, SecretString)>,
    pub wire: W,
}

impl<W: Wire> WireProvider<W> {
    pub fn new(settings: WireSettings) -> Result<Self, ClientError> {
        let base = settings.base_url.trim_end_matches('/');
        let link = WireLink {
            client: guarded::client(base, settings.timeouts.connect)?,
            base: base.to_owned(),
            url: format!("{base}{}", W::PATH),
            key: settings.key,
            timeouts: settings.timeouts,
            extra_headers: settings.extra_headers,
            wire: W::at(base),
        };
        Ok(Self { link: Arc::new(link) })
    }
}

/// By hand: a derived one would ask the wire to be `Clone` too.
impl<W> Clone for WireProvider<W> {
    fn clone(&self) -> Self {
        Self { link: Arc::clone(&self.link) }
    }
}

impl<W: Wire> Provider for WireProvider<W> {
    fn id(&self) -> &str {
        W::VENDOR
    }

    fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        call::open(Arc::clone(&self.link), request)
    }

    fn forward(&self, request: RawRequest) -> Option<BoxFuture<'static, RawAnswered>> {
        let path = W::RAW_PATHS.iter().find(|(endpoint, _)| *endpoint == request.endpoint);
        path.map(|(_, path)| raw::forward(Arc::clone(&self.link), path, request))
    }

    /// Any answer will do, also a refusal: the address is right and somebody is there.
    fn reach(&self) -> BoxFuture<'static, Result<(), ModelError>> {
        let asked = self.link.client.request(Method::HEAD, &self.link.url).send();
        Box::pin(
            async move { asked.await.map(drop).map_err(|error| failure::from_transport(&error)) },
        )
    }
}
