//! What people read: phrases that the wording of the product has done away with, in strings and
//! doc comments of Rust (help texts and API descriptions are made from them), in the page and in
//! the docs. Ordinary comments are for us alone.

use crate::finding::Finding;
use crate::source::{Kind, SourceFile};
use crate::tree::Tree;

const RULE: &str = "wording";
const PHRASES: &str = include_str!("wording.txt");

/// A piece of text that a person may read, and the line it begins on.
struct Prose {
    line: usize,
    text: String,
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let phrases: Vec<(&str, &str)> = PHRASES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" => "))
        .collect();
    let mut findings = Vec::new();
    for source in &tree.sources {
        if source.is_test || source.path.starts_with("xtask/") {
            continue;
        }
        for prose in read_by_people(source) {
            find(&source.path, &prose, &phrases, &mut findings);
        }
    }
    for (path, text) in &tree.documents {
        let prose = Prose { line: 1, text: text.clone() };
        find(path, &prose, &phrases, &mut findings);
    }
    findings
}

fn find(path: &str, prose: &Prose, phrases: &[(&str, &str)], findings: &mut Vec<Finding>) {
    let (flat, lines) = flattened(prose);
    for (phrase, instead) in phrases {
        for (at, _) in flat.match_indices(&phrase.to_lowercase()) {
            findings.push(Finding {
                path: path.to_owned(),
                line: lines.get(at).copied().unwrap_or(prose.line),
                rule: RULE,
                text: format!("`{phrase}`: write for instance `{instead}`"),
            });
        }
    }
}

/// Lower case with single blanks, and the line of every byte.
fn flattened(prose: &Prose) -> (String, Vec<usize>) {
    let (mut flat, mut lines, mut line) = (String::new(), Vec::new(), prose.line);
    for letter in prose.text.chars() {
        line += usize::from(letter == '\n');
        // A line that goes on after a backslash is one text.
        let blank = letter.is_whitespace() || letter == '\\';
        match blank {
            true if flat.ends_with(' ') => {}
            true => flat.push(' '),
            false => flat.extend(letter.to_lowercase()),
        }
        lines.resize(flat.len(), line);
    }
    (flat, lines)
}

fn read_by_people(source: &SourceFile) -> Vec<Prose> {
    if source.is_rust() {
        let strings = source.product_tokens().filter(|(_, token)| token.kind == Kind::Text);
        let strings =
            strings.map(|(_, token)| Prose { line: token.line, text: token.text.clone() });
        return strings.chain(doc_comments(&source.text)).collect();
    }
    let is_page = source.path.starts_with("web/src/") && !source.path.contains(".test.");
    let text = (is_page && !source.path.ends_with(".css")).then(|| uncommented(&source.text));
    text.map(|text| Prose { line: 1, text }).into_iter().collect()
}

/// Lines of `///` that follow each other are one text.
fn doc_comments(text: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let Some(words) = line.trim_start().strip_prefix("///") else {
            goes_on = false;
            continue;
        };
        match found.last_mut().filter(|_| goes_on) {
            Some(prose) => prose.text.push_str(&format!("\n{words}")),
            None => found.push(Prose { line: index + 1, text: words.to_owned() }),
        }
        goes_on = true;
    }
    found
}

/// TypeScript with every comment blank. `//` inside of a string is an address, not a comment.
fn uncommented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut quote = None;
    while let Some(letter) = rest.chars().next() {
        let comment = match quote {
            None if rest.starts_with("//") && !out.ends_with(':') => rest.find('\n'),
            None if rest.starts_with("/*") => rest.find("*/").map(|at| at + 2),
            _ => Some(0),
        };
        let length = comment.unwrap_or(rest.len());
        if length > 0 {
            out.extend(rest[..length].chars().filter(|letter| *letter == '\n'));
            rest = &rest[length..];
            continue;
        }
        match quote {
            // An apostrophe in text between tags ends with its line.
            Some(open) if letter == open || (letter == '\n' && open != '`') => quote = None,
            None if matches!(letter, '"' | '\'' | '`') => quote = Some(letter),
            _ => {}
        }
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    out
}
