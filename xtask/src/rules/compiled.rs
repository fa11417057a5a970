//! Every Rust file belongs to a target: one that nothing includes is never built and never run.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "compiled";

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|source| source.is_rust() && tree.crate_of(&source.path).is_some())
        .filter(|source| !tree.places.contains_key(&source.path))
        .map(|source| Finding {
            path: source.path.clone(),
            line: 1,
            rule: RULE,
            text: format!("not compiled in: {}", advice(&source.path)),
        })
        .collect()
}

fn advice(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.strip_suffix(".rs").unwrap_or(file);
    if path.contains("/tests/it/") {
        return format!("add `mod {name};` to tests/it/main.rs, or remove the file");
    }
    format!("add `mod {name};` where it belongs, or remove the file")
}
