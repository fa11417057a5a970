//! Processes under measure: started, asked for their costs, ended with the value that holds them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child as Process, Command};

use crate::tree;

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

    pub fn cpu(&self) -> Result<Duration> {
        tree::cpu_of(self.id())
    }

    /// Resident memory in MiB.
    pub fn memory(&self) -> Result<f64> {
        tree::memory_of(self.id())
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
