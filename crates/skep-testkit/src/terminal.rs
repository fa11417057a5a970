//! A program on a terminal of its own: keys go in, and what a person would see comes out.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Child;

use crate::hive::Start;
use crate::wait::{self, PATIENCE};

/// Lines that have left the screen at its top and are still kept.
const SCROLLED: usize = 2000;

pub struct Terminal {
    master: File,
    child: Child,
    shown: Arc<Mutex<Shown>>,
}

/// Filled by the thread that reads; locked for moments.
struct Shown {
    parser: vt100::Parser,
    raw: Vec<u8>,
    /// Everyone has left the terminal, and all they wrote is here.
    left: bool,
}

impl Start {
    /// Starts it on a terminal of this size that speaks UTF-8, unless its environment says else.
    pub fn on_terminal(self, columns: u16, rows: u16) -> Result<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        tcsetwinsize(&master, size(columns, rows))?;
        let mut command =
            self.usually("TERM", "xterm-256color").usually("LANG", "C.UTF-8").command();
        command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave));
        // SAFETY: between fork and exec only two system calls are made and nothing is allocated.
        // The terminal becomes the child's own, so that it is told about changes of its size.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().context("starting on a terminal")?;
        drop(command);
        let parser = vt100::Parser::new(rows, columns, SCROLLED);
        let shown = Arc::new(Mutex::new(Shown { parser, raw: Vec::new(), left: false }));
        read_all(master.try_clone()?, Arc::clone(&shown));
        Ok(Terminal { master: File::from(master), child, shown })
    }
}

fn read_all(master: OwnedFd, shown: Arc<Mutex<Shown>>) {
    std::thread::spawn(move || {
        let mut master = File::from(master);
        let mut buffer = [0; 4096];
        // A terminal that everyone has left answers with an error.
        while let Ok(size @ 1..) = master.read(&mut buffer) {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.parser.process(&buffer[..size]);
            shown.raw.extend_from_slice(&buffer[..size]);
        }
        shown.lock().unwrap_or_else(PoisonError::into_inner).left = true;
    });
}

impl Terminal {
    /// Keys, as a keyboard sends them.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        self.master.write_all(keys.as_bytes()).context("pressing keys")
    }

    /// Text from the clipboard, in brackets as terminals send it.
    pub fn paste(&mut self, text: &str) -> Result<()> {
        self.press(&format!("\x1b[200~{text}\x1b[201~"))
    }

    pub fn resize(&mut self, columns: u16, rows: u16) -> Result<()> {
        self.shown().parser.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.master, size(columns, rows)).context("changing the size")
    }

    /// The screen as it is now: lines without trailing spaces, without empty ones at the end.
    pub fn screen(&self) -> String {
        let shown = self.shown();
        let lines: Vec<String> = rows_of(shown.parser.screen());
        lines.join("\n").trim_end().to_owned()
    }

    /// With what has left it at the top.
    pub fn everything(&self) -> String {
        let mut shown = self.shown();
        let screen = shown.parser.screen_mut();
        let (height, _) = screen.size();
        screen.set_scrollback(usize::MAX);
        let above = screen.scrollback();
        let mut lines = Vec::new();
        let mut offset = above;
        while offset > 0 {
            screen.set_scrollback(offset);
            let rows = rows_of(screen);
            let new = offset.min(usize::from(height));
            lines.extend(rows.into_iter().take(new));
            offset -= new;
        }
        screen.set_scrollback(0);
        lines.extend(rows_of(screen));
        lines.join("\n").trim_end().to_owned()
    }

    /// Every byte the program wrote.
    pub fn raw(&self) -> Vec<u8> {
        self.shown().raw.clone()
    }

    /// Column and row of the cursor.
    pub fn cursor(&self) -> (u16, u16) {
        let (row, column) = self.shown().parser.screen().cursor_position();
        (column, row)
    }

    /// Waits until the screen shows the text; gives the screen.
    pub async fn sees(&self, text: &str) -> Result<String> {
        self.until(&format!("{text:?} on the screen"), |screen| screen.contains(text)).await
    }

    /// Waits until the screen is as wished. A picture that is half painted does not count.
    pub async fn until(&self, what: &str, fits: impl Fn(&str) -> bool) -> Result<String> {
        let whole = || self.is_painted().then(|| self.screen());
        let waited = wait::until(what, PATIENCE, || whole().filter(|screen| fits(screen))).await;
        waited.with_context(|| format!("the screen is:\n{}", self.screen()))
    }

    /// Programs that tell where a picture begins and ends (mode 2026) are between two of them.
    fn is_painted(&self) -> bool {
        let shown = self.shown();
        let last = |mark: &[u8]| shown.raw.windows(mark.len()).rposition(|bytes| bytes == mark);
        last(b"\x1b[?2026l") >= last(b"\x1b[?2026h")
    }

    /// Until the program has ended and all it wrote is on the screen.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended
            .with_context(|| format!("it did not end; the screen is:\n{}", self.screen()))?
            .context("waiting for the program")?;
        let left = || self.shown().left.then_some(());
        wait::until("everyone leaves the terminal", PATIENCE, left).await?;
        Ok(status)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rows_of(screen: &vt100::Screen) -> Vec<String> {
    let (_, width) = screen.size();
    screen.rows(0, width).map(|row| row.trim_end().to_owned()).collect()
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
