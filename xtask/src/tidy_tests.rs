//! Each rule is shown to fail on a tree that breaks it and to pass on one that comes close.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use crate::packages;
use crate::rules;
use crate::tree::Tree;

const CORE_MANIFEST: &str = "[package]\nname = \"skep-core\"\n";
const RUNTIME_MANIFEST: &str =
    "[package]\nname = \"skep-runtime\"\n\n[dependencies]\nskep-core.workspace = true\n";
const STORE_MANIFEST: &str =
    "[package]\nname = \"skep-store\"\n\n[dependencies]\nrusqlite = \"1\"\n";
const ARCHITECTURE: &str =
    "`skep-core` `skep-store` `skep-runtime` `skep-cli` `skep-testkit` `skep-odd`";
const CORE: &str = "crates/skep-core/src/lib.rs";
const RUNTIME: &str = "crates/skep-runtime/src/lib.rs";
const STORE: &str = "crates/skep-store/src/lib.rs";

/// The findings of a small clean repository with `files` laid over it.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    rules::check(&tree(files)).iter().map(ToString::to_string).collect()
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("ARCHITECTURE.md", ARCHITECTURE),
        ("crates/skep-core/Cargo.toml", CORE_MANIFEST),
        ("crates/skep-runtime/Cargo.toml", RUNTIME_MANIFEST),
        ("crates/skep-store/Cargo.toml", STORE_MANIFEST),
        (CORE, "//! Words.\n"),
        (RUNTIME, "//! Turns.\n"),
        (STORE, "//! Rows.\nmod dialect;\n"),
        ("crates/skep-store/src/dialect.rs", "pub const BEGIN: &str = \"BEGIN IMMEDIATE\";\n"),
    ];
    for (path, text) in base.iter().chain(files) {
        write(folder.path(), path, text);
    }
    Tree::read(folder.path()).unwrap()
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// One finding for each expected beginning, in order, and nothing else.
#[track_caller]
fn assert_found(files: &[(&str, &str)], expected: &[&str]) {
    assert_starts(&findings(files), expected);
}

#[track_caller]
fn assert_starts(found: &[String], expected: &[&str]) {
    let matches = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, start)| found.starts_with(start));
    assert!(matches, "expected {expected:#?}\nfound {found:#?}");
}

#[track_caller]
fn assert_clean(files: &[(&str, &str)]) {
    assert_found(files, &[]);
}

#[test]
fn the_base_tree_is_clean() {
    assert_clean(&[]);
}

#[test]
fn layers() {
    let upward = format!("{CORE_MANIFEST}\n[dependencies]\nskep-runtime = {{ path = \"x\" }}\n");
    assert_found(
        &[("crates/skep-core/Cargo.toml", &upward)],
        &["crates/skep-core/Cargo.toml:5: layers: skep-core (layer 1) depends on skep-runtime"],
    );
    let sideways = format!("{CORE_MANIFEST}\n[dependencies.skep-core]\npath = \"x\"\n");
    assert_found(
        &[("crates/skep-core/Cargo.toml", &sideways)],
        &["crates/skep-core/Cargo.toml:4: layers: skep-core (layer 1) depends on skep-core"],
    );
    let renamed =
        format!("{CORE_MANIFEST}\n[dependencies]\nrows = {{ package = \"skep-store\" }}\n");
    assert_found(
        &[("crates/skep-core/Cargo.toml", &renamed)],
        &["crates/skep-core/Cargo.toml:5: layers: skep-core (layer 1) depends on skep-store"],
    );
    let around = "[package]\nname = \"skep-cli\"\n[dependencies]\nskep-store.workspace = true\n";
    assert_found(
        &[("crates/skep-cli/Cargo.toml", around)],
        &["crates/skep-cli/Cargo.toml:4: layers: skep-cli depends on skep-store: commands reach"],
    );
    let shipped = format!("{RUNTIME_MANIFEST}skep-testkit.workspace = true\n");
    assert_found(
        &[("crates/skep-runtime/Cargo.toml", &shipped)],
        &["crates/skep-runtime/Cargo.toml:6: layers: skep-runtime ships skep-testkit"],
    );
    assert_found(
        &[("crates/skep-odd/Cargo.toml", "[package]\nname = \"skep-odd\"\n")],
        &["crates/skep-odd/Cargo.toml:1: layers: crate skep-odd has no layer"],
    );
    assert_found(
        &[(
            "crates/skep-testkit/Cargo.toml",
            "[package]\nname = \"skep-testkit\"\n[dependencies]\nskep-store = \"1\"\n",
        )],
        &["crates/skep-testkit/Cargo.toml:4: layers: skep-testkit depends on skep-store"],
    );
    let dev = format!("{RUNTIME_MANIFEST}\n[dev-dependencies]\nskep-testkit.workspace = true\n");
    assert_clean(&[("crates/skep-runtime/Cargo.toml", &dev)]);
}

