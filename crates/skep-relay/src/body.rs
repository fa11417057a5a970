//! The body of an answer to a process.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// An error in it tells the process that the answer was cut.
pub(crate) type RelayBody = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn whole(text: String) -> RelayBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}
