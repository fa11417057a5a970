//! Entries of a conversation as lines of a terminal.

use serde_json::Value;

use super::markdown;
use super::questions;
use super::talk::{Call, Entry, Live, Tool, seconds};
use crate::commands::approve::facts;
use crate::print::text::{Colour, Line, Look, Span, Style, shortened, width, width_of, wrap};

/// Lines of a diff that are shown; the whole stands in the history.
const DIFF_LINES: usize = 40;
/// Lines of what a tool answered.
const OUTPUT_LINES: usize = 4;
const ERROR_LINES: usize = 8;

/// Whether thinking is shown whole or as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    Folded,
    Open,
}

/// An entry with a blank line before it where one belongs.
pub fn entry(entry: &Entry, before: Option<&Entry>, look: &Look, thinking: Thinking) -> Vec<Line> {
    let mut lines = match entry {
        Entry::Said(text) => said(text, look),
        Entry::Answer(text) => markdown::render(text, look),
        Entry::Thought(text) => thought(text, look, thinking),
        Entry::Tool(tool) => tool_lines(tool, look),
        Entry::Usage(text) => indented(text, "  ", Style::FAINT, look),
        Entry::Note(text) => indented(text, look.sign("· ", "- "), Style::FAINT, look),
        Entry::Trouble(text) => indented(text, look.sign("✗ ", "! "), Style::of(Colour::Red), look),
        Entry::Question(question) => asked(question, look),
    };
    let close = matches!(
        (before, entry),
        (None, _)
            | (Some(Entry::Tool(_) | Entry::Thought(_)), Entry::Tool(_))
            | (Some(_), Entry::Usage(_))
            | (Some(Entry::Note(_)), Entry::Note(_))
    );
    if !close && !lines.is_empty() {
        lines.insert(0, Line::new());
    }
    lines
}

/// A call that waits, whole: nobody says yes to what they cannot see.
fn asked(question: &Value, look: &Look) -> Vec<Line> {
    let mut facts = facts(question).into_iter();
    let head = format!("{} waits for you", facts.next().unwrap_or_default());
    let strong = Style { colour: Some(Colour::Yellow), ..Style::BOLD };
    let mut lines = indented(&head, look.sign("? ", "? "), strong, look);
    lines.extend(facts.flat_map(|fact| indented(&fact, "  ", Style::default(), look)));
    let ways = [
        vec!["/approve".to_owned(), "/approve session".to_owned()],
        questions::patterns(question),
        vec!["/deny WHY".to_owned()],
    ];
    lines.extend(indented(&ways.concat().join(" · "), "  ", Style::FAINT, look));
    lines
}

/// The words of the model call under way.
pub fn live(live: &Live, look: &Look, thinking: Thinking) -> Vec<Line> {
    let mut lines = Vec::new();
    if !live.thinking.is_empty() {
        lines.push(Line::new());
        lines.extend(thought(&live.thinking, look, thinking));
    }
    if !live.text.trim().is_empty() {
        lines.push(Line::new());
        lines.extend(markdown::render(&live.text, look));
    }
    lines
}

/// A tool call that runs.
pub fn running(call: &Call, now: i64, look: &Look) -> Line {
    let mut line = vec![Span::new(look.sign("○ ", "* "), Style::of(Colour::Yellow))];
    let took = call.since.map(|since| format!("  {}", seconds((now - since).max(0))));
    line.extend(tool_name(&call.name, &call.target, width(took.as_deref().unwrap_or("")), look));
    line.extend(took.map(|took| Span::new(took, Style::FAINT)));
    line
}

pub fn said(text: &str, look: &Look) -> Vec<Line> {
    indented(text, look.sign("› ", "> "), Style { colour: Some(Colour::Blue), ..Style::BOLD }, look)
}

fn thought(text: &str, look: &Look, thinking: Thinking) -> Vec<Line> {
    let style = Style { italic: true, ..Style::FAINT };
    let sign = look.sign("∴ ", "~ ");
    match thinking {
        Thinking::Open => indented(text.trim(), sign, style, look),
        Thinking::Folded => {
            let short = shortened(text, look.width.saturating_sub(width(sign) + 1));
            vec![vec![Span::new(format!("{sign}{short}"), style)]]
        }
    }
}

