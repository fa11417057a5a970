//! One file per rule. A rule reads the tree and returns what to mend.

mod architecture;
mod circles;
mod compiled;
mod funnel;
mod generated;
mod ignored;
mod layers;
mod names;
mod panics;
mod prompts;
mod rooms;
mod size;
mod sql;
mod supply;
mod types;
mod wording;

#[cfg(test)]
pub use generated::checksum;

use crate::finding::Finding;
use crate::tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: [Rule; 13] = [
    layers::check,
    size::check,
    panics::check,
    sql::check,
    funnel::check,
    names::check,
    ignored::check,
    compiled::check,
    prompts::check,
    architecture::check,
    supply::check,
    generated::check,
    wording::check,
];

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

/// Rules about one number of a crate or of the workspace.
pub fn measure(tree: &Tree) -> Vec<Measure> {
    let rules: [fn(&Tree) -> Vec<Measure>; 3] = [circles::measure, rooms::measure, types::measure];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

/// Runs every rule; findings in the order of the files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    let above = measure(tree).into_iter().filter(|measure| measure.figure > measure.limit);
    findings.extend(above.flat_map(|measure| measure.findings));
    findings.sort();
    findings.dedup();
    findings
}
