//! Other programs that do the same work: a prompt in, the words of the same model out.
//!
//! They see no network but this machine: what they would send elsewhere meets a closed door.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};

use crate::{client, tree};

/// Longer than any of them needs to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of the programs, as `bench/peers/install` put it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerProgram {
    AiSdk,
    Pi,
    Claude,
}

impl PeerProgram {
    pub const ALL: [Self; 3] = [Self::AiSdk, Self::Pi, Self::Claude];

    pub fn key(self) -> &'static str {
        match self {
            Self::AiSdk => "ai-sdk",
            Self::Pi => "pi",
            Self::Claude => "claude",
        }
    }

    /// Its name for people, with the version that was installed.
    pub fn title(self, cache: &Path) -> Result<String> {
        let (name, package) = match self {
            Self::AiSdk => ("AI SDK server", "ai"),
            Self::Pi => ("pi rpc", "@mariozechner/pi-coding-agent"),
            Self::Claude => ("Claude Code", "@anthropic-ai/claude-code"),
        };
        let file = self.modules(cache).join(package).join("package.json");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("no {}: run bench/peers/install", file.display()))?;
        let manifest: Value = serde_json::from_str(&text)?;
        Ok(format!("{name} {}", manifest["version"].as_str().unwrap_or("?")))
    }

    fn modules(self, cache: &Path) -> PathBuf {
        cache.join(self.key()).join("node_modules")
    }

    fn command(self, cache: &Path, model: &str, folder: &Path) -> Result<Command> {
        let bin = self.modules(cache).join(".bin");
        let mut command = match self {
            Self::AiSdk => {
                let mut command = Command::new("node");
                command.arg(cache.join("ai-sdk/server.mjs")).arg(model);
                command
            }
            Self::Pi => {
                let mut command = Command::new(bin.join("pi"));
                command.args(["--mode", "rpc", "--no-session", "--offline", "--no-tools"]);
                command.args(["--provider", "bench", "--model", "instant"]);
                let models = json!({ "providers": { "bench": {
                    "baseUrl": model, "api": "anthropic-messages", "apiKey": "bench-only",
                    "models": [{ "id": "instant" }],
                } } });
                std::fs::write(folder.join("models.json"), models.to_string())?;
                command.env("PI_CODING_AGENT_DIR", folder);
                command
            }
            Self::Claude => {
                let mut command = Command::new(bin.join("claude"));
                command.args(["-p", "--verbose", "--output-format", "stream-json"]);
                command.args(["--input-format", "stream-json", "--tools", ""]);
                command.args(["--model", "claude-sonnet-4-5"]);
                command.env("ANTHROPIC_BASE_URL", model).env("ANTHROPIC_API_KEY", "bench-only");
                command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
                command
            }
        };
        command.env("HOME", folder).current_dir(folder);
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(name, "http://127.0.0.1:9");
        }
        command.env("no_proxy", "127.0.0.1").env("NO_PROXY", "127.0.0.1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.kill_on_drop(true);
        Ok(command)
    }

    /// The line that asks, for those who are asked by lines.
    fn ask(self, words: &str) -> Value {
        match self {
            Self::Claude => json!({
                "type": "user", "session_id": "", "parent_tool_use_id": null,
                "message": { "role": "user", "content": words },
            }),
            _ => json!({ "type": "prompt", "message": words }),
        }
    }

    fn is_answered(self, line: &Value) -> Result<bool> {
        match (self, line["type"].as_str()) {
            (Self::Claude, Some("result")) => {
                ensure!(line["is_error"] == false, "the turn failed: {line}");
                Ok(true)
            }
            (Self::Pi, Some("agent_end")) => {
                let text = line.to_string();
                ensure!(text.contains("tok0"), "the turn failed: {text}");
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// A peer that runs.
pub struct RunningPeer {
    peer: PeerProgram,
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Where it listens, for those who do.
    url: Option<String>,
    http: reqwest::Client,
}

impl RunningPeer {
    pub async fn start(
        peer: PeerProgram,
        cache: &Path,
        model: &str,
        folder: &Path,
    ) -> Result<Self> {
        let mut command = peer.command(cache, model, folder)?;
        let mut process =
            command.spawn().with_context(|| format!("starting the peer {}", peer.key()))?;
        let input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?).lines();
        let http = client::http()?;
        let mut running = Self { peer, process, input, output, url: None, http };
        if peer == PeerProgram::AiSdk {
            let line = running.line().await?;
            let url = line.strip_prefix("listening on ").context("the peer does not listen")?;
            running.url = Some(url.to_owned());
        }
        Ok(running)
    }

    async fn line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        line.context("the peer says nothing")??.context("the peer ended")
    }

    /// Asks and waits for the whole answer.
    pub async fn turn(&mut self, words: &str) -> Result<Duration> {
        let begun = Instant::now();
        if let Some(url) = &self.url {
            let answer = self.http.post(url).body(words.to_owned()).send().await?.text().await?;
            ensure!(answer.starts_with("tok0"), "the turn failed: {answer}");
            return Ok(begun.elapsed());
        }
        let line = format!("{}\n", self.peer.ask(words));
        self.input.write_all(line.as_bytes()).await?;
        self.input.flush().await?;
        loop {
            let line = self.line().await?;
            let Ok(line) = serde_json::from_str::<Value>(&line) else {
                bail!("not JSON: {line}");
            };
            if self.peer.is_answered(&line)? {
                return Ok(begun.elapsed());
            }
        }
    }

    fn id(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    pub fn cpu(&self) -> Result<Duration> {
        tree::cpu(self.id())
    }

    pub fn memory(&self) -> Result<f64> {
        tree::memory(self.id())
    }
}
