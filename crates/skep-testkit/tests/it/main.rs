//! The testkit tried on itself: a tool that proves nothing about itself proves nothing at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hive;
mod model;
mod model_check;
mod model_faults;
mod model_openai;
mod model_openai_check;
mod oracles;
mod power;
mod recorder;
mod shim;
mod stand_in;
mod ws;
