//! Why a command failed: what was attempted, why, and what to do.

use std::fmt;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The attempt failed.
    Failed,
    /// The command line or a configuration file is wrong.
    Usage,
    /// Possible but not allowed: another instance runs, the database is newer, the address is
    /// public.
    Refused,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub exit: Exit,
    /// What was attempted, after "could not".
    pub attempted: String,
    /// The first line, where "could not …" would not say it.
    pub headline: Option<String>,
    pub why: String,
    /// The hive's word for programs, where it refused.
    pub code: Option<Box<str>>,
    /// The next command to try, or what else to do.
    pub next: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, attempted: impl Into<String>, why: impl Into<String>) -> Self {
        let (attempted, why) = (attempted.into(), why.into());
        Self { exit, attempted, headline: None, why, code: None, next: None }
    }

    pub fn headline(mut self, headline: impl Into<String>) -> Self {
        self.headline = Some(headline.into());
        self
    }

    pub fn code(mut self, code: &str) -> Self {
        self.code = Some(code.into());
        self
    }

    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The same, if nothing better is known.
    pub fn or_next(self, next: &str) -> Self {
        if self.next.is_some() { self } else { self.next(next) }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.headline {
            Some(headline) => f.write_str(headline)?,
            None => write!(f, "could not {}", self.attempted)?,
        }
        for line in self.why.lines() {
            write!(f, "\n  {line}")?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {next}")?;
        }
        Ok(())
    }
}
