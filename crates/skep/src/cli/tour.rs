//! `skep tour`: finds the hive that the tour plays with, or serves a temporary one, and takes away
//! what the tour made.

use std::fs;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select_all;
use serde_json::json;
use skep_cli::commands::agent::{self, CreatedAgents};
use skep_cli::commands::tour::{self, SESSION, TourArgs, TourStage};
use skep_cli::hive::{Client, Globals, Home};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_guard::disk::replace_file;
use skep_guard::lock::InstanceLock;
use skep_guard::{environment, random};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use crate::home::create::{self, make_folder};
use crate::home::new_agent::{self, NewAgentError};
use crate::home::{KnownNames, LoadedHome, NoticeForm, load};
use crate::log::{self, ConsoleLog};
use crate::template::{TeamWish, Template};

const ATTEMPTED: &str = "show the tour";
/// The template that shows delegation, a question and an approval.
const TEMPLATE: &str = "support";
/// The lead of the team.
const LEAD: &str = "tour";
/// How long a hive may take to start, and how long to stop.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Where the folder for temporary files is full or takes nothing.
const ANOTHER_FOLDER: &str = "set TMPDIR to another folder";
const PROVIDERS: &str = "profiles:\n  default: {provider: rehearsal}\n";

pub async fn run<S>(
    command: TourArgs,
    globals: &Globals,
    known: &KnownNames,
    serve: S,
) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    let usage = |why: &str, next: &str| Failure::new(Exit::Usage, ATTEMPTED, why).next(next);
    if globals.url.is_some() {
        return Err(usage("its agents are folders in the home of the hive", "skep tour --yes"));
    }
    if globals.json {
        return Err(usage("it prints text for people", "leave --json out"));
    }
    let asks = !command.yes;
    if asks && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(usage("it asks, and this is not a terminal", "skep tour --yes"));
    }
    let time = if asks { " About two minutes." } else { "" };
    output::line(format!("A team answers a request: delegation, a question, an approval.{time}"));
    output::line("The built-in rehearsal model plays the agents: no key is used, nothing is sent.");
    match running(globals).await? {
        RunningHive::Rehearses { profile } => in_running(globals, known, &profile, asks).await,
        RunningHive::Other { why } => in_temporary(&why, globals, known, serve, asks).await,
    }
}

/// The hive in the home.
enum RunningHive {
    /// It runs and has this profile of the rehearsal model.
    Rehearses { profile: String },
    /// Why the tour does not use it.
    Other { why: String },
}

async fn running(globals: &Globals) -> Result<RunningHive, Failure> {
    let home = globals.home()?.root().display().to_string();
    let list = match Client::open(globals) {
        Ok(client) => client.get("/api/v1/providers").await.ok(),
        Err(_) => None,
    };
    let Some(list) = list else {
        return Ok(RunningHive::Other { why: format!("no hive runs in {home}") });
    };
    let mut profiles = list["providers"].as_array().into_iter().flatten();
    let rehearses = profiles.find(|profile| profile["provider"] == "rehearsal");
    Ok(match rehearses.and_then(|profile| profile["name"].as_str()) {
        Some(name) => RunningHive::Rehearses { profile: name.to_owned() },
        None => RunningHive::Other { why: format!("the hive in {home} uses a real model") },
    })
}

async fn in_running(
    globals: &Globals,
    known: &KnownNames,
    profile: &str,
    asks: bool,
) -> Result<(), Failure> {
    let home = globals.home()?;
    let to_stop = told_to_stop();
    let team = make_team(&home, known, Some(profile))?;
    let names: Vec<String> = team.agents.iter().map(|agent| agent.name.clone()).collect();
    let folders: Vec<PathBuf> = team.agents.iter().map(|agent| agent.folder.clone()).collect();
    let place = format!("the one that runs in {}", home.root().display());
    let stage = stage(globals.clone(), &home, place, team, asks);
    let mut told = tokio::spawn(async move {
        for agent in &stage.team.agents {
            if !agent::noticed(&stage.globals, &agent.name).await {
                let why = format!("the hive did not load the agent {}", agent.name);
                return Err(Failure::new(Exit::Failed, ATTEMPTED, why).next("skep status"));
            }
        }
        tour::play(stage).await
    });
    let told = tokio::select! {
        told = &mut told => told.unwrap_or_else(|_| Err(stopped())),
        () = to_stop => {
            told.abort();
            Err(stopped())
        }
    };
    let removed = take_back(globals, &names, &folders).await;
    let ids = removed.map_err(|failure| failure.next(format!("skep agent rm {LEAD} --cascade")))?;
    output::line("");
    output::line(format!("Removed again: {}.", names.join(", ")));
    if let Some(lead) = ids.first() {
        output::line("What they said and did stays in the history and the audit trail:");
        for command in
            [format!("skep history show {lead} --session {SESSION}"), "skep audit list".to_owned()]
        {
            output::line(format!("   {}", globals.commands(&command)));
        }
    }
    told?;
    onward(globals);
    Ok(())
}

