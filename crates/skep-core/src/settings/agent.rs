//! What an agent's own files say.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::policy::{AgentReach, Policy};
use crate::settings::guidance::{RuleFile, Skill, Subagent};
use crate::settings::limits::Budgets;
use crate::settings::profile::{Profile, Think};
use crate::vocab::configuration::{ConfigProblem, SandboxLevel, SandboxNetwork};
use crate::vocab::ids::AgentName;

#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    pub name: AgentName,
    /// Whose team it belongs to; none for a root of the tree.
    pub parent: Option<AgentName>,
    pub description: String,
    /// It may use the tools that change other agents.
    pub manager: bool,
    pub parallel: Parallel,
    /// Whom it may write to: names of agents, `parent`, `children`, `siblings`, `operator`, `*`.
    pub allowed_recipients: Vec<String>,
    pub engine: String,
    /// What its engine alone knows the meaning of.
    pub engine_options: Map<String, Value>,
    pub profile: Arc<Profile>,
    /// Instead of the profile's own `thinking`.
    pub think: Option<Think>,
    pub allowed_tools: Vec<String>,
    pub max_steps: u32,
    pub budgets: Budgets,
    pub queue_mode: QueueMode,
    pub workspace: PathBuf,
    /// The agent's own folder: its tools may read it, and change what it governs itself.
    pub folder: PathBuf,
    pub sandbox: SandboxSettings,
    pub policy: Policy,
    /// Those of agents above it first, then its own.
    pub org_rules: Vec<RuleFile>,
    pub team_rules: Vec<RuleFile>,
    /// By name. Copies share them.
    pub skills: Arc<[Skill]>,
    pub subagents: Arc<[Subagent]>,
    /// The subagent that it works as, in a session of its own; nothing in every other.
    pub role: Option<Arc<Subagent>>,
    /// Files of its folder that are left out, and why.
    pub left_out: Arc<[ConfigProblem]>,
}

impl AgentSettings {
    /// What the manner of its calls depends on.
    pub fn reach(&self) -> AgentReach<'_> {
        AgentReach { folder: &self.folder, network: &self.policy.network }
    }

    pub fn skill(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    pub fn subagent(&self, name: &str) -> Option<&Subagent> {
        self.subagents.iter().find(|subagent| subagent.name == name)
    }

    /// The agent as one of its subagents: with that role, the skills it names, and no subagents.
    pub fn as_subagent(&self, name: &str) -> Option<Self> {
        let role = self.subagent(name)?.clone();
        let named = self.skills.iter().filter(|skill| role.skills.contains(&skill.name));
        let (skills, subagents) = (named.cloned().collect(), Arc::default());
        Some(Self { skills, subagents, role: Some(Arc::new(role)), ..self.clone() })
    }

    /// The agent as a turn of this subagent has it; as it is, where a turn is none of a subagent.
    pub fn in_role(self: Arc<Self>, subagent: Option<&str>) -> Result<Arc<Self>, String> {
        let Some(name) = subagent else { return Ok(self) };
        let own = self.as_subagent(name).map(Arc::new);
        own.ok_or_else(|| format!("it has no subagent `{name}` any more"))
    }

    /// The tools that its list and its rules name, patterns among them; each once.
    pub fn named_tools(&self) -> BTreeSet<&str> {
        let ruled = self.policy.rules.iter().map(|rule| rule.tool.as_str());
        self.allowed_tools.iter().map(String::as_str).chain(ruled).collect()
    }
}

/// An agent as the hive knows it: usable, or disabled by its own broken folder.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentState {
    Active(Arc<AgentSettings>),
    Failed { reason: String },
}

/// How many turns of an agent run at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    /// One in each of its conversations.
    #[default]
    Sessions,
    /// One in all: what it works on shares a folder.
    One,
}

/// Whom an agent may write to that lists nobody.
pub const USUAL_RECIPIENTS: [&str; 4] = ["parent", "children", "siblings", "operator"];

/// What happens to a message that arrives while a turn of its session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    #[default]
    Queue,
    Interrupt,
}

/// Where the programs of an agent run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    pub level: SandboxLevel,
    /// Of what is confined.
    pub network: SandboxNetwork,
    pub limits: SandboxLimits,
}

impl SandboxSettings {
    /// No wider than `above`.
    #[must_use]
    pub(super) fn within(self, above: Self) -> Self {
        let level = match (self.level, above.level) {
            (SandboxLevel::Host, SandboxLevel::Host) => SandboxLevel::Host,
            _ => SandboxLevel::Confined,
        };
        let wide = |network: SandboxNetwork| match network {
            SandboxNetwork::None => 0,
            SandboxNetwork::Proxy => 1,
            SandboxNetwork::Full => 2,
        };
        let network = match wide(above.reached()) < wide(self.network) {
            true => above.network,
            false => self.network,
        };
        Self { level, network, ..self }
    }

    /// What its programs reach: without walls, whatever the machine does.
    pub fn reached(&self) -> SandboxNetwork {
        match self.level {
            SandboxLevel::Confined => self.network,
            SandboxLevel::Host => SandboxNetwork::Full,
        }
    }
}

/// What a command and all it starts may take; what is absent is as the sandbox has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxLimits {
    pub cpu: Option<Duration>,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub disk_bytes: Option<u64>,
    /// What the workspace may take.
    pub workspace_bytes: Option<u64>,
    /// What must be free on its disk for anything to be written or run; the hive's.
    pub disk_floor_bytes: Option<u64>,
}
