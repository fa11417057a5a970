//! Third-party crates the workspace is built from on this platform, as cargo lists them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression; empty where the crate says nothing.
    pub license: String,
}

/// Asks cargo. Not `cargo metadata`: it fetches the crates of every platform, and is JSON.
pub fn list(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = ["tree", "--locked", "--workspace", "--edges", "normal,build,dev", "--prefix"];
    let output = Command::new(cargo)
        .args(asked)
        .args(["none", "--format", FORMAT])
        .current_dir(root)
        .output()
        .context("start cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(parse(&String::from_utf8(output.stdout)?))
}

const FORMAT: &str = "{p};{l}";

/// Lines like `syn v2.0.1 (proc-macro);MIT OR Apache-2.0 (*)`; our own have a path.
pub fn parse(text: &str) -> Vec<Package> {
    let mut packages: Vec<Package> = text
        .lines()
        .filter(|line| !line.contains("(/"))
        .filter_map(|line| {
            let (package, license) = line.split_once(';')?;
            let mut words = package.split(' ');
            let name = words.next()?.to_owned();
            let version = words.next()?.trim_start_matches('v').to_owned();
            let license = license.trim_end_matches("(*)").trim().to_owned();
            Some(Package { name, version, license })
        })
        .collect();
    packages.sort();
    packages.dedup();
    packages
}
