//! The hive: one handle for every door, and what all of its parts share.

mod configuration;
mod drain;
pub(crate) mod integrity;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use skep_core::channel::Channel;
use skep_core::engine::Engine;
use skep_core::event::EventKind;
use skep_core::hook::Hook;
use skep_core::ids::{AgentId, AgentName, Principal};
use skep_core::retry::RetryPolicy;
use skep_core::role::Role;
use skep_core::settings::{AgentSettings, HiveSettings};
use skep_core::tool::Tool;
use skep_guard::clock;
use skep_store::audit::AddAudit;
use skep_store::leases::Recover;
use skep_store::storage;
use skep_store::{Committed, OpenError, OpenOptions, OpenReport, Store, StoreError};

use crate::bus::Bus;
use crate::door::{DoorError, ErrorKind};
use crate::gate::Admission;
use crate::gate::toolbox::Toolbox;
use crate::lane::registry::Registry;
use crate::lane::scheduler;
use crate::lane::slots::{self, Slots};
use crate::ledger::Ledger;
use crate::meters::Meters;
use crate::outbox::dispatch::{self, Dispatcher};
use crate::outbox::follow::Waiters;
use crate::people::approvals::WriteRules;
use crate::people::browsers::Browsers;
use crate::people::tokens::TokenCache;
use crate::turn::persist::StoreHealth;
use crate::turn::session_cache::SessionCache;
use crate::turn::session_scope::SessionScopes;
use crate::views::search::{self, Indexer};
use configuration::Standing;
use integrity::IntegrityInfo;

/// What a hive is made of. The composition root names the concrete ones.
pub struct Parts {
    /// The home's `run/` folder; the caller holds its lock.
    pub run: PathBuf,
    /// Start although answered messages are missing; the damaged files are copied to this folder.
    pub accept_loss: Option<PathBuf>,
    pub settings: HiveSettings,
    pub engines: Vec<Arc<dyn Engine>>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// What looks at every call, in this order.
    pub hooks: Vec<Hook>,
    /// Absent where the files of the home are not to be changed.
    pub write_rules: Option<WriteRules>,
    pub retry: RetryPolicy,
    /// The program's version, shown to whoever asks.
    pub version: &'static str,
}

/// A cloneable handle to the running hive.
#[derive(Clone)]
pub struct Hive {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub store: Store,
    pub standing: RwLock<Standing>,
    pub engines: HashMap<String, Arc<dyn Engine>>,
    pub toolbox: Toolbox,
    pub hooks: Vec<Hook>,
    pub write_rules: Option<WriteRules>,
    /// Locked while a question is answered.
    pub answering: tokio::sync::Mutex<()>,
    pub admission: Admission,
    pub session_scopes: SessionScopes,
    pub retry: RetryPolicy,
    pub version: &'static str,
    pub started_at: i64,
    pub bus: Arc<Bus>,
    pub registry: Arc<Registry>,
    pub session_cache: SessionCache,
    pub meters: Arc<Meters>,
    pub indexer: Arc<Indexer>,
    pub waiters: Arc<Waiters>,
    pub dispatcher: Dispatcher,
    pub tokens: TokenCache,
    pub ledger: Ledger,
    pub browsers: Browsers,
    pub health: StoreHealth,
    /// What is known of the whole database; replaced when more is known.
    integrity: RwLock<IntegrityInfo>,
    /// What the hive keeps while it runs: the log, long answers of tools.
    pub run: PathBuf,
    pub slots: Slots,
    /// The scheduler has something to look at.
    pub wake: Arc<Notify>,
    /// A question was asked again: its time is counted too.
    pub reopened: Notify,
    /// When the next parked or retrying turn may go on.
    next_due: AtomicI64,
    pub tasks: TaskTracker,
    /// No new work.
    pub draining: CancellationToken,
    /// Running turns give their lease back.
    pub cut: CancellationToken,
    /// Writes that hang are given up: the process ends.
    pub cut_hard: CancellationToken,
    /// Somebody asked the process to stop.
    pub shutdown: CancellationToken,
    /// Doors that still read what they owe their clients.
    pub goodbyes: TaskTracker,
}

/// Why a hive did not open.
#[derive(Debug, thiserror::Error)]
pub enum HiveError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("preparing the hive failed: {0}")]
    Prepare(#[from] StoreError),
    #[error("{0}")]
    Tools(String),
}

