//! Who stands behind a principal.

use std::sync::Arc;

use skep_core::role::Role;

/// The role of a principal and the name of its credential, as they are now.
pub type HolderOf = Arc<dyn Fn(&str) -> (Option<Role>, Option<String>) + Send + Sync>;
