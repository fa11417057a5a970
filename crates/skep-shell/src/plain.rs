//! The plain grammar (spec 14 N): lines of which the reader knows exactly what bash would run.
//!
//! ```text
//! line  = pipe { (";" | NL | "&&" | "||") pipe } [";"]
//! pipe  = cmd { ("|" | "|&") cmd }
//! cmd   = { NAME=lit } word { word | redir }
//! redir = [012] (">" | ">>" | "<") lit | "&>" lit | [12] ">&" [12] | <<'TAG' body
//! word  = ( bare | '…' | "…" | \c | * ? [set] | ~/ | $HOME | $PWD )+     lit = word without glob
//! ```
//!
//! [`Plain::read`] reads a line, [`Plain::judge`] puts file names and folders in the place of
//! patterns and constants, and [`Judged::run_as`] is the text that runs: it holds the judged words
//! quoted anew, so a line that was misread runs what was judged and nothing else.

use crate::glob::{Listed, Names};
use crate::line::{Cover, ParsedLine, Simple, Word};

/// Bytes of all words, after expansion.
const MOST_BYTES: usize = 64 << 10;

/// Bytes of the text that runs: the kernel takes 128 KiB as one argument.
const MOST_TEXT: usize = 120 << 10;

/// Runs before the words: bash keeps no builtin but these four, because others look into words
/// that are quoted (`test -v 'a[$(X)]'`). Ends the shell where it cannot take them away.
const PROLOGUE: &str = "set --; for b in $(compgen -b); do case $b in cd|exit|set|:|enable) ;; \
                        *) set -- \"$@\" \"$b\" ;; esac; done; (( $# > 40 )) || exit 126; \
                        PS4='+ '; unset b CDPATH; enable -n \"$@\" enable || exit 126; set --\n";

/// Builtins without a program of the same name: once they are taken away nothing is left to run.
const BUILTINS: &str = " . alias bg bind break builtin caller command compgen complete compopt \
    continue coproc declare dirs disown enable eval exec export fc fg getopts hash help history \
    jobs let local logout mapfile popd pushd read readarray readonly return shift shopt source \
    suspend times trap type typeset ulimit umask unalias unset wait ";

/// A command of a plain line. `W` is a word: as it was written, or as it is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainCommand<W> {
    pub assigns: Vec<(String, W)>,
    pub words: Vec<W>,
    pub redirects: Vec<Redirect<W>>,
    pub then: Connector,
}

/// What stands between a command and the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connector {
    #[default]
    End,
    Next,
    And,
    Or,
    Pipe,
    PipeBoth,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect<W> {
    File {
        fd: Option<char>,
        access: Access,
        target: W,
    },
    /// `2>&1`.
    Copy {
        fd: Option<char>,
        to: char,
    },
    /// The text of a `<<'TAG'`.
    Body(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Append,
    /// `&>`.
    WriteBoth,
}

pub type RawWord = Vec<Bit>;

/// A piece of a word as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bit {
    Text(String),
    /// `~` before a slash, or `$HOME`.
    Home,
    /// `$PWD`.
    Folder,
    /// `*`.
    Any,
    /// `?`.
    One,
    /// What stands in `[…]`.
    Set(String),
    /// Only the shell knows it. Never in a plain line.
    Unknown,
}

impl Bit {
    pub fn is_glob(&self) -> bool {
        matches!(self, Self::Any | Self::One | Self::Set(_))
    }
}

/// What a line means depends on these. Nothing in here changes anything.
pub trait Surroundings {
    /// `$HOME` of a command; nothing where it is not known.
    fn home(&self) -> Option<&str>;
    /// The workspace by its real path, in which a line starts.
    fn workspace(&self) -> Option<&str>;
    /// What is in a folder; nothing where there is no such folder. The path is relative to the
    /// workspace (empty: itself), or absolute.
    fn list(&self, folder: &str) -> Result<Listed, String>;
    /// Whether `cd` goes to exactly this folder. One that is not there yet is only refused where
    /// the commands behind it would run elsewhere.
    fn enter(&self, folder: &str, has_to_exist: bool) -> Result<(), String>;
    /// Where a redirection leads, relative to the workspace. What lies outside is refused.
    fn target(&self, folder: &str, path: &str) -> Result<String, String>;
}