impl Hive {
    /// Opens the store, takes back what a crash left running, and starts to work.
    pub async fn open(parts: Parts) -> Result<(Self, OpenReport), HiveError> {
        let bus = Arc::new(Bus::default());
        let registry = Arc::new(Registry::default());
        let indexer = Arc::new(Indexer::default());
        let waiters = Arc::new(Waiters::default());
        let (dispatcher, frames) = Dispatcher::new();
        let toolbox = Toolbox::new(parts.tools).map_err(HiveError::Tools)?;
        let meters = Arc::new(Meters::new(toolbox.names()));
        let notify = {
            let (bus, registry, waiters) =
                (Arc::clone(&bus), Arc::clone(&registry), Arc::clone(&waiters));
            let (dispatcher, meters) = (dispatcher.clone(), Arc::clone(&meters));
            let indexer = Arc::clone(&indexer);
            move |committed: Committed| {
                for event in committed.events {
                    registry.note(&event);
                    meters.note(&event);
                    indexer.note(&event);
                    if let EventKind::InboxEnded { item, .. } = &event.kind {
                        waiters.ended(item);
                    }
                    bus.publish(event);
                }
                dispatcher.frames(committed.frames);
            }
        };
        let options = OpenOptions {
            accept_loss: parts.accept_loss,
            ..OpenOptions::in_run_folder(&parts.run)
        };
        let store = Store::open(options, notify).await?;
        let report = store.report();
        let now = clock::now_ms();
        // Before any other row: until it is there, the head says what it said.
        if let Some(finding) = &report.trail {
            tracing::error!(finding = finding.text, "the audit trail is not as it was left");
            store.write(AddAudit { row: finding.told(now) }).await?;
        }
        let ids = configuration::register(&store, &parts.settings).await?;
        let taken_back = store.write(Recover { now }).await?;
        if taken_back > 0 {
            tracing::info!(turns = taken_back, "turns that were running go on");
        }
        let tokens = TokenCache::load(&store).await?;
        let ledger = Ledger::load(&store, now).await?;
        let browsers = Browsers::load(&store, now).await?;
        let (slots, wake) = slots::open(&store, &parts.settings.limits).await?;
        let engines = parts.engines.into_iter().map(|engine| (engine.id().to_owned(), engine));
        let shared = Arc::new(Shared {
            store,
            standing: RwLock::new(Standing {
                settings: Arc::new(parts.settings),
                ids: Arc::new(ids),
                config: Arc::default(),
            }),
            engines: engines.collect(),
            toolbox,
            hooks: parts.hooks,
            write_rules: parts.write_rules,
            answering: tokio::sync::Mutex::default(),
            admission: Admission::default(),
            session_scopes: SessionScopes::default(),
            retry: parts.retry,
            version: parts.version,
            started_at: now,
            bus,
            registry,
            session_cache: SessionCache::default(),
            meters,
            indexer,
            waiters,
            dispatcher,
            tokens,
            ledger,
            browsers,
            health: StoreHealth::default(),
            integrity: RwLock::new(IntegrityInfo::unchecked()),
            run: parts.run,
            slots,
            wake,
            reopened: Notify::new(),
            next_due: AtomicI64::new(i64::MIN),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
            cut_hard: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            goodbyes: TaskTracker::new(),
        });
        shared.tasks.spawn(scheduler::run(Arc::clone(&shared)));
        shared.tasks.spawn(dispatch::run(Arc::clone(&shared), frames));
        shared.tasks.spawn(crate::hive::drain::expire(Arc::clone(&shared)));
        shared.tasks.spawn(crate::hive::drain::expire_questions(Arc::clone(&shared)));
        if report.unclean {
            shared.tasks.spawn(integrity::check(Arc::clone(&shared)));
        }
        shared.tasks.spawn(search::keep_up(Arc::clone(&shared)));
        Ok((Self { shared }, report))
    }

    /// Frames for channel ids that begin with the channel's word go to it.
    pub fn add_channel(&self, channel: Arc<dyn Channel>) {
        self.shared.dispatcher.add(channel);
    }

    /// What is counted, to be shown.
    pub fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// Commits of the store since the start, and the commands in them.
    pub fn commits(&self) -> (u64, u64) {
        self.shared.store.commits()
    }

