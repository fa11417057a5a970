//! The composition root: the only place that names concrete engines, vendors, tools and doors.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use skep_cli::hive::Home;
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_core::engine::Engine;
use skep_core::ids::NodeName;
use skep_core::retry::RetryPolicy;
use skep_core::settings::Limits;
use skep_core::tool::Tool;
use skep_engine::{NativeEngine, Timing};
use skep_guard::egress::{EgressHub, SystemResolver};
use skep_guard::sandbox::{self, Sandbox};
use skep_guard::vault::{KeyPlace, Vault};
use skep_guard::{clock, environment, footprint};
use skep_runtime::door::Grant;
use skep_runtime::{
    FileWriters, FreshToken, Hive, HiveError, Offer, Organisation, Parts, subagent_tools,
};
use skep_server::{BindOptions, CallTimes, Listeners, Server};
use skep_store::OpenError;
use skep_tools::{
    BashTool, EditTool, GlobTool, Governance, GrepTool, ReadTool, VaultTool, WebFetchTool,
    WriteTool,
};

use crate::agent_file;
use crate::apply::Applier;
use crate::home::{KnownNames, LoadedHome};
use crate::profile_draft;
use crate::reload;
use crate::rule_writer;
use crate::secret_scan;
use crate::settings_writer::SettingsWriter;
use crate::start_notice::{self, StartNotice};
use crate::team_description;
use crate::team_folder;
use crate::team_templates;
use crate::vault_move;
use crate::vendors::Vendors;

/// How often free memory is returned to the system.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// How often the process is checked for growth by `BURST_BYTES`.
const LOOK: Duration = Duration::from_secs(3);
const BURST_BYTES: u64 = 16 * 1024 * 1024;
/// Delay until memory that only the start needed is returned.
const STARTED: Duration = Duration::from_secs(2);
/// The tools every hive has; an agent gets those it lists.
pub const BUILT_IN: &[&str] = &[
    "read",
    "write",
    "edit",
    "glob",
    "grep",
    "bash",
    "web_fetch",
    "vault_set",
    "vault_get",
    "vault_list",
    "vault_delete",
];

/// What configuration files may name.
pub fn known() -> KnownNames {
    known_with(&["native"], BUILT_IN)
}

/// These names, and the tools of the organisation.
pub fn known_with(engines: &[&str], tools: &[&str]) -> KnownNames {
    let mut known = KnownNames::new(engines, tools);
    known.tools.extend(Organisation::tool_names());
    known.aliases.extend(Organisation::aliases());
    known
}

/// What another program adds: engines, tools and hooks, and pauses of the test rig.
pub struct Extras {
    pub engines: MoreEngines,
    pub offer: Offer,
    pub retry: RetryPolicy,
    pub call_times: CallTimes,
    pub opened: Box<dyn FnOnce(&Hive) + Send>,
}

/// Makes engines around the native one.
pub type MoreEngines = Box<dyn FnOnce(&Arc<NativeEngine>) -> Vec<Arc<dyn Engine>> + Send>;

impl Default for Extras {
    fn default() -> Self {
        Self {
            engines: Box::new(|_| Vec::new()),
            offer: Offer::default(),
            retry: RetryPolicy::default(),
            call_times: CallTimes::default(),
            opened: Box::new(|_| {}),
        }
    }
}

fn listen(home: &Home, loaded: &LoadedHome) -> Result<Listeners, Failure> {
    let bind = BindOptions {
        home: home.root().to_path_buf(),
        run: home.run(),
        // `skep up` has checked the address before.
        insecure_bind: true,
    };
    Listeners::open(&loaded.settings.server, bind)
        .map_err(|error| Failure::new(Exit::Failed, "listen", error.to_string()))
}

