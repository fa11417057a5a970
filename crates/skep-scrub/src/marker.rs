//! What stands in the place of a secret: its name in brackets.

/// How every marker begins.
pub(super) const MARK: &str = "[secret:";

/// What stands in the place of a secret.
pub fn marker(name: &str) -> String {
    format!("{MARK}{name}]")
}

pub(super) fn name(marker: &str) -> &str {
    marker.strip_prefix(MARK).and_then(|name| name.strip_suffix(']')).unwrap_or(marker)
}
