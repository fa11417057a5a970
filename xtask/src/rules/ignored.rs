//! A test either runs or does not exist.

use crate::finding::Finding;
use crate::source::SourceFile;
use crate::tree::Tree;

const RULE: &str = "ignored";

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(check_source).collect()
}

/// `#[ignore]`, `#[ignore = "…"]` and `#[cfg_attr(…, ignore)]`.
fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut depth = 0_usize;
    let mut previous = ["", ""];
    for token in &source.tokens {
        let text = token.text.as_str();
        match text {
            "[" if previous[1] == "#" => depth = 1,
            "[" if depth > 0 => depth += 1,
            "]" if depth > 0 => depth -= 1,
            "ignore" if depth > 0 && matches!(previous[1], "[" | ",") => findings.push(Finding {
                path: source.path.clone(),
                line: token.line,
                rule: RULE,
                text: "ignored test: make it run, behind SKEP_TEST_ALL if it is slow, or remove it"
                    .to_owned(),
            }),
            _ => {}
        }
        previous = [previous[1], text];
    }
    findings
}
