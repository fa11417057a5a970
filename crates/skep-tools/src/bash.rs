//! `bash`: a shell command in the sandbox.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::Class;
use skep_core::provider::ToolSpec;
use skep_core::settings::{SandboxLevel, SandboxSettings};
use skep_core::tool::{Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::process::{Captured, Ending, JobOutput};
use skep_guard::sandbox::{Level, Limits, Room, Sandbox, ShellCommand};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// Spec 05 §3.
const MOST_TIMEOUT_MS: u64 = 600_000;
/// Room left in an answer for the closing note.
const NOTE_BYTES: usize = 256;

#[derive(Debug)]
pub struct BashTool {
    spec: ToolSpec,
    sandbox: Arc<Sandbox>,
    output_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    timeout_ms: Option<u64>,
}

impl BashTool {
    /// `output_bytes` is what the gate lets an answer hold.
    pub fn new(sandbox: Arc<Sandbox>, output_bytes: usize) -> Self {
        let description = "Runs a command line with bash in the workspace, inside a sandbox: the \
             workspace can be written, programs of the system can be used, there is no network. \
             What it starts ends with it. Answers with its output and exit code.";
        let spec = ToolSpec {
            name: "bash".to_owned(),
            description: description.to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command line." },
                    "timeout_ms": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_TIMEOUT_MS,
                        "description": "Most milliseconds it may take. Default: 120000.",
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
            retry_safe: false,
        };
        Self { spec, sandbox, output_bytes }
    }
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self) -> Class {
        Class::Run
    }

    fn aliases(&self) -> &[&'static str] {
        &["Bash"]
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let arguments: Arguments = serde_json::from_value(arguments).map_err(|error| {
            format!("bash takes command (text) and timeout_ms (a whole number): {error}")
        })?;
        if arguments.command.trim().is_empty() {
            return Err("command is empty".to_owned());
        }
        if arguments.command.contains('\0') {
            return Err("command holds a zero byte".to_owned());
        }
        let timeout_ms = arguments.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if timeout_ms == 0 || timeout_ms > MOST_TIMEOUT_MS {
            return Err(format!("timeout_ms is between 1 and {MOST_TIMEOUT_MS}"));
        }
        let command = ShellCommand {
            line: arguments.command,
            timeout: Duration::from_millis(timeout_ms),
            output_bytes: self.output_bytes.saturating_sub(NOTE_BYTES),
        };
        let sandbox = Arc::clone(&self.sandbox);
        Ok(Box::new(move |context| Box::pin(run(sandbox, command, context))))
    }
}

async fn run(sandbox: Arc<Sandbox>, command: ShellCommand, context: ToolContext) -> ToolAnswer {
    let room = Room {
        workspace: context.workspace.clone(),
        read_only: context.folder.iter().cloned().collect(),
    };
    let sandbox = sandbox_of(&sandbox, &context.sandbox);
    match sandbox.run(command, &room, &context.cancel).await {
        Ok(output) => answer(&output),
        Err(error) => ToolAnswer::error(error.to_string()),
    }
}

/// The sandbox as this agent's settings want it.
fn sandbox_of(sandbox: &Sandbox, settings: &SandboxSettings) -> Sandbox {
    let (usual, asked) = (sandbox.limits(), &settings.limits);
    let limits = Limits {
        cpu: asked.cpu.unwrap_or(usual.cpu),
        memory_bytes: asked.memory_bytes.unwrap_or(usual.memory_bytes),
        processes: asked.processes.unwrap_or(usual.processes),
        disk_bytes: asked.disk_bytes.unwrap_or(usual.disk_bytes),
        ..usual.clone()
    };
    let level = match settings.level {
        SandboxLevel::Confined => Level::Confined,
        SandboxLevel::Host => Level::Host,
    };
    sandbox.variant(level, limits)
}

fn answer(output: &JobOutput) -> ToolAnswer {
    let mut text = shown(&output.stdout);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (note, code) = match &output.ending {
        Ending::Exited { code } => (format!("[exit code {code}]"), Some(*code)),
        Ending::Signalled { signal } => (format!("[ended by signal {signal}]"), None),
        Ending::TimedOut => ("[timed out; everything it had started was ended]".to_owned(), None),
        Ending::Cancelled => ("[cancelled; everything it had started was ended]".to_owned(), None),
        Ending::OverLimit { what } => {
            (format!("[ended: it took more {what} than the sandbox allows]"), None)
        }
    };
    text.push_str(&note);
    ToolAnswer::Done {
        text,
        is_error: code != Some(0),
        files: Vec::new(),
        details: Some(json!({ "exit_code": code })),
    }
}

fn shown(captured: &Captured) -> String {
    if captured.dropped == 0 {
        return String::from_utf8_lossy(&captured.bytes).into_owned();
    }
    let (head, tail) = captured.bytes.split_at(captured.gap.min(captured.bytes.len()));
    format!(
        "{}\n[{} bytes left out]\n{}",
        String::from_utf8_lossy(head),
        captured.dropped,
        String::from_utf8_lossy(tail)
    )
}
