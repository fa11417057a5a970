//! Generates `web/src/api/types.ts` from the OpenAPI document and fails when the file differs.
//! `SKEP_WRITE_TYPES=1 cargo test --workspace --lib page_types` writes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{document, routes};

const FILE: &str = "../../web/src/api/types.ts";

#[test]
fn page_types_are_those_of_the_document() {
    let (_, document, _) = routes().split();
    let made = module(document::to_json(&document)["components"]["schemas"].as_object().unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("SKEP_WRITE_TYPES").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    if let Some(difference) = difference(&written, &made) {
        panic!(
            "{difference}; write it: SKEP_WRITE_TYPES=1 cargo test --workspace --lib page_types"
        );
    }
}

/// The first line in which the file is not what was generated.
fn difference(written: &str, made: &str) -> Option<String> {
    let mut made = made.lines();
    for (index, line) in written.lines().enumerate() {
        let expected = made.next().unwrap_or("the end of the file");
        if line != expected {
            return Some(format!("types.ts:{}: `{line}` instead of `{expected}`", index + 1));
        }
    }
    made.next().map(|line| format!("types.ts ends before `{line}`"))
}

/// The whole file. `xtask tidy` verifies the checksum, so a change by hand is found without a
/// build.
fn module(schemas: &Map<String, Value>) -> String {
    let mut names: Vec<&String> = schemas.keys().collect();
    names.sort();
    let mut body = String::new();
    for name in names {
        let schema = &schemas[name];
        body.push('\n');
        describe(&mut body, schema, "");
        if is_interface(schema) {
            let _ = writeln!(body, "export interface {name} {}", typed(schema, ""));
        } else {
            let _ = writeln!(body, "export type {name} = {};", typed(schema, ""));
        }
    }
    // FNV-1a.
    let sum = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!(
        "// Generated from the OpenAPI document by page_types_tests.rs of skep-server.\n\
         // Do not edit; checksum {sum:016x}.\n{body}"
    )
}

fn is_interface(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("properties").is_some()
}

fn describe(out: &mut String, schema: &Value, indent: &str) {
    if let Some(text) = schema["description"].as_str() {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "{indent}/** {text} */");
    }
}

fn typed(schema: &Value, indent: &str) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return joined(choices, " | ", indent);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return joined(parts, " & ", indent);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(kinds) = schema["type"].as_array() {
        let one = |kind: &Value| {
            let mut schema = schema.clone();
            schema["type"] = kind.clone();
            schema
        };
        return joined(&kinds.iter().map(one).collect::<Vec<_>>(), " | ", indent);
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => "number".to_owned(),
        Some(word @ ("string" | "boolean" | "null")) => word.to_owned(),
        Some("array") => match schema["prefixItems"].as_array() {
            Some(items) => {
                let items = items.iter().map(|item| typed(item, indent));
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
            None => format!("{}[]", part(&schema["items"], indent)),
        },
        Some("object") if is_interface(schema) => object(schema, indent),
        Some("object") => "Record<string, unknown>".to_owned(),
        None => "unknown".to_owned(),
        Some(other) => panic!("no TypeScript type for {other}"),
    }
}

fn joined(schemas: &[Value], between: &str, indent: &str) -> String {
    schemas.iter().map(|schema| part(schema, indent)).collect::<Vec<_>>().join(between)
}

/// In parentheses where it is a union or an intersection itself.
fn part(schema: &Value, indent: &str) -> String {
    let is_choice = ["oneOf", "allOf", "enum"].iter().any(|word| schema.get(word).is_some());
    let text = typed(schema, indent);
    if (is_choice && text.contains(' ')) || schema["type"].is_array() {
        return format!("({text})");
    }
    text
}

fn object(schema: &Value, indent: &str) -> String {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let inner = format!("{indent}  ");
    let mut out = "{\n".to_owned();
    for (name, property) in schema["properties"].as_object().unwrap() {
        describe(&mut out, property, &inner);
        let mark = if required.contains(&json!(name)) { "" } else { "?" };
        let _ = writeln!(out, "{inner}{name}{mark}: {};", typed(property, &inner));
    }
    out + indent + "}"
}

#[test]
fn page_types_of_every_kind_of_schema() {
    let cases = [
        (json!({"type": "integer", "format": "int64"}), "number"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (json!({"$ref": "#/components/schemas/Block"}), "Block"),
        (json!({"type": "array", "items": {"$ref": "#/a/Block"}}), "Block[]"),
        (
            json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
            "(\"a\" | \"b\")[]",
        ),
        (
            json!({"type": ["array", "null"], "items": {"type": ["string", "null"]}}),
            "(string | null)[] | null",
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {}], "items": false}),
            "[number, unknown]",
        ),
        (json!({"oneOf": [{"$ref": "#/a/A"}, {"type": "null"}]}), "A | null"),
        (
            json!({"allOf": [{"$ref": "#/a/A"}, {"oneOf": [{"$ref": "#/B"}, {"$ref": "#/C"}]}]}),
            "A & (B | C)",
        ),
        (json!({"type": "object"}), "Record<string, unknown>"),
        (
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": "boolean", "description": "Why."}, "b": {"type": "string"},
            }}),
            "{\n  /** Why. */\n  a: boolean;\n  b?: string;\n}",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(typed(&schema, ""), expected, "{schema}");
    }
}

#[test]
fn page_types_that_differ_are_found() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    let changed = difference("a\nc\n", "a\nb\n").unwrap();
    assert_eq!(changed, "types.ts:2: `c` instead of `b`");
    assert_eq!(difference("a\n", "a\nb\n").unwrap(), "types.ts ends before `b`");
    assert!(difference("a\nb\nc\n", "a\nb\n").is_some());
}
