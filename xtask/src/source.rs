//! One source file: its text, and for Rust its tokens with the parts that are only tests marked.

mod items;
mod lexer;
mod paths;

pub use items::{Function, ModuleDeclaration};
pub use lexer::{Kind, LexToken};
pub use paths::WrittenPath;

/// What the rules know about a file.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub path: String,
    pub text: String,
    /// Empty for other languages.
    pub tokens: Vec<LexToken>,
    /// The whole file is test code: by its place, its name, or the `mod` that includes it.
    pub is_test: bool,
}

impl SourceFile {
    pub fn new(path: String, text: String) -> Self {
        let mut tokens = Vec::new();
        if path.ends_with(".rs") {
            tokens = lexer::tokens(&text);
            items::mark_tests(&mut tokens);
        }
        let is_test = has_test_path(&path) || items::is_test_as_a_whole(&tokens);
        Self { path, text, tokens, is_test }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn functions(&self) -> Vec<Function> {
        items::functions(&self.tokens)
    }

    pub fn modules(&self) -> Vec<ModuleDeclaration> {
        items::modules(&self.tokens)
    }

    /// Every path the product's part of the file writes.
    pub fn paths(&self) -> Vec<WrittenPath> {
        paths::paths(&self.tokens)
    }

    /// Whether the item whose keyword stands at `at` is `pub`, of any reach.
    pub fn is_public(&self, at: usize) -> bool {
        paths::is_public(&self.tokens, at)
    }

    /// Lines of the product: comments and blank lines count, items compiled for tests do not.
    pub fn product_lines(&self) -> usize {
        if self.is_test {
            return 0;
        }
        let mut tests = 0;
        let parts = self.tokens.chunk_by(|a, b| a.is_test == b.is_test);
        for part in parts.filter(|part| part[0].is_test) {
            tests += part[part.len() - 1].line + 1 - part[0].line;
        }
        self.text.lines().count() - tests
    }

    /// Tokens that end up in the product.
    pub fn product_tokens(&self) -> impl Iterator<Item = (usize, &LexToken)> {
        let whole = !self.is_test;
        self.tokens.iter().enumerate().filter(move |(_, token)| whole && !token.is_test)
    }

    /// Whether the tokens from `start` on spell `pattern`, written as Rust code.
    pub fn spells(&self, start: usize, pattern: &[LexToken]) -> bool {
        let Some(here) = self.tokens.get(start..start + pattern.len()) else { return false };
        here.iter().zip(pattern).all(|(a, b)| a.kind == b.kind && a.text == b.text)
    }
}

/// Tokenises a pattern for [`Source::spells`].
pub fn pattern(code: &str) -> Vec<LexToken> {
    lexer::tokens(code)
}

fn has_test_path(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or_default();
    let test_folder = |part: &str| matches!(part, "tests" | "examples" | "benches");
    file.ends_with("_tests.rs")
        || file == "tests.rs"
        || path.starts_with("crates/skep-testkit/")
        || parts.iter().any(|part| test_folder(part))
}
