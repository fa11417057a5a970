//! What a process of Codex is started with. Its folder is swept and its configuration written at
//! each launch: it edits that itself, and whatever else is found there may be the agent's work.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use skep_core::engine::TurnRequest;
use skep_core::provider::{SystemPrompt, ToolSpec};
use skep_core::relay::RelayTools;
use skep_core::settings::{SandboxSettings, Think};
use skep_model::effort;

use super::permissions::PATCH;
use crate::process::EngineHome;

/// The variable with the bearer of the relay. Commands do not get it.
const BEARER: &str = "SKEP_BEARER";
/// Its own tools on the wire, beside `apply_patch`.
const SHELL_TOOLS: [&str; 2] = ["exec_command", "write_stdin"];
/// What stays of its folder: threads and what finds them again.
const KEPT: [&str; 5] =
    ["sessions", "archived_sessions", "installation_id", "thread-writer-locks", "tmp"];
/// Where nobody knows better; more makes it no worse, as it does not compact by itself.
const CONTEXT_WINDOW: u32 = 272_000;
/// A process that no turn wants ends after so long.
const IDLE_MINUTES: u64 = 10;
/// `engine_options` of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Its own shell and patch tool beside ours.
    pub own_tools: bool,
    /// Also another version than the tested one.
    pub any_version: bool,
    pub idle: Duration,
}

