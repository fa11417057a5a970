//! The only reader of environment variables.

/// The value of a variable; absent, empty and non-UTF-8 all count as not set.
pub fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
