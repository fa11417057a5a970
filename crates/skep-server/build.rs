//! Builds the dashboard with npm where Node is there, and puts its files into the program. Without
//! Node the program is built all the same; a plain page then says how to get the dashboard.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Vite needs it.
const NODE: (u32, u32) = (20, 19);
const SOURCES: &[&str] = &[
    "index.html",
    "package.json",
    "package-lock.json",
    "public",
    "scripts",
    "src",
    "vite.config.ts",
];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let web = manifest.join("../../web");
    println!("cargo:rerun-if-env-changed=SKEP_NO_WEB");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", web.join(source).display());
    }
    let dist = out.join("dist");
    let built = match env::var_os("SKEP_NO_WEB") {
        Some(_) => Err("SKEP_NO_WEB is set".to_owned()),
        None => build(&web, &dist),
    };
    let files = match built {
        Ok(()) => files(&dist).unwrap_or_default(),
        Err(why) => {
            println!("cargo:warning=the dashboard is left out: {why}");
            Vec::new()
        }
    };
    if let Err(error) = fs::write(out.join("assets.rs"), listing(&dist, &files)) {
        println!("cargo:warning=writing the list of assets failed: {error}");
        std::process::exit(1);
    }
}

fn build(web: &Path, dist: &Path) -> Result<(), String> {
    node_is_new_enough()?;
    let _ = fs::remove_dir_all(dist);
    install(web)?;
    let vite = web.join("node_modules/vite/bin/vite.js");
    let out = dist.display().to_string();
    run(
        web,
        "node",
        &[&vite.display().to_string(), "build", "--logLevel", "warn", "--outDir", &out],
    )?;
    run(web, "node", &["scripts/weigh.mjs", &out])
}

fn node_is_new_enough() -> Result<(), String> {
    let asked = Command::new("node").arg("--version").output();
    let version = match asked {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => return Err(format!("Node {}.{} or newer is not on PATH", NODE.0, NODE.1)),
    };
    let mut parts =
        version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    match found >= NODE {
        true => Ok(()),
        false => Err(format!("Node is {version}; {}.{} or newer is needed", NODE.0, NODE.1)),
    }
}

/// Once per lock file: npm leaves a copy of it behind what it installed.
fn install(web: &Path) -> Result<(), String> {
    let mark = web.join("node_modules/.skep-installed");
    let lock = fs::read(web.join("package-lock.json")).map_err(|error| error.to_string())?;
    if fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // Not `ci`: it refuses lock files for optional parts of other platforms.
    let quiet = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(web, "npm", &quiet)?;
    fs::write(mark, lock).map_err(|error| error.to_string())
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("{program} did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let telling = said.lines().filter(|line| !line.trim().is_empty()).take(6);
    Err(format!("{program} failed: {}", telling.collect::<Vec<_>>().join(" / ")))
}

/// Every file of the page, as the path it is asked for by.
fn files(dist: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dist.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "gz") {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn listing(dist: &Path, files: &[String]) -> String {
    let mut text = String::from("pub(crate) const ASSETS: &[Asset] = &[\n");
    for file in files {
        let plain = dist.join(file).display().to_string();
        let zipped = format!("{plain}.gz");
        let _ = writeln!(
            text,
            "    Asset {{ path: {file:?}, plain: include_bytes!({plain:?}), \
             zipped: include_bytes!({zipped:?}) }},"
        );
    }
    text.push_str("];\n");
    text
}
