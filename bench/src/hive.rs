//! A hive to measure: a home of its own, the instant model as its provider.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::child::Child;
use crate::client::Endpoint;

pub struct MeasuredHive {
    pub child: Child,
    pub target: Endpoint,
    pub home: BenchHome,
}

/// A home on the disk of the working folder: a temporary file system would make syncs free.
pub struct BenchHome {
    folder: TempDir,
}

impl BenchHome {
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
            let team = root.join("teams").join(Self::agent_name(number));
            write(&team.join("work/note.txt"), "one line\n")?;
        }
        let home = Self { folder };
        for number in 0..agents {
            home.allow(&Self::agent_name(number), "[read]")?;
        }
        Ok(home)
    }

    /// The tools of an agent.
    pub fn allow(&self, agent: &str, tools: &str) -> Result<()> {
        let file = self.path().join("teams").join(agent).join("config.yaml");
        write(&file, &format!("name: {agent}\nallowed_tools: {tools}\n"))
    }

    /// Puts an agent below another one, at work in all of its sessions at once.
    pub fn lead(&self, parent: &str, number: usize) -> Result<()> {
        let agent = Self::agent_name(number);
        let settings = "allowed_tools: [read]\nparallel: sessions\n";
        let file = self.path().join("teams").join(&agent).join("config.yaml");
        write(&file, &format!("name: {agent}\nparent: {parent}\n{settings}"))
    }

    pub fn agent_name(number: usize) -> String {
        if number == 0 { "main".to_owned() } else { format!("agent-{number}") }
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

impl MeasuredHive {
    pub async fn start(program: &Path, home: BenchHome) -> Result<Self> {
        let child = Child::start(command(program, &home, &["up", "--port", "0"])).await?;
        let made = command(program, &home, &["token", "new", "bench", "--json"]).output().await?;
        if !made.status.success() {
            bail!("no token: {}", String::from_utf8_lossy(&made.stderr));
        }
        let made: Value = serde_json::from_slice(&made.stdout).context("reading the token")?;
        let token = made["token"].as_str().context("the answer has no token")?.to_owned();
        let target = Endpoint { url: child.url.clone(), token: Some(token) };
        Ok(Self { child, target, home })
    }

    /// Takes in a session of JSON lines.
    pub async fn import(&self, program: &Path, file: &Path) -> Result<()> {
        let file = file.to_str().context("a file with a strange name")?;
        let made = command(program, &self.home, &["history", "import", file]).output().await?;
        if !made.status.success() {
            bail!("no import: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(())
    }

    /// From the start of the process until it listens, on a home that is already made.
    pub async fn cold(program: &Path, home: &BenchHome) -> Result<(Child, Duration)> {
        let child = Child::start(command(program, home, &["up", "--port", "0"])).await?;
        let listening = child.listening;
        Ok((child, listening))
    }
}

fn command(program: &Path, home: &BenchHome, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg("--home").arg(home.path());
    command.env_clear().env("SKEP_BENCH_KEY", "sk-ant-bench-only").env("SKEP_LOG", "error");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("HOME", home.path());
    command
}