#[test]
fn file_size() {
    assert_found(
        &[(CORE, &"// why\n".repeat(601))],
        &["crates/skep-core/src/lib.rs:1: size: file of 601 lines"],
    );
    assert_found(
        &[("web/src/page.ts", &"// why\n".repeat(601))],
        &["web/src/page.ts:1: size: file of 601 lines"],
    );
    assert_clean(&[(CORE, &"// why\n".repeat(600))]);
}

#[test]
fn function_size() {
    let function = |body: usize| {
        let lines = "    // \"{\" '{' why\n".repeat(body);
        format!("trait T {{ fn t(&self); }}\nfn long<A>() where A: Copy, A: Clone {{\n{lines}}}\n")
    };
    assert_found(
        &[(CORE, &function(99))],
        &["crates/skep-core/src/lib.rs:2: size: fn long has 101 lines"],
    );
    assert_clean(&[(CORE, &function(98))]);
}

#[test]
fn line_size() {
    assert_found(
        &[(CORE, &format!("// {}\n", "é".repeat(98)))],
        &["crates/skep-core/src/lib.rs:1: size: line of 101 characters"],
    );
    assert_clean(&[(CORE, &format!("// {}\n", "é".repeat(97)))]);
}

#[test]
fn panics() {
    let bad = [
        "fn a() { x.unwrap(); }",
        "fn b() { x\n    .expect(\"y\"); }",
        "#[cfg(not(test))]\nfn c() { panic!(\"y\"); }",
        "fn d() { todo!() }",
        "fn e() { dbg!(1); unimplemented!() }",
        "#[cfg(test)]\nfn f() {}\nfn g() { x.unwrap_err(); }",
    ];
    assert_found(
        &[(CORE, &bad.join("\n"))],
        &[
            "crates/skep-core/src/lib.rs:1: panics: `.unwrap()`",
            "crates/skep-core/src/lib.rs:3: panics: `.expect(`",
            "crates/skep-core/src/lib.rs:5: panics: `panic!`",
            "crates/skep-core/src/lib.rs:6: panics: `todo!`",
            "crates/skep-core/src/lib.rs:7: panics: `dbg!`",
            "crates/skep-core/src/lib.rs:7: panics: `unimplemented!`",
            "crates/skep-core/src/lib.rs:10: panics: `.unwrap_err()`",
        ],
    );
    let good = [
        "/// `x.unwrap()` in words; /* \" */",
        "fn a<'a>(x: &'a str) -> char { x.unwrap_or_default(); '\"' }",
        "const B: &str = \"panic!\"; const C: &str = r#\"x\".unwrap()\"#;",
        "/* todo!() /* */ dbg!() */",
        "#[cfg(test)]\nuse a::{b, c};",
        "#[cfg(test)]\n#[allow(dead_code)]\nmod tests { fn d() { x.unwrap(); { panic!() } } }",
        "#[tokio::test(flavor = \"multi_thread\")]\nasync fn e() { x.expect(\"y\"); }",
        "#[cfg(test)]\nmod rows;",
    ];
    let test = "fn f() { x.unwrap(); }\n";
    assert_clean(&[
        (CORE, &good.join("\n")),
        // A test file because of the line that includes it.
        ("crates/skep-core/src/rows.rs", test),
        ("crates/skep-core/tests/it/main.rs", test),
        ("crates/skep-core/examples/show.rs", test),
        ("crates/skep-testkit/Cargo.toml", "[package]\nname = \"skep-testkit\"\n"),
        ("crates/skep-testkit/src/lib.rs", test),
        (RUNTIME, "#[cfg(test)]\nmod lane_tests;\n"),
        ("crates/skep-runtime/src/lane_tests.rs", test),
    ]);
}

