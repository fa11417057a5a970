//! A crate depends only on crates of strictly lower layers.

use crate::finding::Finding;
use crate::tree::{Dependency, Manifest, Tree};

const RULE: &str = "layers";

/// The order of ARCHITECTURE.md. A new crate gets its line here and there.
const LAYERS: [(&str, u8); 21] = [
    ("skep-scrub", 0),
    ("skep-shell", 0),
    ("skep-core", 1),
    ("skep-db", 2),
    ("skep-door", 2),
    ("skep-guard", 2),
    ("skep-store", 3),
    ("skep-model", 3),
    ("skep-tools", 3),
    ("skep-mcp", 3),
    ("skep-discord", 3),
    ("skep-relay", 4),
    ("skep-engine", 4),
    ("skep-outbox", 4),
    ("skep-plugin", 4),
    ("skep-turn", 5),
    ("skep-runtime", 6),
    ("skep-server", 7),
    ("skep-cli", 8),
    ("skep", 9),
    ("skep-bench", 10),
];

/// Commands reach a hive through its doors and never go around them.
const DOORS_ONLY: &str = "skep-cli";

/// What stands behind the doors.
const BEHIND_DOORS: [&str; 8] = [
    "skep-db",
    "skep-store",
    "skep-tools",
    "skep-engine",
    "skep-outbox",
    "skep-turn",
    "skep-runtime",
    "skep-server",
];

/// Not part of the product: they stand beside the layers and only tests may use them.
const TESTKIT: [&str; 2] = ["skep-testkit", "skep-testkit-shim"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let is_product = manifest.path.starts_with("crates/");
        if is_product && layer(&manifest.name).is_none() && !is_testkit(&manifest.name) {
            findings.push(Finding {
                path: manifest.path.clone(),
                line: 1,
                rule: RULE,
                text: format!(
                    "crate {} has no layer: give it one in xtask/src/rules/layers.rs and \
                     ARCHITECTURE.md",
                    manifest.name
                ),
            });
        }
        for dependency in &manifest.dependencies {
            findings.extend(judge(manifest, dependency));
        }
    }
    findings
}

fn judge(manifest: &Manifest, dependency: &Dependency) -> Option<Finding> {
    let (from, to) = (&manifest.name, &dependency.name);
    let complain = |text: String| {
        Some(Finding { path: manifest.path.clone(), line: dependency.line, rule: RULE, text })
    };
    if is_testkit(to) {
        if dependency.is_dev || is_testkit(from) || from == "skep-bench" {
            return None;
        }
        return complain(format!("{from} ships {to}: move it to [dev-dependencies]"));
    }
    if from == DOORS_ONLY && BEHIND_DOORS.contains(&to.as_str()) {
        return complain(format!(
            "{from} depends on {to}: commands reach a hive through its doors; what needs {to} \
             belongs to skep, which hands it in"
        ));
    }
    let target = layer(to)?;
    match layer(from) {
        Some(own) if own > target => None,
        Some(own) => complain(format!(
            "{from} (layer {own}) depends on {to} (layer {target}): move what it needs to a lower \
             layer, or turn the call around"
        )),
        // The testkit may know the vocabulary and nothing else of what it tests.
        None if is_testkit(from) && to == "skep-core" => None,
        None => complain(format!(
            "{from} depends on {to}: it stands beside the layers and must not know the product"
        )),
    }
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn is_testkit(name: &str) -> bool {
    TESTKIT.contains(&name)
}