/// Serves the hive until it is told to stop; the caller holds the home's lock.
pub async fn serve(home: Home, mut loaded: LoadedHome, extras: Extras) -> Result<(), Failure> {
    let mut terminate = listen_for(SignalKind::terminate())?;
    let mut interrupt = listen_for(SignalKind::interrupt())?;
    let heeds_hangup = !skep_guard::hangup::is_ignored();
    let mut hangup = heeds_hangup.then(|| listen_for(SignalKind::hangup())).transpose()?;
    // Listening comes first: a hive that cannot be reached runs no turn.
    let listening = listen(&home, &loaded)?;
    let address = listening.address();
    end_leftovers(&home);
    if let Err(error) = skep_guard::limits::raise_open_files() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let mut vendors = Vendors::default();
    let vault = Arc::new(Vault::open(home.root(), &environment::var));
    let timing = Timing { policy: extras.retry, ..Timing::default() };
    let native = Arc::new(NativeEngine::new(timing));
    let mut engines: Vec<Arc<dyn Engine>> = (extras.engines)(&native);
    engines.push(native);
    let governance = Governance::at(&home.settings_history());
    let egress = way_out(address);
    let organisation = Arc::new(Organisation::default());
    let tools = built_in(&home, &loaded.settings.limits, &governance, &egress, &vault);
    let offer = offer(extras.offer, &organisation, tools);
    let parts = Parts {
        run: home.run(),
        // One process at a time works on a home: the name is the same for each.
        node: NodeName::new("main"),
        accept_loss: loaded.accept_loss.then(|| home.damaged(clock::now_ms())),
        settings: Box::new(|unfinished| {
            for name in unfinished {
                loaded.settings.agents.remove(name);
                loaded.broken.remove(name);
            }
            vendors.furnish(&mut loaded.settings, &loaded.connections, &vault);
            loaded.settings.clone()
        }),
        engines,
        built_in: offer,
        retry: extras.retry,
        buckets: Arc::clone(egress.buckets()),
        vault: Arc::clone(&vault),
        version: env!("CARGO_PKG_VERSION"),
    };
    let (hive, report) = Hive::open(parts).await.map_err(|error| not_opened(&error))?;
    if report.unclean && !report.fresh {
        tracing::info!("the last run did not end in order; its work goes on");
    }
    if let Some(loss) = &report.loss {
        tracing::error!(%loss, "started with a loss");
        output::note(format!("warning: {loss}"));
    }
    let server = Server::new(listening, &loaded.settings.server, hive.clone(), extras.call_times);
    let token = first_token(&hive).await?;
    let link = server.sign_in_link();
    (extras.opened)(&hive);
    let shown = token.as_ref().map(|token| token.text.as_str());
    start_notice::announce(&home, &loaded, &StartNotice { address, link: &link, token: shown });
    // The token is shown, then stored, then valid: a start that dies in between shows a new one,
    // and the first was never used. Connections wait until then.
    if let Some(token) = token {
        hive.keep_token(&token, None).await.map_err(|error| {
            let why = format!("{error}\nthe one that was shown opens nothing");
            Failure::new(Exit::Failed, "keep the operator token", why).next("skep up")
        })?;
    }
    let applier = Applier::new(&home, &hive, vendors, vault, loaded);
    hive.write_files_with(writers(&home, governance, &applier));
    hive.organise(&organisation).await;
    let close_doors = CancellationToken::new();
    let doors = tokio::spawn(server.run(close_doors.clone()));
    let housekeeping = tokio::spawn(give_memory_back());
    let reload = reload::start(&home, &hive, applier);
    let asked = hive.shutdown_requested();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = hung_up(&mut hangup) => {}
        () = asked.cancelled() => {}
    }
    // Reloading ends first: the settings no longer change.
    if let Some(reload) = reload {
        reload.abort();
    }
    tracing::info!("stopping: running turns have {:?}", hive.settings().limits.drain);
    // A closing terminal sends several hang-ups; they are no second request.
    hive.drain(async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
    .await;
    close_doors.cancel();
    housekeeping.abort();
    if doors.await.is_err() {
        tracing::error!("the doors did not close in order");
    }
    Ok(())
}

/// What agents are offered.
fn offer(mut extra: Offer, organisation: &Arc<Organisation>, tools: Vec<Arc<dyn Tool>>) -> Offer {
    extra.tools.extend(organisation.tools());
    extra.subagents = Some(subagent_tools(organisation));
    extra.tools.extend(tools);
    extra
}

