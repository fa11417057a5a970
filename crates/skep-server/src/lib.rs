//! The doors of a hive: REST, live events (SSE), the WebSocket channel and the local socket.
//!
//! This crate decides who may come in (host, origin, credential, size, pace), translates requests
//! into calls of `skep_runtime::Hive` and answers into JSON. It never knows rows, lanes, engines
//! or models, never keeps a message of its own, and never talks to the outside by itself.

mod server;

#[cfg(test)]
mod limits_tests;

mod channel;
mod door;
mod openai;
mod request;
mod rest;
mod routes;
mod stream;
mod ws;

pub use door::calls::CallTimes;
pub use server::{BindError, BindOptions, Listeners, Server};
