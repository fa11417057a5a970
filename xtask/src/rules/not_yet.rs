//! Limits that parts of the tree do not keep yet.

use crate::finding::Finding;

/// One number a limit is set for, and what to say when it is above.
#[derive(Debug)]
pub struct Measure {
    pub rule: &'static str,
    /// A crate, or the whole workspace.
    pub scope: String,
    pub figure: usize,
    pub limit: usize,
    pub findings: Vec<Finding>,
}

/// A figure above its limit that is known. It may shrink and must not grow.
pub struct NotYet {
    pub scope: &'static str,
    pub rule: &'static str,
    /// The figure when the entry was written.
    pub ceiling: usize,
}

/// An entry goes with the commit that makes it needless; none is added for new code.
pub const NOT_YET: &[NotYet] = &[not_yet("workspace", "types", 22)];

const fn not_yet(scope: &'static str, rule: &'static str, ceiling: usize) -> NotYet {
    NotYet { scope, rule, ceiling }
}

const PATH: &str = "xtask/src/rules/not_yet.rs";

pub fn judge(measures: Vec<Measure>, not_yet: &[NotYet]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for measure in measures {
        let Measure { rule, scope, figure, limit, findings: over } = measure;
        let entry = not_yet.iter().find(|entry| entry.scope == scope && entry.rule == rule);
        if figure > entry.map_or(limit, |entry| entry.ceiling) {
            findings.extend(over);
        } else if figure <= limit && entry.is_some() {
            findings.push(Finding {
                path: PATH.to_owned(),
                line: 1,
                rule: "not_yet",
                text: format!("{scope} keeps the rule {rule} now: take its entry out"),
            });
        }
    }
    findings
}
