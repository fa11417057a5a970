//! Small handles that every part of a turn may hold: settings in force, live events, counters,
//! roles, how the work ends, and whether the store takes writes.

mod bus;
mod holder;
mod meters;
mod settings;
mod stop;
mod store_health;

pub use bus::{Bus, Live};
pub use holder::HolderOf;
pub use meters::Meters;
pub use settings::{ActiveSettings, SettingsCell};
pub use stop::StopTokens;
pub use store_health::StoreHealth;
