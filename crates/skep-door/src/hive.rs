//! What doors show of the hive itself: its database and its profiles.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName};
use skep_core::message::Usage;
use skep_core::provider::Provider;
use skep_core::settings::Profile;
use skep_scrub::Secret;

use super::{MessageFailure, ReachFile, SecretScan, TeamTemplates, WriteRules};

/// unchecked → running → whole | damaged | unchecked (it could not be done, or the hive stopped).
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct IntegrityInfo {
    /// `unchecked` (the last stop was in order), `running`, `whole` or `damaged`.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Millis>,
    /// What is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl IntegrityInfo {
    pub fn unchecked() -> Self {
        Self { state: "unchecked", checked_at: None, text: None }
    }
}

/// A profile without its key.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProviderInfo {
    pub name: String,
    /// The vendor's wire.
    pub provider: String,
    pub model: String,
    /// Scheme, host and port; nothing where no address is dialled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Where its key comes from; never the key.
    pub key: String,
    pub max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// Whether calls can be priced; where not, their cost is unknown.
    pub price_known: bool,
    /// Asked in this order while it cannot answer.
    pub fallback: Vec<String>,
    /// The agents that use it.
    pub agents: Vec<AgentName>,
    /// Where it was asked for: whether something answers at its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
}

/// Whether something answers at an address. No model was asked and no key was sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Reached {
    pub ok: bool,
    pub took_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of a try.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProviderTry {
    pub name: String,
    pub model: String,
    pub ok: bool,
    pub took_ms: Millis,
    /// What it used, priced where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageFailure>,
}

/// A profile as a person gives it. No `Debug`: it holds a key.
pub struct ProfileDraft {
    pub name: String,
    pub provider: String,
    pub model: String,
    /// Nothing: the address that is there stays; for a new profile the vendor's own.
    pub api_url: Option<String>,
    /// Nothing: the key that is there stays.
    pub key: Option<Secret>,
}

impl ProfileDraft {
    /// No vendor's key is longer.
    pub const KEY_BYTES: usize = 4096;
}

/// A draft that can be tried, and saved and put in force at once.
pub struct DraftedProfile {
    pub profile: Arc<Profile>,
    pub provider: Arc<dyn Provider>,
    pub save: BoxFuture<'static, Result<(), String>>,
}

pub type PrepareProfile =
    Arc<dyn Fn(ProfileDraft) -> BoxFuture<'static, Result<DraftedProfile, String>> + Send + Sync>;

/// Removes the profile of this name from the files and puts that in force.
pub type RemoveProfile =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Moves the secrets in the files into the vault; the names of the entries.
pub type MoveSecrets =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Vec<String>, String>> + Send + Sync>;

/// Puts the files in force once more, with what the vault holds by now.
pub type Refresh = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Looks for secrets in the files of the home.
pub type ScanFiles = Arc<dyn Fn() -> BoxFuture<'static, SecretScan> + Send + Sync>;

/// Writes into an agent's file what it is for, on behalf of somebody, and puts that in force.
pub type DescribeAgent =
    Arc<dyn Fn(AgentName, String, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The settings of a new agent. No `Debug` of secrets: it holds none.
#[derive(Clone, Debug)]
pub struct AgentDraft {
    pub name: AgentName,
    pub parent: Option<AgentName>,
    pub description: String,
    pub engine: Option<String>,
    pub profile: Option<String>,
    /// Nothing: those that every agent has.
    pub allowed_tools: Option<Vec<String>>,
    /// What its team is to know, as a rule of its own.
    pub context: Option<String>,
}

/// A step in the life of an agent's folder. `op` is the change that it belongs to; each step may be
/// taken again.
#[derive(Clone, Debug)]
pub enum FolderStep {
    /// Writes the folder of a new agent where nobody looks, whole, valid and on the disk.
    Stage { op: String, draft: AgentDraft },
    /// Puts it among the others.
    Publish { op: String, name: AgentName },
    /// Puts it in force; refused where the agent could not run.
    Apply { name: AgentName },
    /// Takes the folder that `op` made away, wherever it is, and out of force.
    Withdraw { op: String, name: AgentName },
    /// The change has ended: nothing tells any more that it made the folder.
    Settle { op: String, name: AgentName },
    /// Takes the folder of an agent away, with what its calls left, and the agent out of force.
    Retire { op: String, name: AgentName, agent: AgentId },
    /// Removes for good what the change took away.
    Discard { op: String },
}

/// Takes a step; `Err` says why not.
pub type ChangeFolder =
    Arc<dyn Fn(FolderStep) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What reads and changes files of the home. Whoever composes the program knows the files.
pub struct FileWriters {
    pub rules: WriteRules,
    pub profile: PrepareProfile,
    pub no_profile: RemoveProfile,
    pub move_secrets: MoveSecrets,
    pub refresh: Refresh,
    pub scan: ScanFiles,
    pub describe: DescribeAgent,
    pub folders: ChangeFolder,
    pub agent_file: ReachFile,
    pub templates: TeamTemplates,
}
