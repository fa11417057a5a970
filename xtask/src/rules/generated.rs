//! The page's types are generated from the OpenAPI document. A test of skep-server compares them
//! with the document; here the checksum in their header tells a change by hand before any build.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "generated";
pub const FILE: &str = "web/src/api/types.ts";
const HEADER_LINES: usize = 2;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let differs = |text: &str| {
        let end =
            text.match_indices('\n').nth(HEADER_LINES - 1).map_or(text.len(), |(at, _)| at + 1);
        let (header, body) = text.split_at(end);
        !header.contains(&format!("checksum {:016x}", checksum(body)))
    };
    let file = tree.sources.iter().filter(|source| source.path == FILE && differs(&source.text));
    file.map(|source| Finding {
        path: source.path.clone(),
        line: 1,
        rule: RULE,
        text: "differs from what was generated: describe the shape in Rust, then run \
               `SKEP_WRITE_TYPES=1 cargo test --workspace --lib page_types`"
            .to_owned(),
    })
    .collect()
}

/// FNV-1a, as `page_types_tests.rs` of skep-server computes it.
pub fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
