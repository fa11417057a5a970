//! Which turn runs when: work that is ready, slots for it, and the turns that run now.

pub(crate) mod registry;
pub(crate) mod scheduler;
pub(crate) mod slots;
