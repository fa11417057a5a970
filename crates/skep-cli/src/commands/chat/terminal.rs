//! The conversation on a terminal: keys in, picture out, and the line to the hive beside them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode};
use serde_json::{Value, json};
use skep_guard::{clock, random};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::approvals::ReplyAction;
use super::commands::{self, LocalCommand};
use super::connection::{ChatCommand, ChatConnection};
use super::decision::{self, DecisionMode, HeldKey, KeyReply, LongApproval};
use super::editor::{self, Editor, KeyAction};
use super::picker::PickerAction;
use super::questions;
use super::screen::{LiveRegion, Screen};
use super::transcript::{ChatEntry, ChatTranscript, LiveMessage, seconds};
use super::view::{self, ThinkingDisplay};
use crate::failure::{Exit, Failure};
use crate::hive::escaped;
use crate::print::text::indented;
use crate::print::{Colour, Style, TermInfo, TextLine, TextSpan};
use crate::print::{outcome, output, shortened, width};

/// How often running times are repainted.
const TICK: Duration = Duration::from_millis(100);
/// Updates processed before the next repaint.
const BATCH: usize = 512;
/// How many running calls and queued messages are listed.
const LISTED: usize = 5;
/// Entries kept for a full repaint; the hive has all of them.
const KEPT: usize = 4000;
const SPINNER: [(&str, &str); 4] = [("⠋", "|"), ("⠸", "/"), ("⠦", "-"), ("⠇", "\\")];

pub struct Terminal {
    transcript: ChatTranscript,
    editor: Editor,
    connection: ChatConnection,
    term: TermInfo,
    height: usize,
    thinking: ThinkingDisplay,
    /// Entries already in the scroll-back.
    printed: usize,
    /// Lines of the live message that already scrolled up for lack of room.
    flowed: ScrolledLines,
    /// The next Ctrl-C leaves.
    armed: bool,
    stopping: bool,
    ticks: usize,
    /// The id of the message with `--message`; then there is no input line.
    once: Option<String>,
    /// A key that decides if no other follows.
    held_key: HeldKey,
    /// A message that looks like a decision: it is sent when Enter is pressed again.
    unsent: Option<String>,
    /// The conversation that was chosen instead.
    next: Option<Value>,
}

#[derive(Default)]
struct ScrolledLines {
    mark: Option<(i64, i64)>,
    lines: Vec<TextLine>,
}

enum ScreenAction {
    Paint,
    Repaint,
    Leave,
}

/// Keys, and whether more were there already.
pub type Keys = mpsc::Receiver<(Event, bool)>;

pub struct ScreenOptions<'a> {
    /// Leave when this is answered.
    pub message: Option<String>,
    /// Files of the agent, if they are on this machine.
    pub workspace: Option<PathBuf>,
    /// Read by one thread as long as the program runs.
    pub keys: &'a mut Option<Keys>,
}

/// Talks until the person leaves or chooses another conversation, which is returned.
pub async fn run(
    connection: ChatConnection,
    transcript: ChatTranscript,
    term: TermInfo,
    options: ScreenOptions<'_>,
) -> Result<Option<Value>, Failure> {
    let mut terminal = Terminal {
        transcript,
        editor: Editor::new(editor::history(), options.workspace),
        connection,
        term,
        height: Screen::size().1,
        thinking: ThinkingDisplay::Folded,
        printed: 0,
        flowed: ScrolledLines::default(),
        armed: false,
        stopping: false,
        ticks: 0,
        once: None,
        held_key: HeldKey::default(),
        unsent: None,
        next: None,
    };
    let id = match options.message {
        Some(text) => Some(terminal.say(text).await),
        None => None,
    };
    terminal.once = id;
    let broken = |error: io::Error| {
        Failure::new(Exit::Failed, "use the terminal", error.to_string())
            .next("skep send AGENT MESSAGE --wait")
    };
    let mut screen = Screen::take().map_err(broken)?;
    let result = terminal.serve(&mut screen, options.keys.get_or_insert_with(self::keys)).await;
    let cleared = screen.clear();
    drop(screen);
    result.and(cleared).map_err(broken)?;
    let next = terminal.next.take();
    if terminal.once.is_none() && next.is_none() && terminal.transcript.turn.is_some() {
        output::note("the turn goes on in the hive; the same command comes back to it");
    }
    terminal.outcome().map(|()| next)
}

