//! Entries of a conversation as lines of a terminal.

use serde_json::Value;

use super::editor::Editor;
use super::transcript::{ChatEntry, LiveMessage, RunningCall, ToolEntry, seconds};
use super::{list, markdown, questions};
use crate::commands::approve::{RULE, call, facts, one_line, title};
use crate::print::text::{
    Colour, Style, TermInfo, TextLine, TextSpan, indented, shortened, width, width_of, wrap,
};
use crate::print::{items, time};

/// Lines of a diff that are shown; the history has the rest.
const DIFF_LINES: usize = 40;
/// Lines of a tool's output that are shown.
const OUTPUT_LINES: usize = 4;
const ERROR_LINES: usize = 8;
/// Lines of a message that are shown; of a longer one a quarter of them.
const SAID_LINES: usize = 12;
/// Lines of a file that a call names.
const FILE_LINES: usize = 200;

const MENU_LINES: usize = 8;

/// Whether thinking is shown whole or as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingDisplay {
    Folded,
    Open,
}

/// The lines of an entry, with a blank line before it where needed.
pub fn entry(
    entry: &ChatEntry,
    before: Option<&ChatEntry>,
    term: &TermInfo,
    thinking: ThinkingDisplay,
) -> Vec<TextLine> {
    let mut lines = match entry {
        ChatEntry::Said(text) => said(text, term, thinking),
        ChatEntry::Answer(text) => markdown::render(text, term),
        ChatEntry::Listing(text) => list::render(text, term),
        ChatEntry::Thought(text) => thought(text, term, thinking),
        ChatEntry::Tool(tool) => tool_lines(tool, term),
        ChatEntry::Usage(text) => indented(text, "  ", Style::FAINT, term),
        ChatEntry::Note(text) => indented(text, term.sign("· ", "- "), Style::FAINT, term),
        ChatEntry::Trouble(text) => {
            indented(text, term.sign("✗ ", "! "), Style::of(Colour::Red), term)
        }
        ChatEntry::Question(question) => asked(question, term),
        ChatEntry::Asked(question) => question_lines(question, term),
        ChatEntry::Pinned(file) => pinned(file, term),
        ChatEntry::Decided(text) => {
            let good = text.starts_with("approved") || text.starts_with("answered");
            let sign = if good { term.sign("✓ ", "+ ") } else { term.sign("□ ", "- ") };
            indented(text, sign, Style::BOLD, term)
        }
    };
    let close = matches!(
        (before, entry),
        (None, _)
            | (Some(ChatEntry::Tool(_) | ChatEntry::Thought(_)), ChatEntry::Tool(_))
            | (Some(_), ChatEntry::Usage(_))
            | (Some(ChatEntry::Note(_)), ChatEntry::Note(_))
    );
    if !close && !lines.is_empty() {
        lines.insert(0, TextLine::new());
    }
    lines
}

/// A pending approval, complete: people must see all of what they approve. The call comes first.
pub fn asked(question: &Value, term: &TermInfo) -> Vec<TextLine> {
    let strong = Style { colour: Some(Colour::Yellow), ..Style::BOLD };
    let mut lines = indented(&title(question), term.sign("⬡ ", "? "), strong, term);
    let all = call(question);
    lines.extend(all.iter().flat_map(|line| boxed(line, Style::PLAIN, term)));
    if all.len() > 1 {
        let count = format!("{}{} lines", term.sign("└ ", "+ "), all.len());
        lines.push(vec![TextSpan::new(format!("  {count}"), Style::FAINT)]);
    }
    for mut fact in facts(question, RULE) {
        for span in fact.iter_mut().filter(|span| span.style == Style::PLAIN) {
            span.style = Style::FAINT;
        }
        lines.extend(edged(&fact, "  ", term));
    }
    lines
}

/// What the agent asks or tells the operator, and until when somebody may answer.
fn question_lines(question: &Value, term: &TermInfo) -> Vec<TextLine> {
    let strong = Style { colour: Some(Colour::Yellow), ..Style::BOLD };
    let text = |key: &str| question[key].as_str().unwrap_or_default();
    let verb = if questions::is_message(question) { "writes" } else { "asks" };
    let head = format!("{} {verb}", one_line(text("agent")));
    let mut lines = indented(&head, term.sign("⬡ ", "? "), strong, term);
    lines.extend(text("text").lines().flat_map(|line| boxed(line, Style::PLAIN, term)));
    for option in items(&question["options"]).iter().filter_map(Value::as_str) {
        lines.extend(boxed(&format!("- {option}"), Style::PLAIN, term));
    }
    if let Some(until) = question["until"].as_i64() {
        lines.extend(indented(&format!("until {}", time::stamp(until)), "  ", Style::FAINT, term));
    }
    lines
}

