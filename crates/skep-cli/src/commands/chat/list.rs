//! The lists that commands are answered with, at any width.

use crate::print::text::{Style, TermInfo, TextLine, in_rows, indented, width};

/// Columns for what is said of an entry; with fewer it moves below.
const ROOM: usize = 24;
/// The widest first column.
const WIDEST: usize = 34;

/// The text of `skep_core::slash::listed`: entries are indented, with two spaces or more between
/// their parts. Two parts make two columns; more are keys, in as many rows as they need.
pub fn render(text: &str, term: &TermInfo) -> Vec<TextLine> {
    let lines: Vec<(&str, Vec<String>)> = text.lines().map(|line| (line, parts(line))).collect();
    let names = lines.iter().filter(|(_, parts)| parts.len() == 2);
    let names = names.filter_map(|(_, parts)| parts.first()).map(|name| width(name));
    let column = names.max().unwrap_or(0).min(WIDEST);
    let beside = term.width.saturating_sub(column + 4) >= ROOM;
    let mut out = Vec::new();
    for (at, (line, parts)) in lines.iter().enumerate() {
        match parts.as_slice() {
            [] => {
                let heads = lines.get(at + 1).is_some_and(|(_, parts)| !parts.is_empty());
                let style = if heads { Style::BOLD } else { Style::PLAIN };
                out.extend(indented(line, "", style, term));
            }
            [name, what] if beside => {
                let room = " ".repeat(column.saturating_sub(width(name)));
                out.extend(indented(what, &format!("  {name}{room}  "), Style::PLAIN, term));
            }
            [name, what] => {
                out.extend(indented(name, "  ", Style::PLAIN, term));
                out.extend(indented(what, "    ", Style::FAINT, term));
            }
            words => out.extend(in_rows(words, Style::PLAIN, term)),
        }
    }
    out
}

/// The parts of an entry; none for a heading or a sentence.
fn parts(line: &str) -> Vec<String> {
    let Some(entry) = line.strip_prefix("  ") else { return Vec::new() };
    let parts = entry.split("  ").map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
