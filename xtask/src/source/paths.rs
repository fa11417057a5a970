//! Paths as a file writes them: in `use` lines, in types and in expressions.

use super::items::InlineModules;
use super::lexer::{Kind, LexToken};

/// One path of two or more segments, or one leaf of a `use`.
#[derive(Debug)]
pub struct WrittenPath {
    pub segments: Vec<String>,
    pub line: usize,
    /// Inline modules around it, outermost first.
    pub inside: Vec<String>,
    pub import: Option<UseImport>,
}

/// What a leaf of a `use` brings into its module.
#[derive(Debug)]
pub struct UseImport {
    /// `*` for everything.
    pub name: String,
    /// `pub use` of any reach.
    pub is_public: bool,
}

/// Every path outside tests. Single names in expressions are left out: a `use` brought them.
pub fn paths(tokens: &[LexToken]) -> Vec<WrittenPath> {
    let mut found = Vec::new();
    let mut inline = InlineModules::default();
    let mut at = 0;
    while at < tokens.len() {
        inline.see(tokens, at);
        let start = at;
        at += 1;
        if tokens[start].is_test || tokens[start].kind != Kind::Word {
            continue;
        }
        if is_import(tokens, start) {
            let mut reader = UseReader {
                tokens,
                at: start + 1,
                is_public: is_public(tokens, start),
                inside: inline.names(),
                found: &mut found,
            };
            reader.tree(&mut Vec::new());
            at = reader.at;
        } else if !follows_a_path(tokens, start) {
            let mut segments = vec![tokens[start].text.clone()];
            while let Some(next) = next_segment(tokens, at) {
                segments.push(next.text.clone());
                at += 3;
            }
            if segments.len() > 1 {
                let (line, inside) = (tokens[start].line, inline.names());
                found.push(WrittenPath { segments, line, inside, import: None });
            }
        }
    }
    found
}

/// `use` as the start of an item, not of the bound `use<'a>`.
fn is_import(tokens: &[LexToken], at: usize) -> bool {
    tokens[at].text == "use" && tokens.get(at + 1).is_some_and(|next| next.text != "<")
}

/// Whether `pub` or `pub(…)` stands before the token.
pub fn is_public(tokens: &[LexToken], at: usize) -> bool {
    let mut before = tokens[..at].iter().rev();
    match before.next() {
        Some(token) if token.text == ")" => {
            before.find(|token| token.text == "(");
            before.next().is_some_and(|token| token.text == "pub")
        }
        Some(token) => token.text == "pub",
        None => false,
    }
}

fn follows_a_path(tokens: &[LexToken], at: usize) -> bool {
    let text = |back: usize| at.checked_sub(back).map_or("", |index| tokens[index].text.as_str());
    text(1) == "." || (text(1) == ":" && text(2) == ":")
}

/// The word after `::` at `at`.
fn next_segment(tokens: &[LexToken], at: usize) -> Option<&LexToken> {
    let [first, second, word] = tokens.get(at..at + 3)? else { return None };
    (first.text == ":" && second.text == ":" && word.kind == Kind::Word).then_some(word)
}

struct UseReader<'a> {
    tokens: &'a [LexToken],
    at: usize,
    is_public: bool,
    inside: Vec<String>,
    found: &'a mut Vec<WrittenPath>,
}

impl UseReader<'_> {
    /// Reads up to the `,`, `}` or `;` that ends this tree.
    fn tree(&mut self, prefix: &mut Vec<String>) {
        let depth = prefix.len();
        let mut name = None;
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        while let Some(token) = self.tokens.get(self.at) {
            match token.text.as_str() {
                "," | "}" | ";" => break,
                "{" => {
                    self.at += 1;
                    self.group(prefix);
                    prefix.truncate(depth);
                    return;
                }
                "as" => {
                    self.at += 1;
                    name = self.tokens.get(self.at).map(|token| token.text.clone());
                }
                "*" => name = Some("*".to_owned()),
                // `a::{self}` is `a`.
                "self" if !prefix.is_empty() => {}
                _ if token.kind == Kind::Word => prefix.push(token.text.clone()),
                _ => {}
            }
            self.at += 1;
        }
        if let Some(name) = name.or_else(|| prefix.last().cloned()) {
            self.found.push(WrittenPath {
                segments: prefix.clone(),
                line,
                inside: self.inside.clone(),
                import: Some(UseImport { name, is_public: self.is_public }),
            });
        }
        prefix.truncate(depth);
    }

    fn group(&mut self, prefix: &mut Vec<String>) {
        while let Some(token) = self.tokens.get(self.at) {
            match token.text.as_str() {
                "}" => {
                    self.at += 1;
                    return;
                }
                ";" => return,
                "," => self.at += 1,
                _ => self.tree(prefix),
            }
        }
    }
}
