//! Which turn runs when: work that is ready, slots for it, and the turns that run now.

mod call_clock;
mod registry;
mod scheduler;
mod slots;

pub use call_clock::CallClock;
pub use registry::{Registry, Running};
pub use scheduler::Lanes;
pub use slots::{Slot, Slots};
