//! The doors of a hive: REST, live events (SSE), the WebSocket channel and the local socket.
//!
//! This crate decides who may come in (host, origin, credential, size, pace), translates requests
//! into calls of `skep_runtime::Hive` and answers into JSON. It never knows rows, lanes, engines
//! or models, never keeps a message of its own, and never talks to the outside by itself.

mod server;

mod admission;
mod assets;
mod attachment;
mod browser;
mod calls;
mod connection;
mod cors;
mod doors;
mod extract;
mod filter;
mod hosts;
mod lockout;
mod metrics;
mod outward;
mod pace;
mod permit;
mod problem;
mod standing;
mod telling;
mod watching;

mod rest;
mod ws;

pub use calls::CallTimes;
pub use server::{BindError, BindOptions, Listening, Server};
