//! The input line. reedline handles keys and editing; the painting is ours, because the line shares
//! the screen with a growing answer.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use reedline::{
    EditCommand, EditMode, Emacs, FileBackedHistory, History, HistoryItem, Reedline, ReedlineEvent,
    SearchDirection, SearchQuery, default_emacs_keybindings,
};
use skep_guard::environment;

use super::commands;
use super::paste::Pastes;
use crate::print::text::{harmless, width};

/// Messages kept in the input history.
const REMEMBERED: usize = 1000;
/// Bytes of the longest of them.
const LONGEST: usize = 64 << 10;

/// What a key asked for.
#[derive(Debug, PartialEq)]
pub enum KeyAction {
    Edited,
    Submit(String),
    /// Esc.
    Stop,
    /// Ctrl-C; whether it discarded a line that was not empty.
    Break {
        had_words: bool,
    },
    Leave,
    Redraw,
    ToggleThinking,
}

pub struct Editor {
    // Only its editing is used: it never paints and never reads the terminal.
    line: Reedline,
    keys: Emacs,
    history: FileBackedHistory,
    /// The position in the input history, counted from the newest, and the draft before it.
    back: Option<(usize, String)>,
    search: Option<HistorySearch>,
    /// The completions shown, and the chosen one.
    menu: Option<CompletionMenu>,
    pastes: Pastes,
    /// Files of the agent, if they are on this machine.
    workspace: Option<PathBuf>,
}

#[derive(Default)]
struct HistorySearch {
    query: String,
    /// How many matches were skipped.
    skipped: usize,
    before: String,
}

pub struct CompletionMenu {
    /// Where the word begins in the line.
    from: usize,
    pub words: Vec<(String, String)>,
    pub chosen: Option<usize>,
}

