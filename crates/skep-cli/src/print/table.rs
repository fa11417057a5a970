//! Tables whose columns fit the terminal. The last column is shortened.

use std::io::IsTerminal;

use crate::print::output::{Tone, toned};
use crate::print::text::{harmless, shortened, width};

const BETWEEN: usize = 2;
/// The last column keeps at least this much.
const NARROWEST: usize = 10;

/// The lines of a table: as wide as the terminal, in pipes as wide as needed. Untrusted cells are
/// cleaned here.
pub fn table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    let terminal = std::io::stdout().is_terminal();
    let size = crossterm::terminal::size().ok().filter(|_| terminal);
    render(heads, rows, size.map(|(columns, _)| usize::from(columns)))
}

fn render<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    room: Option<usize>,
) -> Vec<String> {
    let clean = |cell: String| harmless(&cell).replace('\n', " ");
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|row| row.map(clean)));
    let widest = |at: usize| lines.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(widest);
    let last = N.saturating_sub(1);
    let taken: usize = widths.iter().take(last).map(|width| width + BETWEEN).sum();
    let rest = room.map(|room| room.saturating_sub(taken).max(NARROWEST));
    let line = |cells: &[String; N]| {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            match rest {
                Some(rest) if at == last => line.push_str(&shortened(cell, rest)),
                _ => line.push_str(cell),
            }
            let fill = if at < last { widths[at] - width(cell) + BETWEEN } else { 0 };
            line.push_str(&" ".repeat(fill));
        }
        line.trim_end().to_owned()
    };
    let mut lines: Vec<String> = lines.iter().map(line).collect();
    if let Some(head) = lines.first_mut() {
        *head = toned(head, Tone::Faint);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_gives_way() {
        let heads = ["id", "state", "message"];
        let rows = [
            ["1", "done", "a message of\nsome\x1b[2J length"].map(str::to_owned),
            ["22", "日本", "b"].map(str::to_owned),
        ];
        let whole =
            ["id  state  message", "1   done   a message of some[2J length", "22  日本   b"];
        assert_eq!(render(heads, rows.clone(), None), whole);
        let narrow = ["id  state  message", "1   done   a message o…", "22  日本   b"];
        assert_eq!(render(heads, rows, Some(23)), narrow);
    }
}
