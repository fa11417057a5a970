//! The hive: one handle for every door, and what all of its parts share.

mod buckets;
mod configuration;
mod credentials;
mod drain;
mod error;
mod indexer;
mod integrity;
mod unfinished;
mod vault;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use skep_core::channel::{Channel, InboundHandle};
use skep_core::engine::Engine;
use skep_core::event::EventKind;
use skep_core::ids::{AgentId, AgentName, NodeName, Principal};
use skep_core::policy::rule::Who;
use skep_core::retry::RetryPolicy;
use skep_core::role::Role;
use skep_core::settings::{AgentMap, AgentSettings, HiveSettings};
use skep_core::{Millis, skill_text};
use skep_guard::clock;
use skep_guard::duplex::DuplexRecords;
use skep_guard::egress::HostBuckets;
use skep_guard::vault::Vault;
use skep_outbox::{Dispatcher, Waiters, Wake};
use skep_store::agents;
use skep_store::audit::AddAudit;
use skep_store::leases::{LostTurns, Recover};
use skep_store::{Committed, OpenError, OpenOptions, OpenReport, Store, StoreError};
use skep_turn::Turns;
use skep_turn::gate::{self, Admission, GateParts};
use skep_turn::handles::{Bus, HolderOf, Meters, StopTokens};
use skep_turn::lane::{Lanes, Registry};
use skep_turn::ledger::Ledger;
use skep_turn::snapshot::{Offer, Snapshot, SnapshotCell};
use skep_turn::turn::{EngineProcesses, SessionCache, SessionScopes, TurnEnv};

use crate::door::{DoorError, ErrorKind, FileWriters, IntegrityInfo, Sight};
pub use configuration::SettingsChange;
pub(crate) use credentials::{Browsers, SignInLink, TokenCache, ValidToken};
pub(crate) use error::door_error;
use indexer::Indexer;
use unfinished::UnfinishedAgents;

/// The source of the tools that are part of the program.
const BUILT_IN: &str = "built-in";
/// How many agents an error names.
const NAMED: usize = 10;

/// Makes the settings. Agents of the names it is given are half made and do not count.
pub type SettingsMaker<'a> = Box<dyn FnOnce(&BTreeSet<AgentName>) -> HiveSettings + Send + 'a>;

/// What a hive is made of. The composition root names the concrete ones.
pub struct Parts<'a> {
    /// The home's `run/` folder; the caller holds its lock.
    pub run: PathBuf,
    /// The name this process works under: turns it left running are its own.
    pub node: NodeName,
    /// Start although answered messages are missing; the damaged files are copied to this folder.
    pub accept_loss: Option<PathBuf>,
    /// Made when the vault is open: profiles may need what is in it.
    pub settings: SettingsMaker<'a>,
    pub engines: Vec<Arc<dyn Engine>>,
    /// What the program itself brings.
    pub built_in: Offer,
    pub retry: RetryPolicy,
    /// How often agents may ask hosts; shared with whatever asks them.
    pub buckets: Arc<HostBuckets>,
    /// Shared with whatever uses its entries.
    pub vault: Arc<Vault>,
    /// The program's version, shown to whoever asks.
    pub version: &'static str,
}

/// A cloneable handle to the running hive.
#[derive(Clone)]
pub struct Hive {
    pub(crate) shared: Arc<Shared>,
}

/// What the parts of the hive share.
pub(crate) struct Shared {
    pub store: Store,
    pub turns: Turns,
    pub tokens: Arc<TokenCache>,
    pub browsers: Browsers,
    pub approvals: ApprovalParts,
    pub waiters: Arc<Waiters>,
    pub facts: HiveFacts,
    pub tasks: TaskTracker,
    pub unfinished: UnfinishedAgents,
    /// Held over a whole change of the tree: of two the second sees the first.
    pub changing: tokio::sync::Mutex<()>,
    /// Doors that still read what they owe their clients.
    pub goodbyes: TaskTracker,
    /// Somebody asked the process to stop.
    shutdown: CancellationToken,
    dispatcher: Dispatcher,
    meters: Arc<Meters>,
    buckets: Arc<HostBuckets>,
    pub vault: Arc<Vault>,
}

