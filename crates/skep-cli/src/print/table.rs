//! Tables whose columns fit the terminal. The last column is shortened.

use std::io::IsTerminal;

use crate::print::output::{Tone, toned};
use crate::print::text::{harmless, shortened, width};

const BETWEEN: usize = 2;
/// The last column keeps at least this much.
const NARROWEST: usize = 10;

pub struct OutputTable {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl OutputTable {
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. Untrusted cells are cleaned here.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let clean = |cell: String| harmless(&cell).replace('\n', " ");
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// The rendered lines: as wide as the terminal, in pipes as wide as needed.
    pub fn lines(&self) -> Vec<String> {
        let terminal = std::io::stdout().is_terminal();
        let size = crossterm::terminal::size().ok().filter(|_| terminal);
        self.render(size.map(|(columns, _)| usize::from(columns)))
    }

    fn render(&self, room: Option<usize>) -> Vec<String> {
        let last = self.heads.len().saturating_sub(1);
        let widest = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
            cells.chain(self.heads.get(at).map(|head| width(head))).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(widest).collect();
        let taken: usize = widths.iter().take(last).map(|width| width + BETWEEN).sum();
        let rest = room.map(|room| room.saturating_sub(taken).max(NARROWEST));
        let line = |cells: &[String]| {
            let mut line = String::new();
            for (at, cell) in cells.iter().enumerate() {
                match rest {
                    Some(rest) if at == last => line.push_str(&shortened(cell, rest)),
                    _ => line.push_str(cell),
                }
                let wide = widths.get(at).copied().unwrap_or(0);
                let fill = if at < last { wide - width(cell).min(wide) + BETWEEN } else { 0 };
                line.push_str(&" ".repeat(fill));
            }
            line.trim_end().to_owned()
        };
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let mut lines = vec![toned(&line(&heads), Tone::Faint)];
        lines.extend(self.rows.iter().map(|row| line(row)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_gives_way() {
        let mut table = OutputTable::new(&["id", "state", "message"]);
        table.row(["1".into(), "done".into(), "a message of\nsome\x1b[2J length".into()]);
        table.row(["22".into(), "日本".into(), "b".into()]);
        let whole =
            ["id  state  message", "1   done   a message of some[2J length", "22  日本   b"];
        assert_eq!(table.render(None), whole);
        let narrow = ["id  state  message", "1   done   a message o…", "22  日本   b"];
        assert_eq!(table.render(Some(23)), narrow);
    }
}
