//! What belongs to a person: credentials, signed-in browsers, permissions given, keys of
//! requests, bytes stored, the vault.

pub mod browsers;
pub mod grants;
pub mod requests;
pub mod storage;
pub mod tokens;
pub mod vault;
