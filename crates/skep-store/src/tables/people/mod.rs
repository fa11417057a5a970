//! What belongs to a person: credentials, signed-in browsers, permissions given, bytes stored.

pub mod browsers;
pub mod grants;
pub mod storage;
pub mod tokens;