/// Without a look at files: lines that need one are refused.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

/// A plain line as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain(Vec<PlainCommand<RawWord>>);

/// A plain line as it is judged and as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub commands: Vec<PlainCommand<String>>,
    /// For each command the folder it runs in: relative to the workspace (empty: itself), or
    /// absolute.
    pub folders: Vec<String>,
    /// Where redirections lead, relative to the workspace.
    pub targets: Vec<(Access, String)>,
}

impl Plain {
    /// `Err` says what is not plain.
    pub fn read(line: &str) -> Result<Self, &'static str> {
        Self::and_parts(line).0
    }

    /// The line in the plain grammar, and its parts as of one that is not plain.
    pub fn and_parts(line: &str) -> (Result<Self, &'static str>, ParsedLine) {
        let (plain, parts) = ParsedLine::read(line);
        let plain = plain.and_then(|commands| {
            (0..commands.len()).try_for_each(|place| check(&commands, place))?;
            Ok(Self(commands))
        });
        (plain, parts)
    }

    /// The line with every pattern and constant replaced by what it stands for.
    pub fn judge(&self, around: &dyn Surroundings) -> Result<Judged, String> {
        let mut judged = Judged { commands: Vec::new(), folders: Vec::new(), targets: Vec::new() };
        let (mut folder, mut bytes) = (String::new(), 0);
        for (place, command) in self.0.iter().enumerate() {
            let here = Here { around, folder: &folder };
            let done = here.command(command)?;
            let size = |words: &[String]| words.iter().map(String::len).sum::<usize>();
            bytes += size(&done.words) + done.redirects.len() + done.words.len();
            for redirect in &done.redirects {
                match redirect {
                    Redirect::File { target, .. } if target == "/dev/null" => {}
                    Redirect::File { access, target, .. } => {
                        judged.targets.push((*access, around.target(&folder, target)?));
                    }
                    Redirect::Body(text) => bytes += text.len(),
                    Redirect::Copy { .. } => {}
                }
            }
            if bytes > MOST_BYTES {
                return Err("its words are longer than 64 KiB".to_owned());
            }
            judged.folders.push(folder.clone());
            if done.words.first().is_some_and(|word| word == "cd") {
                let target = done.words.get(1).map_or("", String::as_str);
                folder = here.inside(target)?;
                around.enter(&folder, !self.is_chain(place))?;
            }
            judged.commands.push(done);
        }
        match judged.text().len() > MOST_TEXT {
            true => Err("its words are longer than 64 KiB".to_owned()),
            false => Ok(judged),
        }
    }

    /// Whether nothing behind the command runs where it fails or is left out.
    fn is_chain(&self, place: usize) -> bool {
        let links = self.0[place..].iter().map(|command| command.then);
        let ends = |link| {
            matches!(link, Connector::And | Connector::Pipe | Connector::PipeBoth | Connector::End)
        };
        let last = self.0.len() - 1 - place;
        links.enumerate().all(|(at, link)| ends(link) || (at == last && link == Connector::Next))
    }
}

