//! Where cargo put the programs under test: beside the running test binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

const SHIM_FILE: &str = "libskep_testkit_shim.so";

/// `target/<profile>`, found from `target/<profile>/deps/<test>`.
pub fn profile_folder() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding the running test binary")?;
    let mut folder = own.parent().context("the test binary has no folder")?;
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder = folder.parent().context("the folder of the test binary has no parent")?;
    }
    Ok(folder.to_owned())
}

/// The server and command line program.
pub fn skep() -> Result<PathBuf> {
    existing(profile_folder()?.join("skep"))
}

/// The same program with the tools of the test rig.
pub fn rig() -> Result<PathBuf> {
    existing(profile_folder()?.join("examples/rig"))
}

/// The program the shim is tried on.
pub fn shim_probe() -> Result<PathBuf> {
    existing(profile_folder()?.join("skep-shim-probe"))
}

/// An engine as a process, played by a script.
pub fn fake_engine() -> Result<PathBuf> {
    existing(profile_folder()?.join("skep-fake-engine"))
}

/// A child that does what it should not.
pub fn unruly_child() -> Result<PathBuf> {
    existing(profile_folder()?.join("skep-unruly-child"))
}

/// The preload library. Nothing depends on it, so cargo does not build it along: it is built here,
/// once a process, which costs nothing when it is fresh.
pub fn shim() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build_shim().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

fn build_shim() -> Result<PathBuf> {
    let folder = profile_folder()?;
    let library = folder.join(SHIM_FILE);
    let Some(cargo) = std::env::var_os("CARGO") else { return existing(library) };
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let target = folder.parent().context("the profile folder has no parent")?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/Cargo.toml");
    let done = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--profile", profile, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .output()
        .context("starting cargo to build the shim")?;
    ensure!(done.status.success(), "building the shim: {}", String::from_utf8_lossy(&done.stderr));
    existing(library)
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        bail!("{} is not built; run the tests through cargo", path.display());
    }
    Ok(path)
}