#[test]
fn sql() {
    let statement = "const A: &str = \"\\\n    SELECT id FROM items\";\n";
    assert_found(
        &[(RUNTIME, statement)],
        &["crates/skep-runtime/src/lib.rs:1: sql: `SELECT` outside skep-store"],
    );
    assert_found(
        &[(RUNTIME, "use rusqlite::Row;\n")],
        &["crates/skep-runtime/src/lib.rs:1: sql: rusqlite outside skep-store"],
    );
    assert_found(
        &[("crates/skep-runtime/Cargo.toml", &format!("{RUNTIME_MANIFEST}rusqlite = \"1\"\n"))],
        &["crates/skep-runtime/Cargo.toml:6: sql: rusqlite outside skep-store"],
    );
    assert_found(
        &[(STORE, "mod dialect;\nconst A: &str = \"SELECT 1 FOR UPDATE\";\n")],
        &["crates/skep-store/src/lib.rs:2: sql: dialect word `FOR UPDATE`"],
    );
    assert_found(
        &[(STORE, "mod dialect;\nconst A: &str = \"SELECT pg_sleep(1)\";\n")],
        &["crates/skep-store/src/lib.rs:2: sql: dialect word `pg_`"],
    );
    assert_clean(&[
        (STORE, "mod dialect;\n// PRAGMA\nconst A: &str = \"SELECT apg_x FROM PRAGMATIC\";\n"),
        (RUNTIME, "const A: &str = \"Select a row; UPDATED\";\n"),
        ("crates/skep-store/src/dialect.rs", "pub const A: &str = \"PRAGMA x\";\n"),
    ]);
    let db = ("crates/skep-db/Cargo.toml", "[package]\nname = \"skep-db\"\n");
    let (lib, words) = ("crates/skep-db/src/lib.rs", "pub const A: &str = \"PRAGMA x\";\n");
    let named = ("ARCHITECTURE.md", &*format!("{ARCHITECTURE} `skep-db`"));
    let top = ("crates/skep-db/src/engine/mod.rs", "pub mod dialect;\n");
    let dialect = ("crates/skep-db/src/engine/dialect.rs", words);
    assert_clean(&[db, named, (lib, "pub mod engine;\n"), top, dialect]);
    assert_found(
        &[db, named, (lib, words)],
        &["crates/skep-db/src/lib.rs:1: sql: dialect word `PRAGMA`: move it to crates/skep-db/"],
    );
}

#[test]
fn funnel() {
    let bad = [
        "fn a() { std::process::Command::new(\"x\"); }",
        "fn b() { tokio::net::TcpStream::connect(1); UnixStream::connect(1); }",
        "fn c() { reqwest::Client::builder(); }",
        "fn d() { SystemTime::now(); Utc::now(); Uuid::now_v7(); }",
        "fn e() { std::env::var(\"X\"); env::vars(); }",
    ];
    assert_found(
        &[(RUNTIME, &bad.join("\n"))],
        &[
            "crates/skep-runtime/src/lib.rs:1: funnel: `Command::new` starts a process",
            "crates/skep-runtime/src/lib.rs:2: funnel: `TcpStream::connect` dials",
            "crates/skep-runtime/src/lib.rs:2: funnel: `UnixStream::connect` dials",
            "crates/skep-runtime/src/lib.rs:3: funnel: `Client::builder` dials",
            "crates/skep-runtime/src/lib.rs:4: funnel: `SystemTime::now` reads the wall clock",
            "crates/skep-runtime/src/lib.rs:4: funnel: `Utc::now` reads the wall clock",
            "crates/skep-runtime/src/lib.rs:4: funnel: `now_v7` reads the wall clock",
            "crates/skep-runtime/src/lib.rs:5: funnel: `env::var` reads or changes",
            "crates/skep-runtime/src/lib.rs:5: funnel: `env::vars` reads or changes",
        ],
    );
    let all = bad.join("\n");
    assert_clean(&[
        (RUNTIME, "fn a() { Instant::now(); env!(\"X\"); std::env::args(); }\n"),
        ("crates/skep-runtime/build.rs", &all),
        ("crates/skep-runtime/examples/rig.rs", &all),
        ("crates/skep-runtime/tests/it/main.rs", &all),
        ("ARCHITECTURE.md", &format!("{ARCHITECTURE} `skep-guard`")),
        ("crates/skep-guard/Cargo.toml", "[package]\nname = \"skep-guard\"\n"),
        ("crates/skep-guard/src/lib.rs", &all),
    ]);
}

