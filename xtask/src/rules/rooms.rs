//! Crates and folders that a newcomer can look over.

use std::collections::BTreeMap;

use super::Measure;
use crate::finding::Finding;
use crate::tree::Tree;

const CRATE_LINES: usize = 12_000;
const FOLDER_FILES: usize = 25;

/// Lines of a crate without tests, and source files of its fullest folder.
pub fn measure(tree: &Tree) -> Vec<Measure> {
    let mut measures = Vec::new();
    for manifest in &tree.manifests {
        let mut lines = 0;
        let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
        for source in tree.sources.iter().filter(|source| !source.is_test) {
            let owner = tree.crate_of(&source.path).map(|owner| &owner.path);
            if source.is_rust() && owner == Some(&manifest.path) {
                lines += source.product_lines();
                let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                *folders.entry(folder).or_default() += 1;
            }
        }
        let finding = |path: &str, rule: &'static str, text: String| Finding {
            path: path.to_owned(),
            line: 1,
            rule,
            text,
        };
        measures.push(Measure {
            rule: "crate",
            scope: manifest.name.clone(),
            figure: lines,
            limit: CRATE_LINES,
            findings: vec![finding(
                &manifest.path,
                "crate",
                format!(
                    "{lines} lines without tests, at most {CRATE_LINES}: find the part with a \
                     rule of its own and make it a crate"
                ),
            )],
        });
        let full = folders.iter().filter(|(_, files)| **files > FOLDER_FILES);
        measures.push(Measure {
            rule: "folder",
            scope: manifest.name.clone(),
            figure: folders.values().copied().max().unwrap_or_default(),
            limit: FOLDER_FILES,
            findings: full
                .map(|(folder, files)| {
                    let text = format!(
                        "{files} source files, at most {FOLDER_FILES}: group those that change \
                         together into a folder"
                    );
                    finding(folder, "folder", text)
                })
                .collect(),
        });
    }
    measures
}
