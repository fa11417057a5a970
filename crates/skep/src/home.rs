//! The home folder: where things are, what a first start creates, and what its files mean.
//!
//! Raw types (one file each: `hive`, `providers`, `channels`, `agent`) mirror the YAML; they are
//! turned once into the settings of skep-core and never travel further.

pub mod create;
pub mod load;
pub mod new_agent;

mod agent;
mod channels;
mod confinement;
pub mod environment;
mod expect;
mod fallback;
mod guidance;
mod hive;
pub mod keys;
mod known_names;
pub mod local;
mod mistake;
mod network;
mod place;
mod policy;
mod profile_writer;
pub mod providers;
mod scalar;
pub mod schema;
mod source;
pub mod watch;
mod yaml;

#[cfg(test)]
mod create_tests;
#[cfg(test)]
mod known_tests;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod mistake_tests;
#[cfg(test)]
mod provider_tests;

pub use agent::{
    description as agent_description, read_policy as read_agent_policy,
    rule_count as agent_rule_count, written_keys as agent_written_keys,
};
pub use create::HomeError;
pub use hive::read_policy as read_hive_policy;
pub use known_names::KnownNames;
pub use load::{
    CheckReport, LoadError, LoadedHome, NoticeForm, ReadAgents, check, check_staged, load,
    load_again, load_agents, load_looking, misplaced, read_with_text,
};
pub use local::LocalModel;
pub use mistake::Mistake;
pub use profile_writer::{FileEdits, ProfileChange, WrittenProfile};
pub use providers::{Vendor, VendorConnection, WrittenSecret, written_secrets};
pub use source::{FILE_BYTES, SourceText};