/// Whether the program of a command is one that means the same once builtins are taken away.
fn check(commands: &[PlainCommand<RawWord>], place: usize) -> Result<(), &'static str> {
    let PlainCommand { assigns, words, redirects, then } = &commands[place];
    let text = |word: &[Bit]| match word {
        [Bit::Text(text)] => Some(text.clone()),
        _ => None,
    };
    let texts: Option<Vec<String>> = words.iter().map(|word| text(word)).collect();
    let Some(program) = words.first().and_then(|word| text(word)) else {
        return match words.first().is_some_and(|word| word.iter().any(Bit::is_glob)) {
            true => Err("its program is a pattern"),
            false => Ok(()),
        };
    };
    if program.starts_with('%') || BUILTINS.contains(&format!(" {program} ")) {
        return Err("it uses a builtin of the shell");
    }
    if !assigns.is_empty() && program.contains('=') {
        return Err("its program has a `=` in its name");
    }
    let own = matches!(program.as_str(), "cd" | "exit" | "set" | ":");
    if own && !assigns.is_empty() {
        return Err("it sets variables for a builtin of the shell");
    }
    let words: Option<Vec<&str>> = texts.as_ref().map(|t| t.iter().map(String::as_str).collect());
    match (program.as_str(), words.as_deref()) {
        ("exit", Some([_, code])) if code.parse::<u8>().is_ok() => Ok(()),
        ("exit", _) => Err("`exit` takes a number"),
        ("set", Some([_, options @ ..])) if are_options(options) => Ok(()),
        ("set", _) => Err("`set` takes -e, -u, -x and -o pipefail alone"),
        ("cd", _) => {
            let piped = place > 0 && is_pipe(commands[place - 1].then);
            let one = commands[place].words.len() == 2 && redirects.is_empty();
            let option = matches!(words.as_deref(), Some([_, to]) if to.starts_with('-'));
            let glob = commands[place].words.iter().flatten().any(Bit::is_glob);
            if piped || !one || option || glob || *then != Connector::And {
                return Err("`cd` takes one folder and stands before `&&`");
            }
            // Whether it ran is known where every command before it had to succeed.
            let before = commands[..place].iter().rev().map(|command| command.then);
            let own: Vec<Connector> = before.take_while(|link| *link != Connector::Next).collect();
            let certain = own.iter().all(|link| *link == Connector::And)
                && (place - own.len()..place).all(|at| is_cd(&commands[at]));
            let rest = &commands[place..];
            let chain =
                own.iter().all(|link| *link != Connector::Or) && Plain(rest.to_vec()).is_chain(0);
            match certain || chain {
                true => Ok(()),
                false => Err("whether `cd` runs is not known"),
            }
        }
        _ => Ok(()),
    }
}

fn is_cd(command: &PlainCommand<RawWord>) -> bool {
    matches!(command.words.first().map(Vec::as_slice), Some([Bit::Text(text)]) if text == "cd")
}

fn is_pipe(link: Connector) -> bool {
    matches!(link, Connector::Pipe | Connector::PipeBoth)
}

/// `-e`, `-eu`, `-euo pipefail`.
fn are_options(words: &[&str]) -> bool {
    let (mut words, mut some) = (words.iter(), false);
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').unwrap_or_default();
        let (last, letters) = match letters.strip_suffix('o') {
            Some(letters) => (words.next() == Some(&"pipefail"), letters),
            None => (!letters.is_empty(), letters),
        };
        if !last || !letters.bytes().all(|letter| b"eux".contains(&letter)) {
            return false;
        }
        some = true;
    }
    some
}

/// The place in which a command is judged.
struct Here<'a> {
    around: &'a dyn Surroundings,
    folder: &'a str,
}

