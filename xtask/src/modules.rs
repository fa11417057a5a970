//! Which Rust files a crate really compiles: from its target roots along every `mod name;`.

use std::collections::HashMap;

use crate::source::{Kind, Source};
use crate::tree::Manifest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Product,
    /// Included only by `#[cfg(test)] mod name;`, itself or a module above it.
    TestsOnly,
}

pub fn reach(sources: &[Source], manifests: &[Manifest]) -> HashMap<String, Reach> {
    let by_path: HashMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut reached = HashMap::new();
    let mut open: Vec<(String, Reach, bool)> = Vec::new();
    for manifest in manifests {
        for source in sources.iter().filter(|source| is_root(&source.path, manifest)) {
            open.push((source.path.clone(), Reach::Product, true));
        }
    }
    while let Some((path, how, is_root)) = open.pop() {
        let known = reached.get(&path);
        if known == Some(&Reach::Product) || known == Some(&how) {
            continue;
        }
        let Some(source) = by_path.get(path.as_str()) else {
            continue;
        };
        reached.insert(path, how);
        for (child, is_test) in children(source, is_root) {
            let how = if is_test { Reach::TestsOnly } else { how };
            open.push((child, how, false));
        }
    }
    reached
}

/// Whether cargo takes the file as the root of a library, program, test, example or bench.
fn is_root(path: &str, manifest: &Manifest) -> bool {
    let Some(inner) = path.strip_prefix(manifest.folder()) else {
        return false;
    };
    if manifest.target_paths.iter().any(|target| target == inner) {
        return true;
    }
    let parts: Vec<&str> = inner.split('/').collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "examples" | "benches", _]
            | ["tests" | "examples" | "benches", _, "main.rs"]
    )
}

/// Every file the source may include, and whether only tests do.
fn children(source: &Source, is_root: bool) -> Vec<(String, bool)> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let owns_folder = is_root || stem == "mod";
    let base = if owns_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    for module in source.modules() {
        let mut inside = base.clone();
        for name in &module.inside {
            inside = format!("{inside}/{name}");
        }
        if let Some(path) = &module.path {
            let from = if module.inside.is_empty() { folder } else { &inside };
            found.push((resolve(from, path), module.is_test));
        } else {
            let name = &module.name;
            found.push((format!("{inside}/{name}.rs"), module.is_test));
            found.push((format!("{inside}/{name}/mod.rs"), module.is_test));
        }
    }
    for window in source.tokens.windows(4) {
        if window[0].text == "include" && window[1].text == "!" && window[3].kind == Kind::Text {
            found.push((resolve(folder, &window[3].text), window[0].is_test));
        }
    }
    found
}

/// Joins a relative path, taking `..` away.
fn resolve(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
