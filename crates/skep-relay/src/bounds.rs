//! The body of a request, whole and bounded: in bytes, in time, and in what all requests of one
//! process hold at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::refusal::RelayRefusal;

/// What vendors take at the most.
const BODY_BYTES: usize = 32 * 1024 * 1024;
/// Of all requests of one process at the same time; others wait.
const ROOM_BYTES: usize = 2 * BODY_BYTES;
const KIB: usize = 1024;
/// From a process on the same machine.
const WITHIN: Duration = Duration::from_secs(30);
/// What is read of a request that is refused, so that its sender comes to read the answer.
const UNWANTED_BYTES: usize = 4 * 1024 * 1024;
const UNWANTED_WITHIN: Duration = Duration::from_secs(2);

/// Where the bodies of one process have room.
pub(crate) struct BodyRoom(Arc<Semaphore>);

/// A body, and the room that it takes for as long as it is here.
pub(crate) struct WholeBody {
    pub bytes: Bytes,
    pub room: OwnedSemaphorePermit,
}

impl BodyRoom {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_BYTES / KIB)))
    }

    pub async fn read(
        &self,
        head: &HeaderMap,
        mut body: Incoming,
    ) -> Result<WholeBody, RelayRefusal> {
        match timeout(WITHIN, self.read_in_time(head, &mut body)).await {
            Ok(Ok(whole)) => Ok(whole),
            Ok(Err(refusal)) => {
                pass_over(body).await;
                Err(refusal)
            }
            Err(_) => {
                let text = format!("the request did not come whole within {} s", WITHIN.as_secs());
                Err(RelayRefusal::unread(StatusCode::REQUEST_TIMEOUT, text))
            }
        }
    }

    async fn read_in_time(
        &self,
        head: &HeaderMap,
        body: &mut Incoming,
    ) -> Result<WholeBody, RelayRefusal> {
        let length = length(head)?;
        // Of pieces nobody knows how many will come.
        let kib = length.unwrap_or(BODY_BYTES).div_ceil(KIB);
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.0).acquire_many_owned(permits).await;
        let room = room.map_err(|_| RelayRefusal::closed())?;
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let broken = |_| RelayRefusal::unread(StatusCode::BAD_REQUEST, "the request broke off");
            // Headers behind a body say nothing that is forwarded.
            let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
            if bytes.len() + piece.len() > length.unwrap_or(BODY_BYTES) {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(WholeBody { bytes: bytes.freeze(), room })
    }
}

/// Reads a little of what nobody wants: a connection that is closed over unread bytes takes the
/// answer along.
pub(crate) async fn pass_over(mut body: Incoming) {
    let read = async {
        let mut left = UNWANTED_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    let _ = timeout(UNWANTED_WITHIN, read).await;
}

/// The length that was said, where the request can be read in one way alone.
fn length(head: &HeaderMap) -> Result<Option<usize>, RelayRefusal> {
    let refused = |text: &str| Err(RelayRefusal::unread(StatusCode::BAD_REQUEST, text));
    let lengths: Vec<_> = head.get_all(header::CONTENT_LENGTH).iter().collect();
    let codings: Vec<_> = head.get_all(header::TRANSFER_ENCODING).iter().collect();
    if head.contains_key(header::CONTENT_ENCODING) {
        return refused("a compressed request is not read; send it plain");
    }
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Some(0)),
        ([length], []) => {
            let digits = length.to_str().unwrap_or_default();
            match digits.parse() {
                Ok(length) if length > BODY_BYTES => Err(too_large()),
                Ok(length) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                    Ok(Some(length))
                }
                _ => refused("the length of the request is malformed"),
            }
        }
        ([], [coding]) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(None),
        _ => refused("the length of the request can be read in two ways"),
    }
}

fn too_large() -> RelayRefusal {
    let text = format!("the request is longer than {} MiB", BODY_BYTES >> 20);
    RelayRefusal::unread(StatusCode::PAYLOAD_TOO_LARGE, text)
}
