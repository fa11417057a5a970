//! Decisions: functions of what they are given, with no state and no clock.

pub mod arrival;
pub mod brake;
pub mod bucket;
pub mod cache_break;
pub mod choice;
pub mod compaction;
pub mod count;
pub mod fallback;
pub mod fold;
pub mod heads;
pub mod names;
pub mod overlap;
pub mod peer_text;
pub mod prompt;
pub mod query;
pub mod question;
pub mod redelivery;
pub mod resume_text;
pub mod retry;
pub mod skill_text;
pub mod slash;
pub mod task_event;
pub mod title;
pub mod visible;
