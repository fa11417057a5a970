//! The one way out: every connection to another machine is made here.
//!
//! For an agent the host is judged by its rules, resolved, every address of it is judged, and the
//! connection goes to a judged address itself: no second look-up can answer differently. A name
//! of which one address is forbidden is refused as a whole, so that it fails every time and not
//! by chance. What the operator wrote (a model's address) is dialled as written. No proxy is
//! taken from the environment.

mod buckets;
mod client;
mod connect;
mod connector;
mod error;
mod fetch;
mod hub;
mod redirect;
mod resolver;
mod tls;

pub use buckets::{HostBucket, HostBuckets, RateLimited};
pub use client::{HttpClient, HttpError, HttpRequest, HttpResponse, HttpUpgrade};
pub use error::{EgressCause, EgressError};
pub use fetch::{CarriedSecrets, FetchError, FetchLimits, FetchRequest, Fetched, Unlisted};
pub use hub::{Egress, EgressHub};
pub use redirect::RedirectError;
pub use resolver::{NameResolver, SystemResolver};

pub(crate) use connect::connect_to;
pub(crate) use connector::{Dial, DialError, DialFuture, EgressSocket, Trust};
pub(crate) use resolver::NoNames;
pub(crate) use tls::load as load_certificates;
