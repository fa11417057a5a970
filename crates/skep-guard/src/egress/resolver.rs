//! From a name to its addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use skep_core::BoxFuture;
use skep_core::policy::host::HostName;
use tokio::sync::Semaphore;

/// A test puts its own name server here, and changes its answers between two calls.
pub trait NameResolver: Send + Sync {
    /// Every address of the name. None at all is an error too, to the caller.
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The machine's own: `/etc/hosts` and its name servers.
#[derive(Debug)]
pub struct SystemResolver {
    /// A name server that does not answer holds a thread for half a minute, however long the
    /// caller waits. Places are taken by look-ups, and given back when these end.
    places: Arc<Semaphore>,
}

/// Of the 512 threads for work that blocks, look-ups take this many at most.
const LOOKUPS: usize = 64;

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl NameResolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.as_str().to_owned();
            let lookup = tokio::task::spawn_blocking(move || {
                let _place = place;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// Knows no name: for a network in which no host is listed, and for trials.
pub(crate) struct NoNames;

impl NameResolver for NoNames {
    fn resolve<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