/// Text with a sign before its first line and room for it before the others.
fn indented(text: &str, sign: &'static str, style: Style, look: &Look) -> Vec<Line> {
    let columns = width(sign);
    let room = look.width.saturating_sub(columns);
    let lines = wrap(&[Span::new(text.trim_end(), style)], room).into_iter().enumerate();
    let lines = lines.map(|(at, mut line)| {
        let margin =
            if at == 0 { Span::new(sign, style) } else { Span::plain(" ".repeat(columns)) };
        line.insert(0, margin);
        line
    });
    lines.collect()
}

fn tool_name(name: &str, target: &str, after: usize, look: &Look) -> Vec<Span> {
    let name = shortened(name, 40);
    let room = look.width.saturating_sub(width(&name) + after + 4);
    let mut spans = vec![Span::new(name, Style::BOLD)];
    if !target.is_empty() && room > 3 {
        spans.push(Span::plain(format!(" {}", shortened(target, room))));
    }
    spans
}

fn tool_lines(tool: &Tool, look: &Look) -> Vec<Line> {
    let colour = if tool.failed { Colour::Red } else { Colour::Green };
    let diff = tool.diff.as_deref().map(diff_lines).unwrap_or_default();
    let mut after: Vec<Span> = Vec::new();
    if !diff.is_empty() {
        let count = |sign| diff.iter().filter(|line| line.starts_with(sign)).count();
        after.push(Span::new(format!("  +{}", count('+')), Style::of(Colour::Green)));
        let removed = format!(" {}{}", look.sign("−", "-"), count('-'));
        after.push(Span::new(removed, Style::of(Colour::Red)));
    }
    let took = tool.took_ms.map(|took| Span::new(format!("  {}", seconds(took)), Style::FAINT));
    after.extend(took);
    let taken = after.iter().map(|span| width(&span.text)).sum();
    let sign = if tool.failed { look.sign("✗ ", "! ") } else { look.sign("● ", "* ") };
    let mut line = vec![Span::new(sign, Style::of(colour))];
    line.extend(tool_name(&tool.name, &tool.target, taken, look));
    line.extend(after);
    let mut lines = vec![line];
    match diff.is_empty() {
        false => lines.extend(shown_diff(&diff, look)),
        true => lines.extend(shown_output(tool, look)),
    }
    lines
}

/// The lines of a unified diff below its two names.
fn diff_lines(diff: &str) -> Vec<&str> {
    diff.lines().skip_while(|line| !line.starts_with("@@")).collect()
}

fn shown_diff(diff: &[&str], look: &Look) -> Vec<Line> {
    let shown = diff.iter().take(DIFF_LINES).map(|line| {
        let style = match line.chars().next() {
            Some('+') => Style::of(Colour::Green),
            Some('-') => Style::of(Colour::Red),
            _ => Style::FAINT,
        };
        row(line, style, look)
    });
    let mut lines: Vec<Line> = shown.collect();
    lines.extend(rest(diff.len(), DIFF_LINES, look));
    lines
}

fn shown_output(tool: &Tool, look: &Look) -> Vec<Line> {
    // What was read is for the model; that it was read is enough for people.
    if tool.name == "read" && !tool.failed {
        return Vec::new();
    }
    let (most, style) = match tool.failed {
        true => (ERROR_LINES, Style::of(Colour::Red)),
        false => (OUTPUT_LINES, Style::FAINT),
    };
    let all: Vec<&str> = tool.output.trim_end().lines().collect();
    let mut lines: Vec<Line> = all.iter().take(most).map(|line| row(line, style, look)).collect();
    lines.extend(rest(all.len(), most, look));
    lines
}

/// One line of a block, cut at the edge.
fn row(text: &str, style: Style, look: &Look) -> Line {
    let room = look.width.saturating_sub(5);
    let mut columns = 0;
    let clean = crate::print::text::harmless(text);
    let kept = clean.chars().take_while(|letter| {
        columns += width_of(*letter);
        columns <= room
    });
    vec![Span::plain("    "), Span::new(kept.collect::<String>(), style)]
}

fn rest(all: usize, shown: usize, look: &Look) -> Option<Line> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    let text = format!("    {} {more} more lines", look.sign("…", "..."));
    Some(vec![Span::new(text, Style::FAINT)])
}