/// A line of something foreign: no part of it can pass for a line of ours.
fn boxed(line: &str, style: Style, term: &TermInfo) -> Vec<TextLine> {
    edged(&[TextSpan::new(line, style)], term.sign("  │ ", "  | "), term)
}

/// A line in as many rows as it needs, the edge before each.
fn edged(line: &[TextSpan], edge: &str, term: &TermInfo) -> Vec<TextLine> {
    let rows = wrap(line, term.width.saturating_sub(width(edge)));
    let edged = |mut row: TextLine| {
        row.insert(0, TextSpan::new(edge, Style::FAINT));
        row
    };
    rows.into_iter().map(edged).collect()
}

/// The content of a file that a call names.
fn pinned(file: &Value, term: &TermInfo) -> Vec<TextLine> {
    let path = one_line(file["path"].as_str().unwrap_or("?"));
    let count = file["lines"].as_u64().unwrap_or(0);
    let Some(text) = file["text"].as_str() else {
        let bytes = file["bytes"].as_u64().unwrap_or(0);
        let text = format!("{path} is not text ({bytes} bytes)");
        return indented(&text, term.sign("· ", "- "), Style::FAINT, term);
    };
    let plural = if count == 1 { "" } else { "s" };
    let head = format!("{path}, {count} line{plural}, as it was judged");
    let mut lines = indented(&head, term.sign("· ", "- "), Style::BOLD, term);
    let all: Vec<&str> = text.lines().collect();
    let shown = all.iter().take(FILE_LINES);
    lines.extend(shown.flat_map(|line| boxed(line, Style::PLAIN, term)));
    lines.extend(rest(usize::try_from(count).unwrap_or(usize::MAX), FILE_LINES, term));
    lines
}

/// The words of the model call under way.
pub fn live(live: &LiveMessage, term: &TermInfo, thinking: ThinkingDisplay) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if !live.thinking.is_empty() {
        lines.push(TextLine::new());
        lines.extend(thought(&live.thinking, term, thinking));
    }
    if !live.text.trim().is_empty() {
        lines.push(TextLine::new());
        lines.extend(markdown::render(&live.text, term));
    }
    lines
}

/// A tool call that runs.
pub fn running(call: &RunningCall, now: i64, term: &TermInfo) -> TextLine {
    let mut line = vec![TextSpan::new(term.sign("○ ", "* "), Style::of(Colour::Yellow))];
    let took = call.since.map(|since| format!("  {}", seconds((now - since).max(0))));
    line.extend(tool_name(&call.name, &call.target, width(took.as_deref().unwrap_or("")), term));
    line.extend(took.map(|took| TextSpan::new(took, Style::FAINT)));
    line
}

/// A message; of a long one the beginning, unless everything is shown.
fn said(text: &str, term: &TermInfo, thinking: ThinkingDisplay) -> Vec<TextLine> {
    let style = Style { colour: Some(Colour::Blue), ..Style::BOLD };
    let mut lines = indented(text, term.sign("› ", "> "), style, term);
    let all = lines.len();
    if all > SAID_LINES && thinking == ThinkingDisplay::Folded {
        lines.truncate(SAID_LINES / 4);
        lines.extend(rest(all, lines.len(), term));
    }
    lines
}

fn thought(text: &str, term: &TermInfo, thinking: ThinkingDisplay) -> Vec<TextLine> {
    let style = Style { italic: true, ..Style::FAINT };
    let sign = term.sign("∴ ", "~ ");
    match thinking {
        ThinkingDisplay::Open => indented(text.trim(), sign, style, term),
        ThinkingDisplay::Folded => {
            let short = shortened(text, term.width.saturating_sub(width(sign) + 1));
            vec![vec![TextSpan::new(format!("{sign}{short}"), style)]]
        }
    }
}

fn tool_name(name: &str, target: &str, after: usize, term: &TermInfo) -> Vec<TextSpan> {
    let name = shortened(name, 40);
    let room = term.width.saturating_sub(width(&name) + after + 4);
    let mut spans = vec![TextSpan::new(name, Style::BOLD)];
    if !target.is_empty() && room > 3 {
        spans.push(TextSpan::plain(format!(" {}", shortened(target, room))));
    }
    spans
}

fn tool_lines(tool: &ToolEntry, term: &TermInfo) -> Vec<TextLine> {
    let colour = if tool.failed { Colour::Red } else { Colour::Green };
    let diff = tool.diff.as_deref().map(diff_lines).unwrap_or_default();
    let mut after: Vec<TextSpan> = Vec::new();
    if !diff.is_empty() {
        let count = |sign| diff.iter().filter(|line| line.starts_with(sign)).count();
        after.push(TextSpan::new(format!("  +{}", count('+')), Style::of(Colour::Green)));
        let removed = format!(" {}{}", term.sign("−", "-"), count('-'));
        after.push(TextSpan::new(removed, Style::of(Colour::Red)));
    }
    let took = tool.took_ms.map(|took| TextSpan::new(format!("  {}", seconds(took)), Style::FAINT));
    after.extend(took);
    let taken = after.iter().map(|span| width(&span.text)).sum();
    let sign = if tool.failed { term.sign("✗ ", "! ") } else { term.sign("● ", "* ") };
    let mut line = vec![TextSpan::new(sign, Style::of(colour))];
    line.extend(tool_name(&tool.name, &tool.target, taken, term));
    line.extend(after);
    let mut lines = vec![line];
    match diff.is_empty() {
        false => lines.extend(shown_diff(&diff, term)),
        true => lines.extend(shown_output(tool, term)),
    }
    lines
}

