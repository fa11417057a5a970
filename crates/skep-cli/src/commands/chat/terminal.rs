//! The conversation on a terminal: keys in, picture out, and the line to the hive beside them.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event};
use skep_guard::{clock, random};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::commands::{self, Answer, Local};
use super::connection::{Connection, Order};
use super::editor::{self, Editor, Typed};
use super::questions::Said;
use super::screen::{Picture, Screen};
use super::talk::{Entry, Live, Talk, seconds};
use super::view::{self, Thinking};
use crate::failure::{Exit, Failure};
use crate::print::output;
use crate::print::text::{Colour, Line, Look, Span, Style, shortened, width};

/// How often the time of what runs is shown anew.
const TICK: Duration = Duration::from_millis(100);
/// News taken in before the screen is painted again.
const BATCH: usize = 512;
const MENU_LINES: usize = 8;
/// Calls that run and messages that wait are shown up to this many.
const LISTED: usize = 5;
/// Entries kept for painting the screen anew; the hive has all of them.
const KEPT: usize = 4000;
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇", "⠏", "⠹"];

pub struct Terminal {
    talk: Talk,
    editor: Editor,
    connection: Connection,
    look: Look,
    height: usize,
    thinking: Thinking,
    /// Entries that are painted for good.
    printed: usize,
    /// Lines of the call under way that had no room below and went up already.
    flowed: Flowed,
    /// One more Ctrl-C leaves.
    armed: bool,
    stopping: bool,
    ticks: usize,
    /// The only message, when it is the only one; then there is no line to write in.
    once: Option<String>,
}

#[derive(Default)]
struct Flowed {
    mark: Option<(i64, i64)>,
    lines: Vec<Line>,
}

enum Next {
    Paint,
    Repaint,
    Leave,
}

/// Talks until the person leaves; with `message`, until it is answered.
pub async fn run(
    connection: Connection,
    talk: Talk,
    look: Look,
    message: Option<String>,
) -> Result<(), Failure> {
    let mut terminal = Terminal {
        talk,
        editor: Editor::new(editor::history()),
        connection,
        look,
        height: Screen::size().1,
        thinking: Thinking::Folded,
        printed: 0,
        flowed: Flowed::default(),
        armed: false,
        stopping: false,
        ticks: 0,
        once: None,
    };
    let id = match message {
        Some(text) => Some(terminal.say(text).await),
        None => None,
    };
    terminal.once = id;
    let broken = |error: io::Error| {
        Failure::new(Exit::Failed, "use the terminal", error.to_string())
            .next("skep send AGENT MESSAGE --wait")
    };
    let mut screen = Screen::take().map_err(broken)?;
    let result = terminal.serve(&mut screen).await;
    let cleared = screen.clear();
    drop(screen);
    result.and(cleared).map_err(broken)?;
    if terminal.once.is_none() && terminal.talk.turn.is_some() {
        output::note("the turn goes on in the hive; come back with skep chat");
    }
    terminal.outcome()
}

/// Keys, read by a thread of their own: reading them blocks. `true`: more were there already.
fn keys() -> mpsc::Receiver<(Event, bool)> {
    let (sender, receiver) = mpsc::channel(1024);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let more = event::poll(Duration::ZERO).unwrap_or(false);
            if sender.blocking_send((event, more)).is_err() {
                break;
            }
        }
    });
    receiver
}

