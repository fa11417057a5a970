//! What Claude Code is started with. Nothing is kept by the program from one start to the next, so
//! every restriction stands here and is passed each time, also when a session is resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use skep_core::engine::{FailureCode, TurnEnd, TurnRequest};
use skep_core::provider::ToolSpec;
use skep_core::settings::{SandboxSettings, Think};
use skep_guard::workspace::{Folders, Workspace};

use super::permissions::{SERVER, ToolChoice};
use crate::process::{EngineHome, EngineProgram};

pub(super) const ID: &str = "claude";
/// The version that was tested.
pub(super) const TESTED: &str = "2.1.325";
const INSTALL: &str = "npm install -g @anthropic-ai/claude-code@2.1.325";
const IDLE_MINUTES: u64 = 10;
/// Above every time of ours: a call of our tools may wait for a person.
const TOOL_TIMEOUT_MS: u64 = 7 * 24 * 3600 * 1000;
/// As long, for the question before a call.
pub(super) const HOOK_SECONDS: u64 = TOOL_TIMEOUT_MS / 1000;
/// Of a model call, of which the relay knows when it is over.
const REQUEST_TIMEOUT_MS: u64 = 3600 * 1000;
const MODEL_TRIES: &str = "2";

/// Off: what it would say to its vendor, what it would change by itself (its version, its memory,
/// the course of a session), and what would go on beside the call that started it.
const SWITCHES: [(&str, &str); 16] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_UPDATES", "1"),
    ("DISABLE_GROWTHBOOK", "1"),
    ("DISABLE_AUTO_COMPACT", "1"),
    ("DISABLE_COMPACT", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_CRON", "1"),
    ("CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING", "1"),
    ("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1"),
    ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"),
    // All tools stand in each request: there is no tool that looks for more of them.
    ("ENABLE_TOOL_SEARCH", "false"),
];

/// The agent's `engine_options`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClaudeOptions {
    pub tools: ToolChoice,
    process: ProcessChoice,
    idle_minutes: Option<u64>,
    pub any_version: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProcessChoice {
    #[default]
    Live,
    PerTurn,
}

impl ClaudeOptions {
    pub fn read(options: &Map<String, Value>) -> Result<Self, TurnEnd> {
        let read = Self::deserialize(Value::Object(options.clone()));
        read.map_err(|error| TurnEnd::Failed {
            code: FailureCode::AgentUnavailable,
            text: format!("engine_options of the agent cannot be used: {error}"),
        })
    }

    /// For how long a process is kept after its turn.
    pub fn idle(&self) -> Option<Duration> {
        let minutes = self.idle_minutes.unwrap_or(IDLE_MINUTES);
        match self.process {
            ProcessChoice::PerTurn => None,
            ProcessChoice::Live if minutes == 0 => None,
            ProcessChoice::Live => Some(Duration::from_secs(minutes.saturating_mul(60))),
        }
    }
}

pub(super) fn program(path: &Path) -> EngineProgram<'_> {
    EngineProgram { name: "Claude Code", path, install: INSTALL }
}

/// Which session of the program a process is started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaudeSession {
    New(String),
    Resumed(String),
}

impl ClaudeSession {
    pub fn id(&self) -> &str {
        let (Self::New(id) | Self::Resumed(id)) = self;
        id
    }
}

/// Everything that holds for a process as long as it runs. One that is kept is used again only for
/// the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaudePlan {
    options: ClaudeOptions,
    model: String,
    max_output_tokens: u32,
    think: Option<Think>,
    system: String,
    specs: Arc<[ToolSpec]>,
    workspace: PathBuf,
    pub sandbox: SandboxSettings,
}

impl ClaudePlan {
    pub fn new(request: &TurnRequest, options: ClaudeOptions) -> Self {
        let system = [&*request.system.shared, &*request.system.agent].join("\n\n");
        Self {
            options,
            model: request.profile.model.clone(),
            max_output_tokens: request.profile.max_output_tokens,
            think: request.think,
            system: system.trim().to_owned(),
            specs: Arc::clone(request.gate.specs()),
            workspace: request.workspace.clone(),
            sandbox: request.sandbox,
        }
    }

    /// Writes the system text where the program reads it. It may have put anything in its own
    /// folder, so links are not followed.
    pub fn write_system(&self, home: &EngineHome, session: &str) -> Result<PathBuf, String> {
        let name = format!("system/{session}.md");
        let folder = Workspace::open(&home.folder).map_err(|error| error.to_string())?;
        let target = folder.target(&name, Folders::Create).map_err(|error| error.to_string())?;
        target.replace(self.system.as_bytes()).map_err(|error| error.to_string())?;
        Ok(home.folder.join(name))
    }