/// Read by their own thread because reading blocks.
fn keys() -> Keys {
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
    async fn serve(&mut self, screen: &mut Screen, keys: &mut Keys) -> io::Result<()> {
        let mut gone = [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.paint(screen)?;
        loop {
            let next = tokio::select! {
                key = keys.recv() => match key {
                    Some((event, more)) => self.key(event, more).await,
                    // The terminal is gone.
                    None => ScreenAction::Leave,
                },
                update = self.connection.updates.recv() => match update {
                    Some(update) => {
                        self.transcript.take(update);
                        ScreenAction::Paint
                    }
                    None => ScreenAction::Leave,
                },
                _ = ticks.tick(), if self.is_busy() => {
                    self.ticks += 1;
                    let approvals = &mut self.transcript.approvals;
                    if let Some(reply) = self.held_key.due(approvals, clock::now_ms()) {
                        self.reply(reply).await;
                    }
                    ScreenAction::Paint
                }
                () = any(&mut gone) => ScreenAction::Leave,
            };
            for _ in 0..BATCH {
                let Ok(update) = self.connection.updates.try_recv() else { break };
                self.transcript.take(update);
            }
            self.stopping &= self.transcript.turn.is_some();
            match next {
                ScreenAction::Paint => self.paint(screen)?,
                ScreenAction::Repaint => self.repaint(screen)?,
                ScreenAction::Leave => return self.paint(screen),
            }
            let over = self.once.as_ref().is_some_and(|id| self.transcript.finished(id).is_some());
            if over || self.transcript.ended.is_some() {
                return Ok(());
            }
        }
    }

    fn outcome(self) -> Result<(), Failure> {
        let answered = self.once.as_ref().and_then(|id| self.transcript.finished(id));
        if let Some(failure) = self.transcript.ended {
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
        self.transcript.turn.is_some()
            || !self.transcript.outgoing.is_empty()
            || !self.transcript.connected
            || self.transcript.approvals.settles(clock::now_ms())
            || self.held_key.is_held()
    }

    async fn key(&mut self, event: Event, more: bool) -> ScreenAction {
        if let Event::Resize(..) = event {
            let (width, height) = Screen::size();
            (self.term.width, self.height) = (width, height);
            self.measure();
            return ScreenAction::Repaint;
        }
        if let Some(picker) = &mut self.transcript.picker {
            let action = picker.key(&event);
            return self.pick(action).await;
        }
        let armed = std::mem::take(&mut self.armed);
        if self.unsent.as_ref().is_some_and(|text| *text != self.editor.text()) {
            self.unsent = None;
        }
        if !more && self.once.is_none() && self.decision_key(&event).await {
            return ScreenAction::Paint;
        }
        // More keys than a decision has.
        if let Some(letter) = self.held_key.release() {
            self.editor.set(&letter.to_string());
        }
        if self.editor.is_empty() {
            self.transcript.approvals.begin_line();
            self.transcript.questions.begin_line();
            let pause = self.transcript.turn.as_ref().filter(|turn| turn.retry.is_some());
            if let (Some(turn), true) = (pause, event == Event::Key(KeyCode::Enter.into())) {
                let path = format!("/api/v1/turns/{}/retry-now", escaped(&turn.id));
                self.send(ChatCommand::Post(path)).await;
            }
        }
        match self.editor.take(event, more) {
            KeyAction::Edited => ScreenAction::Paint,
            KeyAction::Submit(text) => self.submit(text).await,
            KeyAction::Stop => {
                self.stop().await;
                ScreenAction::Paint
            }
            KeyAction::Break { .. } if armed => ScreenAction::Leave,
            KeyAction::Break { had_words } => {
                if !had_words {
                    self.armed = true;
                    self.stop().await;
                }
                ScreenAction::Paint
            }
            KeyAction::Leave => ScreenAction::Leave,
            KeyAction::Redraw => ScreenAction::Repaint,
            KeyAction::ToggleThinking => self.toggle_thinking(),
        }
    }

    async fn submit(&mut self, text: String) -> ScreenAction {
        let Some(command) = commands::local(&text) else {
            self.say_unless_reply(text).await;
            return ScreenAction::Paint;
        };
        let entries = &mut self.transcript.entries;
        match command {
            LocalCommand::Thinking => return self.toggle_thinking(),
            LocalCommand::Quit => return ScreenAction::Leave,
            LocalCommand::Help => {
                entries.extend([ChatEntry::Said(text), ChatEntry::Listing(commands::help())]);
            }
            LocalCommand::Resume => self.choose(false).await,
            LocalCommand::Send(command) => {
                entries.push(ChatEntry::Said(text));
                self.send(command).await;
            }
            LocalCommand::Decide(reply) => {
                entries.push(ChatEntry::Said(text));
                let actions = self.transcript.approvals.answer(reply);
                self.act(actions).await;
            }
            LocalCommand::Answer(answer) => {
                entries.push(ChatEntry::Said(text));
                let actions = self.transcript.questions.answer(answer);
                self.act(actions).await;
            }
        }
        ScreenAction::Paint
    }

    async fn pick(&mut self, action: PickerAction) -> ScreenAction {
        match action {
            PickerAction::Stay => {}
            PickerAction::List => {
                let picker = self.transcript.picker.as_ref();
                self.choose(!picker.is_some_and(|picker| picker.all_agents)).await;
            }
            PickerAction::Back => self.transcript.picker = None,
            PickerAction::Open(chosen) => {
                self.next = Some(chosen);
                return ScreenAction::Leave;
            }
        }
        ScreenAction::Paint
    }

    async fn choose(&mut self, all_agents: bool) {
        for command in self.transcript.choose(all_agents) {
            self.send(command).await;
        }
    }

    fn toggle_thinking(&mut self) -> ScreenAction {
        self.thinking = match self.thinking {
            ThinkingDisplay::Folded => ThinkingDisplay::Open,
            ThinkingDisplay::Open => ThinkingDisplay::Folded,
        };
        ScreenAction::Repaint
    }

    async fn say(&mut self, text: String) -> String {
        let id = random::uuid().to_string();
        self.transcript.say(&id, &text);
        self.send(ChatCommand::Say { id: id.clone(), text }).await;
        id
    }

    /// Without a listener the connection is over, and an update says so.
    async fn send(&self, command: ChatCommand) {
        let _ = self.connection.commands.send(command).await;
    }

    /// A message decides nothing: one that looks like a decision is explained before it is sent.
    async fn say_unless_reply(&mut self, text: String) {
        let waits = self.transcript.approvals.current().is_some();
        if waits && decision::is_reply(&text) && self.unsent.as_ref() != Some(&text) {
            self.editor.set(&text);
            self.unsent = Some(text);
            return;
        }
        self.unsent = None;
        self.say(text).await;
    }

    /// Whether the key was about an approval.
    async fn decision_key(&mut self, event: &Event) -> bool {
        let approvals = &mut self.transcript.approvals;
        let (line, now) = (self.editor.text(), clock::now_ms());
        let Some(reply) = decision::key(approvals, &mut self.held_key, event, &line, now) else {
            return false;
        };
        self.reply(reply).await;
        true
    }

    async fn reply(&mut self, reply: KeyReply) {
        if let Some(line) = reply.line {
            self.editor.set(&line);
        }
        self.act(reply.actions).await;
    }

    async fn act(&mut self, actions: Vec<ReplyAction>) {
        for action in actions {
            match action {
                ReplyAction::Show(entry) => self.transcript.entries.push(entry),
                ReplyAction::Send(command) => self.send(command).await,
            }
        }
    }

    async fn stop(&mut self) {
        if self.transcript.turn.is_some() && self.transcript.connected && !self.stopping {
            self.stopping = true;
            let (agent, session) = self.transcript.place();
            let frame = json!({"type": "interrupt", "agent": agent, "session": session});
            self.send(ChatCommand::Frame(frame)).await;
        }
    }

    /// Whether the approval in sight fits the screen.
    fn measure(&mut self) {
        let approvals = &mut self.transcript.approvals;
        let lines = approvals.current().map(|question| view::asked(question, &self.term));
        approvals.unread = lines.and_then(|lines| LongApproval::of(lines, self.height));
    }

    fn paint(&mut self, screen: &mut Screen) -> io::Result<()> {
        if let Some(shown) = self.transcript.approvals.look(clock::now_ms()) {
            self.transcript.entries.push(ChatEntry::Question(shown));
            self.measure();
        }
        let mut finished = self.lines_of(self.printed);
        let mark = self.transcript.live.as_ref().map(LiveMessage::mark);
        let flowed = &self.flowed.lines;
        if !flowed.is_empty() {
            let goes_on = match finished.is_empty() {
                true => mark == self.flowed.mark,
                // The text is final: the scrolled lines are its start.
                false => finished.starts_with(flowed),
            };
            if !goes_on {
                return self.repaint(screen);
            }
            if !finished.is_empty() {
                finished.drain(..flowed.len());
                self.flowed = ScrolledLines::default();
            }
        }
        self.printed = self.transcript.entries.len();
        if self.printed > KEPT {
            self.printed -= KEPT / 2;
            self.transcript.entries.drain(..KEPT / 2);
        }
        let live = self.live_lines();
        let rest = live.get(self.flowed.lines.len()..).unwrap_or_default().to_vec();
        let (picture, over) = self.picture(rest);
        finished.extend(over.iter().cloned());
        if !over.is_empty() {
            self.flowed.mark = mark;
            self.flowed.lines.extend(over);
        }
        screen.paint(&finished, &picture, &self.term)
    }

    /// Repaints the whole screen.
    fn repaint(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.printed = self.transcript.entries.len();
        let mark = self.transcript.live.as_ref().map(LiveMessage::mark);
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
        self.flowed = ScrolledLines { mark, lines: over };
        screen.begin_again()?;
        screen.paint(&above, &picture, &self.term)
    }

    fn lines_of(&self, from: usize) -> Vec<TextLine> {
        let mut before = from.checked_sub(1).and_then(|at| self.transcript.entries.get(at));
        let mut lines = Vec::new();
        for entry in self.transcript.entries.get(from..).unwrap_or_default() {
            lines.extend(view::entry(entry, before, &self.term, self.thinking));
            before = Some(entry);
        }
        lines
    }

    fn live_lines(&self) -> Vec<TextLine> {
        let live = self.transcript.live.as_ref();
        live.map(|live| view::live(live, &self.term, self.thinking)).unwrap_or_default()
    }

    /// The live region, and the lines of the answer that do not fit into it.
    fn picture(&self, answer: Vec<TextLine>) -> (LiveRegion, Vec<TextLine>) {
        let mut below: Vec<TextLine> = Vec::new();
        let now = clock::now_ms();
        let reads = matches!(self.transcript.approvals.mode, DecisionMode::Reading);
        let calls = self.transcript.calls.iter().filter(|(_, call)| call.since.is_some());
        let calls = calls.filter(|_| !reads).map(|(_, call)| view::running(call, now, &self.term));
        below.extend(self.bounded(calls.collect()));
        below.push(TextLine::new());
        below.extend(self.status(now));
        let outgoing = self.transcript.outgoing.iter().filter(|_| !reads);
        let outgoing = outgoing.map(|out| self.outgoing(&out.text, &out.state));
        below.extend(self.bounded(outgoing.collect()));
        let (mut row, mut column) = (below.len(), 0);
        if let Some(picker) = &self.transcript.picker {
            let rows = self.height.saturating_sub(below.len() + 1);
            let (lines, at) = picker.lines(rows, now, &self.term);
            column = at;
            below.extend(lines);
        } else if self.once.is_none() {
            below.extend(questions::prompt(&self.transcript.questions, &self.term));
            below.extend(decision::prompt(&self.transcript.approvals, now, &self.term));
            row = below.len();
            let shown = self.editor.layout(self.term.width.saturating_sub(3));
            // The part of a long input around the cursor.
            let most = (self.height / 2).max(1);
            let first = (shown.row + 1).saturating_sub(most);
            let lines = shown.lines.into_iter().enumerate().skip(first).take(most);
            below.extend(lines.map(|(at, text)| self.written(at, text)));
            (row, column) = (row + shown.row - first, shown.column + 2);
            below.extend(view::hints(&self.editor, &self.term));
            if let Some(text) = self.unsent.as_ref().filter(|text| **text == self.editor.text()) {
                below.extend(decision::explained(&self.transcript.approvals, text, &self.term));
            }
        } else {
            below.push(TextLine::new());
        }
        let room = self.height.saturating_sub(below.len() + 1).max(1);
        let over = answer.len().saturating_sub(room);
        let (over, shown) = answer.split_at(over);
        let mut lines = shown.to_vec();
        row += lines.len();
        lines.extend(below);
        // If the region is higher than the screen, the bottom with the input line is shown.
        let above = (lines.len() + 1).saturating_sub(self.height).min(row);
        lines.drain(..above);
        (LiveRegion { lines, row: row - above, column }, over.to_vec())
    }

    /// The first lines, and the number of the others.
    fn bounded(&self, mut lines: Vec<TextLine>) -> Vec<TextLine> {
        let more = lines.len().saturating_sub(LISTED);
        if more > 0 {
            lines.truncate(LISTED);
            let text = format!("  {} {more} more", self.term.sign("…", "..."));
            lines.push(vec![TextSpan::new(text, Style::FAINT)]);
        }
        lines
    }

    fn written(&self, at: usize, text: String) -> TextLine {
        let sign = if at == 0 { self.term.sign("› ", "> ") } else { "  " };
        vec![
            TextSpan::new(sign, Style { colour: Some(Colour::Blue), ..Style::BOLD }),
            TextSpan::plain(text),
        ]
    }

    fn status(&self, now: i64) -> Vec<TextLine> {
        let text = if !self.transcript.connected {
            "no connection; trying again".to_owned()
        } else if let Some(turn) = &self.transcript.turn {
            let took = seconds((now - turn.since).max(0));
            match (&turn.waits_for, &turn.retry) {
                _ if self.stopping => format!("stopping · {took}"),
                // At its end the next try is under way.
                (_, Some(retry)) if retry["next_at"].as_i64() > Some(now) => {
                    format!("{} · Esc stops · Enter tries now", outcome::retry(retry, now))
                }
                (Some(reason), _) => format!("waits: {reason} · Esc ends it"),
                (None, _) => format!("working · {took} · Esc stops"),
            }
        } else if self.armed {
            return vec![vec![TextSpan::new("Ctrl-C again leaves", Style::FAINT)]];
        } else {
            return Vec::new();
        };
        let text = if self.armed { format!("{text} · Ctrl-C again leaves") } else { text };
        let (sign, ascii) = SPINNER[self.ticks % SPINNER.len()];
        let mut lines = indented(&text, "  ", Style::FAINT, &self.term);
        if let Some(first) = lines.first_mut().and_then(|line| line.first_mut()) {
            let sign = self.term.sign(sign, ascii);
            *first = TextSpan::new(format!("{sign} "), Style::of(Colour::Yellow));
        }
        lines
    }

    fn outgoing(&self, text: &str, state: &Option<String>) -> TextLine {
        let state = state.as_deref().unwrap_or("sending");
        let room = self.term.width.saturating_sub(width(state) + 5);
        let text = format!("  {state}: {}", shortened(text, room));
        vec![TextSpan::new(text, Style::FAINT)]
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
pub fn greeting(agent: &str, session: &str, model: &str) -> ChatEntry {
    let place = if session == "main" { agent.to_owned() } else { format!("{agent} / {session}") };
    ChatEntry::Note(format!("{place} · {model} · /help for commands, Ctrl-D leaves"))
}
