//! The program: home folder and configuration, the command line, and the composition root — the
//! only place that names concrete engines, vendors and channels.
//!
//! This crate never runs a turn, never speaks SQL and never serves a request itself: it reads
//! what the operator wrote, builds the parts and hands them to each other.

pub mod cli;
pub mod compose;
pub mod home;

mod agent_file;
mod apply;
mod log;
mod profile_draft;
mod reload;
mod rule_writer;
mod secret_scan;
mod settings_writer;
mod start_notice;
mod team_description;
mod team_folder;
mod team_templates;
mod template;
mod vault_move;
mod vendors;
