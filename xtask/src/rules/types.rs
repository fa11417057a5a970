//! A type that other files can name has its name alone in the workspace.
//!
//! Checked are `pub` types of any reach. A private type is not: only its own file can name it.
//! Two may share a name where the module path says which one is meant: they stand in files of the
//! same name in sibling folders, as `anthropic/decode.rs` and `openai_chat/decode.rs` do.

use std::collections::BTreeMap;

use super::Measure;
use crate::finding::Finding;
use crate::source::{Kind, SourceFile};
use crate::tree::Tree;

const RULE: &str = "types";
const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

pub fn measure(tree: &Tree) -> Vec<Measure> {
    let mut defined: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for source in &tree.sources {
        for (at, token) in source.product_tokens() {
            if token.kind == Kind::Word
                && KEYWORDS.contains(&token.text.as_str())
                && source.is_public(at)
                && let Some(name) = source.tokens.get(at + 1)
                // `struct $name` in a macro names no type.
                && name.kind == Kind::Word
            {
                defined.entry(&name.text).or_default().push((source, token.line));
            }
        }
    }
    defined.retain(|_, places| !is_told_apart(places));
    let findings = defined.iter().flat_map(|(name, places)| judge(name, places)).collect();
    let scope = "workspace".to_owned();
    vec![Measure { rule: RULE, scope, figure: defined.len(), limit: 0, findings }]
}

fn is_told_apart(places: &[(&SourceFile, usize)]) -> bool {
    places.iter().enumerate().all(|(index, (a, _))| {
        places[index + 1..].iter().all(|(b, _)| are_siblings(&a.path, &b.path))
    })
}

/// The same file name in two folders of one folder.
fn are_siblings(a: &str, b: &str) -> bool {
    let split = |path: &str| -> Option<(String, String, String)> {
        let (rest, file) = path.rsplit_once('/')?;
        let (above, folder) = rest.rsplit_once('/')?;
        Some((above.to_owned(), folder.to_owned(), file.to_owned()))
    };
    match (split(a), split(b)) {
        (Some(a), Some(b)) => a.0 == b.0 && a.1 != b.1 && a.2 == b.2,
        _ => false,
    }
}

fn judge(name: &str, places: &[(&SourceFile, usize)]) -> Vec<Finding> {
    let others = places.len() - 1;
    let text =
        format!("type {name} is defined {others} times elsewhere: name each after its thing");
    let finding = |(source, line): &(&SourceFile, usize)| Finding {
        path: source.path.clone(),
        line: *line,
        rule: RULE,
        text: text.clone(),
    };
    places.iter().map(finding).collect()
}
