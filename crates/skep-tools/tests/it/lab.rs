//! A workspace and the tools on it, called as the gate calls them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use skep_core::ids::{AgentId, AgentName, CallId, SessionKey, TurnId};
use skep_core::policy::AgentReach;
use skep_core::policy::network::NetworkRules;
use skep_core::settings::SandboxSettings;
use skep_core::tool::{NoReach, Tool, ToolAnswer, ToolContext};
use skep_guard::egress::{EgressHub, SystemResolver};
use skep_guard::sandbox::{Level, Sandbox, Settings};
use skep_guard::vault::Vault;
use skep_tools::{BashTool, EditTool, GlobTool, GrepTool, ReadTool, WriteTool};
use tokio_util::sync::CancellationToken;

pub const OUTPUT_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    pub is_error: bool,
    pub details: Option<Value>,
}

impl Answer {
    /// The class of a refusal, the empty text of an answer.
    pub fn class(&self) -> &str {
        if self.is_error { self.text.split(':').next().unwrap_or_default() } else { "" }
    }

    pub fn diff(&self) -> &str {
        self.details.as_ref().unwrap()["diff"].as_str().unwrap()
    }
}

pub fn tools(hidden: Vec<PathBuf>) -> Vec<Box<dyn Tool>> {
    let sandbox = Arc::new(Sandbox::new(Settings::new(Level::Confined, hidden)));
    vec![
        Box::new(ReadTool::new(OUTPUT_BYTES)),
        Box::new(WriteTool::new(None)),
        Box::new(EditTool::new(None)),
        Box::new(GlobTool::new(OUTPUT_BYTES)),
        Box::new(GrepTool::new(OUTPUT_BYTES)),
        Box::new(BashTool::new(sandbox, hub())),
    ]
}

/// The way out of agents; what they list is the machine's to resolve.
pub fn hub() -> Arc<EgressHub> {
    Arc::new(EgressHub::new(Arc::new(SystemResolver::default())))
}

pub fn tool(name: &str) -> Box<dyn Tool> {
    tools(Vec::new()).into_iter().find(|tool| tool.spec().name == name).unwrap()
}

/// Of an agent that lists no hosts.
pub fn reach() -> AgentReach<'static> {
    static NOWHERE: NetworkRules =
        NetworkRules { hosts: Vec::new(), deny: Vec::new(), private: Vec::new() };
    AgentReach { folder: Path::new("/agent"), network: &NOWHERE }
}

pub fn context(workspace: &Path) -> ToolContext {
    ToolContext {
        judged: Vec::new(),
        agent: AgentName::new("main"),
        agent_id: AgentId(1),
        subagent: None,
        requester: None,
        session_key: SessionKey::new("main"),
        workspace: workspace.to_path_buf(),
        outputs: "/nonexistent".into(),
        folder: None,
        sandbox: SandboxSettings::default(),
        network: Arc::default(),
        reach: Arc::new(NoReach),
        turn: TurnId::new("turn"),
        call: CallId::new("call"),
        decision: None,
        secrets: Default::default(),
        cancel: CancellationToken::new(),
        lasting: Arc::default(),
    }
}

/// A refusal of the arguments counts as an answer, as it does for the model.
pub async fn call(tool: &dyn Tool, arguments: Value, context: ToolContext) -> Answer {
    let prepared = match tool.prepare(arguments) {
        Ok(prepared) => prepared,
        Err(text) => return Answer { text, is_error: true, details: None },
    };
    match prepared(context).await {
        ToolAnswer::Done { text, is_error, details, .. } => Answer { text, is_error, details },
        ToolAnswer::Cut { text, details } => Answer { text, is_error: true, details },
        ToolAnswer::Wait { reason } => panic!("{} waits: {reason}", tool.spec().name),
    }
}

pub async fn use_tool(name: &str, workspace: &Path, arguments: Value) -> Answer {
    call(tool(name).as_ref(), arguments, context(workspace)).await
}

/// A vault in memory, with a key of its own.
pub fn vault(folder: &Path) -> Arc<Vault> {
    let home = folder.to_str().unwrap().to_owned();
    let variables = move |name: &str| (name == "HOME").then(|| home.clone());
    let vault = Vault::open(&folder.join("hive"), &variables);
    vault.restore(Vec::new(), Arc::new(|_, _| Box::pin(std::future::ready(Ok(())))));
    Arc::new(vault)
}
