//! ARCHITECTURE.md is the map: every crate is on it.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "architecture";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let complain =
        |text: String| Finding { path: "ARCHITECTURE.md".to_owned(), line: 1, rule: RULE, text };
    let Some(page) = &tree.architecture else {
        return vec![complain("missing: write the map of the crates".to_owned())];
    };
    tree.manifests
        .iter()
        .filter(|manifest| !page.contains(&format!("`{}`", manifest.name)))
        .map(|manifest| {
            let name = &manifest.name;
            complain(format!("crate {name} is not named: add `{name}`, its layer and its rule"))
        })
        .collect()
}