impl Here<'_> {
    fn command(&self, command: &PlainCommand<RawWord>) -> Result<PlainCommand<String>, String> {
        let mut done = PlainCommand { then: command.then, ..PlainCommand::default() };
        for (name, value) in &command.assigns {
            done.assigns.push((name.clone(), self.literal(value)?));
        }
        for word in &command.words {
            self.word(word, &mut done.words)?;
        }
        for redirect in &command.redirects {
            done.redirects.push(match redirect {
                Redirect::File { fd, access, target } => {
                    let target = self.literal(target)?;
                    Redirect::File { fd: *fd, access: *access, target }
                }
                Redirect::Copy { fd, to } => Redirect::Copy { fd: *fd, to: *to },
                Redirect::Body(text) => Redirect::Body(text.clone()),
            });
        }
        Ok(done)
    }

    /// A word without patterns.
    fn literal(&self, word: &[Bit]) -> Result<String, String> {
        let bits = word.iter().map(|bit| match bit {
            Bit::Text(text) => Ok(text.clone()),
            Bit::Home => constant(self.around.home()),
            Bit::Folder if self.folder.starts_with('/') => constant(Some(self.folder)),
            Bit::Folder => {
                let workspace = constant(self.around.workspace())?;
                Ok(match self.folder {
                    "" => workspace,
                    inside => format!("{workspace}/{inside}"),
                })
            }
            Bit::Any | Bit::One | Bit::Set(_) | Bit::Unknown => {
                Err("a word of it is a pattern".to_owned())
            }
        });
        bits.collect()
    }

    fn word(&self, word: &[Bit], words: &mut Vec<String>) -> Result<(), String> {
        if !word.iter().any(Bit::is_glob) {
            words.push(self.literal(word)?);
            return Ok(());
        }
        let known = word.iter().map(|bit| match bit {
            Bit::Home | Bit::Folder => self.literal(std::slice::from_ref(bit)).map(Bit::Text),
            other => Ok(other.clone()),
        });
        let known: Vec<Bit> = known.collect::<Result<_, _>>()?;
        let pattern = Names::of(&known).ok_or("a pattern for file names is not understood")?;
        let names = pattern.expand(&|base| self.around.list(&joined(self.folder, base)))?;
        if names.is_empty() {
            words.push(known.iter().map(Bit::as_written).collect());
        }
        // A file's name is no option.
        let named = |name: String| if name.starts_with('-') { format!("./{name}") } else { name };
        words.extend(names.into_iter().map(named));
        Ok(())
    }

    /// The folder that `cd` goes to.
    fn inside(&self, target: &str) -> Result<String, String> {
        let workspace = self.around.workspace();
        let inside = workspace.and_then(|root| target.strip_prefix(root));
        let inside = inside.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let start = if target.starts_with('/') { "" } else { self.folder };
        let absolute = (inside.is_none() && target.starts_with('/')) || start.starts_with('/');
        let mut names: Vec<&str> = start.split('/').filter(|name| !name.is_empty()).collect();
        for name in inside.unwrap_or(target).split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop().ok_or("`cd` leaves the workspace")?),
                name => names.push(name),
            }
        }
        let slash = if absolute { "/" } else { "" };
        match target {
            "" => Err("`cd` goes nowhere".to_owned()),
            _ => Ok(format!("{slash}{}", names.join("/"))),
        }
    }
}

impl Bit {
    /// A pattern that fits no name stands for itself.
    fn as_written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Any => "*".to_owned(),
            Self::One => "?".to_owned(),
            Self::Set(inside) => format!("[{inside}]"),
            Self::Home | Self::Folder | Self::Unknown => String::new(),
        }
    }
}

/// A path as it is seen from the workspace.
pub fn joined(folder: &str, path: &str) -> String {
    match folder.is_empty() || path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{folder}/{path}"),
    }
}

/// bash would split it at blanks and look for patterns in it.
fn constant(value: Option<&str>) -> Result<String, String> {
    let value = value.ok_or("$HOME, $PWD and ~ are not known here")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    match value.bytes().all(plain) {
        true => Ok(value.to_owned()),
        false => Err("$HOME, $PWD or ~ has an unusual name".to_owned()),
    }
}

impl PlainCommand<String> {
    fn simple(&self) -> Simple {
        let file = |redirect: &Redirect<String>| match redirect {
            Redirect::File { target, .. } => target != "/dev/null",
            Redirect::Body(_) => true,
            Redirect::Copy { .. } => false,
        };
        Simple {
            assigns: self.assigns.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            words: self.words.iter().cloned().map(Word::Plain).collect(),
            cover: Cover::Words,
            redirected: self.redirects.iter().any(file),
            anywhere: false,
        }
    }

