//! Resolved settings: what the files of a home mean after they were read and checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::budget::Caps;
use crate::ids::AgentName;
use crate::money::{Money, Price};
use crate::policy::Policy;
use crate::provider::Providers;

#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    pub bind: std::net::IpAddr,
    pub port: u16,
    pub public_url: Option<String>,
    pub allowed_origins: Vec<String>,
    pub ws_enabled: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub concurrent_turns: usize,
    /// Turns that run at the same time for one person who is no operator.
    pub turns_per_user: usize,
    /// What one person who is no operator may store in messages and attachments.
    pub user_storage_bytes: u64,
    /// Time a turn may run; waiting does not count.
    pub turn: Duration,
    /// Leases that may end without a new step before an item is dead.
    pub attempts: u32,
    /// Model calls in a turn.
    pub steps: u32,
    /// Time running turns get after SIGTERM.
    pub drain: Duration,
    pub tool_output_bytes: usize,
    pub inbox_body_bytes: usize,
    /// After this much silence a session key starts a new session.
    pub session_idle: Duration,
    /// A question nobody answers within this time is over.
    pub approval: Duration,
    /// How long a durable event and a delivered frame can be asked for again.
    pub keep_events: Duration,
    pub keep_frames: Duration,
    pub keep_audit: Duration,
    /// What all model calls of a day (UTC) may use together.
    pub tokens_per_day: Option<u64>,
    pub cost_per_day: Option<Money>,
    /// What the model calls of one turn may use.
    pub per_turn: Caps,
}

impl Limits {
    pub fn day_caps(&self) -> Caps {
        Caps { tokens: self.tokens_per_day, cost: self.cost_per_day }
    }
}

/// What the model calls of one agent may use, beside what the hive may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    pub day: Caps,
    pub turn: Caps,
    /// Instead of the hive's.
    pub turn_time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            concurrent_turns: 64,
            turns_per_user: 16,
            user_storage_bytes: 512 << 20,
            turn: Duration::from_secs(1800),
            attempts: 3,
            steps: 50,
            drain: Duration::from_secs(5),
            tool_output_bytes: 65536,
            inbox_body_bytes: 262_144,
            session_idle: Duration::from_secs(360 * 60),
            approval: day,
            keep_events: 7 * day,
            keep_frames: 30 * day,
            keep_audit: 365 * day,
            tokens_per_day: None,
            cost_per_day: None,
            per_turn: Caps::default(),
        }
    }
}

/// What happens to a message that arrives while a turn of its session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    #[default]
    Queue,
    Interrupt,
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    Off,
    Low,
    Medium,
    High,
}

impl Think {
    pub const ALL: [Self; 4] = [Self::Off, Self::Low, Self::Medium, Self::High];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }

    /// Tokens for thinking. Vendors that take a word instead of a number give each of these the
    /// word of its level.
    pub fn budget(self) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Low => Some(2048),
            Self::Medium => Some(8192),
            Self::High => Some(24_576),
        }
    }
}

/// A named provider configuration. The key itself lives in the provider, never here.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: String,
    pub provider: String,
    pub model: String,
    pub max_output_tokens: u32,
    pub thinking: Option<u32>,
    pub temperature: Option<f64>,
    /// Asked one after the other when this one cannot answer: its own fallbacks, and theirs.
    pub fallback: Vec<Arc<Profile>>,
    /// Tokens a request and its answer may have together; nothing where nobody knows.
    pub context_window: Option<u32>,
    /// Nothing where nobody knows: the cost of its calls is unknown then.
    pub price: Option<Price>,
    /// Pictures are sent to it; another model is told of them in words.
    pub sees_images: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Until the first complete event of a stream.
    pub first: Duration,
    /// Between two complete events, pings included.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

/// Whether the programs an agent starts are walled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    #[default]
    Confined,
    /// No walls at all: only where the operator wrote so.
    Host,
}

impl SandboxLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Host => "host",
        }
    }
}

/// Where the programs of an agent run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    pub level: SandboxLevel,
    pub limits: SandboxLimits,
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

/// A file of rules: its tier is where it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub file: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    pub name: AgentName,
    pub description: String,
    pub engine: String,
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
    pub org_rules: Vec<Rule>,
    pub team_rules: Vec<Rule>,
}

/// An agent as the hive knows it: usable, or disabled by its own broken folder.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentState {
    Active(Arc<AgentSettings>),
    Failed { reason: String },
}

/// How a profile's vendor is reached, without anything secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Scheme, host and port; nothing where no address is dialled.
    pub address: Option<String>,
    /// Where the key comes from, in words.
    pub key: String,
}

/// A mistake in the files that keeps them, or one agent's, from being in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigProblem {
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The whole sentence for people: file, line, key, what is wrong, what was expected.
    pub text: String,
}

/// How the files stand to what is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConfigStanding {
    pub problems: Vec<ConfigProblem>,
    /// Keys whose new value is used after the next start.
    pub needs_restart: Vec<String>,
    /// Why changes of the files are not noticed, when they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
}

/// Everything the files of a home say, read at one moment. It is replaced as a whole, never
/// changed: a turn keeps the one it began with.
#[derive(Clone, Debug, PartialEq)]
pub struct HiveSettings {
    pub server: ServerSettings,
    pub limits: Limits,
    pub hive_rules: Vec<Rule>,
    pub profiles: BTreeMap<String, Arc<Profile>>,
    /// How each profile's vendor is reached, as far as people may know.
    pub reached: BTreeMap<String, Reached>,
    pub providers: Providers,
    pub agents: BTreeMap<AgentName, AgentState>,
    /// One line for people about which model answers and why.
    pub model_note: String,
}

impl HiveSettings {
    /// The agent's settings, or why it cannot run.
    pub fn agent(&self, name: &AgentName) -> Result<Arc<AgentSettings>, String> {
        match self.agents.get(name) {
            Some(AgentState::Active(agent)) => Ok(Arc::clone(agent)),
            Some(AgentState::Failed { reason }) => Err(reason.clone()),
            None => Err("it is no longer configured".to_owned()),
        }
    }
}
