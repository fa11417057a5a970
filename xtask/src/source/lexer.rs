//! Rust text to tokens: enough to tell code from comments and strings, no grammar.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Identifier, keyword or number.
    Word,
    /// One character of punctuation.
    Mark,
    /// String literal of any kind; `text` is what stands between the quotes, escapes unread.
    Text,
    /// Character literal or lifetime.
    Quote,
}

#[derive(Debug, Clone)]
pub struct LexToken {
    pub kind: Kind,
    pub text: String,
    /// Counted from 1: the line on which the token starts.
    pub line: usize,
    /// Stands inside an item that is compiled for tests only.
    pub is_test: bool,
}

pub fn tokens(text: &str) -> Vec<LexToken> {
    let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<LexToken>,
}

impl Lexer<'_> {
    /// Reads one token or one piece of nothing; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            self.skip(length);
        } else if self.rest.starts_with("/*") {
            self.skip(block_comment_length(self.rest));
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if let Some(literal) = string_literal(self.rest) {
            self.push(Kind::Text, literal.start, literal.end, literal.total);
        } else if first == '\'' {
            let length = quote_length(self.rest);
            self.push(Kind::Quote, 0, length, length);
        } else if is_word(first) {
            let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
            self.push(Kind::Word, 0, end, end);
        } else {
            let length = first.len_utf8();
            self.push(Kind::Mark, 0, length, length);
        }
        true
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize, total: usize) {
        let text = self.rest[start..end].to_owned();
        self.tokens.push(LexToken { kind, text, line: self.line, is_test: false });
        self.skip(total);
    }

    fn skip(&mut self, length: usize) {
        let (passed, rest) = self.rest.split_at(length);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

struct Literal {
    start: usize,
    end: usize,
    total: usize,
}

/// The literal at the start of `text`, with any of the prefixes `b`, `c`, `r`, `br`, `cr`.
fn string_literal(text: &str) -> Option<Literal> {
    let letters = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let prefix = &text[..letters];
    if !matches!(prefix, "" | "b" | "c" | "r" | "br" | "cr") {
        return None;
    }
    let after = &text[letters..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let raw = prefix.ends_with('r');
    if !after[hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    let start = letters + hashes + 1;
    let body = &text[start..];
    if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        let length = body.find(&close).unwrap_or(body.len());
        let end = start + length;
        return Some(Literal { start, end, total: (end + close.len()).min(text.len()) });
    }
    let end = start + unescaped_end(body, '"');
    Some(Literal { start, end, total: (end + 1).min(text.len()) })
}

/// Where `close` first stands without a backslash before it.
fn unescaped_end(body: &str, close: char) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == close {
            return at;
        }
    }
    body.len()
}

/// A character literal up to its closing quote, or a lifetime.
fn quote_length(text: &str) -> usize {
    let body = &text[1..];
    let mut characters = body.chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), _) => (1 + unescaped_end(body, '\'') + 1).min(text.len()),
        (Some(c), Some('\'')) => 1 + c.len_utf8() + 1,
        _ => 1 + body.find(|c| !is_word(c)).unwrap_or(body.len()),
    }
}
