//! `skep up --detach`: starts the same command in the background and waits until it is ready.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use skep_cli::hive::{Globals, Home};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_guard::background::{self, Process};
use skep_guard::http;
use tokio::time::{Instant, sleep};

const ATTEMPTED: &str = "start the hive in the background";
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// The most output of the hive that is shown.
const SHOWN_BYTES: usize = 64 << 10;

/// Starts `skep up` with these options. The caller has seen that no other instance runs.
pub async fn run(home: &Home, options: Vec<OsString>, globals: &Globals) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(Exit::Failed, ATTEMPTED, error.to_string()).next("skep up");
    // Standard error holds the reason if the start fails.
    let path = home.logs().join("stderr");
    let mut file = OpenOptions::new();
    let stderr = file.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let stderr = stderr.map_err(failed)?;
    let seen = StartOutput { stderr: &path };
    let said = nameless(&home.run()).map_err(failed)?;
    let stdout = said.try_clone().map_err(failed)?;
    let mut arguments = vec!["up".into(), "--home".into(), home.root().into()];
    arguments.extend(options);
    if globals.json {
        arguments.push("--json".into());
    }
    let child = background::again(&arguments, home.root(), stdout, stderr).map_err(failed)?;
    let pid = child.id();
    let text = wait_until_ready(home, child, &said, &seen).await?;
    text.lines().for_each(output::line);
    let warned = File::open(&path).map(|stderr| text_from(&stderr)).unwrap_or_default();
    warned.lines().filter(|line| line.starts_with("warning: ")).for_each(output::note);
    if globals.json {
        return Ok(());
    }
    let stop = format!("in the background as process {pid}; skep down stops it");
    output::line(globals.commands(&stop));
    output::line(globals.commands("log: skep logs"));
    Ok(())
}

async fn wait_until_ready(
    home: &Home,
    child: Process,
    said: &File,
    seen: &StartOutput<'_>,
) -> Result<String, Failure> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Err(seen.ended(status.code())),
            Err(error) => return Err(Failure::new(Exit::Failed, ATTEMPTED, error.to_string())),
        }
        let text = text_from(said);
        // The start notice arrives in one write.
        if text.ends_with('\n') && is_ready(home).await {
            return Ok(text);
        }
        sleep(POLL).await;
    }
    let why = format!("it is not ready after {} s", PATIENCE.as_secs());
    let failure = Failure::new(Exit::Failed, ATTEMPTED, why);
    Err(failure.next("skep logs"))
}

async fn is_ready(home: &Home) -> bool {
    let Ok(client) = http::local_client(&home.run()) else { return false };
    let asked = client.get("http://localhost/ready").timeout(Duration::from_secs(5));
    asked.send().await.is_ok_and(|answer| answer.status().is_success())
}

/// Where the background process writes why it ends.
struct StartOutput<'a> {
    stderr: &'a Path,
}

impl StartOutput<'_> {
    /// The process ended before it was ready: its error output becomes the failure.
    fn ended(&self, code: Option<i32>) -> Failure {
        let text = File::open(self.stderr).map(|stderr| text_from(&stderr));
        let why = text.unwrap_or_else(|error| format!("{}: {error}", self.stderr.display()));
        let exit = match code {
            Some(2) => Exit::Usage,
            Some(3) => Exit::Refused,
            _ => Exit::Failed,
        };
        Failure::new(exit, ATTEMPTED, why)
    }
}

/// The start notice may contain the operator token: it goes to an unlinked file that only these two
/// processes have open, never to the log.
fn nameless(run: &Path) -> io::Result<File> {
    let path = run.join(format!(".said-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Reads without moving the file offset of the writing process.
fn text_from(file: &File) -> String {
    let mut bytes = vec![0; SHOWN_BYTES];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
