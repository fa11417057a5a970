//! Long answers: the events of the hive, or the course of one message, until one side ends it.

pub(crate) mod event_filter;
pub(crate) mod event_watch;
pub(crate) mod follow_stream;
pub(crate) mod sse;
