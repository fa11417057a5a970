//! Tells the program which commit it was built from. Where there is no git, `SKEP_COMMIT` may say
//! it; without either the version stands alone.

use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=SKEP_COMMIT");
    for file in ["HEAD", "logs/HEAD"] {
        // What is not there would make cargo run this every time.
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && fs::exists(&path).unwrap_or(false)
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let given = env::var("SKEP_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let commit = given.or_else(|| git(&["show", "-s", "--abbrev=12", "--format=%h, %cs", "HEAD"]));
    let version = match commit {
        Some(commit) => format!("{version} ({})", commit.trim()),
        None => version,
    };
    println!("cargo:rustc-env=SKEP_VERSION={version}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !said.is_empty()).then_some(said)
}
