//! `skep up`: prepares the home, takes the instance lock, reads the files, serves.

use std::ffi::OsString;
use std::io::ErrorKind;

use clap::Args;
use skep_cli::hive::{Globals, Home};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_core::settings::AgentState;
use skep_guard::environment;
use skep_guard::lock::{InstanceLock, LockError};

use super::detach;
use crate::home::create::{self, HomeError};
use crate::home::{KnownNames, LoadedHome, NoticeForm, load, load_looking};
use crate::log::{self, ConsoleLog};

#[derive(Args)]
#[command(after_help = "Examples:
  skep up                       serve the hive in ~/.skep on port 7537
  skep up --home /srv/hive --port 0
  skep up --detach              serve in the background; skep down stops it
  skep up --accept-loss         start although the store's log is damaged")]
pub struct UpArgs {
    /// Port to listen on instead of the one in skep.yaml; 0 takes a free one
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Serve in the background; returns when the hive is ready
    #[arg(long)]
    detach: bool,
    /// Listen on an address others can reach, without TLS
    #[arg(long)]
    insecure_bind: bool,
    /// Start although answered messages are missing in a damaged log; names them, and keeps a copy
    /// of the files in run/damaged-TIME
    #[arg(long)]
    accept_loss: bool,
    /// Given by --detach to the process it starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    in_background: bool,
}

/// `serve` serves the home until it is stopped.
pub async fn run<S>(
    command: UpArgs,
    globals: &Globals,
    known: &KnownNames,
    serve: S,
) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    let home = globals.home()?;
    create::folders(&home).map_err(unusable)?;
    // Held until the end; the kernel releases it in every case.
    let lock =
        InstanceLock::acquire(home.root(), &home.lock()).map_err(|error| locked(&home, &error))?;
    if command.detach {
        drop(lock);
        return detach::run(&home, command.options(), globals).await;
    }
    let console = if command.in_background { ConsoleLog::Off } else { ConsoleLog::On };
    let log = log::start(&home.logs(), console);
    // Errors are reported below, once all files exist.
    let costs = load(&home, known, &environment::var).is_ok_and(|it| it.costs_money());
    create::files(&home, costs).map_err(unusable)?;
    let loaded = load_looking(&home, known, &environment::var).await;
    let mut loaded = loaded.map_err(|error| {
        let why = format!("{error}\nnothing was started");
        Failure::new(Exit::Usage, "read the configuration", why)
            .next("correct the file, then skep doctor")
    })?;
    if let Some(port) = command.port {
        loaded.settings.server.port = port;
        loaded.port = Some(port);
    }
    loaded.accept_loss = command.accept_loss;
    if globals.json {
        loaded.notice = NoticeForm::Programs;
    }
    check_bind(&loaded, command.insecure_bind)?;
    create::workspaces(&home, &loaded).map_err(unusable)?;
    warn(&loaded);
    let served = serve(home, loaded).await;
    drop(log);
    drop(lock);
    served
}

impl UpArgs {
    /// `skep up --detach`.
    pub fn detached() -> Self {
        Self {
            port: None,
            detach: true,
            insecure_bind: false,
            accept_loss: false,
            in_background: false,
        }
    }

    /// The options of the command line, for the background process.
    fn options(&self) -> Vec<OsString> {
        let mut options = vec!["--in-background".into()];
        if let Some(port) = self.port {
            options.extend(["--port".into(), port.to_string().into()]);
        }
        if self.insecure_bind {
            options.push("--insecure-bind".into());
        }
        if self.accept_loss {
            options.push("--accept-loss".into());
        }
        options
    }
}

fn warn(loaded: &LoadedHome) {
    for warning in &loaded.warnings {
        output::note(format!("warning: {warning}"));
    }
    let tree = loaded.settings.tree();
    for (name, state) in tree.in_force().iter() {
        if let AgentState::Failed { reason } = state {
            output::note(format!("warning: agent {name} is disabled: {reason}"));
        }
    }
}

/// Without TLS only loopback addresses are allowed by default. A public https address means that a
/// proxy terminates TLS.
fn check_bind(loaded: &LoadedHome, insecure: bool) -> Result<(), Failure> {
    let server = &loaded.settings.server;
    let proxied = server.public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    if server.bind.is_loopback() || insecure || proxied {
        return Ok(());
    }
    let why = format!(
        "server.bind in skep.yaml is {}, which other machines can reach without encryption",
        server.bind
    );
    Err(Failure::new(Exit::Refused, "start the hive", why).next(
        "bind to 127.0.0.1, or name the proxy in server.public_url (https://…), or skep up \
         --insecure-bind",
    ))
}

fn unusable(error: HomeError) -> Failure {
    let next = way_out(&error.source);
    let why = format!("{}: {}", error.path.display(), error.source);
    let attempted = format!("prepare the home {}", error.home.display());
    Failure::new(Exit::Failed, attempted, why).next(next)
}

fn locked(home: &Home, error: &LockError) -> Failure {
    let attempted = format!("start the hive in {}", home.root().display());
    match error {
        LockError::Held { .. } => {
            Failure::new(Exit::Refused, attempted, error.to_string()).next("skep status")
        }
        LockError::Io { source, .. } => {
            Failure::new(Exit::Failed, attempted, error.to_string()).next(way_out(source))
        }
    }
}

/// The advice for a file of the home that cannot be written.
fn way_out(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, then skep up",
        _ => "make the folder writable, or name another one with --home",
    }
}
