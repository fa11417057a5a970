//! The tools as the gate calls them: `prepare`, then the prepared call in a real workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attack;
mod attack_payloads;
mod attack_race;
mod bash;
mod judged;
mod lab;
mod read;
mod search;
mod vault;
mod web_fetch;
mod web_site;
mod write;
