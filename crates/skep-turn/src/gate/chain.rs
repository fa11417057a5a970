//! What each stage of the gate said about a call: kept with its audit row.

use serde_json::{Value, json};

/// The stages, in their order. `Brake`, hooks, `Secrets` and `Scrub` speak only when they find
/// something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Brake,
    AllowList,
    Arguments,
    Before,
    Secrets,
    Policy,
    Admission,
    Run,
    After,
    Scrub,
    Bound,
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Brake => "brake",
            Self::AllowList => "allow-list",
            Self::Arguments => "arguments",
            Self::Before => "tool.before",
            Self::Secrets => "secrets",
            Self::Policy => "policy",
            Self::Admission => "admission",
            Self::Run => "run",
            Self::After => "tool.after",
            Self::Scrub => "scrub",
            Self::Bound => "bound",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Chain(Vec<(Stage, String)>);

impl Chain {
    pub fn note(&mut self, stage: Stage, word: impl Into<String>) {
        self.0.push((stage, word.into()));
    }

    /// Adds what a second look found and the first did not say.
    pub fn add_new(&mut self, other: Self) {
        for link in other.0 {
            if !self.0.contains(&link) {
                self.0.push(link);
            }
        }
    }

    /// What people call it: a rule, a hook or a person said no, or it could not run at all.
    pub fn refusal(&self) -> &'static str {
        match self.0.iter().rev().find(|(_, word)| word.starts_with("refused")) {
            Some((Stage::Policy | Stage::Before, _)) => "denied",
            _ => "refused",
        }
    }

    /// As it stands in the row: a list of `{stage, word}`; where a call was refused, the last one
    /// says why.
    pub fn text(&self) -> String {
        let links =
            self.0.iter().map(|(stage, word)| json!({ "stage": stage.as_str(), "word": word }));
        Value::Array(links.collect()).to_string()
    }
}
