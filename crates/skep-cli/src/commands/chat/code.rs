//! Colour in code: comments, strings, numbers and words that are keywords in most languages, found
//! without a grammar. Code in a language that is not known has one colour.

use crate::print::text::{Colour, Style, TextSpan};

const KEYWORDS: &str = " \
     and as async await begin break case catch class const continue def default del do done \
     elif else end enum esac except export extends false fi finally fn for from func \
     function go if impl implements import in interface is lambda let loop match mod move \
     mut new nil none not null of or package pass private pub public raise return self \
     static struct super switch then this throw trait true try type undefined unsafe use \
     using var void when where while with yield create delete drop group having insert into \
     join limit on order select set table update values ";

/// What begins a comment in the language that a fence names.
fn comment(tag: &str) -> Option<&'static str> {
    let tag = tag.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
    let is_in = |tags: &str| tags.split(' ').any(|one| one == tag);
    let slashes = "rust rs c h cpp c++ cs java kotlin swift go js javascript jsx ts typescript tsx \
                   mjs php scala dart zig json json5 css scss";
    let hashes = "python py sh bash shell zsh fish ruby rb yaml yml toml make makefile dockerfile \
                  perl r elixir nix";
    let dashes = "sql postgres sqlite mysql lua";
    let all = [(slashes, "//"), (hashes, "#"), (dashes, "--")];
    all.into_iter().find(|(tags, _)| is_in(tags)).map(|(_, comment)| comment)
}

/// Code in the language that its fence names.
pub fn spans(code: &str, tag: &str) -> Vec<TextSpan> {
    let Some(comment) = comment(tag) else {
        return vec![TextSpan::new(code, Style::of(Colour::Cyan))];
    };
    let mut spans = Vec::new();
    let (mut rest, mut before) = (code, '\n');
    while let Some(first) = rest.chars().next() {
        let (length, style) = token(rest, first, before, comment);
        let (text, after) = rest.split_at(length.max(first.len_utf8()));
        before = text.chars().next_back().unwrap_or(first);
        spans.push(TextSpan::new(text, style));
        rest = after;
    }
    spans
}

/// The bytes of the next piece, and how it looks. What still grows does not change lines above.
fn token(rest: &str, first: char, before: char, comment: &str) -> (usize, Style) {
    // `a#b` and `http://x` hold no comment.
    let apart = before.is_whitespace() || ";,(){}".contains(before);
    let blocks = comment != "#";
    let line = rest.find('\n').unwrap_or(rest.len());
    let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let word = word.unwrap_or(rest.len());
    match first {
        _ if apart && rest.starts_with(comment) => (line, Style::FAINT),
        '/' if blocks && rest.starts_with("/*") => {
            (rest.find("*/").map_or(rest.len(), |at| at + 2), Style::FAINT)
        }
        // An apostrophe or a lifetime begins no string.
        '\'' if before.is_alphanumeric() || "&<+".contains(before) => (1, Style::PLAIN),
        '"' | '\'' => closing(rest.get(..line).unwrap_or(rest), first)
            .map_or((1, Style::PLAIN), |end| (end, Style::of(Colour::Green))),
        '`' if blocks => (closing(rest, first).unwrap_or(rest.len()), Style::of(Colour::Green)),
        '0'..='9' => (word, Style::of(Colour::Cyan)),
        _ => {
            let text = rest.get(..word).unwrap_or_default().to_ascii_lowercase();
            let known = word > 0 && KEYWORDS.contains(&format!(" {text} "));
            (word, if known { Style::of(Colour::Blue) } else { Style::PLAIN })
        }
    }
}

/// Where the string ends that begins here.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let mut letters = text.char_indices().skip(1);
    let end = letters.find(|(_, letter)| {
        let ends = *letter == quote && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map(|(at, _)| at + 1)
}
