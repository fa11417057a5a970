//! Journeys through the real program with a scripted model over the real wire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stage;

mod first_contact;