    pub fn arguments(&self, session: &ClaudeSession, system: &Path) -> Vec<String> {
        let (how, id) = match session {
            ClaudeSession::New(id) => ("--session-id", id),
            ClaudeSession::Resumed(id) => ("--resume", id),
        };
        let servers = json!({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}});
        let settings = json!({
            "autoCompactEnabled": false,
            "autoMemoryEnabled": false,
            "includeCoAuthoredBy": false,
        });
        let mut arguments = vec!["-p"];
        arguments.extend(["--input-format", "stream-json", "--output-format", "stream-json"]);
        arguments.extend(["--verbose", "--include-partial-messages"]);
        arguments.extend(["--permission-prompt-tool", "stdio", "--permission-mode", "manual"]);
        // Nothing of a workspace or of a user is loaded, and its file tools stay in the workspace.
        arguments.extend(["--restricted", "--setting-sources", "", "--strict-mcp-config"]);
        arguments.extend(["--disable-slash-commands", "--no-chrome"]);
        arguments.extend(["--system-prompt-snapshot", "off"]);
        let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add(how, id.clone());
        add("--system-prompt-file", system.display().to_string());
        add("--tools", self.options.tools.list());
        add("--mcp-config", servers.to_string());
        add("--settings", settings.to_string());
        add("--model", self.model.clone());
        add("--effort", self.effort().to_owned());
        arguments
    }

    pub fn environment(&self, home: &Path, url: &str, bearer: &str) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> = SWITCHES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
        set("CLAUDE_CONFIG_DIR", home.display().to_string());
        set("ANTHROPIC_BASE_URL", url.to_owned());
        set("ANTHROPIC_AUTH_TOKEN", bearer.to_owned());
        // Whatever it asks a smaller model for: the relay knows the one of the profile alone.
        for name in ["ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"] {
            set(name, self.model.clone());
        }
        set("CLAUDE_CODE_ATTRIBUTION_HEADER", "0".to_owned());
        set("CLAUDE_CODE_MAX_RETRIES", MODEL_TRIES.to_owned());
        set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", self.max_output_tokens.to_string());
        set("MCP_TOOL_TIMEOUT", TOOL_TIMEOUT_MS.to_string());
        set("API_TIMEOUT_MS", REQUEST_TIMEOUT_MS.to_string());
        if self.think == Some(Think::Off) {
            set("CLAUDE_CODE_DISABLE_THINKING", "1".to_owned());
        }
        variables
    }

    fn effort(&self) -> &'static str {
        match self.think {
            Some(Think::Off | Think::Low) => "low",
            Some(Think::Medium) | None => "medium",
            Some(Think::High) => "high",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(think: Option<Think>, tools: ToolChoice) -> ClaudePlan {
        ClaudePlan {
            options: ClaudeOptions { tools, ..ClaudeOptions::default() },
            model: "model".to_owned(),
            max_output_tokens: 100,
            think,
            system: "You are an agent.".to_owned(),
            specs: Arc::default(),
            workspace: PathBuf::from("/work"),
            sandbox: SandboxSettings::default(),
        }
    }

    fn value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    }

    #[test]
    fn every_restriction_is_passed_on_start_and_on_resume() {
        let id = || "11111111-2222-4333-8444-555555555555".to_owned();
        for session in [ClaudeSession::New(id()), ClaudeSession::Resumed(id())] {
            let plan = plan(None, ToolChoice::Both);
            let arguments = plan.arguments(&session, Path::new("/home/system"));
            for flag in ["--strict-mcp-config", "--restricted", "--disable-slash-commands"] {
                assert!(arguments.iter().any(|argument| argument == flag), "{flag}");
            }
            for (name, expected) in [
                ("--setting-sources", ""),
                ("--tools", "Bash,Edit,Glob,Grep,Read,Write"),
                ("--permission-prompt-tool", "stdio"),
                ("--system-prompt-snapshot", "off"),
                ("--system-prompt-file", "/home/system"),
                ("--model", "model"),
                ("--effort", "medium"),
            ] {
                assert_eq!(value(&arguments, name), Some(expected), "{name}");
            }
            let how =
                if matches!(session, ClaudeSession::New(_)) { "--session-id" } else { "--resume" };
            assert_eq!(value(&arguments, how), Some(session.id()));
        }
        let ours =
            plan(None, ToolChoice::Ours).arguments(&ClaudeSession::New(id()), Path::new("x"));
        assert_eq!(value(&ours, "--tools"), Some(""));
    }

    #[test]
    fn the_environment_leads_to_the_relay_and_nowhere_else() {
        let variables =
            plan(Some(Think::Off), ToolChoice::Both).environment(Path::new("/h"), "http://r", "b");
        let get = |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(get("CLAUDE_CONFIG_DIR"), Some("/h"));
        assert_eq!(get("ANTHROPIC_BASE_URL"), Some("http://r"));
        assert_eq!(get("ANTHROPIC_AUTH_TOKEN"), Some("b"));
        assert_eq!(get("ANTHROPIC_API_KEY"), None);
        assert_eq!(get("CLAUDE_CODE_DISABLE_THINKING"), Some("1"));
        assert_eq!(get("DISABLE_AUTO_COMPACT"), Some("1"));
        let mut names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), variables.len());
    }

    #[test]
    fn options_are_read_strictly() {
        let read = |options: Value| ClaudeOptions::read(options.as_object().unwrap());
        let options = read(json!({"tools": "ours", "idle_minutes": 2})).unwrap();
        assert_eq!(options.idle(), Some(Duration::from_secs(120)));
        assert_eq!(read(json!({"process": "per_turn"})).unwrap().idle(), None);
        assert_eq!(read(json!({})).unwrap().idle(), Some(Duration::from_secs(600)));
        for wrong in [json!({"tool": "ours"}), json!({"tools": "theirs"}), json!({"env": {}})] {
            let Err(TurnEnd::Failed { code, text }) = read(wrong.clone()) else {
                panic!("{wrong} was taken")
            };
            assert_eq!(code, FailureCode::AgentUnavailable);
            assert!(text.starts_with("engine_options of the agent"), "{text}");
        }
    }

    #[test]
    fn the_system_text_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let home = EngineHome { folder: folder.path().to_owned() };
        let outside = tempfile::tempdir().unwrap();
        let plan = plan(None, ToolChoice::Both);
        let written = plan.write_system(&home, "s").unwrap();
        assert_eq!(std::fs::read_to_string(written).unwrap(), "You are an agent.");
        std::fs::remove_dir_all(folder.path().join("system")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("system")).unwrap();
        assert!(plan.write_system(&home, "s").is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
