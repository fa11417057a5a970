//! What every door needs: the hive, the rules for coming in, and the signal to end.

use std::path::PathBuf;
use std::sync::Arc;

use skep_core::settings::ServerSettings;
use skep_runtime::Hive;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::event_texts::EventTexts;
use crate::channel::hub::Hub;
use crate::door::calls::Calls;
use crate::door::connection::Places;
use crate::door::credential_watch::Standing;
use crate::door::hosts::Hosts;
use crate::door::lockout::Lockout;
use crate::door::metrics::Metrics;

pub(crate) type Doors = Arc<DoorState>;

pub(crate) struct DoorState {
    pub(crate) hive: Hive,
    pub(crate) settings: ServerSettings,
    pub(crate) home: PathBuf,
    /// Where the page is, for links.
    pub(crate) address: String,
    /// Its name is this hive's own: a host's cookies go to every port.
    pub(crate) cookie: String,
    /// The user whose processes the local socket serves.
    pub(crate) owner: u32,
    /// Connections at the same time.
    pub(crate) places: Places,
    pub(crate) hosts: Hosts,
    pub(crate) lockout: Lockout,
    pub(crate) standing: Standing,
    pub(crate) hub: Arc<Hub>,
    pub(crate) calls: Calls,
    pub(crate) metrics: Metrics,
    /// Live events as sockets and as event streams get them.
    pub(crate) socket_texts: EventTexts,
    pub(crate) stream_texts: EventTexts,
    /// Long answers end: sockets close, event streams and waits finish.
    pub(crate) closing: CancellationToken,
    /// Connections and sockets that are still open.
    pub(crate) tasks: TaskTracker,
}
