//! The repository as the rules see it: sources, manifests, ARCHITECTURE.md, docs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::modules::{self, ModulePlace, Reach};
use crate::packages::Package;
use crate::source::SourceFile;

#[derive(Debug)]
pub struct Tree {
    /// Sorted by path.
    pub sources: Vec<SourceFile>,
    pub manifests: Vec<Manifest>,
    pub architecture: Option<String>,
    /// README.md and docs/*.md: path and text.
    pub documents: Vec<(String, String)>,
    /// Rust files that some crate root includes, by path.
    pub places: HashMap<String, ModulePlace>,
    /// Third-party crates, sorted by name and version; filled by the caller.
    pub packages: Vec<Package>,
}

/// One crate's Cargo.toml.
#[derive(Debug)]
pub struct Manifest {
    /// Path from the repository's root, with `/`.
    pub path: String,
    pub name: String,
    pub dependencies: Vec<Dependency>,
    /// Values of `path = "….rs"`: targets outside the usual places.
    pub target_paths: Vec<String>,
}

#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    pub line: usize,
    /// Under `[dev-dependencies]`.
    pub is_dev: bool,
}

impl Manifest {
    /// The crate's folder with a closing `/`.
    pub fn folder(&self) -> &str {
        self.path.strip_suffix("Cargo.toml").unwrap_or(&self.path)
    }
}

/// Folders that hold nothing written by hand.
const SKIPPED: [&str; 4] = ["target", "node_modules", ".git", "dist"];
const EXTENSIONS: [&str; 5] = ["rs", "ts", "tsx", "svelte", "css"];

impl Tree {
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            sources: Vec::new(),
            manifests: Vec::new(),
            architecture: fs::read_to_string(root.join("ARCHITECTURE.md")).ok(),
            documents: Vec::new(),
            places: HashMap::new(),
            packages: Vec::new(),
        };
        tree.read_folder(root, "")?;
        tree.sources.sort_by(|a, b| a.path.cmp(&b.path));
        tree.manifests.sort_by(|a, b| a.path.cmp(&b.path));
        tree.documents.sort();
        tree.places = modules::places(&tree.sources, &tree.manifests);
        for source in &mut tree.sources {
            let place = tree.places.get(&source.path);
            source.is_test |= place.is_some_and(|place| place.reach == Reach::TestsOnly);
        }
        Ok(tree)
    }

    /// The crate a file belongs to, by the nearest manifest above it.
    pub fn crate_of(&self, path: &str) -> Option<&Manifest> {
        let above = self.manifests.iter().filter(|manifest| path.starts_with(manifest.folder()));
        above.max_by_key(|manifest| manifest.folder().len())
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            let is_manifest = name == "Cargo.toml";
            let is_document = path == "README.md" || (prefix == "docs/" && extension == "md");
            if !is_manifest && !is_document && !EXTENSIONS.contains(&extension) {
                continue;
            }
            let text = fs::read_to_string(entry.path()).with_context(|| format!("read {path}"))?;
            if is_document {
                self.documents.push((path, text));
            } else if is_manifest {
                self.manifests.extend(parse_manifest(path, &text));
            } else {
                self.sources.push(SourceFile::new(path, text));
            }
        }
        Ok(())
    }
}

/// None for a manifest without `[package]`: the workspace's own.
fn parse_manifest(path: String, text: &str) -> Option<Manifest> {
    let mut manifest =
        Manifest { path, name: String::new(), dependencies: Vec::new(), target_paths: Vec::new() };
    let mut section = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']);
            if let Some((table, name)) = section.rsplit_once('.')
                && table.ends_with("dependencies")
            {
                manifest.depend(name, index + 1, table);
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim().trim_end_matches(".workspace");
        let value = value.trim();
        match (section, key) {
            ("package", "name") => manifest.name = value.trim_matches('"').to_owned(),
            (section, _) if section.ends_with("dependencies") => {
                manifest.depend(renamed(value).unwrap_or(key), index + 1, section);
            }
            (_, "path") if value.ends_with(".rs\"") => {
                manifest.target_paths.push(value.trim_matches('"').to_owned());
            }
            _ => {}
        }
    }
    (!manifest.name.is_empty()).then_some(manifest)
}

impl Manifest {
    fn depend(&mut self, name: &str, line: usize, section: &str) {
        let is_dev = section.ends_with("dev-dependencies");
        self.dependencies.push(Dependency { name: name.to_owned(), line, is_dev });
    }
}

/// The crate behind `alias = { package = "name", … }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package")?;
    let (_, rest) = rest.split_once('"')?;
    rest.split('"').next()
}
