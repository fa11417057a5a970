//! The dangerous things, once: clock, randomness, environment, instance lock, outgoing connections,
//! the local socket, child processes and their sandbox, workspace paths, disk space, secrets.
//!
//! Every other crate reaches the world through here, so that one place can be read, tested and
//! tightened. This crate never knows agents, turns, models or SQL.

pub mod background;
mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod duplex;
pub mod egress;
pub mod environment;
pub mod footprint;
pub mod hangup;
pub mod http;
pub mod limits;
pub mod lock;
pub mod memory;
pub mod network;
pub mod process;
mod process_table;
mod processors;
pub mod random;
pub mod repository;
pub mod sandbox;
pub mod size;
pub mod socket;
pub mod vault;
mod watchdog;
pub mod work;
pub mod workspace;