#[test]
fn names() {
    assert_found(
        &[(CORE, "mod utils;\n"), ("crates/skep-core/src/utils.rs", "")],
        &[
            "crates/skep-core/src/lib.rs:1: names: module `utils`",
            "crates/skep-core/src/utils.rs:1: names: module `utils`",
        ],
    );
    assert_found(
        &[
            ("crates/skep-core/tests/it/main.rs", "mod journeys { mod common {} }\n"),
            (CORE, "mod manager { }\n"),
        ],
        &[
            "crates/skep-core/src/lib.rs:1: names: module `manager`",
            "crates/skep-core/tests/it/main.rs:1: names: module `common`",
        ],
    );
    assert_clean(&[(CORE, "mod miscellany { fn common() {} }\n")]);
}

#[test]
fn ignored() {
    assert_found(
        &[(
            CORE,
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[cfg_attr(all(), ignore)]\nfn b() {}\n",
        )],
        &["crates/skep-core/src/lib.rs:2: ignored", "crates/skep-core/src/lib.rs:4: ignored"],
    );
    assert_clean(&[(CORE, "// #[ignore]\nfn ignore(x: [u8; 2]) { ignore(x) }\n")]);
}

#[test]
fn compiled() {
    assert_found(
        &[
            ("crates/skep-core/src/lost.rs", ""),
            ("crates/skep-core/tests/it/main.rs", "mod found;\n"),
            ("crates/skep-core/tests/it/found.rs", ""),
            ("crates/skep-core/tests/it/lost.rs", ""),
        ],
        &[
            "crates/skep-core/src/lost.rs:1: compiled: not compiled in: add `mod lost;` where",
            "crates/skep-core/tests/it/lost.rs:1: compiled: not compiled in: add `mod lost;` to",
        ],
    );
    assert_clean(&[
        (CORE, "mod a { mod b; }\nmod c;\n#[path = \"../odd/d.rs\"]\nmod d;\n"),
        ("crates/skep-core/src/a/b.rs", ""),
        ("crates/skep-core/src/c.rs", "pub(crate) mod e;\n"),
        ("crates/skep-core/src/c/e/mod.rs", "mod f;\n"),
        ("crates/skep-core/src/c/e/f.rs", "include!(\"g.rs\");\n"),
        ("crates/skep-core/src/c/e/g.rs", ""),
        ("crates/skep-core/odd/d.rs", ""),
        ("crates/skep-core/src/bin/h.rs", "mod i;\n"),
        ("crates/skep-core/src/bin/i.rs", ""),
        ("crates/skep-core/examples/j/main.rs", ""),
    ]);
}

#[test]
fn prompts() {
    let literal = |length: usize| {
        let prose = "You are a\n".repeat(length / 10);
        format!("const A: &str = \"{prose}\";\n")
    };
    assert_found(
        &[(RUNTIME, &literal(410))],
        &["crates/skep-runtime/src/lib.rs:1: prompts: string of 410 characters"],
    );
    assert_clean(&[(RUNTIME, &literal(400)), (CORE, &literal(1000))]);
}