impl Terminal {
    async fn serve(&mut self, screen: &mut Screen) -> io::Result<()> {
        let mut keys = keys();
        let mut gone = [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.paint(screen)?;
        loop {
            let next = tokio::select! {
                key = keys.recv() => match key {
                    Some((event, more)) => self.key(event, more).await,
                    // The terminal is gone.
                    None => Next::Leave,
                },
                news = self.connection.news.recv() => match news {
                    Some(news) => {
                        self.talk.take(news);
                        Next::Paint
                    }
                    None => Next::Leave,
                },
                _ = ticks.tick(), if self.is_busy() => {
                    self.ticks += 1;
                    Next::Paint
                }
                () = any(&mut gone) => Next::Leave,
            };
            for _ in 0..BATCH {
                let Ok(news) = self.connection.news.try_recv() else { break };
                self.talk.take(news);
            }
            self.stopping &= self.talk.turn.is_some();
            match next {
                Next::Paint => self.paint(screen)?,
                Next::Repaint => self.repaint(screen)?,
                Next::Leave => return self.paint(screen),
            }
            let over = self.once.as_ref().is_some_and(|id| self.talk.finished(id).is_some());
            if over || self.talk.ended.is_some() {
                return Ok(());
            }
        }
    }

    fn outcome(self) -> Result<(), Failure> {
        let answered = self.once.as_ref().and_then(|id| self.talk.finished(id));
        if let Some(failure) = self.talk.ended {
            return Err(failure);
        }
        match (self.once, answered) {
            (Some(_), Some(false)) => {
                let why = "the message ended without an answer; the reason stands above";
                Err(Failure::new(Exit::Failed, "get an answer", why))
            }
            (Some(_), None) => {
                let why = "left before it came; the turn goes on by itself";
                Err(Failure::new(Exit::Failed, "get an answer", why).next("skep chat"))
            }
            _ => Ok(()),
        }
    }

    fn is_busy(&self) -> bool {
        self.talk.turn.is_some() || !self.talk.outgoing.is_empty() || !self.talk.connected
    }

    async fn key(&mut self, event: Event, more: bool) -> Next {
        if let Event::Resize(..) = event {
            let (width, height) = Screen::size();
            (self.look.width, self.height) = (width, height);
            return Next::Repaint;
        }
        let armed = std::mem::take(&mut self.armed);
        if self.editor.is_empty() {
            self.talk.questions.begin_line();
        }
        match self.editor.take(event, more) {
            Typed::Edited => Next::Paint,
            Typed::Submit(text) => match commands::local(&text) {
                Some(Local::Thinking) => self.toggle_thinking(),
                Some(Local::Quit) => Next::Leave,
                Some(Local::Answer(answer)) => {
                    self.answer(text, answer).await;
                    Next::Paint
                }
                None => {
                    self.say(text).await;
                    Next::Paint
                }
            },
            Typed::Stop => {
                self.stop().await;
                Next::Paint
            }
            Typed::Break { .. } if armed => Next::Leave,
            Typed::Break { had_words } => {
                if !had_words {
                    self.armed = true;
                    self.stop().await;
                }
                Next::Paint
            }
            Typed::Leave => Next::Leave,
            Typed::Redraw => Next::Repaint,
            Typed::ToggleThinking => self.toggle_thinking(),
        }
    }

    fn toggle_thinking(&mut self) -> Next {
        self.thinking = match self.thinking {
            Thinking::Folded => Thinking::Open,
            Thinking::Open => Thinking::Folded,
        };
        Next::Repaint
    }

    async fn say(&mut self, text: String) -> String {
        let id = random::uuid().to_string();
        self.talk.say(&id, &text);
        // Without a listener the connection is over, which its news tell.
        let _ = self.connection.orders.send(Order::Say { id: id.clone(), text }).await;
        id
    }

    /// Decides in place: not as talk, which decides nothing.
    async fn answer(&mut self, text: String, answer: Answer) {
        self.talk.entries.push(Entry::Said(text));
        let order = match self.talk.questions.answer(answer) {
            Said::Note(text) => return self.talk.note(text),
            Said::Preview { id, pattern } => Order::Preview { id, pattern },
            Said::Decide(frame) => Order::Decide(frame),
        };
        let _ = self.connection.orders.send(order).await;
    }

    async fn stop(&mut self) {
        if self.talk.turn.is_some() && self.talk.connected && !self.stopping {
            self.stopping = true;
            let _ = self.connection.orders.send(Order::Interrupt).await;
        }
    }

    fn paint(&mut self, screen: &mut Screen) -> io::Result<()> {
        let mut finished = self.lines_of(self.printed);
        let mark = self.talk.live.as_ref().map(Live::mark);
        let flowed = &self.flowed.lines;
        if !flowed.is_empty() {
            let goes_on = match finished.is_empty() {
                true => mark == self.flowed.mark,
                // The words became final: what went up is their beginning.
                false => finished.starts_with(flowed),
            };
            if !goes_on {
                return self.repaint(screen);
            }
            if !finished.is_empty() {
                finished.drain(..flowed.len());
                self.flowed = Flowed::default();
            }
        }
        self.printed = self.talk.entries.len();
        if self.printed > KEPT {
            self.printed -= KEPT / 2;
            self.talk.entries.drain(..KEPT / 2);
        }
        let live = self.live_lines();
        let rest = live.get(self.flowed.lines.len()..).unwrap_or_default().to_vec();
        let (picture, over) = self.picture(rest);
        finished.extend(over.iter().cloned());
        if !over.is_empty() {
            self.flowed.mark = mark;
            self.flowed.lines.extend(over);
        }
        screen.paint(&finished, &picture, &self.look)
    }

    /// Everything anew, as far as the screen reaches.
    fn repaint(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.printed = self.talk.entries.len();
        let mark = self.talk.live.as_ref().map(Live::mark);
        let (picture, over) = self.picture(self.live_lines());
        let room = self.height.saturating_sub(picture.lines.len());
        let mut from = self.printed;
        let mut above = over.clone();
        while above.len() < room && from > 0 {
            from -= 1;
            above = self.lines_of(from);
            above.extend(over.iter().cloned());
        }
        let above = above.split_off(above.len().saturating_sub(room));
        self.flowed = Flowed { mark, lines: over };
        screen.repaint(&above, &picture, &self.look)
    }

    fn lines_of(&self, from: usize) -> Vec<Line> {
        let mut before = from.checked_sub(1).and_then(|at| self.talk.entries.get(at));
        let mut lines = Vec::new();
        for entry in self.talk.entries.get(from..).unwrap_or_default() {
            lines.extend(view::entry(entry, before, &self.look, self.thinking));
            before = Some(entry);
        }
        lines
    }

    fn live_lines(&self) -> Vec<Line> {
        let live = self.talk.live.as_ref();
        live.map(|live| view::live(live, &self.look, self.thinking)).unwrap_or_default()
    }

    /// The live part, and the lines of the answer that have no room in it.
    fn picture(&self, answer: Vec<Line>) -> (Picture, Vec<Line>) {
        let mut below: Vec<Line> = Vec::new();
        let now = clock::now_ms();
        let calls = self.talk.calls.iter().filter(|(_, call)| call.since.is_some());
        let calls = calls.map(|(_, call)| view::running(call, now, &self.look));
        below.extend(self.bounded(calls.collect()));
        below.push(Line::new());
        below.extend(self.status(now));
        let outgoing = self.talk.outgoing.iter().map(|out| self.outgoing(&out.text, &out.state));
        below.extend(self.bounded(outgoing.collect()));
        let (mut row, mut column) = (below.len(), 0);
        if self.once.is_none() {
            let shown = self.editor.layout(self.look.width.saturating_sub(3));
            // As much of a long message as there is room for, around the cursor.
            let most = (self.height / 2).max(1);
            let first = (shown.row + 1).saturating_sub(most);
            let lines = shown.lines.into_iter().enumerate().skip(first).take(most);
            below.extend(lines.map(|(at, text)| self.written(at, text)));
            (row, column) = (row + shown.row - first, shown.column + 2);
            below.extend(self.hints());
        } else {
            below.push(Line::new());
        }
        let room = self.height.saturating_sub(below.len() + 1).max(1);
        let over = answer.len().saturating_sub(room);
        let (over, shown) = answer.split_at(over);
        let mut lines = shown.to_vec();
        row += lines.len();
        lines.extend(below);
        // Of a picture higher than the screen the lower end is seen, with the line to write in.
        let above = (lines.len() + 1).saturating_sub(self.height).min(row);
        lines.drain(..above);
        (Picture { lines, row: row - above, column }, over.to_vec())
    }

    /// The first of many lines, and how many there are more.
    fn bounded(&self, mut lines: Vec<Line>) -> Vec<Line> {
        let more = lines.len().saturating_sub(LISTED);
        if more > 0 {
            lines.truncate(LISTED);
            let text = format!("  {} {more} more", self.look.sign("…", "..."));
            lines.push(vec![Span::new(text, Style::FAINT)]);
        }
        lines
    }

    fn written(&self, at: usize, text: String) -> Line {
        let sign = if at == 0 { self.look.sign("› ", "> ") } else { "  " };
        vec![
            Span::new(sign, Style { colour: Some(Colour::Blue), ..Style::BOLD }),
            Span::plain(text),
        ]
    }

    fn status(&self, now: i64) -> Option<Line> {
        let text = if !self.talk.connected {
            "no connection; trying again".to_owned()
        } else if let Some(turn) = &self.talk.turn {
            let took = seconds((now - turn.since).max(0));
            match (&turn.waits_for, self.stopping) {
                (_, true) => format!("stopping · {took}"),
                (Some(reason), false) => format!("waits: {reason} · Esc ends it"),
                (None, false) => format!("working · {took} · Esc stops"),
            }
        } else if self.armed {
            return Some(vec![Span::new("Ctrl-C again leaves", Style::FAINT)]);
        } else {
            return None;
        };
        let text = if self.armed { format!("{text} · Ctrl-C again leaves") } else { text };
        let at = self.ticks % SPINNER.len();
        let ascii = ["|", "/", "-", "\\"];
        let sign = self.look.sign(SPINNER.get(at)?, ascii.get(at % ascii.len())?);
        let short = shortened(&text, self.look.width.saturating_sub(3));
        Some(vec![
            Span::new(format!("{sign} "), Style::of(Colour::Yellow)),
            Span::new(short, Style::FAINT),
        ])
    }

    fn outgoing(&self, text: &str, state: &Option<String>) -> Line {
        let state = state.as_deref().unwrap_or("sending");
        let room = self.look.width.saturating_sub(width(state) + 5);
        let text = format!("  {state}: {}", shortened(text, room));
        vec![Span::new(text, Style::FAINT)]
    }

    /// Below the line: what is searched, or commands to choose from.
    fn hints(&self) -> Vec<Line> {
        let faint = |text: String| vec![Span::new(text, Style::FAINT)];
        if let Some(query) = self.editor.searched() {
            return vec![faint(format!("  search: {query} (Ctrl-R older, Enter takes, Esc back)"))];
        }
        let Some(menu) = self.editor.menu() else {
            return Vec::new();
        };
        let first = (menu.chosen.unwrap_or(0) + 1).saturating_sub(MENU_LINES);
        let words = menu.words.iter().enumerate().skip(first).take(MENU_LINES);
        let words = words.map(|(at, (word, what))| {
            let chosen = if menu.chosen == Some(at) { Style::BOLD } else { Style::PLAIN };
            let room = self.look.width.saturating_sub(14);
            vec![
                Span::new(format!("  {word:<11}"), chosen),
                Span::new(shortened(what, room), Style::FAINT),
            ]
        });
        words.collect()
    }
}

async fn any(signals: &mut [Signal; 2]) {
    let [first, second] = signals;
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}

/// The first lines of a chat.
pub fn greeting(agent: &str, session: &str, model: &str) -> Entry {
    let place = if session == "main" { agent.to_owned() } else { format!("{agent} / {session}") };
    Entry::Note(format!("{place} · {model} · /help for commands, Ctrl-D leaves"))
}
