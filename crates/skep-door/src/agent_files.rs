//! An agent's own file, `teams/NAME/config.yaml`, as people read and change it.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::BoxFuture;
use skep_core::ids::AgentName;
use skep_core::money::Money;
use skep_core::settings::{ConfigProblem, Parallel, QueueMode, Think};

use super::NetworkInfo;

/// The text of an agent's file, and what is in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentFile {
    pub agent: AgentName,
    /// Below the home.
    pub path: String,
    /// Without secrets.
    pub text: String,
    /// Names this text when it is changed. Absent where the file holds a secret: such a file is
    /// changed on the disk alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The keys that the file sets; the others have their defaults.
    pub written: Vec<String>,
    /// Why this text is not in force, where it is not.
    pub problems: Vec<ConfigProblem>,
    /// What new turns use; absent for an agent that cannot run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective: Option<EffectiveSettings>,
}

/// What another text of an agent's file would come to. Nothing is changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FileCheck {
    /// Why the text cannot be applied; empty for one that can.
    pub problems: Vec<ConfigProblem>,
    /// Unified, from the file as it is; empty where nothing differs.
    pub diff: String,
    /// The file as it is.
    pub hash: String,
}

/// The settings of an agent as they are in force: with the defaults of the hive, and no more than
/// those above it may. The names are the keys of its file.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EffectiveSettings {
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentName>,
    pub engine: String,
    pub profile: String,
    pub model: String,
    /// Absent: as its profile says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    pub allowed_tools: Vec<String>,
    /// The names of the tools that this comes to now.
    pub tools: Vec<String>,
    /// How many tools the hive has.
    pub tools_known: usize,
    pub max_steps: u32,
    pub manager: bool,
    pub parallel: Parallel,
    pub allowed_recipients: Vec<String>,
    pub queue_mode: QueueMode,
    pub workspace: String,
    pub sandbox: SandboxInfo,
    pub network: NetworkInfo,
    pub budgets: AgentLimits,
    /// How many rules its policy has, with those of the agents above it.
    pub policy_rules: usize,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SandboxInfo {
    /// `confined` or `host`.
    pub level: &'static str,
    /// `none`, `proxy` or `full`.
    pub network: &'static str,
}

/// The limits of one agent; absent where there is none.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost_per_day: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_tokens_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub team_cost_per_day: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost_per_turn: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_seconds: Option<u64>,
}

/// What is wanted of an agent's file.
pub enum FileWish {
    Show,
    /// Whether the hive would accept this text.
    Check(String),
    /// Puts this text in place of the one that `before` is the hash of, and in force.
    Save {
        text: String,
        before: String,
        /// Who wants it.
        author: String,
    },
}

/// The file as it is found, or as it is afterwards. It may hold secrets.
pub struct FileReport {
    /// Below the home.
    pub path: String,
    pub text: String,
    pub hash: String,
    pub written: Vec<String>,
    /// Of the text in question.
    pub problems: Vec<ConfigProblem>,
    /// From the file to the text in question.
    pub diff: String,
}

pub enum FileRefusal {
    /// Somebody else changed the file.
    Changed,
    Invalid(ConfigProblem),
    Unreadable(String),
    Failed(String),
}

/// Reads and changes an agent's file.
pub type ReachFile = Arc<
    dyn Fn(AgentName, FileWish) -> BoxFuture<'static, Result<FileReport, FileRefusal>>
        + Send
        + Sync,
>;