#[test]
fn architecture() {
    assert_found(
        &[("ARCHITECTURE.md", "`skep-store` `skep-runtime` skep-core")],
        &["ARCHITECTURE.md:1: architecture: crate skep-core is not named"],
    );
    assert_clean(&[("ARCHITECTURE.md", "`skep-store` `skep-runtime` `skep-core`")]);
}

/// Files of skep-core by their path in its `src/`.
fn core(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let path = |name: &str| format!("crates/skep-core/src/{name}");
    files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect()
}

fn as_pairs(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
}

#[track_caller]
fn assert_found_in_core(files: &[(&str, &str)], expected: &[&str]) {
    assert_found(&as_pairs(&core(files)), expected);
}

#[test]
fn folder_circle() {
    // Each way of writing an import closes the circle: a `use`, a path in an expression, what
    // another file passes on, a module that a `use` has renamed, a file in front of its folder.
    let ways = [
        ("use crate::gate::Verdict;\n", ""),
        ("use {crate::{gate::{self, bound::*}, A}};\n", ""),
        ("fn a() -> u8 { crate::gate::bound::b() }\n", ""),
        ("fn a(b: super::gate::Verdict) {}\n", ""),
        ("use crate::Verdict;\n", ""),
        ("use crate as top;\nfn a() { top::gate::b(); }\n", ""),
        ("mod a { fn b() { super::super::gate::c(); } }\n", ""),
        ("pub use crate::gate::Verdict;\nfn a(b: Verdict) {}\n", ""),
        ("", "use super::super::gate;\n"),
    ];
    for (front, inner) in ways {
        assert_found_in_core(
            &[
                ("lib.rs", "mod gate;\nmod lane;\npub use gate::Verdict;\n"),
                ("gate.rs", "mod bound;\npub use bound::Verdict;\n"),
                ("gate/bound.rs", "use crate::lane::Lane;\npub struct Verdict;\n"),
                ("lane/mod.rs", &format!("mod open;\n{front}")),
                ("lane/open.rs", inner),
            ],
            &["crates/skep-core/src:1: folders: import circle of gate/ lane/: decide which is"],
        );
    }
    // A file beside a folder is a node of its own; so is a folder in a folder.
    assert_found_in_core(
        &[
            ("lib.rs", "mod gate;\n"),
            ("gate.rs", "mod chain;\nmod bound;\n"),
            ("gate/chain.rs", "use super::bound::inner::A;\npub fn chain() {}\n"),
            ("gate/bound/mod.rs", "pub mod inner;\n"),
            ("gate/bound/inner.rs", "pub fn a() { crate::gate::chain::chain(); }\n"),
        ],
        &["crates/skep-core/src/gate:1: folders: import circle of bound/ chain.rs: decide which \
             is the lower one; crates/skep-core/src/gate/bound/inner.rs:1 imports \
             crates/skep-core/src/gate/chain.rs, crates/skep-core/src/gate/chain.rs:1 imports \
             crates/skep-core/src/gate/bound/inner.rs"],
    );
    let clean = [
        ("lib.rs", "mod gate;\nmod lane;\npub use gate::Verdict;\n"),
        ("gate.rs", "mod bound;\npub use crate::lane::Lane;\npub struct Verdict;\n"),
        ("gate/bound.rs", "use super::Verdict;\nuse crate::lane;\n"),
        (
            "lane/mod.rs",
            "//! crate::gate\nuse std::gate::Verdict;\npub struct Lane;\n\
             fn a() { x.gate::<u8>() }\n\
             #[cfg(test)]\nuse crate::gate::Verdict;\n#[cfg(test)]\nmod lane_tests;\n",
        ),
        ("lane/lane_tests.rs", "use crate::gate::Verdict;\n"),
    ];
    assert_found_in_core(&clean, &[]);
}

