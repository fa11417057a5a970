//! What every door needs: the hive, the rules for coming in, and the signal to end.

use std::path::PathBuf;
use std::sync::Arc;

use skep_runtime::Hive;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::event_texts::EventTexts;
use crate::channel::hub::Hub;
use crate::door::calls::Calls;
use crate::door::credential_watch::Standing;
use crate::door::lockout::Lockout;
use crate::door::metrics::Metrics;
use crate::door::rates::Rates;
use crate::door::site::Site;
use crate::request::IntakeRoom;

pub(crate) type Doors = Arc<DoorState>;

pub(crate) struct DoorState {
    pub(crate) hive: Hive,
    pub(crate) home: PathBuf,
    pub(crate) site: Site,
    pub(crate) ws_enabled: bool,
    pub(crate) lockout: Lockout,
    pub(crate) rates: Rates,
    /// For what clients send.
    pub(crate) room: Arc<IntakeRoom>,
    pub(crate) standing: Standing,
    pub(crate) hub: Arc<Hub>,
    pub(crate) calls: Calls,
    pub(crate) metrics: Metrics,
    /// Live events as event streams get them.
    pub(crate) stream_texts: EventTexts,
    /// Long answers end: sockets close, event streams and waits finish.
    pub(crate) closing: CancellationToken,
    /// Connections and sockets that are still open.
    pub(crate) tasks: TaskTracker,
}
