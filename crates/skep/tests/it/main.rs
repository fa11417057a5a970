//! Journeys through the real program with a scripted model over the real wire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stage;

mod attack_browser;
mod attack_doors;
mod attack_governance;
mod attack_roles;
mod attack_secrets;
mod channel_chat;
mod channel_deaf;
mod channel_metrics;
mod channel_resume;
mod channel_sessions;
mod channel_stream;
mod engine_children;
mod engine_choice;
mod engine_compact;
mod engine_fallback;
mod engine_faults;
mod engine_files;
mod engine_lanes;
mod engine_limits;
mod engine_prompt;
mod engine_providers;
mod engine_queue;
mod engine_spend;
mod engine_tasks;
mod engine_wait;
mod fault_cli;
mod fault_config;
mod fault_crash;
mod fault_crash_journal;
mod fault_crash_scene;
mod fault_crash_start;
mod fault_crash_stop;
mod fault_disk;
mod fault_start;
mod fault_upgrade;
mod first_contact;
mod gate_approvals;
mod gate_audit;
mod gate_trail;
mod telling;
mod telling_logs;
mod tools_coding;
mod walls_background;