#[test]
fn file_circle() {
    let ring = |length: usize| {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut files = vec![("lib.rs".to_owned(), String::new())];
        for (index, name) in names[..length].iter().enumerate() {
            files[0].1 += &format!("mod {name};\n");
            let next = names[(index + 1) % length];
            files.push((format!("{name}.rs"), format!("use super::{next}::of_{next};\n")));
        }
        files
    };
    let seven = ring(7);
    assert_found_in_core(
        &as_pairs(&seven),
        &["crates/skep-core/src/a.rs:1: circles: circle of 7 files, at most 6"],
    );
    assert_found_in_core(&as_pairs(&ring(6)), &[]);
}

#[test]
fn crate_size() {
    // A root that names twenty files, and so many lines in these that the sum is `sum`.
    let lines = |sum: usize| {
        let mut root: String = (0..20).map(|part| format!("mod p{part};\n")).collect();
        root += "#[cfg(test)]\nmod tests {\n\n\n}\n";
        let mut left = sum - 20;
        let mut files = vec![("lib.rs".to_owned(), root)];
        for part in 0..20 {
            let here = left.min(600);
            left -= here;
            files.push((format!("p{part}.rs"), "// why\n".repeat(here)));
        }
        files
    };
    assert_found_in_core(
        &as_pairs(&lines(12_001)),
        &["crates/skep-core/Cargo.toml:1: crate: 12001 lines without tests, at most 12000"],
    );
    assert_found_in_core(&as_pairs(&lines(12_000)), &[]);
}

#[test]
fn folder_size() {
    let folder = |count: usize| {
        let name = |part: usize| format!("p{part}");
        let root: String = (0..count).map(|part| format!("mod {};\n", name(part))).collect();
        let root = ("wide/mod.rs".to_owned(), root + "#[cfg(test)]\nmod wide_tests;\n");
        let front = ("lib.rs".to_owned(), "mod wide;\n".to_owned());
        let tests = ("wide/wide_tests.rs".to_owned(), String::new());
        let files = (0..count).map(|part| (format!("wide/{}.rs", name(part)), String::new()));
        files.chain([root, front, tests]).collect::<Vec<_>>()
    };
    assert_found_in_core(
        &as_pairs(&folder(25)),
        &["crates/skep-core/src/wide:1: folder: 26 source files, at most 25"],
    );
    assert_found_in_core(&as_pairs(&folder(24)), &[]);
}

#[test]
fn types() {
    assert_found(
        &[(CORE, "pub struct Call;\n"), (RUNTIME, "pub(crate) enum Call {}\n")],
        &[
            "crates/skep-core/src/lib.rs:1: types: type Call is defined 1 times elsewhere",
            "crates/skep-runtime/src/lib.rs:1: types: type Call is defined 1 times elsewhere",
        ],
    );
    // Sibling files say less than sibling folders with the same files inside.
    assert_found_in_core(
        &[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "pub type Call = u8;\n"),
            ("b.rs", "pub trait Call {}\n"),
        ],
        &["crates/skep-core/src/a.rs:1: types: type Call", "crates/skep-core/src/b.rs:1: types"],
    );
    assert_found_in_core(
        &[
            ("lib.rs", "mod a;\nmod b;\nstruct Wire;\n#[cfg(test)]\npub struct Call;\n"),
            ("a/mod.rs", "mod decode;\nstruct Wire;\n"),
            ("a/decode.rs", "pub struct Call;\nimpl A for Call { type Out = u8; }\n"),
            ("b/mod.rs", "mod decode;\npub struct Wire;\n"),
            ("b/decode.rs", "pub struct Call;\nimpl A for Call { type Out = u8; }\n"),
        ],
        &[],
    );
}

#[test]
fn every_type_defined_twice_is_named() {
    let four =
        [(CORE, "pub struct A;\npub struct B;\n"), (RUNTIME, "pub enum A {}\npub enum B {}\n")];
    assert_eq!(findings(&four).len(), 4);
    let made = "macro_rules! make { ($name:ident) => { pub struct $name; }; }\n";
    assert_found(&[(CORE, made), (RUNTIME, made)], &[]);
}

