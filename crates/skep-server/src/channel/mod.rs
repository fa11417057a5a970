//! The WebSocket channel as the hive sees it: its frames, and which socket each one goes to. The
//! sockets themselves are in `ws`.

pub(crate) mod event_texts;
pub(crate) mod frame;
pub(crate) mod hub;