    /// The text of the command. `bodies` gets what follows the next end of line.
    fn written(&self, bodies: &mut String) -> String {
        let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let mut words = Vec::new();
        // By `env`, because bash evaluates what some variables are set to (`RANDOM`).
        if !self.assigns.is_empty() {
            words.push("/usr/bin/env".to_owned());
            words.extend(
                self.assigns.iter().map(|(name, value)| quoted(&format!("{name}={value}"))),
            );
        }
        // The program in quotes always, so that it is no word of the shell's own.
        words.extend(self.words.iter().take(1).map(|word| quote(word)));
        words.extend(self.words.iter().skip(1).map(|word| quoted(word)));
        for redirect in &self.redirects {
            words.push(match redirect {
                Redirect::File { fd, access, target } => {
                    let fd = fd.map(String::from).unwrap_or_default();
                    let operator = match access {
                        Access::Read => "<",
                        Access::Write => ">",
                        Access::Append => ">>",
                        Access::WriteBoth => "&>",
                    };
                    format!("{fd}{operator}{}", quote(target))
                }
                Redirect::Copy { fd, to } => format!("{}>&{to}", fd.unwrap_or('1')),
                Redirect::Body(text) => {
                    let lines = || text.lines();
                    let free = |tag: &String| !lines().any(|line| line == tag);
                    let tag = (0..).map(|number| format!("END{number}")).find(free);
                    let tag = tag.unwrap_or_default();
                    bodies.push_str(&format!("{text}{tag}\n"));
                    format!("<<'{tag}'")
                }
            });
        }
        words.join(" ")
    }
}

impl Judged {
    /// Its parts, for rules to decide on.
    pub fn line(&self) -> ParsedLine {
        ParsedLine::of(self.commands.iter().map(PlainCommand::simple))
    }

    /// The text that runs.
    pub fn run_as(&self) -> String {
        format!("{PROLOGUE}{}", self.text())
    }

    /// The same for people, without what is the same for all.
    pub fn text(&self) -> String {
        let (mut text, mut bodies, mut certain) = (String::new(), String::new(), true);
        for command in &self.commands {
            text.push_str(&command.written(&mut bodies));
            let cd = command.words.first().is_some_and(|word| word == "cd");
            text.push_str(match command.then {
                // No command after it may run in another folder.
                Connector::And if cd && certain => " || exit 1\n",
                Connector::And => " && ",
                Connector::Or => " || ",
                Connector::Pipe => " | ",
                Connector::PipeBoth => " |& ",
                Connector::Next | Connector::End => "\n",
            });
            certain = text.ends_with('\n');
            if certain {
                text.push_str(&std::mem::take(&mut bodies));
            }
        }
        text
    }

    /// Every word that may name a file, with the folder in which it would: words, values of
    /// variables, targets of redirections, folders of `cd`.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.commands.iter().zip(&self.folders).flat_map(|(command, folder)| {
            let targets = command.redirects.iter().filter_map(|redirect| match redirect {
                Redirect::File { target, .. } => Some(target),
                Redirect::Copy { .. } | Redirect::Body(_) => None,
            });
            let values = command.assigns.iter().map(|(_, value)| value);
            let all = command.words.iter().chain(values).chain(targets);
            all.map(move |word| (folder.as_str(), word.as_str()))
        })
    }
}

/// A text that `Judged::run_as` gave, as `Judged::text` has it.
pub fn without_prologue(line: &str) -> &str {
    line.strip_prefix(PROLOGUE).unwrap_or(line)
}

/// The parts of a line as far as they are known without a look at files.
pub fn line(text: &str) -> ParsedLine {
    let (plain, parts) = Plain::and_parts(text);
    let judged = plain.ok().and_then(|plain| plain.judge(&NoFiles).ok());
    judged.map_or(parts, |judged| judged.line())
}

impl Surroundings for NoFiles {
    fn home(&self) -> Option<&str> {
        None
    }

    fn workspace(&self) -> Option<&str> {
        None
    }

    fn list(&self, _: &str) -> Result<Listed, String> {
        Err("it has patterns for file names".to_owned())
    }

    fn enter(&self, _: &str, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn target(&self, folder: &str, path: &str) -> Result<String, String> {
        let known = !path.starts_with('/') && !path.split('/').any(|name| name == "..");
        match known && !folder.starts_with('/') {
            true => Ok(joined(folder, path)),
            false => Err("where a redirection leads is not known".to_owned()),
        }
    }
}

/// A word as it has to be written for a shell, and in a pattern, to stand for itself.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