/// Removes the team from the hive; its folders alone where the hive has not loaded it, or has gone.
/// By what its agents are found from now on, the lead first.
async fn take_back(
    globals: &Globals,
    names: &[String],
    folders: &[PathBuf],
) -> Result<Vec<String>, Failure> {
    let attempted = format!("remove the team {LEAD}");
    for name in names {
        if !agent::noticed(globals, name).await {
            let removed = new_agent::remove(folders.iter());
            return removed
                .map(|()| Vec::new())
                .map_err(|error| Failure::new(Exit::Failed, attempted, error.to_string()));
        }
    }
    // The lead last, and nobody that others have put below it.
    let client = Client::open(globals)?;
    let listed = client.fetch("/api/v1/agents", &attempted).await?;
    let agents = listed["agents"].as_array().into_iter().flatten();
    let id =
        |name: &String| agents.clone().find(|agent| agent["name"] == name.as_str())?["id"].as_i64();
    let ids = names.iter().filter_map(id).map(|id| format!("id:{id}")).collect();
    for name in names.iter().rev() {
        let remove = format!("/api/v1/agents/{name}");
        client.delete(&remove, format!("remove the agent {name}")).await?;
    }
    Ok(ids)
}

async fn in_temporary<S>(
    why: &str,
    usual: &Globals,
    known: &KnownNames,
    serve: S,
    asks: bool,
) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    let folder = TemporaryFolder::new()?;
    let home = Home::new(folder.path.clone());
    let (loaded, team) = prepare(&home, known)?;
    let lock = InstanceLock::acquire(home.root(), &home.lock());
    let lock = lock.map_err(|error| Failure::new(Exit::Failed, ATTEMPTED, error.to_string()))?;
    let log = log::start(&home.logs(), ConsoleLog::Off);
    let globals = Globals::at(folder.path.clone());
    let place = format!("a temporary one in {}, because {why}", folder.path.display());
    let stage = stage(globals.clone(), &home, place, team, asks);
    let stage = TourStage { temporary: true, ..stage };
    // A task of its own: it waits for keys.
    let mut told = tokio::spawn(async move {
        wait_until_ready(&globals).await?;
        let told = tour::play(stage).await;
        Client::open(&globals)?.submit("/api/v1/shutdown", &json!({}), ATTEMPTED).await?;
        told
    });
    let mut serving = pin!(serve(home, loaded));
    let told = tokio::select! {
        // Ctrl-C, or it could not start.
        served = &mut serving => {
            told.abort();
            served.and_then(|()| Err(stopped()))
        }
        told = &mut told => {
            // It was told to stop; one that was never reached is dropped.
            let _ = timeout(PATIENCE, &mut serving).await;
            told.unwrap_or_else(|_| Err(stopped()))
        }
    };
    drop(log);
    drop(lock);
    let full = format!("{ANOTHER_FOLDER}, if {} is full", folder.above().display());
    folder.remove()?;
    output::line("");
    output::line("The temporary hive is stopped and its folder removed: nothing is left of it.");
    told.map_err(|failure| failure.or_next(&full))?;
    onward(usual);
    Ok(())
}

