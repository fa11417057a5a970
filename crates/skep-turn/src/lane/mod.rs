//! Which turn runs when: work that is ready, slots for it, and the turns that run now.

mod registry;
mod scheduler;
mod slots;

pub use registry::{Registry, Running};
pub use scheduler::Lanes;
pub use slots::{Slot, Slots};
