//! Small handles that every part of a turn may hold: live events, counters, roles, how the work
//! ends, and whether the store takes writes.

mod bus;
mod holder;
mod meters;
mod stop;
mod store_health;

pub use bus::{Bus, Live};
pub use holder::HolderOf;
pub use meters::Meters;
pub use stop::StopTokens;
pub use store_health::StoreHealth;
