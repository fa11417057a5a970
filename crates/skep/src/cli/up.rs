//! `skep up`: prepares the home, takes the instance lock, reads the files, serves.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::SocketAddr;

use clap::Args;
use skep_cli::hive::{Home, Place};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_core::settings::AgentState;
use skep_guard::environment;
use skep_guard::lock::{InstanceLock, LockError};

use super::{Program, detach};
use crate::home::create::{self, HomeError};
use crate::home::{Loaded, load, load_looking};
use crate::log::{self, People};

#[derive(Args)]
#[command(after_help = "Examples:
  skep up                       serve the hive in ~/.skep on port 7537
  skep up --home /srv/hive --port 0
  skep up --detach              serve in the background; skep down ends it
  skep up --accept-loss         start although the store's log is damaged")]
pub struct Up {
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

/// Programs read this line; it stands alone.
pub const LISTENING: &str = "listening on ";

pub(super) async fn run<S>(command: Up, place: &Place, program: Program<S>) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, Loaded) -> Result<(), Failure>,
{
    let home = place.home()?;
    create::folders(&home).map_err(unusable)?;
    // Held until everything has ended; the kernel gives it back however that happens.
    let lock =
        InstanceLock::acquire(home.root(), &home.lock()).map_err(|error| locked(&home, &error))?;
    if command.detach {
        drop(lock);
        return detach::run(&home, command.options()).await;
    }
    let people = if command.in_background { People::DoNot } else { People::See };
    let log = log::start(&home.logs(), people);
    // What keeps the files from being read is told below, once all of them are there.
    let costs = load(&home, &program.known, &environment::var).is_ok_and(|it| it.costs_money());
    create::files(&home, costs).map_err(unusable)?;
    let loaded = load_looking(&home, &program.known, &environment::var).await;
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
    check_bind(&loaded, command.insecure_bind)?;
    create::workspaces(&home, &loaded).map_err(unusable)?;
    warn(&loaded);
    let served = (program.serve)(home, loaded).await;
    drop(log);
    drop(lock);
    served
}

impl Up {
    /// As they stood on the command line, for the process in the background.
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

/// What is said once the hive can be reached.
pub struct Doorplate<'a> {
    pub address: SocketAddr,
    /// Signs one browser in, once.
    pub link: &'a str,
    /// The operator token of a first start: this is the only time it is shown.
    pub token: Option<&'a str>,
}

pub fn announce(home: &Home, loaded: &Loaded, plate: &Doorplate) {
    let Doorplate { address, link, token } = plate;
    let usual = Home::locate(None).is_ok_and(|usual| usual == *home);
    let flag = if usual { String::new() } else { format!(" --home {}", home.root().display()) };
    let mut text = format!(
        "{LISTENING}http://{address}\n\
         dashboard, this link works once: {link}\n\
         model: {}\n\
         talk to it: skep{flag} send main \"hello\" --wait\n\
         read and change it: {}",
        loaded.settings.model_note,
        home.root().display()
    );
    if let (Some(limit), Some(_)) = (loaded.settings.limits.cost_per_day, token) {
        text.push_str(&format!(
            "\nmodel calls may cost {limit} a day: limits.cost_per_day in skep.yaml"
        ));
    }
    if let Some(token) = token {
        text.push_str(&format!("\noperator token for other machines, shown this once: {token}"));
    }
    // In one piece: whoever sees the first line has all of it.
    output::line(text);
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::note(format!("warning: {warning}"));
    }
    for (name, state) in &loaded.settings.agents {
        if let AgentState::Failed { reason } = state {
            output::note(format!("warning: agent {name} is disabled: {reason}"));
        }
    }
}

/// Without TLS everybody on the way reads along: only this machine is reached unasked. A public
/// https address says that a proxy in front does the TLS.
fn check_bind(loaded: &Loaded, insecure: bool) -> Result<(), Failure> {
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
        LockError::Held { .. } => Failure::new(Exit::Refused, attempted, error.to_string())
            .next("skep status, or skep down to stop it"),
        LockError::Io { source, .. } => {
            Failure::new(Exit::Failed, attempted, error.to_string()).next(way_out(source))
        }
    }
}

/// What helps when a file of the home cannot be written.
fn way_out(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, then skep up",
        _ => "make the folder writable, or name another one with --home",
    }
}