/// The lines of a unified diff below its two names.
fn diff_lines(diff: &str) -> Vec<&str> {
    diff.lines().skip_while(|line| !line.starts_with("@@")).collect()
}

fn shown_diff(diff: &[&str], term: &TermInfo) -> Vec<TextLine> {
    let style = |line: &str| match line.chars().next() {
        Some('+') => Style::of(Colour::Green),
        Some('-') => Style::of(Colour::Red),
        _ => Style::FAINT,
    };
    first_rows(diff, DIFF_LINES, style, term)
}

fn shown_output(tool: &ToolEntry, term: &TermInfo) -> Vec<TextLine> {
    let all: Vec<&str> = tool.output.trim_end().lines().collect();
    match (tool.failed, tool.name.as_str()) {
        (true, _) => first_rows(&all, ERROR_LINES, |_| Style::of(Colour::Red), term),
        // The content of a file is for the model, not for the screen.
        (false, "read") => Vec::new(),
        (false, _) => first_rows(&all, OUTPUT_LINES, |_| Style::FAINT, term),
    }
}

fn first_rows(
    lines: &[&str],
    most: usize,
    style: impl Fn(&str) -> Style,
    term: &TermInfo,
) -> Vec<TextLine> {
    let shown = lines.iter().take(most).map(|line| row(line, style(line), term));
    shown.chain(rest(lines.len(), most, term)).collect()
}

/// One line of a block, cut at the edge.
fn row(text: &str, style: Style, term: &TermInfo) -> TextLine {
    let room = term.width.saturating_sub(5);
    let mut columns = 0;
    let clean = crate::print::text::harmless(text);
    let kept = clean.chars().take_while(|letter| {
        columns += width_of(*letter);
        columns <= room
    });
    vec![TextSpan::plain("    "), TextSpan::new(kept.collect::<String>(), style)]
}

fn rest(all: usize, shown: usize, term: &TermInfo) -> Option<TextLine> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    let text = format!("    {} {more} more lines", term.sign("…", "..."));
    Some(vec![TextSpan::new(text, Style::FAINT)])
}

/// Below the input line: the search query, or the completions.
pub fn hints(editor: &Editor, term: &TermInfo) -> Vec<TextLine> {
    let faint = |text: String| vec![TextSpan::new(text, Style::FAINT)];
    if let Some(query) = editor.searched() {
        return vec![faint(format!("  search: {query} (Ctrl-R older, Enter takes, Esc back)"))];
    }
    if editor.has_paste() {
        return vec![faint("  Ctrl-O show   Backspace remove".to_owned())];
    }
    let Some(menu) = editor.menu() else { return Vec::new() };
    let first = (menu.chosen.unwrap_or(0) + 1).saturating_sub(MENU_LINES);
    let column = menu.words.iter().map(|(word, _)| width(word)).max().unwrap_or(0);
    let words = menu.words.iter().enumerate().skip(first).take(MENU_LINES);
    let words = words.map(|(at, (word, what))| {
        let chosen = if menu.chosen == Some(at) { Style::BOLD } else { Style::PLAIN };
        let room = term.width.saturating_sub(column + 5);
        vec![
            TextSpan::new(format!("  {word:<column$}  "), chosen),
            TextSpan::new(shortened(what, room), Style::FAINT),
        ]
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::print::text::encode;

    #[test]
    fn channel_an_approval_without_walls_is_red_where_it_says_so() {
        let term = TermInfo { width: 44, colour: true, unicode: true };
        let question = json!({
            "agent": "main", "class": "run", "summary": "ls", "arguments": {"command": "ls"},
            "sandbox": "host", "network": "open",
        });
        let rows: Vec<String> =
            asked(&question, &term).iter().map(|line| encode(line, &term)).collect();
        let (level, network) = ("host: the rights of the hive", "itself, network: whatever this");
        let walls = [
            format!("\x1b[2m  \x1b[0m\x1b[2msandbox  \x1b[0m\x1b[31m{level}\x1b[0m"),
            format!("\x1b[2m  \x1b[0m\x1b[31m{network} machine\x1b[0m"),
        ];
        let at = rows.iter().position(|row| row.contains("sandbox")).unwrap_or(0);
        assert_eq!(rows[at..at + 2], walls, "{rows:#?}");
    }
}
