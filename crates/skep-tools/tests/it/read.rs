use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skep_core::file::{File, IMAGE_BYTES};
use skep_core::tool::{Manner, Tool, ToolAnswer};
use skep_tools::ReadTool;

use crate::lab::{OUTPUT_BYTES, context, reach, use_tool};

async fn read(workspace: &Path, arguments: Value) -> (String, bool) {
    let answer = use_tool("read", workspace, arguments).await;
    (answer.text, answer.is_error)
}

#[tokio::test]
async fn lines_are_numbered_and_can_be_chosen() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "one\r\ntwo\n\nfour").unwrap();
    let whole = read(home.path(), json!({"file_path": "a.txt"})).await;
    let expected = "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n";
    assert_eq!(whole, (expected.to_owned(), false));
    let part = read(home.path(), json!({"file_path": "a.txt", "offset": 2, "limit": 1})).await;
    let expected = "     2\ttwo\n[more lines follow: read again with offset 3]";
    assert_eq!(part, (expected.to_owned(), false));
    let tail = read(home.path(), json!({"file_path": "a.txt", "offset": 4, "limit": 9})).await;
    assert_eq!(tail, ("     4\tfour\n".to_owned(), false));
    let (text, is_error) = read(home.path(), json!({"file_path": "a.txt", "offset": 9})).await;
    assert_eq!(text, "past_end: a.txt has 4 lines; offset must not be larger");
    assert!(is_error);
}

#[tokio::test]
async fn a_long_file_is_read_whole_by_following_the_offsets() {
    let home = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..9000).map(|number| format!("line {number} ä")).collect();
    fs::write(home.path().join("long"), lines.join("\n")).unwrap();
    let mut offset = 1;
    let mut seen = Vec::new();
    loop {
        let (text, is_error) =
            read(home.path(), json!({"file_path": "long", "offset": offset})).await;
        assert!(!is_error && text.len() <= OUTPUT_BYTES, "{}", text.len());
        let next = text.lines().last().unwrap().strip_prefix("[more lines follow");
        seen.extend(text.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())));
        let Some(next) = next else { break };
        offset = next.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
    }
    assert!(offset > 1);
    assert_eq!(seen, lines);
}

#[tokio::test]
async fn one_endless_line_is_cut_and_the_next_can_still_be_read() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("min.js"), format!("{}\nend", "ä".repeat(300_000))).unwrap();
    let (text, _) = read(home.path(), json!({"file_path": "min.js"})).await;
    assert!(text.len() <= OUTPUT_BYTES);
    assert!(text.contains(" [cut: the line has 600000 bytes]\n"), "{}", &text[text.len() - 99..]);
    let (text, _) = read(home.path(), json!({"file_path": "min.js", "offset": 2})).await;
    assert_eq!(text, "     2\tend\n");
}

#[tokio::test]
async fn what_is_not_text_is_named() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("b"), b"ELF\0\0").unwrap();
    fs::write(home.path().join("e"), b"").unwrap();
    let table = [
        ("b", "not_text: b is binary data (5 bytes); read shows text and pictures only", true),
        ("e", "[the file is empty]", false),
        (".", "is_directory: . is a folder, not a file", true),
        ("none", "not_found: there is no none in the workspace", true),
        ("../x", "outside_workspace: ../x is not inside the workspace; use a path below it", true),
    ];
    for (path, text, is_error) in table {
        let answer = read(home.path(), json!({"file_path": path})).await;
        assert_eq!(answer, (text.to_owned(), is_error));
    }
}

#[tokio::test]
async fn attack_a_picture_with_a_secret_in_its_data_is_not_shown() {
    let home = tempfile::tempdir().unwrap();
    skep_scrub::known().add([skep_scrub::Secret::new("vault.PICTURED", "P1cture-Canary-Q7x")]);
    let bytes = [b"\x89PNG\r\n\x1a\n\xff\0tEXtkey\0P1cture-Canary-Q7x\xfe", &[0; 64][..]].concat();
    fs::write(home.path().join("p.png"), bytes).unwrap();
    let (text, is_error) = read(home.path(), json!({"file_path": "p.png"})).await;
    assert!(is_error && text.starts_with("secret_in_file: p.png is a picture"), "{text}");
}

