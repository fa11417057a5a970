//! Words of the configuration that events and policies use, too.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::vocab::words::words;

/// Whether the programs an agent starts are walled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// What the programs of an agent reach from inside their walls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// Nothing.
    None,
    /// The hosts that the agent's `network` lists.
    #[default]
    Proxy,
    /// Whatever this machine reaches: only where the operator wrote so.
    Full,
}

impl SandboxNetwork {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proxy => "proxy",
            Self::Full => "full",
        }
    }
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

words! {
    /// What an agent is wanted to do; whether it can is another matter.
    Wanted {
        /// Works.
        Active = "active",
        /// Finishes its turns and takes up nothing new.
        Paused = "paused",
        /// Does nothing; its turns were cut and go on when it is started.
        Stopped = "stopped",
    }
}
