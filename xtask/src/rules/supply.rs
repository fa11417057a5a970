//! Third-party crates: allowed licences, banned crates, duplicate versions.
//! Advisories are checked by `cargo deny` in `./test --all`.

use crate::finding::Finding;
use crate::packages::Package;
use crate::tree::Tree;

const RULE: &str = "supply";

/// Permissive: they require a notice at most.
const LICENSES: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crate, and what to use instead.
const BANNED: [(&str, &str); 6] = [
    ("async-std", "tokio"),
    ("native-tls", "rustls"),
    ("openssl-sys", "rustls"),
    ("serde_yaml", "serde-saphyr, which is kept up"),
    ("sqlx", "rusqlite, in skep-store"),
    ("winapi", "nothing: the product runs on Linux"),
];

/// Known duplicates, and who needs the other version. A stale entry is a finding.
const DUPLICATES: [(&str, &str); 11] = [
    ("base64", "axum"),
    ("block-buffer", "sha1 of tungstenite"),
    ("cpufeatures", "sha1 of tungstenite"),
    ("crypto-common", "sha1 of tungstenite"),
    ("digest", "sha1 of tungstenite"),
    ("getrandom", "rand of tungstenite"),
    ("hashbrown", "hashlink of rusqlite"),
    ("rand", "tungstenite"),
    ("rand_core", "rand of tungstenite"),
    ("syn", "tracing-attributes, strum of reedline"),
    ("vte", "strip-ansi-escapes of reedline"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let packages = &tree.packages;
    let mut findings: Vec<Finding> = packages.iter().filter_map(judge).collect();
    for several in packages.chunk_by(|a, b| a.name == b.name).filter(|group| group.len() > 1) {
        let name = &several[0].name;
        if !DUPLICATES.iter().any(|(known, _)| known == name) {
            let versions: Vec<&str> = several.iter().map(|it| it.version.as_str()).collect();
            findings.push(complain(format!(
                "{name} is built in versions {}: see `cargo tree -d`; use one, or say in \
                 xtask/src/rules/supply.rs who needs the other",
                versions.join(" and ")
            )));
        }
    }
    let is_single = |name: &str| packages.iter().filter(|it| it.name == name).count() < 2;
    for (name, _) in DUPLICATES.iter().filter(|(name, _)| !packages.is_empty() && is_single(name)) {
        findings.push(complain(format!("{name} has one version now: remove its entry")));
    }
    findings
}

fn judge(package: &Package) -> Option<Finding> {
    let Package { name, version, license } = package;
    if let Some((_, instead)) = BANNED.iter().find(|(banned, _)| banned == name) {
        return Some(complain(format!("{name} is banned: use {instead}")));
    }
    let words = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = words.split_whitespace().rev().collect();
    let is_fine = either(&mut words) && words.is_empty();
    (!is_fine).then(|| {
        complain(format!("{name} {version} has the licence `{license}`: it is not an allowed one"))
    })
}

/// `a OR b`; the words stand last first.
fn either(words: &mut Vec<&str>) -> bool {
    let mut fine = both(words);
    while words.pop_if(|word| *word == "OR").is_some() {
        fine |= both(words);
    }
    fine
}

fn both(words: &mut Vec<&str>) -> bool {
    let mut fine = one(words);
    while words.pop_if(|word| *word == "AND").is_some() {
        fine &= one(words);
    }
    fine
}

fn one(words: &mut Vec<&str>) -> bool {
    if words.pop_if(|word| *word == "(").is_some() {
        let fine = either(words);
        return words.pop_if(|word| *word == ")").is_some() && fine;
    }
    let mut license = words.pop().unwrap_or_default().to_owned();
    if words.pop_if(|word| *word == "WITH").is_some() {
        license = format!("{license} WITH {}", words.pop().unwrap_or_default());
    }
    LICENSES.contains(&license.as_str())
}

fn complain(text: String) -> Finding {
    Finding { path: "Cargo.lock".to_owned(), line: 1, rule: RULE, text }
}
