//! Processes under measure: started, asked for their costs, ended with the value that holds them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child as Process, Command};

pub struct Child {
    process: Process,
    pub url: String,
    /// From the start of the process until it said that it listens.
    pub listening: Duration,
}

impl Child {
    /// Starts it and waits for its line `listening on URL`.
    pub async fn start(mut command: Command) -> Result<Self> {
        let begun = Instant::now();
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("starting {name}"))?;
        let stdout = process.stdout.take().context("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, url)) = line.split_once("listening on ") {
                let url = url.split_whitespace().next().unwrap_or_default().to_owned();
                let listening = begun.elapsed();
                // What it says later must not fill the pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { process, url, listening });
            }
        }
        bail!("{name} ended before it listened")
    }

    /// One of this program's own parts.
    pub async fn part(arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        Self::start(command).await
    }

    fn id(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    /// Processor time so far, all threads, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        let after = stat.rsplit_once(')').context("an unknown form of stat")?.1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let total = ticks(11).zip(ticks(12)).context("an unknown form of stat")?;
        // SAFETY: sysconf has no memory effects.
        let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(Duration::from_secs_f64((total.0 + total.1) as f64 / a_second as f64))
    }

    /// Resident memory in MiB.
    pub fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).context("no VmRSS")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }

    pub async fn stop(mut self) -> Result<()> {
        if let Some(id) = self.process.id() {
            // SAFETY: a signal to a process that this value owns.
            unsafe { libc::kill(id as i32, libc::SIGTERM) };
        }
        let ended = tokio::time::timeout(Duration::from_secs(15), self.process.wait()).await;
        ended.context("it did not end")??;
        Ok(())
    }
}

/// The size of a file in MiB.
pub fn size(path: &Path) -> Result<f64> {
    Ok(std::fs::metadata(path)?.len() as f64 / (1024.0 * 1024.0))
}
