//! Prompts are prose: they stand in `.md` files, where they are read and reviewed as prose.

use crate::finding::Finding;
use crate::source::Kind;
use crate::tree::Tree;

const RULE: &str = "prompts";
/// A message for a person is shorter than this; a prompt is not.
const LONGEST: usize = 400;
const CRATES: [&str; 3] = ["crates/skep-runtime/", "crates/skep-turn/", "crates/skep-engine/"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        if !CRATES.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        for (_, token) in source.product_tokens() {
            let characters = token.text.chars().count();
            if token.kind == Kind::Text && characters > LONGEST {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: token.line,
                    rule: RULE,
                    text: format!(
                        "string of {characters} characters: put the prose into prompts/*.md and \
                         include_str! it"
                    ),
                });
            }
        }
    }
    findings
}
