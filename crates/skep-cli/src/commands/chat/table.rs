//! A table of a markdown text: columns where they fit, else one "name: value" line per cell.

use pulldown_cmark::Alignment;

use crate::print::text::{Style, TermInfo, TextLine, TextSpan, line_width, wrap};

/// The narrowest column.
const NARROWEST: usize = 4;
const BETWEEN: usize = 2;

/// The first row is the head.
pub struct MarkdownTable {
    /// Of each column.
    pub alignments: Vec<Alignment>,
    pub rows: Vec<Vec<Vec<TextSpan>>>,
}

impl MarkdownTable {
    pub fn render(&self, room: usize, term: &TermInfo) -> Vec<TextLine> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        if columns == 0 {
            return Vec::new();
        }
        match self.widths(columns, room) {
            Some(widths) => self.in_columns(head, rows, &widths, term),
            None => one_below_the_other(head, rows, room),
        }
    }

    /// The width of each column, the widest ones shrink first; `None` if the room is too small.
    fn widths(&self, columns: usize, room: usize) -> Option<Vec<usize>> {
        let cell =
            |row: &Vec<Vec<TextSpan>>, at: usize| row.get(at).map_or(0, |cell| line_width(cell));
        let mut widths: Vec<usize> = (0..columns)
            .map(|at| self.rows.iter().map(|row| cell(row, at)).max().unwrap_or(0).max(1))
            .collect();
        let room = room.checked_sub(BETWEEN * (columns - 1))?;
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter_mut().max()?;
            if *widest <= NARROWEST {
                return None;
            }
            *widest -= 1;
        }
        Some(widths)
    }

    fn in_columns(
        &self,
        head: &[Vec<TextSpan>],
        rows: &[Vec<Vec<TextSpan>>],
        widths: &[usize],
        term: &TermInfo,
    ) -> Vec<TextLine> {
        let mut lines = self.row_lines(&strong(head), widths);
        let rule = widths.iter().map(|width| term.sign("─", "-").repeat(*width));
        let rule = rule.collect::<Vec<_>>().join(&" ".repeat(BETWEEN));
        lines.push(vec![TextSpan::new(rule, Style::FAINT)]);
        lines.extend(rows.iter().flat_map(|row| self.row_lines(row, widths)));
        lines
    }

    fn row_lines(&self, row: &[Vec<TextSpan>], widths: &[usize]) -> Vec<TextLine> {
        let none = Vec::new();
        let cells: Vec<Vec<TextLine>> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| wrap(row.get(at).unwrap_or(&none), *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let mut lines = Vec::new();
        for at in 0..height {
            let mut line = TextLine::new();
            let mut missing = 0;
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                // Padding is written only when something follows it.
                let text = cell.get(at).cloned().unwrap_or_default();
                let columns = line_width(&text);
                let free = width.saturating_sub(columns);
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    _ => 0,
                };
                missing += before;
                if columns > 0 {
                    line.push(TextSpan::plain(" ".repeat(missing)));
                    missing = 0;
                }
                line.extend(text);
                missing += free - before + BETWEEN;
            }
            lines.push(line);
        }
        lines
    }
}

fn strong(cells: &[Vec<TextSpan>]) -> Vec<Vec<TextSpan>> {
    let strong = |span: &TextSpan| TextSpan::new(&span.text, Style { bold: true, ..span.style });
    cells.iter().map(|cell| cell.iter().map(strong).collect()).collect()
}

fn one_below_the_other(
    head: &[Vec<TextSpan>],
    rows: &[Vec<Vec<TextSpan>>],
    room: usize,
) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(TextLine::new());
        }
        for (at, cell) in row.iter().enumerate() {
            let mut words = strong(head.get(at..=at).unwrap_or_default()).concat();
            words.push(TextSpan::plain(": "));
            words.extend(cell.iter().cloned());
            lines.extend(wrap(&words, room));
        }
    }
    lines
}
