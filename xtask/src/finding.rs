//! One thing to mend, and where.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    pub rule: &'static str,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.text)
    }
}
