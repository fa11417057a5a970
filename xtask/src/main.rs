//! The repository's own checks: `cargo run -p xtask -- tidy`.
//!
//! Reads the sources as text and tokens, never compiles them, and changes nothing.
//! What rustfmt and clippy already check is not repeated here, with one exception: the rules
//! about panicking are cheap to state twice and an `#[allow]` cannot switch tidy off.

mod finding;
mod modules;
mod rules;
mod source;
#[cfg(test)]
mod tidy_tests;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::tree::Tree;

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("tidy"), None) => tidy(),
        _ => bail!("usage: cargo run -p xtask -- tidy"),
    }
}

fn tidy() -> Result<ExitCode> {
    let root = repository_root()?;
    let tree = Tree::read(&root).with_context(|| format!("read {}", root.display()))?;
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

/// The folder above this crate, as it stood when xtask was built.
fn repository_root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).context("xtask must lie in a folder of the repository")
}