impl Options {
    pub fn read(given: &Map<String, Value>) -> Result<Self, String> {
        let idle = Duration::from_secs(60 * IDLE_MINUTES);
        let mut options = Self { own_tools: true, any_version: false, idle };
        for (name, value) in given {
            match (name.as_str(), value) {
                ("tools", Value::String(which)) if which == "both" => options.own_tools = true,
                ("tools", Value::String(which)) if which == "ours" => options.own_tools = false,
                ("any_version", Value::Bool(any)) => options.any_version = *any,
                ("idle_minutes", Value::Number(minutes)) if minutes.as_u64() <= Some(1440) => {
                    options.idle = Duration::from_secs(60 * minutes.as_u64().unwrap_or_default());
                }
                _ => {
                    return Err(format!(
                        "engine_options: `{name}: {value}` is not understood by Codex; there are \
                         `tools: both|ours`, `any_version: true|false` and `idle_minutes: 0–1440`"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// What a process and its thread keep from their start: with anything else a new one is needed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LaunchKey {
    pub model: String,
    effort: Option<&'static str>,
    window: u32,
    sees_images: bool,
    system: SystemPrompt,
    tools: Arc<[ToolSpec]>,
    sandbox: SandboxSettings,
    /// By its real path: the program is trusted by it, and names it so.
    pub workspace: PathBuf,
    pub options: Options,
}

impl LaunchKey {
    pub fn new(request: &TurnRequest, options: Options) -> Result<Self, String> {
        let profile = &request.profile;
        let budget = request.think.map_or(profile.thinking, Think::budget);
        let workspace = request.workspace.canonicalize();
        let workspace =
            workspace.map_err(|error| format!("{}: {error}", request.workspace.display()))?;
        let key = Self {
            model: profile.model.clone(),
            effort: budget.map(effort::of_budget),
            window: profile.context_window.unwrap_or(CONTEXT_WINDOW),
            sees_images: profile.sees_images,
            system: request.system.clone(),
            tools: Arc::clone(request.gate.specs()),
            sandbox: request.sandbox,
            workspace,
            options,
        };
        if let Some(tool) = key.offered().find(|it| key.own_names().any(|own| own == it.name)) {
            return Err(format!("a tool of ours and one of Codex are named `{}`", tool.name));
        }
        Ok(key)
    }

    /// Tools of ours that it gets: not those that it has itself.
    fn offered(&self) -> impl Iterator<Item = &ToolSpec> {
        let own = |name: &str| self.options.own_tools && ["bash", "edit", "write"].contains(&name);
        self.tools.iter().filter(move |tool| !own(&tool.name))
    }

    fn own_names(&self) -> impl Iterator<Item = &'static str> {
        let own = SHELL_TOOLS.into_iter().chain([PATCH]);
        own.filter(|_| self.options.own_tools)
    }

    /// What may stand in the requests for the model.
    pub fn relay_tools(&self) -> RelayTools {
        let types = ["function", "custom"].map(str::to_owned).into();
        let ours = self.offered().map(|tool| tool.name.clone());
        let names = ours.chain(self.own_names().map(str::to_owned)).collect();
        RelayTools { names, prefixes: Vec::new(), types }
    }

    /// Restrictions are given again on each start, of a thread that goes on as of a new one.
    pub fn thread(&self) -> Value {
        json!({
            "cwd": self.workspace,
            "model": self.model,
            "modelProvider": "skep",
            "approvalPolicy": "untrusted",
            "approvalsReviewer": "user",
            // The walls are ours: its own do not stand inside of them.
            "sandbox": "danger-full-access",
            "baseInstructions": &*self.system.shared,
            "developerInstructions": &*self.system.agent,
        })
    }

    pub fn dynamic_tools(&self) -> Value {
        let tool = |tool: &ToolSpec| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema,
            })
        };
        self.offered().map(tool).collect()
    }

    /// Sweeps the folder and writes what the program reads at its start.
    pub fn furnish(&self, home: &EngineHome, base_url: &str) -> io::Result<()> {
        sweep(&home.folder)?;
        let catalog = home.folder.join("models.json");
        write(&catalog, &self.catalog().to_string())?;
        write(&home.folder.join("config.toml"), &self.config(&catalog, base_url))
    }

    /// It knows no model but this one: what it knows of others switches tools on.
    fn catalog(&self) -> Value {
        let effort = |effort: &&str| json!({"effort": effort, "description": effort});
        let efforts: Vec<Value> = ["low", "medium", "high"].iter().map(effort).collect();
        let thinks = self.effort.is_some();
        json!({"models": [{
            "slug": self.model,
            "display_name": self.model,
            "base_instructions": &*self.system.shared,
            "supported_reasoning_levels": if thinks { efforts } else { Vec::new() },
            "default_reasoning_level": self.effort,
            "supports_reasoning_summaries": thinks,
            "default_reasoning_summary": if thinks { "auto" } else { "none" },
            "shell_type": "unified_exec",
            "apply_patch_tool_type": self.options.own_tools.then_some("freeform"),
            "supports_parallel_tool_calls": true,
            "support_verbosity": false,
            "truncation_policy": {"mode": "tokens", "limit": 10_000},
            "context_window": self.window,
            "max_context_window": self.window,
            "effective_context_window_percent": 100,
            "input_modalities": if self.sees_images { vec!["text", "image"] } else { vec!["text"] },
            "experimental_supported_tools": [],
            "supports_search_tool": false,
            "use_responses_lite": false,
            "include_skills_usage_instructions": false,
            "include_plugin_usage_instructions": false,
            "include_apps_usage_instructions": false,
            "visibility": "list",
            "supported_in_api": true,
            "priority": 0,
        }]})
    }

    fn config(&self, catalog: &Path, base_url: &str) -> String {
        let mut text = format!("model = {}\n", quoted(&self.model));
        let mut line = |line: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        line(format_args!("model_catalog_json = {}", quoted(&catalog.to_string_lossy())));
        if let Some(effort) = self.effort {
            line(format_args!("model_reasoning_effort = \"{effort}\""));
        }
        let address = quoted(&format!("{base_url}/v1"));
        line(format_args!("{}", include_str!("config.toml")));
        line(format_args!("shell_tool = {}", self.options.own_tools));
        line(format_args!("[model_providers.skep]\nname = \"Skep\"\nwire_api = \"responses\""));
        line(format_args!("base_url = {address}\nenv_key = \"{BEARER}\""));
        line(format_args!("requires_openai_auth = false\nsupports_websockets = false"));
        line(format_args!("request_max_retries = 1\nstream_max_retries = 2"));
        // A model that thinks is silent for long.
        line(format_args!("stream_idle_timeout_ms = 900000"));
        let workspace = self.workspace.to_string_lossy();
        line(format_args!("[projects.{}]\ntrust_level = \"untrusted\"", quoted(&workspace)));
        text
    }
}

pub(super) fn arguments() -> Vec<OsString> {
    // A key that this version does not know would leave something on that is meant to be off.
    ["app-server", "--strict-config"].map(Into::into).into()
}

pub(super) fn environment(home: &EngineHome, bearer: &str) -> Vec<(String, String)> {
    let home = home.folder.to_string_lossy().into_owned();
    vec![("CODEX_HOME".to_owned(), home), (BEARER.to_owned(), bearer.to_owned())]
}

/// Removes what is not kept: rules that answer in a person's place, hooks, skills, notes,
/// credentials and settings, whoever put them there.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_folder = entry.file_type()?.is_dir();
        let database = !is_folder && name.contains(".sqlite");
        if database || (KEPT.contains(&name.as_ref()) && (is_folder || name == "installation_id")) {
            continue;
        }
        match is_folder {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Makes the file anew: a link that was put in its place leads nowhere.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// As a string of TOML: JSON's are such, but for one character.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