#[test]
fn wording() {
    let said =
        "/// Keep a call\n/// from running.\nconst A: &str =\n  \"what the \\\n  hive notes\";\n";
    assert_found(
        &[(CORE, said)],
        &[
            "crates/skep-core/src/lib.rs:1: wording: `Keep a call from running`: write for",
            "crates/skep-core/src/lib.rs:4: wording: `What the hive notes`",
        ],
    );
    let ours = "// Keep a call from running.\n#[cfg(test)]\nconst A: &str = \"Older talks\";\n";
    assert_clean(&[(CORE, ours), ("CHANGELOG.md", "Talk decides nothing.")]);
    let page =
        "// Older talks\nconst url = \"http://a\";\n/* Older talks */ <b>\n  Older\n talks</b>;\n";
    assert_found(&[("web/src/a.tsx", page)], &["web/src/a.tsx:4: wording: `Older talks`"]);
    let doc = "# Chat\n\nIn a chat, talk\ndecides nothing.\n";
    for path in ["README.md", "docs/chat.md"] {
        assert_found(&[(path, doc)], &[&format!("{path}:3: wording: `Talk decides nothing`")]);
    }
}

#[test]
fn generated() {
    let body = format!("export type A = string;\n// {}\n", "long ".repeat(30));
    let checksum = format!("{:016x}", rules::checksum(&body));
    let file = |body: &str| format!("// Generated.\n// checksum {checksum}.\n{body}");
    assert_clean(&[("web/src/api/types.ts", &file(&body))]);
    for changed in [body.replace("string", "number"), body + "export type B = A;\n"] {
        assert_found(
            &[("web/src/api/types.ts", &file(&changed))],
            &["web/src/api/types.ts:1: generated: differs from what was generated"],
        );
    }
    assert_found(&[("web/src/api/types.ts", "")], &["web/src/api/types.ts:1: generated: differs"]);
}

#[test]
fn supply() {
    let found = |listing: &str| -> Vec<String> {
        let mut tree = tree(&[]);
        tree.packages = packages::parse(listing);
        let supply = |text: &String| text.starts_with("Cargo.lock:1: supply: ");
        let all = rules::check(&tree);
        // Entries for versions that this small listing has but once are no part of the case.
        let stale = |text: &String| text.contains("has one version now");
        all.iter().map(ToString::to_string).filter(supply).filter(|text| !stale(text)).collect()
    };
    let cases = [
        ("a v1.0.0;GPL-3.0", "a 1.0.0 has the licence `GPL-3.0`"),
        ("a v1.0.0;", "a 1.0.0 has the licence ``"),
        ("a v1.0.0;MIT AND (GPL-3.0 OR AGPL-3.0)", "a 1.0.0 has the licence"),
        ("a v1.0.0;Apache-2.0 WITH Classpath-exception", "a 1.0.0 has the licence"),
        ("a v1.0.0;MIT GPL-3.0", "a 1.0.0 has the licence"),
        ("openssl-sys v0.9.1;MIT", "openssl-sys is banned: use rustls"),
        ("a v1.0.0;MIT\na v2.1.0;MIT", "a is built in versions 1.0.0 and 2.1.0"),
    ];
    for (listing, expected) in cases {
        assert_starts(&found(listing), &[&format!("Cargo.lock:1: supply: {expected}")]);
    }
    let fine = "skep v0.1.0 (/repository/crates/skep);Proprietary\n\
        a v1.0.0 (proc-macro);MIT/Apache-2.0\n\na v1.0.0 (proc-macro);MIT/Apache-2.0 (*)\n\
        b v1.0.0;(GPL-2.0 OR MIT) AND Unicode-3.0\n\
        c v1.0.0;Apache-2.0 WITH LLVM-exception OR GPL-2.0 (*)\n";
    assert_starts(&found(fine), &[]);
    let alone = packages::parse("a v1.0.0;MIT");
    let mut tree = tree(&[]);
    tree.packages = alone;
    let stale = rules::check(&tree);
    assert!(stale.iter().all(|finding| finding.text.ends_with("remove its entry")), "{stale:?}");
    assert!(!stale.is_empty(), "an entry nobody needs is found");
}
