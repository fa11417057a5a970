//! What doors show of the hive itself: its database and its profiles.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::AgentName;
use skep_core::message::Usage;
use skep_core::provider::Provider;
use skep_core::settings::Profile;
use skep_scrub::Secret;

use super::{MessageFailure, SecretScan, WriteRules};

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
    pub(crate) fn unchecked() -> Self {
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

/// What reads and changes files of the home. Whoever composes the program knows the files.
pub struct FileWriters {
    pub rules: WriteRules,
    pub profile: PrepareProfile,
    pub no_profile: RemoveProfile,
    pub move_secrets: MoveSecrets,
    pub refresh: Refresh,
    pub scan: ScanFiles,
}
