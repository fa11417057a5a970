//! One problem in one file, with everything needed to fix it.

use std::fmt;
use std::path::Path;

use skep_core::names::nearest;

/// Longer lists of valid names are cut: a message is read, not searched.
const NAMES_SHOWN: usize = 24;

#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    pub file: Box<Path>,
    /// Line and column, both from 1; absent when the file as a whole is the problem.
    pub at: Option<(u32, u32)>,
    /// Dotted path of the key, such as `limits.steps`.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    pub expected: Option<String>,
    /// The valid name that is closest to the one written.
    pub nearest: Option<Box<str>>,
}

impl std::error::Error for Mistake {}

impl Mistake {
    /// A problem of the file as a whole.
    pub fn of_file(file: &Path, what: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            at: None,
            key: None,
            what: what.into(),
            expected: None,
            nearest: None,
        }
    }

    pub fn expecting(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Names what would have been valid, and the nearest of it.
    pub fn expecting_one_of<'a>(
        mut self,
        written: &str,
        valid: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let valid: Vec<&str> = valid.into_iter().collect();
        self.nearest = nearest(written, &valid).map(Into::into);
        self.expected = Some(one_of(&valid));
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        f.write_str(": ")?;
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.what)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

pub fn one_of(names: &[&str]) -> String {
    match names {
        [] => "nothing here".to_owned(),
        [only] => format!("`{only}`"),
        _ if names.len() > NAMES_SHOWN => {
            format!("one of {} …", names[..NAMES_SHOWN].join(", "))
        }
        _ => format!("one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_problem_reads_from_place_to_remedy() {
        let mut mistake = Mistake::of_file(Path::new("h/skep.yaml"), "unknown key")
            .expecting_one_of("prot", ["bind", "port"]);
        mistake.at = Some((3, 5));
        mistake.key = Some("server.prot".to_owned());
        let text = "h/skep.yaml:3:5: `server.prot`: unknown key; expected one of bind, port; \
                    did you mean `port`?";
        assert_eq!(mistake.to_string(), text);
    }
}
