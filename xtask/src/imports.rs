//! Which file of a crate imports which, read from the paths they write.
//!
//! A `mod` line is no import, and neither is a `pub use` whose name the file does not use itself:
//! whoever names what was passed on imports the file that defines it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::modules::ModulePlace;
use crate::source::{Kind, SourceFile, WrittenPath};
use crate::tree::{Manifest, Tree};

/// Longest chain of `use` lines that is followed: more is a circle of names.
const DEEPEST: usize = 16;

/// The files of one crate without its tests.
#[derive(Debug)]
pub struct Imports {
    pub files: Vec<String>,
    /// For each file the files it imports, with the line that does so first.
    pub edges: Vec<BTreeMap<usize, usize>>,
}

pub fn of_crate(tree: &Tree, manifest: &Manifest) -> Imports {
    let mine = |source: &&SourceFile| {
        let owner = tree.crate_of(&source.path).map(|owner| &owner.path);
        !source.is_test && owner == Some(&manifest.path)
    };
    let files: Vec<File> = tree
        .sources
        .iter()
        .filter(mine)
        .filter_map(|source| {
            let place = tree.places.get(&source.path)?;
            Some(File { source, place, paths: source.paths() })
        })
        .collect();
    let names = Names::new(&files);
    let edges = (0..files.len()).map(|from| imported(&files, &names, from)).collect();
    let files = files.iter().map(|file| file.source.path.clone()).collect();
    Imports { files, edges }
}

struct File<'a> {
    source: &'a SourceFile,
    place: &'a ModulePlace,
    paths: Vec<WrittenPath>,
}

fn imported(files: &[File], names: &Names, from: usize) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    let file = &files[from];
    for path in &file.paths {
        if let Some(import) = &path.import
            && import.is_public
            && file.source.product_tokens().filter(|(_, it)| is_word(it, &import.name)).count() < 2
        {
            continue;
        }
        let whole = names.whole(from, &path.inside, &path.segments, 0);
        if let Some(to) = whole.and_then(|whole| names.file(&file.place.root, &whole, 0))
            && to != from
        {
            found.entry(to).or_insert(path.line);
        }
    }
    found
}

fn is_word(token: &crate::source::LexToken, word: &str) -> bool {
    token.kind == Kind::Word && token.text == word
}

/// What a name means in each file.
struct Names<'a> {
    files: &'a [File<'a>],
    /// The file of a module, by the target's root and the names from there.
    modules: HashMap<(&'a str, &'a [String]), usize>,
    /// What the `use` lines of each file bring in.
    uses: Vec<HashMap<&'a str, &'a WrittenPath>>,
}

impl<'a> Names<'a> {
    fn new(files: &'a [File<'a>]) -> Self {
        let place = |file: &'a File<'a>| (file.place.root.as_str(), file.place.module.as_slice());
        let modules = files.iter().enumerate().map(|(index, file)| (place(file), index)).collect();
        let uses = files.iter().map(|file| {
            let imports = file.paths.iter();
            imports.filter_map(|path| Some((path.import.as_ref()?.name.as_str(), path))).collect()
        });
        Self { files, modules, uses: uses.collect() }
    }

    /// The path counted from the crate's root; none when it leads into another crate.
    fn whole(
        &self,
        from: usize,
        inside: &[String],
        segments: &[String],
        depth: usize,
    ) -> Option<Vec<String>> {
        let place = self.files[from].place;
        let mut whole = [place.module.as_slice(), inside].concat();
        let (first, mut rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => whole.clear(),
            "self" => {}
            "super" => {
                whole.pop();
                while let Some((_, after)) = rest.split_first().filter(|(word, _)| *word == "super")
                {
                    whole.pop();
                    rest = after;
                }
            }
            name => {
                whole.push(name.to_owned());
                if !self.modules.contains_key(&(place.root.as_str(), whole.as_slice())) {
                    let path = self.uses[from].get(name).filter(|_| depth < DEEPEST)?;
                    whole = self.whole(from, &path.inside, &path.segments, depth + 1)?;
                }
            }
        }
        whole.extend(rest.iter().cloned());
        Some(whole)
    }

    /// The file that defines what the path names, behind every `use` that passes it on.
    fn file(&self, root: &str, whole: &[String], depth: usize) -> Option<usize> {
        let known = |length: &usize| self.modules.contains_key(&(root, &whole[..*length]));
        let length = (0..=whole.len()).rev().find(known)?;
        let index = self.modules[&(root, &whole[..length])];
        let Some((name, rest)) = whole[length..].split_first() else { return Some(index) };
        let Some(path) = self.uses[index].get(name.as_str()) else { return Some(index) };
        if depth == DEEPEST {
            return None;
        }
        let mut further = self.whole(index, &path.inside, &path.segments, depth)?;
        further.extend(rest.iter().cloned());
        self.file(root, &further, depth + 1)
    }
}

/// Groups of two and more nodes that all reach each other, largest first.
pub fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len())
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<usize> = edges[start].iter().copied().collect();
            while let Some(node) = open.pop() {
                if seen.insert(node) {
                    open.extend(&edges[node]);
                }
            }
            seen
        })
        .collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for start in 0..edges.len() {
        if found.iter().any(|circle| circle.contains(&start)) {
            continue;
        }
        let back = |node: &usize| reached[*node].contains(&start);
        let circle: Vec<usize> = reached[start].iter().copied().filter(back).collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// The shortest way from a node of a circle back to it, as pairs of from and to.
pub fn way_round(edges: &[BTreeSet<usize>], start: usize) -> Vec<(usize, usize)> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for next in &edges[node] {
            if !came_from.contains_key(next) {
                came_from.insert(*next, node);
                open.push_back(*next);
            }
        }
    }
    let mut way = Vec::new();
    let mut at = start;
    while let Some(before) = came_from.get(&at) {
        way.insert(0, (*before, at));
        at = *before;
        if at == start {
            break;
        }
    }
    way
}
