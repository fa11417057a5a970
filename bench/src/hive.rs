//! A hive to measure: a home of its own, the instant model as its provider.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::child::Child;
use crate::client::Target;

pub struct Hive {
    pub child: Child,
    pub target: Target,
    pub home: Home,
}

/// A home on the disk of the working folder: a temporary file system would make syncs free.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new(model: &str, agents: usize) -> Result<Self> {
        let folder = scratch()?;
        let root = folder.path();
        write(
            &root.join("providers.yaml"),
            &format!(
                "profiles:\n  default:\n    provider: anthropic\n    model: instant\n    \
                 api_url: {model}\n    api_key: ${{SKEP_BENCH_KEY}}\n"
            ),
        )?;
        // The scenarios look at the program, not at what it does to be slow on purpose.
        write(&root.join("skep.yaml"), "limits:\n  concurrent_turns: 512\n")?;
        for number in 0..agents {
            let name = if number == 0 { "main".to_owned() } else { format!("agent-{number}") };
            let team = root.join("teams").join(&name);
            write(&team.join("config.yaml"), &format!("name: {name}\nallowed_tools: [read]\n"))?;
            write(&team.join("work/note.txt"), "one line\n")?;
        }
        Ok(Self { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A new folder beside the working folder, on a real disk.
pub fn scratch() -> Result<TempDir> {
    let place =
        std::env::var_os("SKEP_BENCH_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    tempfile::Builder::new().prefix(".skep-bench-").tempdir_in(place).context("making a folder")
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

impl Hive {
    pub async fn start(program: &Path, home: Home) -> Result<Self> {
        let child = Child::start(command(program, &home, &["up", "--port", "0"])).await?;
        let made = command(program, &home, &["token", "new", "bench", "--json"]).output().await?;
        if !made.status.success() {
            bail!("no token: {}", String::from_utf8_lossy(&made.stderr));
        }
        let made: Value = serde_json::from_slice(&made.stdout).context("reading the token")?;
        let token = made["token"].as_str().context("the answer has no token")?.to_owned();
        let target = Target { url: child.url.clone(), token: Some(token) };
        Ok(Self { child, target, home })
    }

    /// From the start of the process until it listens, on a home that is already made.
    pub async fn cold(program: &Path, home: &Home) -> Result<(Child, Duration)> {
        let child = Child::start(command(program, home, &["up", "--port", "0"])).await?;
        let listening = child.listening;
        Ok((child, listening))
    }
}

fn command(program: &Path, home: &Home, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg("--home").arg(home.path());
    command.env_clear().env("SKEP_BENCH_KEY", "sk-ant-bench-only").env("SKEP_LOG", "error");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("HOME", home.path());
    command
}
