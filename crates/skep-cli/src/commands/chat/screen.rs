//! The bottom of the terminal: finished lines go into its scroll-back, the live region below them
//! is repainted on every change.

use std::io::{self, Write};

use crossterm::{cursor, event, execute, terminal};

use crate::print::text::{TermInfo, TextLine, encode};

/// Synchronized output: a terminal that supports it shows no half-painted screen.
const HOLD: &str = "\x1b[?2026h\x1b[?25l";
const SHOW: &str = "\x1b[?25h\x1b[?2026l";
/// Lines that are too long are cut, not wrapped: one line must stay one row.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The part that changes, and where the cursor is in it.
pub struct LiveRegion {
    pub lines: Vec<TextLine>,
    pub row: usize,
    pub column: usize,
}

pub struct Screen {
    out: io::Stdout,
    /// The row of the live part the cursor is in.
    row: usize,
    painted: String,
}

impl Screen {
    /// Takes the terminal: keys come one by one, pastes in one piece.
    pub fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let mut screen = Self { out: io::stdout(), row: 0, painted: String::new() };
        execute!(screen.out, event::EnableBracketedPaste)?;
        Ok(screen)
    }

    pub fn size() -> (usize, usize) {
        let (width, height) = terminal::size().unwrap_or((80, 24));
        (usize::from(width.max(10)), usize::from(height.max(4)))
    }

    /// Puts finished lines above a new live part.
    pub fn paint(
        &mut self,
        finished: &[TextLine],
        picture: &LiveRegion,
        term: &TermInfo,
    ) -> io::Result<()> {
        let live = part(picture, term);
        if finished.is_empty() && live == self.painted {
            return Ok(());
        }
        let up = if self.row > 0 { format!("\x1b[{}A", self.row) } else { String::new() };
        let lines: String = finished.iter().map(|line| encode(line, term) + "\r\n").collect();
        let text = format!("{HOLD}{up}\r\x1b[J{lines}{CUT}{live}{WRAP}{SHOW}");
        self.out.write_all(text.as_bytes())?;
        self.row = picture.row;
        self.painted = live;
        self.out.flush()
    }

    /// The next picture is painted on an empty screen.
    pub fn begin_again(&mut self) -> io::Result<()> {
        self.row = 0;
        self.painted.clear();
        write!(self.out, "{HOLD}\x1b[H")
    }

    /// Takes the live part away, so that the shell goes on right below.
    pub fn clear(&mut self) -> io::Result<()> {
        let nothing = LiveRegion { lines: vec![TextLine::new()], row: 0, column: 0 };
        let term = TermInfo { width: 80, colour: false, unicode: false };
        self.paint(&[], &nothing, &term)
    }
}

fn part(picture: &LiveRegion, term: &TermInfo) -> String {
    let lines: Vec<String> = picture.lines.iter().map(|line| encode(line, term)).collect();
    let mut text = lines.join("\r\n");
    let below = picture.lines.len().saturating_sub(picture.row + 1);
    if below > 0 {
        text.push_str(&format!("\x1b[{below}A"));
    }
    text.push('\r');
    if picture.column > 0 {
        text.push_str(&format!("\x1b[{}C", picture.column));
    }
    text
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error here means that the terminal is gone.
        let _ = execute!(self.out, event::DisableBracketedPaste, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}
