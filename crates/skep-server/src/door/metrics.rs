//! What the hive and its doors count, in the OpenMetrics text form.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use skep_guard::footprint;
use skep_runtime::Hive;
use skep_runtime::door::{DoorError, ErrorKind, Identity, Sight};

/// Counts at the doors, and everything that is shown with them.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seen: Seen,
}

/// Looked up when somebody asks.
#[derive(Default)]
struct Seen {
    sockets: Gauge,
    work: Family<Work, Gauge>,
    commits: Counter,
    commands: Counter,
    memory: Gauge,
    files: Gauge,
}

/// The route as it is declared, so that no address makes a line of its own.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Work {
    state: &'static str,
}

impl Metrics {
    pub(crate) fn new(hive: &Hive) -> Self {
        let mut registry = Registry::default();
        let (requests, seen) = (Family::default(), Seen::default());
        hive.meters().register(&mut registry);
        let help = "Requests answered, by route and status";
        registry.register("skep_http_requests", help, Family::clone(&requests));
        registry.register("skep_sockets", "Open WebSockets", seen.sockets.clone());
        let help = "Turns that run, turns that wait, and messages that are queued";
        registry.register("skep_work", help, seen.work.clone());
        let help = "Commits of the store since the start";
        registry.register("skep_store_commits", help, seen.commits.clone());
        let help = "Writes in those commits: divided by them, the size of a batch";
        registry.register("skep_store_writes", help, seen.commands.clone());
        let help = "Memory of the process";
        let memory = seen.memory.clone();
        registry.register_with_unit("process_resident_memory", help, Unit::Bytes, memory);
        registry.register("process_open_fds", "Open files and connections", seen.files.clone());
        Self { registry, requests, seen }
    }

    /// An answer went out.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16) {
        let (method, route) = (method.to_owned(), route.to_owned());
        self.requests.get_or_create(&Request { method, route, status }).inc();
    }

    pub(crate) async fn look(&self, hive: &Hive, sockets: usize) -> Result<(), DoorError> {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let seen = &self.seen;
        seen.sockets.set(i64::try_from(sockets).unwrap_or(i64::MAX));
        let work = hive.snapshot(&Identity::owner(), &Sight::All).await?.work.unwrap_or_default();
        let counts =
            [("running", work.running), ("waiting", work.waiting), ("queued", work.queued)];
        for (state, count) in counts {
            seen.work.get_or_create(&Work { state }).set(count);
        }
        let (commits, commands) = hive.commits();
        // Counted elsewhere; two who ask at once put the same in.
        seen.commits.inner().fetch_max(commits, Ordering::Relaxed);
        seen.commands.inner().fetch_max(commands, Ordering::Relaxed);
        let footprint = footprint::now();
        seen.memory.set(number(footprint.resident_bytes));
        seen.files.set(number(footprint.open_files));
        Ok(())
    }

    pub(crate) fn text(&self) -> Result<String, DoorError> {
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).map_err(|_| {
            DoorError::new(ErrorKind::Internal, "internal", "The counts cannot be written down.")
        })?;
        Ok(shown)
    }
}
