//! Resolved settings: what the files of a home mean after they were read and checked.

mod agent;
mod agent_map;
pub mod guidance;
mod limits;
mod profile;
pub mod tree;
#[cfg(test)]
mod tree_tests;

pub use crate::hive_settings::HiveSettings;
pub use crate::vocab::configuration::{ConfigProblem, SandboxLevel, SandboxNetwork, Wanted};
pub use agent::{
    AgentSettings, AgentState, Parallel, QueueMode, SandboxLimits, SandboxSettings,
    USUAL_RECIPIENTS,
};
pub use agent_map::AgentMap;
pub use guidance::{RuleFile, RuleTier, Skill, Subagent};
pub use limits::{Budgets, Limits};
pub use profile::{KnownModels, ModelFacts, Profile, Think, Timeouts, VendorAddress};

use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    pub bind: std::net::IpAddr,
    pub port: u16,
    pub public_url: Option<String>,
    pub allowed_origins: Vec<String>,
    pub ws_enabled: bool,
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
