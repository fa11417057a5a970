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
mod hive;
pub mod local;
mod place;
mod policy;
mod problem;
pub mod providers;
mod rules;
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

pub use agent::policy_mistake as agent_policy_mistake;
pub use create::{Created, HomeError, write_file};
pub use hive::policy_mistake as hive_policy_mistake;
pub use load::{Checked, Known, LoadError, Loaded, check, load, load_again, load_looking};
pub use local::Local;
pub use policy::add_rules;
pub use problem::Problem;
pub use providers::{Connection, Vendor};
