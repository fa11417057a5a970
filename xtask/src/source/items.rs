//! What the rules need to know of a file's structure: test items, functions, `mod` lines.

use super::lexer::{Kind, LexToken};

const ITEM_KEYWORDS: [&str; 10] =
    ["fn", "impl", "trait", "struct", "enum", "mod", "use", "static", "const", "type"];

#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub line: usize,
    /// From the line of `fn` to the line of the closing brace, both counted.
    pub lines: usize,
}

/// A `mod name;` whose content lies in another file.
#[derive(Debug)]
pub struct ModuleDeclaration {
    pub name: String,
    /// Inline modules around it, outermost first.
    pub inside: Vec<String>,
    /// The value of `#[path = "…"]`.
    pub path: Option<String>,
    pub is_test: bool,
}

/// Marks every item under `#[cfg(test)]`, `#[test]`, `#[tokio::test]` and the like.
pub fn mark_tests(tokens: &mut [LexToken]) {
    let mut at = 0;
    while at < tokens.len() {
        let Some(attribute) = outer_attribute(tokens, at) else {
            at += 1;
            continue;
        };
        if is_test_attribute(&tokens[at..attribute]) {
            let end = item_end(tokens, attribute);
            for token in &mut tokens[at..end] {
                token.is_test = true;
            }
            at = end;
        } else {
            at = attribute;
        }
    }
}

/// Whether the file says `#![cfg(test)]`.
pub fn is_test_as_a_whole(tokens: &[LexToken]) -> bool {
    let inner = ["#", "!", "[", "cfg", "(", "test", ")", "]"];
    tokens.windows(inner.len()).any(|window| spelled(window, &inner))
}

pub fn functions(tokens: &[LexToken]) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if !is_word(&pair[0], "fn") || pair[1].kind != Kind::Word {
            continue;
        }
        let end = item_end(tokens, at);
        let Some(last) = tokens.get(end - 1).filter(|last| last.text == "}") else { continue };
        found.push(Function {
            name: pair[1].text.clone(),
            line: pair[0].line,
            lines: last.line - pair[0].line + 1,
        });
    }
    found
}

pub fn modules(tokens: &[LexToken]) -> Vec<ModuleDeclaration> {
    let mut found = Vec::new();
    let mut inline = InlineModules::default();
    let mut path = None;
    for (at, token) in tokens.iter().enumerate() {
        if is_word(token, "mod")
            && let Some([name, next]) = tokens.get(at + 1..at + 3)
            && is_mark(next, ";")
        {
            found.push(ModuleDeclaration {
                name: name.text.clone(),
                inside: inline.names(),
                path: path.take(),
                is_test: token.is_test,
            });
        }
        if let Some(window) = tokens.get(at..at + 5)
            && spelled(&window[..4], &["#", "[", "path", "="])
        {
            path = Some(window[4].text.clone());
        }
        if is_mark(token, ";") {
            path = None;
        }
        inline.see(tokens, at);
    }
    found
}

/// Follows the braces of a file: which inline modules are open.
#[derive(Default)]
pub struct InlineModules {
    /// One entry per open brace: the module's name when the brace belongs to an inline module.
    open: Vec<Option<String>>,
}

impl InlineModules {
    /// To be called for every index in order.
    pub fn see(&mut self, tokens: &[LexToken], at: usize) {
        if is_mark(&tokens[at], "}") {
            self.open.pop();
        } else if is_mark(&tokens[at], "{") {
            let before = at.checked_sub(2).and_then(|start| tokens.get(start..at));
            let name = before.filter(|pair| is_word(&pair[0], "mod")).map(|pair| &pair[1].text);
            self.open.push(name.cloned());
        }
    }

    /// Outermost first.
    pub fn names(&self) -> Vec<String> {
        self.open.iter().flatten().cloned().collect()
    }
}

/// The index after the attribute that starts at `at`, when one does.
fn outer_attribute(tokens: &[LexToken], at: usize) -> Option<usize> {
    if !is_mark(tokens.get(at)?, "#") || !is_mark(tokens.get(at + 1)?, "[") {
        return None;
    }
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at + 1) {
        if is_mark(token, "[") {
            depth += 1;
        } else if is_mark(token, "]") {
            depth -= 1;
            if depth == 0 {
                return Some(index + 1);
            }
        }
    }
    None
}

/// `#[test]`, `#[some::test]`, `#[some::test(…)]`, `#[cfg(test)]`, `#[cfg(any(test, …))]`.
fn is_test_attribute(attribute: &[LexToken]) -> bool {
    let words: Vec<&str> = attribute[2..].iter().map(|token| token.text.as_str()).collect();
    if words.first() == Some(&"cfg") {
        return words.contains(&"test") && !words.contains(&"not");
    }
    let path_end = words.iter().position(|word| matches!(*word, "(" | "]" | "="));
    path_end.is_some_and(|end| end > 0 && words[end - 1] == "test")
}

/// The index after the item whose first tokens (perhaps more attributes) stand at `start`:
/// after its body's closing brace, or after the `;` or `,` that ends it without a body.
fn item_end(tokens: &[LexToken], start: usize) -> usize {
    let mut at = start;
    while let Some(after) = outer_attribute(tokens, at) {
        at = after;
    }
    let mut round = 0_usize;
    let mut curly = 0_usize;
    // A comma ends a field, a variant or a match arm, but not the bounds of a function or type.
    let mut has_keyword = false;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.kind != Kind::Mark {
            has_keyword |= ITEM_KEYWORDS.contains(&token.text.as_str());
            continue;
        }
        match token.text.as_str() {
            "(" | "[" => round += 1,
            ")" | "]" => round = round.saturating_sub(1),
            "{" => curly += 1,
            "}" if curly <= 1 && round == 0 => return at,
            "}" => curly = curly.saturating_sub(1),
            ";" if curly == 0 && round == 0 => return at,
            "," if curly == 0 && round == 0 && !has_keyword => return at,
            _ => {}
        }
    }
    tokens.len()
}

fn is_word(token: &LexToken, word: &str) -> bool {
    token.kind == Kind::Word && token.text == word
}

fn is_mark(token: &LexToken, mark: &str) -> bool {
    token.kind == Kind::Mark && token.text == mark
}

fn spelled(tokens: &[LexToken], words: &[&str]) -> bool {
    tokens.len() == words.len()
        && tokens
            .iter()
            .zip(words)
            .all(|(token, word)| token.kind != Kind::Text && token.text == *word)
}
