//! The store through its public door: with a small set of commands of its own, and with the
//! product's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audit;
mod batches;
mod causes;
mod clock;
mod conversations;
mod costs;
mod damage;
mod failures;
mod floor;
mod frames;
mod lab;
mod lane_cases;
mod lane_laws;
mod lane_model;
mod lane_ops;
mod lane_story;
mod letters;
mod opening;
mod operator_tasks;
mod org;
mod pages;
mod probe;
mod questions;
mod reminders;
mod requests;
mod sessions;
mod shapes;
mod storms;
mod sums;
mod task_ends;
mod tasks;
mod tree;
mod upgrade;
mod upgrade_ids;
