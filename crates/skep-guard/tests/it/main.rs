//! The guard against a real kernel: real children, sockets, locks and files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod files_site;
mod scene;
mod web;

mod children;
mod duplex;
mod egress;
mod floods;
mod lock;
mod network;
mod network_trial;
mod process;
mod socket;
mod walls;
mod workspace;
