//! How writes become durable and reads are answered: opening, connections, the writer, readers,
//! checkpoints. It runs commands and never knows a table, but for events and the audit chain,
//! which the writer itself keeps.

pub(crate) mod command;
pub(crate) mod conn;
pub(crate) mod error;
pub(crate) mod record;
pub(crate) mod tx;

pub(crate) mod additions;
mod aside;
pub mod audit_chain;
mod checkpoint;
mod core_records;
pub(crate) mod dialect;
mod head;
pub(crate) mod integrity;
pub(crate) mod loss;
mod migrate;
pub(crate) mod open;
mod readers;
pub(crate) mod store;
mod thread;
mod trail;
pub(crate) mod writer;
