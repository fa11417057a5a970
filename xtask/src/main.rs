//! The repository's own checks: `cargo run -p xtask -- tidy`, and `figures` for the numbers the
//! limits are set for.
//!
//! Reads the sources as text and tokens, never compiles them, and changes nothing.
//! What rustfmt and clippy already check is not repeated here, with one exception: the rules
//! about panicking are cheap to state twice and an `#[allow]` cannot switch tidy off.

mod finding;
mod imports;
mod modules;
mod packages;
mod rules;
mod source;
#[cfg(test)]
mod tidy_tests;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::tree::Tree;

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("tidy"), None) => tidy(),
        (Some("figures"), None) => figures(),
        _ => bail!("usage: cargo run -p xtask -- tidy|figures"),
    }
}

fn tidy() -> Result<ExitCode> {
    let mut tree = tree()?;
    tree.packages = packages::list(&repository_root()?)?;
    let findings = rules::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to mend", tree.sources.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} to mend", findings.len());
    Ok(ExitCode::FAILURE)
}

/// One line per crate with every number a limit is set for.
fn figures() -> Result<ExitCode> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rules::Measure { rule, scope, figure, limit, .. } in rules::measure(&tree()?) {
        rows.entry(scope).or_default().push(format!("{rule} {figure} of {limit}"));
    }
    for (scope, figures) in rows {
        println!("{scope}: {}", figures.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn tree() -> Result<Tree> {
    let root = repository_root()?;
    Tree::read(&root).with_context(|| format!("read {}", root.display()))
}

/// The folder above this crate: as cargo says it now, because two checkouts that share a target
/// folder share this program too, else as it stood when xtask was built.
fn repository_root() -> Result<PathBuf> {
    let now = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = PathBuf::from(now.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()));
    here.parent().map(PathBuf::from).context("xtask must lie in a folder of the repository")
}
