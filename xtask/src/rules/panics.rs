//! Nothing outside tests ends the process because of a value it did not expect.

use crate::finding::Finding;
use crate::source::pattern;
use crate::tree::Tree;

const RULE: &str = "panics";

const BANNED: [(&str, &str); 7] = [
    (".unwrap()", "return the error, or match and say what the other case means"),
    (".unwrap_err()", "match on the result"),
    (".expect(", "return the error, or match and say what the other case means"),
    ("panic!", "return an error"),
    ("todo!", "write it or leave it out"),
    ("unimplemented!", "write it or leave it out"),
    ("dbg!", "use tracing, or take it out"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let patterns = BANNED.map(|(code, advice)| (code, pattern(code), advice));
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (at, token) in source.product_tokens() {
            for (code, pattern, advice) in &patterns {
                if source.spells(at, pattern) {
                    findings.push(Finding {
                        path: source.path.clone(),
                        line: token.line,
                        rule: RULE,
                        text: format!("`{code}` outside tests: {advice}"),
                    });
                }
            }
        }
    }
    findings
}
