//! Files, functions and lines that fit into a head and onto a screen.

use super::generated;
use crate::finding::Finding;
use crate::source::SourceFile;
use crate::tree::Tree;

const RULE: &str = "size";
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 100;
const LINE_CHARACTERS: usize = 100;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let written = tree.sources.iter().filter(|source| source.path != generated::FILE);
    written.flat_map(check_source).collect()
}

fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut complain = |line: usize, text: String| {
        findings.push(Finding { path: source.path.clone(), line, rule: RULE, text });
    };
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        complain(
            1,
            format!(
                "file of {lines} lines, at most {FILE_LINES}: find the second noun inside and give \
                 it its own file"
            ),
        );
    }
    for function in source.functions() {
        if function.lines > FUNCTION_LINES {
            let (name, lines) = (function.name, function.lines);
            complain(
                function.line,
                format!("fn {name} has {lines} lines, at most {FUNCTION_LINES}: split it by steps"),
            );
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        let characters = line.chars().count();
        if characters > LINE_CHARACTERS {
            complain(
                index + 1,
                format!("line of {characters} characters, at most {LINE_CHARACTERS}: break it"),
            );
        }
    }
    findings
}