#[tokio::test]
async fn a_picture_is_answered_as_a_picture() {
    let home = tempfile::tempdir().unwrap();
    let bytes = b"\x89PNG\r\n\x1a\n....";
    fs::write(home.path().join("bee.txt"), bytes).unwrap();
    let run = ReadTool::new(OUTPUT_BYTES).prepare(json!({"file_path": "bee.txt"})).unwrap();
    let expected = ToolAnswer::Done {
        text: "[bee.txt: a picture, image/png, 12 bytes]".to_owned(),
        is_error: false,
        details: None,
        files: vec![File::new("bee.txt", "image/png", &bytes[..])],
    };
    assert_eq!(run(context(home.path())).await, expected);
    let large = [&bytes[..], &vec![0; IMAGE_BYTES]].concat();
    fs::write(home.path().join("large.png"), large).unwrap();
    let (text, is_error) = read(home.path(), json!({"file_path": "large.png"})).await;
    assert!(is_error && text.starts_with("too_large: large.png is a picture of more"), "{text}");
}

#[test]
fn wrong_arguments_say_what_was_expected() {
    let tool = ReadTool::new(OUTPUT_BYTES);
    assert_eq!((tool.spec().name.as_str(), tool.aliases()), ("read", ["Read"].as_slice()));
    assert_eq!(tool.manner(&json!({}), reach()), Manner::READ);
    let table = [
        (json!({}), "missing field `file_path`"),
        (json!({"file_path": 1}), "expected a string"),
        (json!({"file_path": "a", "path": "b"}), "unknown field `path`"),
        (json!({"file_path": "a", "offset": 0}), "counted from 1"),
        (json!({"file_path": "a", "limit": -1}), "expected u64"),
        (json!(["a"]), "expected"),
        (json!("a"), "expected"),
    ];
    for (arguments, expected) in table {
        match tool.prepare(arguments.clone()) {
            Ok(_) => panic!("{arguments} was accepted"),
            Err(text) => assert!(text.contains(expected), "{arguments}: {text}"),
        }
    }
}

const DIGITS: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

fn private_key() -> String {
    let body = format!("{DIGITS}\n").repeat(20);
    format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n")
}

/// Between its lines stand numbers, and each of them alone looks like nothing.
#[tokio::test]
async fn attack_a_secret_of_several_lines_is_not_read_whatever_the_offset() {
    let value = "first line of a value\nsecond line of it\nthird line";
    skep_scrub::known().add([skep_scrub::Secret::new("vault.LINES", value)]);
    let home = tempfile::tempdir().unwrap();
    let text = format!("begin\n{}between\n{value}\nend\n", private_key());
    fs::write(home.path().join("keys.txt"), &text).unwrap();
    let whole = read(home.path(), json!({"file_path": "keys.txt"})).await.0;
    let lines = text.lines().count() as u64;
    assert!(whole.starts_with("     1\tbegin\n     2\t[secret:format.private-key]\n"), "{whole}");
    assert!(whole.ends_with(&format!("{lines:>6}\tend\n")), "{whole}");
    for offset in 1..=lines {
        for limit in [1, 2, 99] {
            let part = json!({"file_path": "keys.txt", "offset": offset, "limit": limit});
            let (part, is_error) = read(home.path(), part).await;
            let shown = part.split("[more").next().unwrap();
            assert!(!is_error && whole.contains(shown), "{offset} {limit}: {part}");
        }
    }
    assert!(!whole.contains(DIGITS) && !whole.contains("line of it"), "{whole}");
}

/// Lines are cut where the answer is full: in the middle of what stands there.
#[tokio::test]
async fn attack_a_secret_where_a_line_is_cut_does_not_show_its_beginning() {
    let token = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4";
    let home = tempfile::tempdir().unwrap();
    for before in (OUTPUT_BYTES - 400)..(OUTPUT_BYTES - 250) {
        let line = format!("{} {token} {}", "x".repeat(before), "y".repeat(OUTPUT_BYTES));
        fs::write(home.path().join("min.js"), line).unwrap();
        let (text, _) = read(home.path(), json!({"file_path": "min.js"})).await;
        assert!(text.contains("[cut: "), "{}", &text[text.len() - 99..]);
        assert!(!text.contains("ghp_aB3d"), "{before}: {}", &text[text.len() - 99..]);
    }
}
