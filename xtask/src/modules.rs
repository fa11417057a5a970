//! Which Rust files a crate really compiles: from its target roots along every `mod name;`.

use std::collections::HashMap;

use crate::source::{Kind, SourceFile};
use crate::tree::Manifest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Product,
    /// Included only by `#[cfg(test)] mod name;`, itself or a module above it.
    TestsOnly,
}

/// Where a file stands among the modules of its crate.
#[derive(Debug, Clone)]
pub struct ModulePlace {
    pub reach: Reach,
    /// Path of the target's root file.
    pub root: String,
    /// Names from the root down; empty for the root itself.
    pub module: Vec<String>,
}

pub fn places(sources: &[SourceFile], manifests: &[Manifest]) -> HashMap<String, ModulePlace> {
    let by_path: HashMap<&str, &SourceFile> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut places: HashMap<String, ModulePlace> = HashMap::new();
    let mut open: Vec<(String, ModulePlace)> = Vec::new();
    for manifest in manifests {
        for source in sources.iter().filter(|source| is_root(&source.path, manifest)) {
            let root = source.path.clone();
            open.push((
                root.clone(),
                ModulePlace { reach: Reach::Product, root, module: Vec::new() },
            ));
        }
    }
    while let Some((path, place)) = open.pop() {
        let known = places.get(&path).map(|known| known.reach);
        if known == Some(Reach::Product) || known == Some(place.reach) {
            continue;
        }
        let Some(source) = by_path.get(path.as_str()) else { continue };
        for (child, is_test, names) in children(source, place.root == path) {
            let mut place = place.clone();
            place.module.extend(names);
            if is_test {
                place.reach = Reach::TestsOnly;
            }
            open.push((child, place));
        }
        places.insert(path, place);
    }
    places
}

/// Whether cargo takes the file as the root of a library, program, test, example or bench.
fn is_root(path: &str, manifest: &Manifest) -> bool {
    let Some(inner) = path.strip_prefix(manifest.folder()) else { return false };
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

/// Every file the source may include, whether only tests do, and the modules down to it.
fn children(source: &SourceFile, is_root: bool) -> Vec<(String, bool, Vec<String>)> {
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
        let mut names = module.inside;
        names.push(module.name.clone());
        if let Some(path) = &module.path {
            let from = if names.len() == 1 { folder } else { &inside };
            found.push((resolve(from, path), module.is_test, names));
        } else {
            let name = &module.name;
            found.push((format!("{inside}/{name}.rs"), module.is_test, names.clone()));
            found.push((format!("{inside}/{name}/mod.rs"), module.is_test, names));
        }
    }
    for window in source.tokens.windows(4) {
        if window[0].text == "include" && window[1].text == "!" && window[3].kind == Kind::Text {
            let path = resolve(folder, &window[3].text);
            found.push((path, window[0].is_test, Vec::new()));
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
