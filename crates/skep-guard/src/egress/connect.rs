//! The only place that opens a TCP connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use skep_core::policy::host::Host;
use tokio::net::TcpStream;

use super::error::{EgressCause, EgressError};

/// A second address is tried beside the first one when that stays silent (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);
/// More addresses than any host needs.
const ADDRESSES: usize = 16;

/// Connects to the first of these addresses of the host that accepts, and to nothing else.
pub(crate) async fn connect_to(
    host: &Host,
    addresses: &[IpAddr],
    port: u16,
) -> Result<TcpStream, EgressError> {
    first_of(addresses, port).await.map_err(|error| {
        let cause = EgressCause::Unreachable { kind: error.kind(), why: error.to_string() };
        EgressError::new(host, port, cause)
    })
}

async fn first_of(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut rest = addresses.iter().take(ADDRESSES);
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match rest.next() {
            Some(address) => attempts.push(TcpStream::connect(SocketAddr::new(*address, port))),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        let is_last = rest.len() == 0;
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            },
            () = tokio::time::sleep(STAGGER), if !is_last => {}
        }
    }
}
