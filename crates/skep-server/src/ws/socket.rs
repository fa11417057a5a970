//! One socket from its upgrade to its close: reading and writing side by side, so that a slow
//! reader does not keep its own messages from being taken.

use std::error::Error as _;
use std::time::Duration;

use axum::extract::ws::{WebSocket, close_code};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use skep_core::ids::SessionKey;
use skep_runtime::door::OpenedChannel;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::door::{ConnectionSlot, Doors};
use crate::request::{Full, Intake, LARGE_TEXT, Permit};
use crate::ws::incoming::Incoming;
use crate::ws::outgoing::Outgoing;

/// For the last frames, the close, and the other side's answer to it.
const GOODBYE: Duration = Duration::from_secs(2);

pub(crate) struct Socket {
    pub(crate) doors: Doors,
    pub(crate) opened: OpenedChannel,
    pub(crate) since: Option<i64>,
    pub(crate) stream: bool,
    pub(crate) permit: Permit,
    /// The conversation of frames that name none.
    pub(crate) session: SessionKey,
    pub(crate) goodbye: TaskTrackerToken,
    pub(crate) intake: Intake,
    pub(crate) _slot: ConnectionSlot,
    pub(crate) _task: TaskTrackerToken,
}

/// Why a socket ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocketEnd {
    /// The other side closed, vanished, or does not read.
    Gone,
    Silent,
    Stopping,
    Revoked,
    /// The channel's rows cannot be read now.
    Unreadable,
    TooLarge,
    /// A frame that does not end.
    Endless,
    /// Too much is being sent to the hive.
    NoRoom,
    NotText,
    Protocol,
}

impl SocketEnd {
    pub(crate) fn of(error: &axum::Error) -> Self {
        let source = error.source().and_then(|source| source.downcast_ref());
        match source {
            Some(tungstenite::Error::Io(error)) if Full::is_in(error) => Self::NoRoom,
            Some(tungstenite::Error::Capacity(_)) => Self::TooLarge,
            Some(tungstenite::Error::Utf8(_)) => Self::NotText,
            Some(tungstenite::Error::Protocol(_)) => Self::Protocol,
            _ => Self::Gone,
        }
    }

    pub(crate) fn close_code(&self) -> Option<(u16, &'static str)> {
        match self {
            Self::Gone => None,
            Self::Silent => Some((close_code::AWAY, "no sign of life")),
            Self::Stopping => Some((close_code::AWAY, "the hive stops")),
            Self::Revoked => {
                Some((close_code::POLICY, "the token was revoked, or the browser signed out"))
            }
            Self::Unreadable => Some((close_code::ERROR, "cannot read the channel; come back")),
            Self::TooLarge => Some((close_code::SIZE, LARGE_TEXT)),
            Self::Endless => Some((close_code::POLICY, "a message took longer than 180 s")),
            Self::NoRoom => Some((close_code::AGAIN, "too much is being sent; come back")),
            Self::NotText => Some((close_code::INVALID, "text must be UTF-8")),
            Self::Protocol => Some((close_code::PROTOCOL, "not the WebSocket protocol")),
        }
    }
}

impl Socket {
    pub(crate) async fn serve(self, connection: WebSocket) {
        let (sink, mut source) = connection.split();
        let stay = self.doors.standing.stay(&self.doors.hive, self.permit.credential());
        let stream = self.stream.then(|| self.session.clone());
        let (seated, queue) = self.doors.hub.sit(&self.opened, stream);
        let (doors, opened, permit) = (&self.doors, &self.opened, &self.permit);
        let mut outgoing = Outgoing::new(sink, queue, &seated, doors, opened, permit, self.stream);
        let mut incoming = Incoming {
            source: &mut source,
            seated: &seated,
            doors: &self.doors,
            channel: &self.opened.channel,
            permit: &self.permit,
            intake: &self.intake,
            stream: self.stream,
            under_way: FuturesUnordered::new(),
            subscription: None,
        };
        let ended = tokio::select! {
            ended = incoming.run() => ended,
            ended = outgoing.run(self.since) => ended,
            () = self.doors.closing.cancelled() => SocketEnd::Stopping,
            () = stay.over() => SocketEnd::Revoked,
        };
        tracing::debug!(channel = %self.opened.channel, ?ended, "socket ended");
        let goodbye = async {
            outgoing.say_goodbye(&ended).await;
            drop(self.goodbye);
            // Closing with unread input would make the kernel throw our last frames away.
            while let Some(Ok(_)) = source.next().await {}
        };
        // Whoever does not answer in time is cut off.
        let _ = timeout(GOODBYE, goodbye).await;
    }
}