impl Editor {
    pub fn new(history: FileBackedHistory, workspace: Option<PathBuf>) -> Self {
        let mut bindings = default_emacs_keybindings();
        // Ctrl-O toggles thinking here; reedline would open an editor.
        bindings.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('o'));
        Self {
            line: Reedline::create(),
            keys: Emacs::new(bindings),
            history,
            back: None,
            search: None,
            menu: None,
            pastes: Pastes::default(),
            workspace,
        }
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.folded().is_empty()
    }

    /// What is written, pastes whole.
    pub fn text(&self) -> String {
        self.pastes.unfold(self.folded())
    }

    /// The line with a sign for each large paste.
    fn folded(&self) -> &str {
        self.line.current_buffer_contents()
    }

    pub fn has_paste(&self) -> bool {
        self.pastes.are_in(self.folded())
    }

    pub fn menu(&self) -> Option<&CompletionMenu> {
        self.menu.as_ref()
    }

    /// The query of a running history search.
    pub fn searched(&self) -> Option<&str> {
        self.search.as_ref().map(|search| search.query.as_str())
    }

    /// `more`: further keys are there already, so this is a paste and its line ends are text.
    pub fn take(&mut self, event: Event, more: bool) -> KeyAction {
        if let Event::Key(key) = &event {
            if self.search.is_some()
                && let Some(typed) = self.search_key(key)
            {
                return typed;
            }
            if key.code == KeyCode::Tab {
                self.complete();
                return KeyAction::Edited;
            }
            if key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Char('o') {
                if !self.has_paste() {
                    return KeyAction::ToggleThinking;
                }
                let text = self.text();
                self.set(&text);
                return KeyAction::Edited;
            }
        }
        self.menu = None;
        if let Event::Paste(text) = &event {
            let text = self.pastes.fold(text);
            self.insert(&text);
            return KeyAction::Edited;
        }
        match event.try_into() {
            Ok(event) => {
                let event = self.keys.parse_event(event);
                self.act(event, more)
            }
            Err(()) => KeyAction::Edited,
        }
    }

    fn act(&mut self, event: ReedlineEvent, more: bool) -> KeyAction {
        match event {
            ReedlineEvent::Edit(commands) => {
                self.line.run_edit_commands(&commands);
                self.back = None;
            }
            ReedlineEvent::Enter => return self.enter(more),
            ReedlineEvent::Esc => return KeyAction::Stop,
            ReedlineEvent::CtrlC => {
                let had_words = !self.is_empty();
                self.set("");
                return KeyAction::Break { had_words };
            }
            ReedlineEvent::CtrlD if self.is_empty() => return KeyAction::Leave,
            ReedlineEvent::CtrlD => self.line.run_edit_commands(&[EditCommand::Delete]),
            ReedlineEvent::ClearScreen => return KeyAction::Redraw,
            ReedlineEvent::SearchHistory => {
                let before = self.folded().to_owned();
                self.search = Some(HistorySearch { before, ..HistorySearch::default() });
            }
            ReedlineEvent::Up => self.up(),
            ReedlineEvent::Down => self.down(),
            ReedlineEvent::Left => self.edit(EditCommand::MoveLeft { select: false }),
            ReedlineEvent::Right => self.edit(EditCommand::MoveRight { select: false }),
            ReedlineEvent::ToStart => self.edit(EditCommand::MoveToStart { select: false }),
            ReedlineEvent::ToEnd => self.edit(EditCommand::MoveToEnd { select: false }),
            // The last event is the key's meaning without menus and hints.
            ReedlineEvent::UntilFound(mut events) => {
                if let Some(event) = events.pop() {
                    return self.act(event, more);
                }
            }
            _ => {}
        }
        KeyAction::Edited
    }

    fn edit(&mut self, command: EditCommand) {
        self.line.run_edit_commands(&[command]);
    }

    fn insert(&mut self, text: &str) {
        self.edit(EditCommand::InsertString(text.to_owned()));
    }

    pub fn set(&mut self, text: &str) {
        self.edit(EditCommand::Clear);
        self.insert(text);
    }

    fn enter(&mut self, more: bool) -> KeyAction {
        if more {
            self.edit(EditCommand::InsertNewline);
            return KeyAction::Edited;
        }
        if self.folded().ends_with('\\') {
            self.edit(EditCommand::MoveToEnd { select: false });
            self.edit(EditCommand::Backspace);
            self.edit(EditCommand::InsertNewline);
            return KeyAction::Edited;
        }
        let text = self.text().trim_end().to_owned();
        if text.trim().is_empty() {
            return KeyAction::Edited;
        }
        // A history that cannot be written does not stop the message.
        if text.len() <= LONGEST {
            let kept = self.pastes.kept(self.folded().trim_end());
            let _ = self.history.save(HistoryItem::from_command_line(&kept));
            let _ = self.history.sync();
        }
        self.back = None;
        self.pastes = Pastes::default();
        self.set("");
        KeyAction::Submit(text)
    }

    fn up(&mut self) {
        let before = self.folded().get(..self.line.current_insertion_point()).unwrap_or_default();
        if before.contains('\n') {
            self.edit(EditCommand::MoveLineUp { select: false });
            return;
        }
        let (at, draft) = match self.back.take() {
            Some((at, draft)) => (at + 1, draft),
            None => (0, self.folded().to_owned()),
        };
        match self.past("", at) {
            Some(text) => {
                self.set(&text);
                self.back = Some((at, draft));
            }
            None => self.back = at.checked_sub(1).map(|at| (at, draft)),
        }
    }

    fn down(&mut self) {
        let after = self.folded().get(self.line.current_insertion_point()..).unwrap_or_default();
        if after.contains('\n') {
            self.edit(EditCommand::MoveLineDown { select: false });
            return;
        }
        let Some((at, draft)) = self.back.take() else { return };
        match at.checked_sub(1) {
            None => self.set(&draft),
            Some(at) => {
                let text = self.past("", at).unwrap_or_default();
                self.set(&text);
                self.back = Some((at, draft));
            }
        }
    }

    /// The message that holds the words, `skipped` matches back from the newest.
    fn past(&mut self, words: &str, skipped: usize) -> Option<String> {
        let mut query = SearchQuery::all_that_contain_rev(words.to_owned());
        query.direction = SearchDirection::Backward;
        let found = self.history.search(query).ok()?;
        let found = found.into_iter().nth(skipped)?;
        Some(self.pastes.recalled(&found.command_line))
    }

    /// Handles a key during a history search; `None` if the key ends the search and has its usual
    /// meaning.
    fn search_key(&mut self, key: &KeyEvent) -> Option<KeyAction> {
        let mut search = self.search.take()?;
        match (key.code, key.modifiers) {
            (KeyCode::Char('r'), KeyModifiers::CONTROL) => search.skipped += 1,
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT) => {
                search.query.push(letter);
                search.skipped = 0;
            }
            (KeyCode::Backspace, _) => {
                search.query.pop();
                search.skipped = 0;
            }
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => {
                let before = search.before;
                self.set(&before);
                return Some(KeyAction::Edited);
            }
            (KeyCode::Enter, _) => return Some(KeyAction::Edited),
            _ => return None,
        }
        match self.past(&search.query, search.skipped) {
            Some(text) => self.set(&text),
            None => search.skipped = search.skipped.saturating_sub(1),
        }
        self.search = Some(search);
        Some(KeyAction::Edited)
    }

    /// Completes the command at the start of the line, or the file after `@`; repeated, cycles
    /// through the completions.
    fn complete(&mut self) {
        if let Some(menu) = &mut self.menu {
            let next = menu.chosen.map_or(0, |at| (at + 1) % menu.words.len());
            menu.chosen = Some(next);
            let word = menu.words.get(next).map(|(word, _)| word.clone()).unwrap_or_default();
            let from = menu.from;
            return self.replace_word(from, &word);
        }
        let line = self.folded();
        let before = line.get(..self.line.current_insertion_point()).unwrap_or(line);
        let from = before.rfind([' ', '\n']).map_or(0, |at| at + 1);
        let words = match before.get(from..).and_then(|word| word.strip_prefix('@')) {
            Some(path) => commands::files(self.workspace.as_deref(), path),
            None => commands::completions(line),
        };
        match words.as_slice() {
            [] => {}
            [(word, _)] => {
                let end = if word.ends_with('/') { "" } else { " " };
                self.replace_word(from, &format!("{word}{end}"));
            }
            _ => {
                self.replace_word(from, &commands::shared_start(&words));
                self.menu = Some(CompletionMenu { from, words, chosen: None });
            }
        }
    }

    /// Replaces what is between `from` and the cursor.
    fn replace_word(&mut self, from: usize, word: &str) {
        let line = self.folded();
        let after = line.get(self.line.current_insertion_point()..).unwrap_or_default();
        let text = format!("{}{word}{after}", line.get(..from).unwrap_or_default());
        self.set(&text);
        let position = from + word.len();
        self.edit(EditCommand::MoveToPosition { position, select: false });
    }

    /// The written lines at this width, and where the cursor is among them.
    pub fn layout(&self, columns: usize) -> EditorLayout {
        let cursor = self.line.current_insertion_point();
        layout(self.folded(), &self.pastes, cursor, columns.max(2))
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct EditorLayout {
    pub lines: Vec<String>,
    pub row: usize,
    pub column: usize,
}

fn layout(text: &str, pastes: &Pastes, cursor: usize, columns: usize) -> EditorLayout {
    let mut shown = EditorLayout { lines: vec![String::new()], ..EditorLayout::default() };
    let mut column = 0;
    for (at, letter) in text.char_indices() {
        if at == cursor {
            (shown.row, shown.column) = (shown.lines.len() - 1, column);
        }
        if letter == '\n' {
            shown.lines.push(String::new());
            column = 0;
            continue;
        }
        let sign = pastes.shown(letter, columns.saturating_sub(column), columns);
        let piece = sign.unwrap_or_else(|| harmless(letter.encode_utf8(&mut [0; 4])));
        let wide = width(&piece);
        if column + wide > columns {
            shown.lines.push(String::new());
            column = 0;
            if at == cursor {
                (shown.row, shown.column) = (shown.lines.len() - 1, 0);
            }
        }
        if let Some(line) = shown.lines.last_mut() {
            line.push_str(&piece);
        }
        column += wide;
    }
    if cursor >= text.len() {
        if column >= columns {
            shown.lines.push(String::new());
            column = 0;
        }
        (shown.row, shown.column) = (shown.lines.len() - 1, column);
    }
    shown
}

/// The input history: a private file in the user's state folder, or memory if that is not possible.
pub fn history() -> FileBackedHistory {
    let file = history_file();
    let kept = file.filter(|file| private(file).is_ok());
    let kept = kept.and_then(|file| FileBackedHistory::with_file(REMEMBERED, file).ok());
    kept.unwrap_or_default()
}

fn history_file() -> Option<PathBuf> {
    let state = environment::var("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.filter(|folder| folder.is_absolute());
    let usual = || Some(Path::new(&environment::var("HOME")?).join(".local/state"));
    Some(state.or_else(usual)?.join("skep/chat_history"))
}

fn private(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn editor() -> Editor {
        Editor::new(FileBackedHistory::default(), None)
    }

    fn press(editor: &mut Editor, code: KeyCode, modifiers: KeyModifiers) -> KeyAction {
        editor.take(Event::Key(KeyEvent::new(code, modifiers)), false)
    }

    fn write(editor: &mut Editor, text: &str) {
        for letter in text.chars() {
            press(editor, KeyCode::Char(letter), KeyModifiers::NONE);
        }
    }

    fn send(editor: &mut Editor, text: &str) -> KeyAction {
        write(editor, text);
        press(editor, KeyCode::Enter, KeyModifiers::NONE)
    }

    #[test]
    fn several_lines_are_one_message() {
        let mut editor = editor();
        write(&mut editor, "one\\");
        assert_eq!(press(&mut editor, KeyCode::Enter, KeyModifiers::NONE), KeyAction::Edited);
        write(&mut editor, "two");
        press(&mut editor, KeyCode::Enter, KeyModifiers::ALT);
        editor.take(Event::Paste("three\r\n\tfour\r\x1b[31m".to_owned()), false);
        // A paste without brackets: more keys wait behind the line end.
        editor.take(Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)), true);
        let sent = send(&mut editor, "five");
        assert_eq!(sent, KeyAction::Submit("one\ntwo\nthree\n\tfour\n[31m\nfive".to_owned()));
        assert_eq!(editor.folded(), "");
        assert_eq!(press(&mut editor, KeyCode::Enter, KeyModifiers::NONE), KeyAction::Edited);
    }

    #[test]
    fn the_past_comes_back_with_the_arrows_and_by_search() {
        let mut editor = editor();
        for text in ["first light", "second", "third light"] {
            send(&mut editor, text);
        }
        write(&mut editor, "draft");
        let mut seen = Vec::new();
        let (up, down, none) = (KeyCode::Up, KeyCode::Down, KeyModifiers::NONE);
        for key in [up, up, up, up, down, down, down, down] {
            press(&mut editor, key, none);
            seen.push(editor.folded().to_owned());
        }
        let third = "third light";
        let expected =
            [third, "second", "first light", "first light", "second", third, "draft", "draft"];
        assert_eq!(seen, expected);
        press(&mut editor, KeyCode::Char('r'), KeyModifiers::CONTROL);
        write(&mut editor, "light");
        assert_eq!((editor.folded(), editor.searched()), (third, Some("light")));
        press(&mut editor, KeyCode::Char('r'), KeyModifiers::CONTROL);
        assert_eq!(editor.folded(), "first light");
        press(&mut editor, KeyCode::Esc, none);
        assert_eq!((editor.folded(), editor.searched()), ("draft", None));
    }

    #[test]
    fn a_large_paste_is_removed_as_one_shown_whole_and_recalled_folded() {
        let mut editor = editor();
        let paste = "thread 'main' panicked at src/main.rs:1\n".repeat(500);
        let none = KeyModifiers::NONE;
        write(&mut editor, "why? ");
        editor.take(Event::Paste(paste.clone()), false);
        let shown = |editor: &Editor, columns| editor.layout(columns).lines.join("|");
        let wide = "why? [pasted 500 lines, 20 kB: \"thread 'main' panicked at s…\"]";
        assert_eq!(shown(&editor, 77), wide);
        assert_eq!(shown(&editor, 37), "why? [pasted 500 lines, 20 kB]");
        assert_eq!(shown(&editor, 29), "why? |[pasted 500 lines, 20 kB]");
        assert_eq!(editor.layout(77).column, wide.chars().count());
        press(&mut editor, KeyCode::Backspace, none);
        assert_eq!(editor.text(), "why? ");
        editor.take(Event::Paste(paste.clone()), false);
        let sent = press(&mut editor, KeyCode::Enter, none);
        assert_eq!(sent, KeyAction::Submit(format!("why? {paste}").trim_end().to_owned()));
        press(&mut editor, KeyCode::Up, none);
        assert_eq!(shown(&editor, 77), wide);
        let open = press(&mut editor, KeyCode::Char('o'), KeyModifiers::CONTROL);
        assert_eq!((open, editor.folded()), (KeyAction::Edited, format!("why? {paste}").as_str()));
    }

    #[test]
    fn commands_are_completed() {
        let mut editor = editor();
        write(&mut editor, "/sto");
        press(&mut editor, KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(editor.folded(), "/stop ");
        editor.set("/");
        press(&mut editor, KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(editor.folded(), "/");
        let words = editor.menu().map(|menu| menu.words.clone()).unwrap_or_default();
        assert!(words.iter().any(|(word, _)| word == "/thinking"), "{words:?}");
        press(&mut editor, KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(Some(editor.folded()), words.first().map(|(word, _)| word.as_str()));
        press(&mut editor, KeyCode::Char('c'), KeyModifiers::CONTROL);
        write(&mut editor, "no /st");
        press(&mut editor, KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(editor.folded(), "no /st");
    }

    #[test]
    fn keys_that_are_not_text() {
        let mut editor = editor();
        let control = KeyModifiers::CONTROL;
        assert_eq!(press(&mut editor, KeyCode::Esc, KeyModifiers::NONE), KeyAction::Stop);
        let gone = press(&mut editor, KeyCode::Char('c'), control);
        assert_eq!(gone, KeyAction::Break { had_words: false });
        write(&mut editor, "words");
        let gone = press(&mut editor, KeyCode::Char('c'), control);
        assert_eq!((gone, editor.folded()), (KeyAction::Break { had_words: true }, ""));
        assert_eq!(press(&mut editor, KeyCode::Char('o'), control), KeyAction::ToggleThinking);
        assert_eq!(press(&mut editor, KeyCode::Char('l'), control), KeyAction::Redraw);
        assert_eq!(press(&mut editor, KeyCode::Char('d'), control), KeyAction::Leave);
    }

    #[test]
    fn the_cursor_is_where_the_next_letter_goes() {
        let cases = [
            ("", 0, (1, 0, 0)),
            ("abc", 1, (1, 0, 1)),
            ("abcd", 4, (2, 1, 0)),
            ("abcde", 4, (2, 1, 0)),
            ("a\nb", 2, (2, 1, 0)),
            ("a\nb", 3, (2, 1, 1)),
            ("日本語", 6, (2, 1, 0)),
            ("\tx", 1, (2, 1, 0)),
        ];
        for (text, cursor, (lines, row, column)) in cases {
            let shown = layout(text, &Pastes::default(), cursor, 4);
            assert_eq!(
                (shown.lines.len(), shown.row, shown.column),
                (lines, row, column),
                "{text:?}"
            );
        }
    }
}
