//! A module is named after a thing. The banned names say only that things were left over.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "names";
const BANNED: [&str; 10] = [
    "utils", "util", "common", "helpers", "helper", "misc", "manager", "managers", "service",
    "services",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let mut complain = |line: usize, name: &str| {
            findings.push(Finding {
                path: source.path.clone(),
                line,
                rule: RULE,
                text: format!("module `{name}`: name it after the one thing it holds"),
            });
        };
        for part in source.path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            if BANNED.contains(&stem) {
                complain(1, stem);
            }
        }
        for pair in source.tokens.windows(2) {
            if pair[0].text == "mod" && BANNED.contains(&pair[1].text.as_str()) {
                complain(pair[0].line, &pair[1].text);
            }
        }
    }
    findings
}