    pub fn is_ready(&self) -> bool {
        !self.shared.draining.is_cancelled()
    }

    /// Why no message can be kept, where the files of the store are not in their place.
    pub fn store_moved(&self) -> Option<String> {
        self.shared.store.stands().err().map(|error| error.to_string())
    }

    /// Cancelled when open connections are to be closed.
    pub fn stopping(&self) -> CancellationToken {
        self.shared.cut.clone()
    }

    /// While it is held the store stays readable at the end, for a moment: a client is told what
    /// was decided while the hive was stopping.
    pub fn goodbye(&self) -> TaskTrackerToken {
        self.shared.goodbyes.token()
    }

    /// Asks the process to stop, as SIGTERM would.
    pub fn request_shutdown(&self) {
        self.shared.shutdown.cancel();
    }

    /// Cancelled when somebody asked the process to stop.
    pub fn shutdown_requested(&self) -> CancellationToken {
        self.shared.shutdown.clone()
    }
}

impl Shared {
    pub fn agent_id(&self, name: &AgentName) -> Result<AgentId, DoorError> {
        let ids = self.standing().ids;
        ids.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = ids.keys().map(AgentName::as_str).collect();
            let text = format!("There is no agent `{name}`. This hive has: {}.", known.join(", "));
            DoorError::new(ErrorKind::NotFound, "unknown_agent", text)
        })
    }

    pub fn engine(&self, agent: &AgentSettings) -> Option<Arc<dyn Engine>> {
        self.engines.get(&agent.engine).cloned()
    }

    /// What somebody may store in all, in bytes; nothing where that has no limit.
    pub fn room_of(&self, principal: &Principal) -> Option<u64> {
        let limited = self.tokens.role(principal.as_str()) != Some(Role::Operator);
        limited.then(|| self.settings().limits.user_storage_bytes)
    }

    /// A turn may go on at this time: the scheduler looks then at the latest.
    pub fn note_due(&self, at: Option<i64>) {
        if let Some(at) = at {
            self.next_due.fetch_min(at, Ordering::Relaxed);
        }
        self.wake.notify_one();
    }

    /// A lane that has more to do wakes the scheduler; another turn's end says nothing to it.
    pub fn look_for_more(&self, more: bool) {
        if more {
            self.wake.notify_one();
        }
    }

    pub fn integrity(&self) -> IntegrityInfo {
        self.integrity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_integrity(&self, info: IntegrityInfo) {
        *self.integrity.write().unwrap_or_else(PoisonError::into_inner) = info;
    }

    pub fn next_due(&self) -> i64 {
        self.next_due.load(Ordering::Relaxed)
    }

    pub fn set_next_due(&self, at: i64) {
        self.next_due.store(at, Ordering::Relaxed);
    }
}

/// A store's failure as a door tells it.
pub(crate) fn door_error(error: StoreError) -> DoorError {
    use skep_store::Refusal;
    let text = match &error {
        // Its code is told beside it.
        StoreError::Refused(Refusal::Conflict { detail, .. }) => detail.clone(),
        error => error.to_string(),
    };
    let (kind, code) = match &error {
        StoreError::Refused(Refusal::Conflict { code: storage::FULL, .. }) => {
            (ErrorKind::TooLarge, storage::FULL)
        }
        StoreError::Refused(Refusal::Conflict { code, .. }) => (ErrorKind::Conflict, *code),
        StoreError::Refused(Refusal::NotFound { .. }) => (ErrorKind::NotFound, "not_found"),
        StoreError::Refused(_) => {
            tracing::error!(%error, "a command was refused");
            return DoorError::new(
                ErrorKind::Internal,
                "internal",
                "The hive failed; see its log.",
            );
        }
        StoreError::Busy => (ErrorKind::Busy, "store_busy"),
        StoreError::DiskFull => (ErrorKind::DiskFull, "disk_full"),
        StoreError::Unsynced | StoreError::Moved { .. } => (ErrorKind::Unsynced, "store_unsynced"),
        StoreError::Broken { .. } => {
            tracing::error!(%error, "the store failed");
            let text = "The store failed and nothing was written; see the log, then send again.";
            return DoorError::new(ErrorKind::Busy, "store_failed", text);
        }
        StoreError::Closed => (ErrorKind::Stopping, "stopping"),
    };
    DoorError::new(kind, code, text)
}