/// How people's answers become decisions.
#[derive(Default)]
pub(crate) struct ApprovalParts {
    /// Locked while a question is answered.
    pub answering: tokio::sync::Mutex<()>,
    /// A question was asked again: its time is counted too.
    pub reopened: Notify,
}

/// What the hive says of itself.
pub(crate) struct HiveFacts {
    pub version: &'static str,
    pub started_at: Millis,
    /// What the hive keeps while it runs: the log, long answers of tools.
    pub run: PathBuf,
    /// Absent where the files of the home are not to be changed.
    pub writers: OnceLock<FileWriters>,
    /// What is known of the whole database; replaced when more is known.
    integrity: RwLock<IntegrityInfo>,
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
    pub async fn open(parts: Parts<'_>) -> Result<(Self, OpenReport), HiveError> {
        let listeners = Listeners::default();
        let options = OpenOptions {
            accept_loss: parts.accept_loss,
            ..OpenOptions::in_run_folder(&parts.run)
        };
        let told = listeners.clone();
        let store = Store::open(options, move |committed| told.note(committed)).await?;
        end_children(&parts.run).await;
        let report = store.report();
        let now = clock::now_ms();
        vault::restore(&parts.vault, &store).await?;
        let unfinished = UnfinishedAgents::load(&store).await?;
        let settings = (parts.settings)(&unfinished.names());
        let mut snapshot = Snapshot::new(settings, AgentMap::default(), parts.engines);
        snapshot.ids = take_over(&store, &report, &snapshot.settings, &parts.node, now).await?;
        let Listeners { registry, meters, indexer, waiters, bus, dispatcher } = listeners;
        let tokens = Arc::new(TokenCache::load(&store).await?);
        let browsers = Browsers::load(&store, now).await?;
        buckets::restore(&parts.buckets, &store, now).await?;
        parts.buckets.set_rate(snapshot.settings.limits.requests_per_minute);
        let snapshot = snapshot.with_offer(BUILT_IN, parts.built_in).map_err(HiveError::Tools)?;
        meters.know(snapshot.toolbox.names());
        let snapshot = Arc::new(SnapshotCell::new(snapshot));
        let known = Arc::clone(&tokens);
        let holder_of: HolderOf = Arc::new(move |principal| known.holder(principal));
        let lanes = Lanes::open(
            store.clone(),
            parts.node,
            registry,
            Arc::clone(&snapshot),
            Arc::clone(&holder_of),
        );
        let lanes = lanes.await?;
        let ledger =
            Ledger::load(store.clone(), Arc::clone(&snapshot), Arc::clone(&meters), now).await?;
        let env = TurnEnv {
            store: store.clone(),
            snapshot,
            gate: GateParts {
                admission: Admission::default(),
                holder_of,
                outputs: parts.run.join("output"),
                secrets: Default::default(),
            },
            ledger: Arc::new(ledger),
            lanes,
            processes: EngineProcesses::default(),
            session_cache: SessionCache::default(),
            session_scopes: SessionScopes::default(),
            bus,
            retry: parts.retry,
            stop: StopTokens::default(),
            clock: clock::now_ms,
        };
        let tasks = TaskTracker::new();
        let facts = HiveFacts {
            version: parts.version,
            started_at: now,
            run: parts.run,
            writers: OnceLock::new(),
            integrity: RwLock::new(IntegrityInfo::unchecked()),
        };
        let shared = Arc::new(Shared {
            store: store.clone(),
            turns: Turns::new(env, tasks.clone()),
            tokens,
            browsers,
            approvals: ApprovalParts::default(),
            waiters,
            facts,
            tasks: tasks.clone(),
            unfinished,
            changing: tokio::sync::Mutex::default(),
            goodbyes: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            dispatcher,
            meters,
            buckets: Arc::clone(&parts.buckets),
            vault: parts.vault,
        });
        let stop = shared.env().stop.clone();
        tasks.spawn(shared.turns.clone().schedule());
        tasks.spawn(shared.turns.clone().keep_leases());
        tasks.spawn(drain::expire(Arc::clone(&shared)));
        tasks.spawn(drain::expire_questions(Arc::clone(&shared)));
        if report.unclean {
            tasks.spawn(integrity::check(Arc::clone(&shared)));
        }
        tasks.spawn(buckets::keep(parts.buckets, store.clone(), stop.cut_hard));
        tasks.spawn(indexer::keep_up(store, indexer, stop.draining));
        Ok((Self { shared }, report))
    }

