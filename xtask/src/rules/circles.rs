//! Files that import each other in a circle can only be read, tested and moved together.
//!
//! Between folders no circle is allowed: of two folders one is the lower one. Each folder is
//! looked at with what lies directly in it: its files, its subfolders as one node each, and the
//! file in front of it (`gate.rs` for `gate/`), which to the world outside is part of the folder.
//! Inside one folder a circle of a few files may be one thing told in several files.

use std::collections::{BTreeMap, BTreeSet};

use super::Measure;
use crate::finding::Finding;
use crate::imports::{self, Imports};
use crate::tree::{Manifest, Tree};

const FILES: usize = 6;

pub fn measure(tree: &Tree) -> Vec<Measure> {
    tree.manifests.iter().flat_map(|manifest| measure_crate(tree, manifest)).collect()
}

fn measure_crate(tree: &Tree, manifest: &Manifest) -> [Measure; 2] {
    let imports = imports::of_crate(tree, manifest);
    let scope = &manifest.name;
    let edges: Vec<BTreeSet<usize>> =
        imports.edges.iter().map(|edges| edges.keys().copied().collect()).collect();
    let circles = imports::circles(&edges);
    let files = Measure {
        rule: "circles",
        scope: scope.clone(),
        figure: circles.first().map_or(0, Vec::len),
        limit: FILES,
        findings: circles
            .iter()
            .filter(|circle| circle.len() > FILES)
            .map(|circle| judge_files(&imports, circle))
            .collect(),
    };
    let mut folders = Measure {
        rule: "folders",
        scope: scope.clone(),
        figure: 0,
        limit: 0,
        findings: Vec::new(),
    };
    for folder in folders_of(&imports) {
        measure_folder(&imports, &folder, &mut folders);
    }
    [files, folders]
}

fn judge_files(imports: &Imports, circle: &[usize]) -> Finding {
    let names: Vec<&str> = circle.iter().map(|index| imports.files[*index].as_str()).collect();
    Finding {
        path: names[0].to_owned(),
        line: 1,
        rule: "circles",
        text: format!(
            "circle of {} files, at most {FILES}: move what both sides need below them, or turn a \
             call around; it is {}",
            circle.len(),
            names.join(" ")
        ),
    }
}

/// Every folder with a file of the crate in it, without a closing `/`.
fn folders_of(imports: &Imports) -> BTreeSet<String> {
    let folder = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    imports.files.iter().filter_map(folder).collect()
}

fn measure_folder(imports: &Imports, folder: &str, measure: &mut Measure) {
    let node_of: Vec<Option<String>> =
        imports.files.iter().map(|path| node(&imports.files, folder, path)).collect();
    let names: Vec<&String> =
        node_of.iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
    let index = |name: &String| names.binary_search(&name).ok();
    let mut edges = vec![BTreeSet::new(); names.len()];
    // The first import that leads from one node to another.
    let mut example: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for (from, targets) in imports.edges.iter().enumerate() {
        for (to, line) in targets {
            let ends =
                (node_of[from].as_ref().and_then(index), node_of[*to].as_ref().and_then(index));
            if let (Some(a), Some(b)) = ends
                && a != b
            {
                edges[a].insert(b);
                let text = format!("{}:{line} imports {}", imports.files[from], imports.files[*to]);
                example.entry((a, b)).or_insert(text);
            }
        }
    }
    for circle in imports::circles(&edges) {
        let folders: Vec<usize> =
            circle.iter().copied().filter(|node| names[*node].ends_with('/')).collect();
        let Some(first) = folders.first() else { continue };
        measure.figure += folders.len();
        let nodes: Vec<&str> = circle.iter().map(|node| names[*node].as_str()).collect();
        let way = imports::way_round(&edges, *first);
        let steps: Vec<&str> = way.iter().map(|step| example[step].as_str()).collect();
        measure.findings.push(Finding {
            path: folder.to_owned(),
            line: 1,
            rule: "folders",
            text: format!(
                "import circle of {}: decide which is the lower one; {}",
                nodes.join(" "),
                steps.join(", ")
            ),
        });
    }
}

/// What the file is part of when only the direct content of `folder` is looked at: the name of a
/// file, or of a subfolder with a closing `/`. None when it lies elsewhere.
fn node(files: &[String], folder: &str, path: &str) -> Option<String> {
    if path.strip_suffix(".rs") == Some(folder) {
        return Some(path.to_owned());
    }
    let inner = path.strip_prefix(folder)?.strip_prefix('/')?;
    if let Some((below, _)) = inner.split_once('/') {
        return Some(format!("{below}/"));
    }
    let stem = path.strip_suffix(".rs")?;
    let owns_a_folder =
        |file: &String| file.strip_prefix(stem).is_some_and(|it| it.starts_with('/'));
    if files.iter().any(owns_a_folder) {
        return Some(format!("{}/", inner.strip_suffix(".rs")?));
    }
    Some(inner.to_owned())
}
