//! One file per rule. A rule reads the tree and returns what to mend.

mod architecture;
mod compiled;
mod funnel;
mod ignored;
mod layers;
mod names;
mod panics;
mod prompts;
mod size;
mod sql;

use crate::finding::Finding;
use crate::tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: [Rule; 10] = [
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
];

/// Runs every rule; findings in the order of the files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}