    /// Starts a channel. Frames for channel ids that begin with its word go to it, also those that
    /// it was not sent before.
    pub fn add_channel(&self, channel: Arc<dyn Channel>) {
        let Shared { store, dispatcher, tasks, .. } = &*self.shared;
        let (inlet, wakes) = dispatcher.add(channel.id());
        let hive = self.clone();
        let inbound = InboundHandle::new(
            move |inbound| hive.submit(inbound),
            move |channel| inlet.wake(Wake::Present(channel)),
        );
        let cut_hard = self.shared.env().stop.cut_hard.clone();
        let reading = Arc::clone(&channel).start(inbound);
        tasks.spawn(cut_hard.clone().run_until_cancelled_owned(reading));
        tasks.spawn(skep_outbox::run(channel, store.clone(), wakes, cut_hard));
    }

    /// Takes what a source offers from now on, in the place of what it offered before. `Err`: one
    /// of its names is taken, and nothing changed.
    pub fn offer(&self, source: &str, offer: Offer) -> Result<(), String> {
        let snapshot = &self.shared.env().snapshot;
        snapshot.replace(|now| now.with_offer(source, offer))?;
        self.shared.meters.know(snapshot.current().toolbox.names());
        Ok(())
    }

    /// Named once, after the hive is open: whoever writes files also puts them in force.
    pub fn write_files_with(&self, writers: FileWriters) {
        // A second one is as good as the first.
        let _ = self.shared.facts.writers.set(writers);
    }

    /// Agents that are being made: their folders do not count yet.
    pub fn unfinished(&self) -> BTreeSet<AgentName> {
        self.shared.unfinished.names()
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
        !self.shared.env().stop.draining.is_cancelled()
    }

    /// Why no message can be kept, where the files of the store are not in their place.
    pub fn store_moved(&self) -> Option<String> {
        self.shared.store.stands().err().map(|error| error.to_string())
    }

    /// Cancelled when open connections are to be closed.
    pub fn stopping(&self) -> CancellationToken {
        self.shared.env().stop.cut.clone()
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

/// Those who are told of every commit, by the writer: none of them waits.
#[derive(Clone, Default)]
struct Listeners {
    registry: Arc<Registry>,
    meters: Arc<Meters>,
    indexer: Arc<Indexer>,
    waiters: Arc<Waiters>,
    bus: Arc<Bus>,
    dispatcher: Dispatcher,
}

impl Listeners {
    fn note(&self, committed: Committed) {
        for event in committed.events {
            self.registry.note(&event);
            self.meters.note(&event);
            self.indexer.note(&event);
            if let EventKind::InboxEnded { item, .. } = &event.kind {
                self.waiters.ended(item);
            }
            self.bus.publish(event);
        }
        self.dispatcher.frames(committed.frames);
    }
}

/// Ends engines that a process before this one left.
async fn end_children(run: &Path) {
    match DuplexRecords::new(run.join("children")).end_all().await {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "engines that an earlier process left are ended"),
        Err(error) => tracing::error!(%error, "an engine of an earlier process does not end"),
    }
}

/// Takes the rows over that a process before this one left. Gives the ids of the agents.
async fn take_over(
    store: &Store,
    report: &OpenReport,
    settings: &HiveSettings,
    node: &NodeName,
    now: Millis,
) -> Result<AgentMap<AgentId>, StoreError> {
    // Before any other row: until it is there, the head says what it said.
    if let Some(finding) = &report.trail {
        tracing::error!(finding = finding.text, "the audit trail is not as it was left");
        store.write(AddAudit { row: finding.told(now) }).await?;
    }
    let ids = configuration::register_all(store, settings).await?;
    let lost = LostTurns::AtStart;
    let taken_back = store.write(Recover { node: node.clone(), lost, now }).await?;
    if taken_back > 0 {
        tracing::info!(turns = taken_back, "turns that were running go on");
    }
    Ok(ids)
}

impl Shared {
    pub fn env(&self) -> &TurnEnv {
        self.turns.env()
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.env().snapshot.current()
    }