/// The files of a new home with the team in it, and what they mean.
fn prepare(home: &Home, known: &KnownNames) -> Result<(LoadedHome, CreatedAgents), Failure> {
    let failed = |why: String| Failure::new(Exit::Failed, ATTEMPTED, why).next(ANOTHER_FOLDER);
    create::folders(home).map_err(|error| failed(error.to_string()))?;
    replace_file(&home.providers_yaml(), PROVIDERS).map_err(|error| failed(error.to_string()))?;
    create::files(home, false).map_err(|error| failed(error.to_string()))?;
    let team = make_team(home, known, None).map_err(|failure| failure.next(ANOTHER_FOLDER))?;
    let loaded = load(home, known, &environment::var);
    let mut loaded = loaded.map_err(|error| failed(error.to_string()))?;
    loaded.settings.server.port = 0;
    loaded.port = Some(0);
    loaded.notice = NoticeForm::Hidden;
    create::workspaces(home, &loaded).map_err(|error| failed(error.to_string()))?;
    Ok((loaded, team))
}

fn make_team(
    home: &Home,
    known: &KnownNames,
    profile: Option<&str>,
) -> Result<CreatedAgents, Failure> {
    let attempted = format!("create the team {LEAD}");
    let template = Template::named(TEMPLATE).ok_or_else(stopped)?;
    let wish = TeamWish { name: LEAD, parent: None, profile, rehearses: true };
    let made = template.make(home, &wish, known);
    let agents = made.map_err(|error| {
        let next = match error {
            NewAgentError::Taken(_) => "skep agent rm tour --cascade, if a tour left it",
            _ => "skep doctor",
        };
        Failure::new(Exit::Failed, attempted, error.to_string()).next(next)
    })?;
    Ok(CreatedAgents { agents, request: Some(template.request.to_owned()) })
}

fn stage(
    globals: Globals,
    home: &Home,
    place: String,
    team: CreatedAgents,
    asks: bool,
) -> TourStage {
    let command = format!("skep agent new --template {TEMPLATE} --name {LEAD}");
    let workspace = home.agent(LEAD).join("work");
    TourStage { globals, place, command, team, workspace, asks, temporary: false }
}

async fn wait_until_ready(globals: &Globals) -> Result<(), Failure> {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if let Ok(client) = Client::open(globals)
            && client.get("/api/v1/agents").await.is_ok()
        {
            return Ok(());
        }
        sleep(LOOK).await;
    }
    let why = format!("the temporary hive is not ready after {} s", PATIENCE.as_secs());
    Err(Failure::new(Exit::Failed, ATTEMPTED, why))
}

/// Ctrl-C, the end of the session, or a terminal that closes: from this call on.
fn told_to_stop() -> impl Future<Output = ()> {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let heard = kinds.map(|kind| {
        let signals = signal(kind);
        Box::pin(async move {
            match signals {
                Ok(mut signals) => drop(signals.recv().await),
                Err(_) => pending().await,
            }
        })
    });
    async move {
        select_all(heard).await;
    }
}

fn stopped() -> Failure {
    Failure::new(Exit::Failed, ATTEMPTED, "it was stopped").next("skep tour")
}

fn onward(globals: &Globals) {
    output::line("");
    output::line("Go on:");
    for (command, about) in [
        ("skep up", "a hive of your own; a key in the environment gives it a real model"),
        ("skep agent new --template support", "this team; also engineering and research"),
        ("skep chat", "a conversation in the terminal"),
    ] {
        output::line(format!("   {:<36}{about}", globals.commands(command)));
    }
}

/// A folder of our own below the folder for temporary files; removed when it is dropped.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    fn new() -> Result<Self, Failure> {
        let above = environment::var("TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
        let id = random::uuid().simple().to_string();
        let path = Path::new(&above).join(format!("skep-tour-{}", &id[id.len() - 12..]));
        make_folder(&path).map_err(|error| not_kept("make", &path, &error))?;
        Ok(Self { path })
    }

    /// The folder for temporary files.
    fn above(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn remove(self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.path).map_err(|error| not_kept("remove", &self.path, &error))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // After `remove` there is nothing; otherwise a failure is being told already.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn not_kept(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let attempted = format!("{verb} {}", path.display());
    Failure::new(Exit::Failed, attempted, error.to_string()).next(ANOTHER_FOLDER)
}
