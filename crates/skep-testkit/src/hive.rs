//! Starts the real program on a home of its own, waits for it, kills it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use tempfile::TempDir;
use tokio::process::Child;

use crate::http::Api;
use crate::shim::Shim;
use crate::wait::{self, PATIENCE};
use crate::ws::WsTarget;

/// Printed once on standard output when the doors are open.
const LISTENING: &str = "listening on ";
/// What a hermetic program still needs of this environment.
const INHERITED: &[&str] = &["PATH", "TMPDIR", "LANG", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// How to start it. The environment is empty but for what is said here, so that no key or setting
/// of the machine reaches a test.
pub struct Start {
    program: PathBuf,
    home: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    preload: Option<Command>,
    hang_up: HangUp,
}

/// What SIGHUP does to the program when it starts. Told anew each time: whoever runs the tests
/// under `nohup` would pass it on.
#[derive(Clone, Copy)]
enum HangUp {
    Default,
    Ignored,
}

/// A running program; killed with its process group when dropped.
pub struct Hive {
    child: Child,
    process: u32,
    home: PathBuf,
    logs: TempDir,
    url: Option<String>,
}

/// A program that ran to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Start {
    /// `PROGRAM up --home HOME --port 0`.
    pub fn up(program: &Path, home: &Path) -> Self {
        Self::new(program, home)
            .argument("up")
            .argument("--home")
            .argument(home)
            .argument("--port")
            .argument("0")
    }

    /// Any other command line; `SKEP_HOME` names the home.
    pub fn new(program: &Path, home: &Path) -> Self {
        let start = Start {
            program: program.to_owned(),
            home: home.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            preload: None,
            hang_up: HangUp::Default,
        };
        // Nothing of the person who runs the tests is read or written.
        let fake_user = home.parent().unwrap_or(home).to_owned();
        // Nor is a model server of this machine looked for.
        start.env("SKEP_HOME", home).env("HOME", fake_user).env("SKEP_LOCAL_SERVERS", "none")
    }

    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// As `nohup` starts it.
    pub fn no_hang_up(mut self) -> Self {
        self.hang_up = HangUp::Ignored;
        self
    }

    /// Set unless it was set already.
    pub(crate) fn usually(self, name: &str, value: &str) -> Self {
        match self.environment.iter().any(|(given, _)| given == name) {
            true => self,
            false => self.env(name, value),
        }
    }

    /// Under the shim; call `Shim::prepare` first.
    pub fn shim(mut self, shim: &Shim) -> Self {
        let mut carrier = Command::new(&self.program);
        shim.apply(&mut carrier);
        self.preload = Some(carrier);
        self
    }

    /// Starts it and waits until it listens.
    pub async fn listening(self) -> Result<Hive> {
        let mut hive = self.spawn()?;
        hive.wait_listening().await?;
        Ok(hive)
    }

    /// Starts it without waiting for anything.
    pub fn spawn(self) -> Result<Hive> {
        let logs = tempfile::tempdir().context("making a folder for the output")?;
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(File::create(logs.path().join("stdout"))?)
            .stderr(File::create(logs.path().join("stderr"))?)
            .process_group(0);
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("starting {}", self.program.display()))?;
        let process = child.id().context("the process ended at once")?;
        Ok(Hive { child, process, home: self.home, logs, url: None })
    }

    /// The program with its arguments and environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(inherited);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let preload = self.preload.iter().flat_map(Command::get_envs);
        command.envs(preload.filter_map(|(name, value)| Some((name, value?))));
        let action = match self.hang_up {
            HangUp::Default => libc::SIG_DFL,
            HangUp::Ignored => libc::SIG_IGN,
        };
        // SAFETY: between fork and exec one system call is made and nothing is allocated.
        unsafe {
            command.pre_exec(move || match libc::signal(libc::SIGHUP, action) {
                libc::SIG_ERR => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        command
    }

    /// Runs it to its end.
    pub async fn finish(self) -> Result<Finished> {
        let mut hive = self.spawn()?;
        let status = hive.wait(PATIENCE).await?;
        Ok(Finished { code: status.code(), stdout: hive.stdout(), stderr: hive.stderr() })
    }

    /// Runs it to its end bound by the modes of files, as root otherwise is not: started from a
    /// thread that gave up the right to pass over them.
    pub fn finish_bound_by_modes(self) -> Result<Finished> {
        let thread = std::thread::spawn(move || {
            if rustix::process::geteuid().is_root() {
                for right in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH] {
                    remove_capability_from_bounding_set(right).context("giving up a right")?;
                }
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(self.finish())
        });
        thread.join().map_err(|_| anyhow::anyhow!("the starting thread panicked"))?
    }
}

impl Hive {
    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn process(&self) -> u32 {
        self.process
    }

    /// `http://127.0.0.1:PORT`, once it listens.
    pub fn url(&self) -> Result<&str> {
        self.url.as_deref().context("the hive does not listen yet")
    }

    pub fn api(&self, token: Option<&str>) -> Result<Api> {
        Api::tcp(self.url()?, token)
    }

    /// The door of the command line.
    pub fn socket_api(&self) -> Result<Api> {
        Api::unix(&self.home.join("run/skep.sock"))
    }

    pub fn ws(&self, token: Option<&str>) -> Result<WsTarget> {
        Ok(WsTarget::new(self.url()?, token))
    }

    pub fn stdout(&self) -> String {
        self.log("stdout")
    }

    pub fn stderr(&self) -> String {
        self.log("stderr")
    }

    /// Waits for the line that says where it listens.
    pub async fn wait_listening(&mut self) -> Result<()> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(url) = listening_line(&self.stdout()) {
                self.url = Some(url);
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the hive ended ({status}) before it listened:\n{}", self.stderr());
            }
            if tokio::time::Instant::now() > end {
                bail!("the hive did not listen within {PATIENCE:?}:\n{}", self.stderr());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until `GET /api/v1/ready` says 200.
    pub async fn wait_ready(&self) -> Result<()> {
        let api = self.api(None)?;
        wait::until_async("readiness", PATIENCE, || async {
            let answer = api.get("/api/v1/ready").await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await
    }

    /// Waits for its end, however it comes.
    pub async fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(patience, self.child.wait()).await;
        let ended = ended.with_context(|| format!("the hive did not end within {patience:?}"))?;
        ended.context("waiting for the hive")
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait(PATIENCE).await.map(|_| ())
    }

    /// SIGTERM: asks it to stop.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGHUP: its terminal is gone.
    pub fn hang_up(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops the process as it is, and lets it go on.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Children and grandchildren alive at this moment.
    pub fn children(&self) -> Vec<u32> {
        crate::processes::children_of(self.process)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // Once collected, the number may already belong to somebody else.
        let process = self.child.id().context("the hive has already ended")?;
        kill_process(pid(process)?, signal).with_context(|| format!("sending {signal:?}"))
    }

    fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.logs.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Hive {
    fn drop(&mut self) {
        // Only while it is ours: a collected process no longer holds its group's number.
        if let Some(process) = self.child.id()
            && let Ok(group) = pid(process)
        {
            let _already_gone = kill_process_group(group, Signal::KILL);
        }
    }
}

fn pid(process: u32) -> Result<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw).context("not a process id")
}

fn listening_line(output: &str) -> Option<String> {
    // A line without its end may still be growing.
    let whole = &output[..output.rfind('\n')?];
    let line = whole.lines().find_map(|line| line.split_once(LISTENING))?;
    line.1.split_whitespace().next().map(str::to_owned)
}
