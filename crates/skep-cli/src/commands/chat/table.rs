//! A table of a markdown text: columns where they fit, else one "name: value" line per cell.

use crate::print::text::{Line, Look, Span, Style, line_width, wrap};

/// A column narrower than this is no column.
const NARROWEST: usize = 4;
const BETWEEN: usize = 2;

/// The first row is the head.
#[derive(Default)]
pub struct Table {
    pub rows: Vec<Vec<Vec<Span>>>,
}

impl Table {
    pub fn render(&self, room: usize, look: &Look) -> Vec<Line> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let Some((head, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        if columns == 0 {
            return Vec::new();
        }
        match self.widths(columns, room) {
            Some(widths) => in_columns(head, rows, &widths, look),
            None => one_below_the_other(head, rows, room),
        }
    }

    /// What each column gets, the widest ones giving way; nothing when the room is too small.
    fn widths(&self, columns: usize, room: usize) -> Option<Vec<usize>> {
        let cell = |row: &Vec<Vec<Span>>, at: usize| row.get(at).map_or(0, |cell| line_width(cell));
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
}

fn in_columns(
    head: &[Vec<Span>],
    rows: &[Vec<Vec<Span>>],
    widths: &[usize],
    look: &Look,
) -> Vec<Line> {
    let mut lines = row_lines(&strong(head), widths);
    let rule = widths.iter().map(|width| look.sign("─", "-").repeat(*width));
    let rule = rule.collect::<Vec<_>>().join(&" ".repeat(BETWEEN));
    lines.push(vec![Span::new(rule, Style::FAINT)]);
    lines.extend(rows.iter().flat_map(|row| row_lines(row, widths)));
    lines
}

fn strong(cells: &[Vec<Span>]) -> Vec<Vec<Span>> {
    let strong = |span: &Span| Span::new(&span.text, Style { bold: true, ..span.style });
    cells.iter().map(|cell| cell.iter().map(strong).collect()).collect()
}

fn row_lines(row: &[Vec<Span>], widths: &[usize]) -> Vec<Line> {
    let none = Vec::new();
    let cells: Vec<Vec<Line>> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| wrap(row.get(at).unwrap_or(&none), *width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for at in 0..height {
        let mut line = Line::new();
        let mut missing = 0;
        for (cell, width) in cells.iter().zip(widths) {
            // Padding is written only when something follows it.
            let text = cell.get(at).cloned().unwrap_or_default();
            let columns = line_width(&text);
            if columns > 0 {
                line.push(Span::plain(" ".repeat(missing)));
                missing = 0;
            }
            line.extend(text);
            missing += width.saturating_sub(columns) + BETWEEN;
        }
        lines.push(line);
    }
    lines
}

fn one_below_the_other(head: &[Vec<Span>], rows: &[Vec<Vec<Span>>], room: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        for (at, cell) in row.iter().enumerate() {
            let mut words = strong(head.get(at..=at).unwrap_or_default()).concat();
            words.push(Span::plain(": "));
            words.extend(cell.iter().cloned());
            lines.extend(wrap(&words, room));
        }
    }
    lines
}