/// What changes the files of the home.
fn writers(home: &Home, governance: Arc<Governance>, applier: &Arc<Applier>) -> FileWriters {
    let settings = SettingsWriter::new(home, governance);
    FileWriters {
        rules: rule_writer::writer(Arc::clone(&settings), Arc::clone(applier)),
        describe: team_description::writer(Arc::clone(&settings), Arc::clone(applier)),
        agent_file: agent_file::keeper(home, settings, Arc::clone(applier)),
        folders: team_folder::changer(home, Arc::clone(applier)),
        profile: profile_draft::preparer(Arc::clone(applier)),
        no_profile: profile_draft::remover(Arc::clone(applier)),
        move_secrets: vault_move::mover(Arc::clone(applier)),
        refresh: vault_move::refresher(Arc::clone(applier)),
        scan: secret_scan::scanner(home),
        templates: team_templates::offered(Arc::clone(applier)),
    }
}

/// What agents connect through; the doors of the hive are no place to go.
fn way_out(door: SocketAddr) -> Arc<EgressHub> {
    let egress = EgressHub::new(Arc::new(SystemResolver::default()));
    egress.protect(door);
    Arc::new(egress)
}

fn built_in(
    home: &Home,
    limits: &Limits,
    governance: &Arc<Governance>,
    egress: &Arc<EgressHub>,
    vault: &Arc<Vault>,
) -> Vec<Arc<dyn Tool>> {
    let (sandbox, bytes) = (Arc::new(sandbox(home)), limits.tool_output_bytes);
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ReadTool::new(bytes)),
        Arc::new(WriteTool::new(Some(Arc::clone(governance)))),
        Arc::new(EditTool::new(Some(Arc::clone(governance)))),
        Arc::new(GlobTool::new(bytes)),
        Arc::new(GrepTool::new(bytes)),
        Arc::new(BashTool::new(sandbox, Arc::clone(egress))),
        Arc::new(WebFetchTool::new(Arc::clone(egress), Arc::clone(vault), bytes)),
    ];
    tools.extend(VaultTool::all(vault).map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    tools
}

/// The sandbox of shell commands; the hive's home and the key of its vault are invisible there.
pub fn sandbox(home: &Home) -> Sandbox {
    let key = KeyPlace::find(&environment::var);
    let key = key.as_ref().and_then(KeyPlace::own_folder).map(Path::to_path_buf);
    let hidden = [home.root().to_path_buf()].into_iter().chain(key).collect();
    Sandbox::new(sandbox::Settings::new(sandbox::Level::Confined, hidden))
}

/// Ends processes that tools of an earlier run left behind.
fn end_leftovers(home: &Home) {
    let hash = Sha256::digest(home.root().as_os_str().as_encoded_bytes());
    let label: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    match skep_guard::process::claim(&label) {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "processes of an earlier run were ended"),
        Err(error) => tracing::warn!(%error, "processes of an earlier run were not looked for"),
    }
}

/// Makes the operator token of a hive that has no token.
async fn first_token(hive: &Hive) -> Result<Option<FreshToken>, Failure> {
    let tokens = hive.tokens().await.map_err(|error| {
        Failure::new(Exit::Failed, "look for the operator token", error.to_string())
    })?;
    Ok(tokens.is_empty().then(|| FreshToken::new("operator", Grant::operator())))
}

/// Returns free memory after the start and after bursts.
async fn give_memory_back() {
    tokio::time::sleep(STARTED).await;
    let started = tokio::task::spawn_blocking(|| {
        skep_guard::memory::give_back();
        skep_guard::memory::let_go_of_code();
    });
    if started.await.is_err() {
        return;
    }
    let (mut least, mut last) = (footprint::resident_bytes(), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let grown = footprint::resident_bytes() > least + BURST_BYTES;
        if !grown && last.elapsed() < GIVE_BACK {
            continue;
        }
        if tokio::task::spawn_blocking(skep_guard::memory::give_back).await.is_err() {
            return;
        }
        (least, last) = (least.min(footprint::resident_bytes()), Instant::now());
    }
}

/// Completes when the terminal hangs up; never if the signal is ignored.
async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Failure::new(Exit::Failed, "listen for the signal to stop", error.to_string())
    })
}

fn not_opened(error: &HiveError) -> Failure {
    let exit = match error {
        HiveError::Store(
            OpenError::Newer { .. } | OpenError::Corrupt { .. } | OpenError::Lost { .. },
        ) => Exit::Refused,
        _ => Exit::Failed,
    };
    Failure::new(exit, "open the hive", error.to_string())
}