    /// What stands before words that are worked at with this skill; `Err`: there is none, and which
    /// there are.
    pub fn skill_text(&self, agent: &AgentSettings, name: &str) -> Result<String, String> {
        let skill = agent.skill(name).ok_or_else(|| skill_text::unknown(agent, name))?;
        let snapshot = self.snapshot();
        let missing = snapshot.toolbox.lacks(agent, &skill.tools);
        Ok(skep_scrub::known().clean_owned(skill_text::in_use(agent, skill, &missing)))
    }

    pub fn settings(&self) -> Arc<HiveSettings> {
        Arc::clone(&self.snapshot().settings)
    }

    /// The agent that has this name now.
    pub fn agent_id(&self, name: &AgentName) -> Result<AgentId, DoorError> {
        let ids = &self.snapshot().ids;
        let found = ids.get(name).filter(|_| !self.unfinished.contains(name));
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = ids.keys().map(AgentName::as_str).take(NAMED).collect();
            let more = if ids.keys().nth(NAMED).is_some() { " and others" } else { "" };
            let text =
                format!("There is no agent `{name}`. This hive has: {}{more}.", known.join(", "));
            DoorError::new(ErrorKind::NotFound, "unknown_agent", text)
        })
    }

    /// Whose rows are to be read. Who sees everything can name an agent by its id (`id:7`), also
    /// one that was removed.
    pub async fn read_agent(
        &self,
        wanted: &AgentName,
        sight: &Sight,
    ) -> Result<(AgentId, AgentName), DoorError> {
        match self.agent_id(wanted) {
            Ok(id) => Ok((id, wanted.clone())),
            Err(unknown) if *sight != Sight::All => Err(unknown),
            Err(unknown) if wanted.as_id().is_some() => {
                self.stored_agent(wanted).await?.ok_or(unknown)
            }
            Err(mut unknown) => {
                let read = self.store.read(async |conn| agents::find_removed(conn, wanted).await);
                if let Some(AgentId(id)) = read.await.map_err(door_error)? {
                    let more = format!(" One that was removed is `id:{id}`.");
                    unknown.text.push_str(&more);
                }
                Err(unknown)
            }
        }
    }

    /// The one agent whose rows somebody wants, or sees at all.
    pub async fn only_agent(
        &self,
        wanted: Option<&AgentName>,
        sight: &Sight,
    ) -> Result<Option<AgentId>, DoorError> {
        match (sight, wanted) {
            (Sight::Agent(own), _) => Ok(Some(*own)),
            (_, Some(agent)) => self.read_agent(agent, sight).await.map(|(id, _)| Some(id)),
            (_, None) => Ok(None),
        }
    }

    /// An agent that has a row, in the settings or not.
    pub async fn stored_agent(
        &self,
        wanted: &AgentName,
    ) -> Result<Option<(AgentId, AgentName)>, DoorError> {
        let read = self.store.read(async |conn| agents::find(conn, wanted).await);
        read.await.map_err(door_error)
    }

    /// Somebody with the role and the name of the credential.
    pub fn person(&self, principal: &str) -> Who {
        gate::person(&self.env().gate.holder_of, principal)
    }

    /// What somebody may store in all, in bytes; nothing where that has no limit.
    pub fn room_of(&self, principal: &Principal) -> Option<u64> {
        let limited = self.tokens.role(principal.as_str()) != Some(Role::Operator);
        limited.then(|| self.settings().limits.user_storage_bytes)
    }
}

impl HiveFacts {
    pub fn integrity(&self) -> IntegrityInfo {
        self.integrity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_integrity(&self, info: IntegrityInfo) {
        *self.integrity.write().unwrap_or_else(PoisonError::into_inner) = info;
    }
}
