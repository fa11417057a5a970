//! Reads the part of the shell's language that people and models write in one line.
//!
//! One reader answers two questions: which commands may the line run, and is it plain. What is
//! read although it is not plain is noted with `odd`; `Err` is what is not read at all.

use crate::line::{Part, Simple, Word};
use crate::plain::{Access, Bit, Connector, PlainCommand, RawWord, Redirect};
use crate::wrapper;

/// Commands inside of commands.
const DEEPEST: usize = 16;
/// Commands of one line. Each is compared with every rule, and no person reads more of them.
const MOST_PARTS: usize = 500;

/// `Err` says what was not understood.
pub(crate) type Understood<T = ()> = Result<T, &'static str>;

/// The commands of a plain line. `Err` says what is not plain.
pub(crate) type PlainResult = Result<Vec<PlainCommand<RawWord>>, &'static str>;

/// Appends the parts of `text`.
pub(crate) fn read(text: &str, depth: usize, parts: &mut Vec<Part>) -> Understood<PlainResult> {
    let (commands, bodies) = (Vec::new(), Vec::new());
    let mut parser = Parser { rest: text, depth, parts, commands, odd: None, bodies };
    if text.contains(|c: char| c.is_control() && !"\n\t".contains(c)) {
        parser.odd("it has control characters");
    }
    parser.list(None)?;
    if parser
        .commands
        .last()
        .is_none_or(|last| !matches!(last.then, Connector::End | Connector::Next))
    {
        parser.odd("a command is missing");
    }
    Ok(parser.odd.map_or(Ok(parser.commands), Err))
}

/// One level further in.
pub(crate) fn deeper(depth: usize) -> Understood<usize> {
    (depth < DEEPEST).then_some(depth + 1).ok_or("commands stand too deep in each other")
}

/// One part more.
pub(crate) fn push(parts: &mut Vec<Part>, part: Part) -> Understood {
    if parts.len() >= MOST_PARTS {
        return Err("it has more commands than are read");
    }
    parts.push(part);
    Ok(())
}

/// Text that the shell would look into again, where it stands in a variable or a subscript.
pub(crate) fn holds_command(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

struct Parser<'a, 'p> {
    rest: &'a str,
    depth: usize,
    parts: &'p mut Vec<Part>,
    commands: Vec<PlainCommand<RawWord>>,
    /// What is not plain.
    odd: Option<&'static str>,
    /// Here-documents whose text is still to come: command, redirection, tag.
    bodies: Vec<(usize, usize, &'a str)>,
}

/// Words after which the shell expects a command.
pub(crate) const BEFORE_COMMANDS: &str = "if then elif else fi while until do done ! { }";

const LINKS: &[(&str, Connector)] = &[
    ("&&", Connector::And),
    ("||", Connector::Or),
    ("|&", Connector::PipeBoth),
    ("|", Connector::Pipe),
    (";", Connector::Next),
];

/// What stands between words.
fn is_apart(c: char) -> bool {
    " \t\n;&|()<>".contains(c)
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn add(word: &mut RawWord, text: &str) {
    match word.last_mut() {
        Some(Bit::Text(last)) => last.push_str(text),
        _ => word.push(Bit::Text(text.to_owned())),
    }
}

impl<'a> Parser<'a, '_> {
    fn odd(&mut self, why: &'static str) {
        self.odd.get_or_insert(why);
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn at(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// The next character, as text.
    fn one(&mut self) -> &'a str {
        let (taken, rest) = self.rest.split_at(self.peek().map_or(0, char::len_utf8));
        self.rest = rest;
        taken
    }

    fn up_to(&mut self, end: char) -> Understood<&'a str> {
        let (inside, rest) = self.rest.split_once(end).ok_or("a quote is not closed")?;
        self.rest = rest;
        Ok(inside)
    }

    fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
    }

    /// Commands up to `end`, which is taken too.
    fn list(&mut self, end: Option<char>) -> Understood {
        self.depth = deeper(self.depth)?;
        loop {
            self.blanks();
            match self.peek() {
                None if end.is_none() => break,
                None => return Err("a parenthesis is not closed"),
                Some(')') if end == Some(')') => break,
                Some(')') => return Err("a parenthesis is closed that was not opened"),
                Some('#') => drop(self.take_while(|c| c != '\n')),
                Some('\n') => self.line_end()?,
                Some(';') if self.at(";;") => return Err("it uses ;;"),
                Some(';' | '&' | '|') if !self.at("&>") => self.link(),
                Some(_) => self.command()?,
            }
        }
        self.one();
        self.depth -= 1;
        self.bodies.is_empty().then_some(()).ok_or("a here-document has no end")
    }

    fn link(&mut self) {
        let found = LINKS.iter().find(|(text, _)| self.take(text));
        match (found, self.commands.last_mut()) {
            (Some((_, link)), Some(last)) if last.then == Connector::End => last.then = *link,
            (Some(_), _) => self.odd("a command is missing"),
            (None, _) => {
                self.one();
                self.odd("it runs in the background");
            }
        }
    }

    /// Here-documents begin behind the end of the line that names them.
    fn line_end(&mut self) -> Understood {
        self.one();
        if let Some(last) = self.commands.last_mut().filter(|last| last.then == Connector::End) {
            last.then = Connector::Next;
        }
        for (command, place, tag) in std::mem::take(&mut self.bodies) {
            let mut end = 0;
            let mut lines = self.rest.split_inclusive('\n');
            let last = lines.find(|line| {
                let found = line.strip_suffix('\n').unwrap_or(line) == tag;
                end += if found { 0 } else { line.len() };
                found
            });
            let (text, rest) = self.rest.split_at(end);
            self.rest = &rest[last.ok_or("a here-document has no end")?.len()..];
            let command = self.commands.get_mut(command);
            if let Some(to) = command.and_then(|command| command.redirects.get_mut(place)) {
                *to = Redirect::Body(text.to_owned());
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Understood {
        let mut command = PlainCommand::default();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')' | '#') => break,
                Some('&') if !self.at("&>") => break,
                Some('(') if self.at("((") => return Err("it uses (("),
                Some('(') if command == PlainCommand::default() => {
                    self.odd("it uses ( )");
                    self.one();
                    self.list(Some(')'))?;
                }
                Some('(') => return Err("it defines a function"),
                Some('<' | '>' | '&') => self.redirection(None, &mut command)?,
                Some(_) => self.word_of(&mut command)?,
            }
        }
        if command.words.is_empty() {
            self.odd("a command has no program");
        } else {
            let words = command.words.iter().map(|word| Word::of(word)).collect();
            let mut simple = Simple { words, ..Simple::default() };
            wrapper::unwrap(&mut simple, self.depth, self.parts)?;
            push(self.parts, Part::Command(simple))?;
        }
        self.commands.push(command);
        Ok(())
    }

    fn word_of(&mut self, command: &mut PlainCommand<RawWord>) -> Understood {
        let (word, raw) = self.word()?;
        if matches!(self.peek(), Some('<' | '>')) && raw.bytes().all(|b| b.is_ascii_digit()) {
            return self.redirection(Some(raw), command);
        }
        if command.words.is_empty() {
            if self.reserved(raw)? {
                return Ok(());
            }
            if let Some(name) = assigned(raw) {
                let value = self.value(name, word)?;
                command.assigns.push((name.to_owned(), value));
                return Ok(());
            }
            if !command.redirects.is_empty() {
                self.odd("a redirection stands before the program");
            }
        }
        command.words.push(word);
        Ok(())
    }

    /// What stands behind the name and the `=`.
    fn value(&mut self, name: &str, mut word: RawWord) -> Understood<RawWord> {
        if Word::of(&word).plain().is_some_and(holds_command) {
            return Err("it keeps a command in a variable");
        }
        if name.contains('[') {
            return Err("it sets an element of a variable");
        }
        let plain = name.chars().all(is_name) && !word.iter().any(Bit::is_glob);
        match word.first_mut() {
            Some(Bit::Text(text)) if plain => {
                text.replace_range(..text.len().min(name.len() + 1), "");
            }
            _ => self.odd("it sets variables in another way than NAME=text"),
        }
        Ok(word)
    }

    /// Whether a word at the place of a command is one of the shell's own and passed over.
    fn reserved(&mut self, word: &str) -> Understood<bool> {
        match word {
            "case" | "esac" | "select" | "function" | "coproc" | "[[" => {
                return Err("it uses case, select, function, coproc or [[");
            }
            "for" => self.loop_head()?,
            "time" | "in" | "]]" => {}
            word if wrapper::is_among(word, BEFORE_COMMANDS) => {}
            _ => return Ok(false),
        }
        self.odd("it uses a word of the shell's own");
        Ok(word != "time")
    }

    /// `NAME in WORDS` of a loop; what the words hold was read by then.
    fn loop_head(&mut self) -> Understood {
        loop {
            self.blanks();
            match self.peek() {
                Some('\n' | ';') => return Ok(()),
                c if c.is_none_or(is_apart) => return Err("a loop is not understood"),
                // `for NAME do`, over the arguments of the shell; in a list of words as well.
                _ if self.word()?.1 == "do" => return Ok(()),
                _ => {}
            }
        }
    }

    fn redirection(&mut self, fd: Option<&str>, command: &mut PlainCommand<RawWord>) -> Understood {
        if fd.is_some_and(|fd| !["0", "1", "2"].contains(&fd)) {
            self.odd("it redirects more than 0, 1 and 2");
        }
        let fd = fd.and_then(|fd| fd.chars().next());
        let operator = ["<<<", "<<", "<&", "<>", "<", "&>>", "&>", ">>", ">|", ">&", ">"];
        let operator = operator.iter().find(|text| self.take(text)).unwrap_or(&"");
        let access = match *operator {
            "<<" if fd.is_none() => return self.here_document(command),
            "<<" => return Err("a here-document has a number"),
            "<" => Some(Access::Read),
            ">" => Some(Access::Write),
            ">>" => Some(Access::Append),
            "&>" if fd.is_none() => Some(Access::WriteBoth),
            _ => None,
        };
        self.blanks();
        let (target, raw) = self.word()?;
        command.redirects.push(match (access, *operator, raw) {
            (Some(access), ..) if !raw.starts_with('#') && !target.iter().any(Bit::is_glob) => {
                Redirect::File { fd, access, target }
            }
            (None, ">&", "1" | "2") if fd != Some('0') => {
                Redirect::Copy { fd, to: if raw == "1" { '1' } else { '2' } }
            }
            _ => {
                self.odd("it redirects in another way than by > >> < &> 2>&1 and <<'TAG'");
                Redirect::Body(String::new())
            }
        });
        Ok(())
    }

    fn here_document(&mut self, command: &mut PlainCommand<RawWord>) -> Understood {
        self.blanks();
        let opened = self.take("'");
        let tag = self.take_while(is_name);
        if !opened || tag.is_empty() || !self.take("'") || !self.peek().is_some_and(is_apart) {
            return Err("it uses a here-document other than <<'TAG'");
        }
        self.bodies.push((self.commands.len(), command.redirects.len(), tag));
        command.redirects.push(Redirect::Body(String::new()));
        Ok(())
    }

    /// A word, and how it was written.
    fn word(&mut self) -> Understood<(RawWord, &'a str)> {
        let (start, mut word) = (self.rest, RawWord::new());
        while let Some(next) = self.peek().filter(|c| !is_apart(*c)) {
            let before = start[..start.len() - self.rest.len()].chars().last();
            match next {
                '\\' => {
                    self.one();
                    match self.one() {
                        "" | "\n" => self.odd("a line ends inside of a word"),
                        escaped => add(&mut word, escaped),
                    }
                }
                '\'' => {
                    self.one();
                    add(&mut word, self.up_to('\'')?);
                }
                '"' => self.double_quoted(&mut word)?,
                '$' => self.dollar(&mut word, false)?,
                '`' => return Err("it uses backticks"),
                '*' | '?' => {
                    self.one();
                    word.push(if next == '*' { Bit::Any } else { Bit::One });
                }
                '[' => self.set(&mut word),
                '~' if self.at("~/") && before.is_none() => {
                    self.one();
                    word.push(Bit::Home);
                }
                '{' if self.take("{}") => add(&mut word, "{}"),
                '~' if before.is_some_and(|c| is_name(c) || "/.-@^".contains(c)) => {
                    add(&mut word, self.one());
                }
                '~' | '{' => {
                    self.odd("it uses { } or another ~ than ~/");
                    self.one();
                    word.push(Bit::Unknown);
                }
                '}' | '!' => {
                    self.odd("it uses } or !");
                    add(&mut word, self.one());
                }
                _ => add(&mut word, self.one()),
            }
        }
        let raw = &start[..start.len() - self.rest.len()];
        (!raw.is_empty()).then_some((word, raw)).ok_or("a word is missing, or it uses <( )")
    }

    /// `[a-z]`, or `[` alone, which is a program.
    fn set(&mut self, word: &mut RawWord) {
        self.one();
        if word.is_empty() && self.peek().is_none_or(is_apart) {
            return add(word, "[");
        }
        let inside = self.rest.split_once(']').map(|(inside, _)| inside);
        let is_in = |c: char| is_name(c) || "-.".contains(c);
        match inside.filter(|set| set.trim_start_matches(['!', '^']).chars().all(is_in)) {
            Some(inside) => {
                self.rest = &self.rest[inside.len() + 1..];
                word.push(Bit::Set(inside.to_owned()));
            }
            None => {
                self.odd("it uses [ in another way than [a-z]");
                word.push(Bit::Unknown);
            }
        }
    }

    fn double_quoted(&mut self, word: &mut RawWord) -> Understood {
        self.one();
        add(word, "");
        loop {
            match self.peek().ok_or("a quote is not closed")? {
                '"' => break,
                '\\' => {
                    let slash = self.one();
                    match self.one() {
                        "\n" => {}
                        next if "$`\"\\".contains(next) => add(word, next),
                        next => [slash, next].iter().for_each(|text| add(word, text)),
                    }
                }
                '$' => self.dollar(word, true)?,
                '`' => return Err("it uses backticks"),
                _ => add(word, self.one()),
            }
        }
        self.one();
        Ok(())
    }

    /// An expansion, or a dollar that stands for itself.
    fn dollar(&mut self, word: &mut RawWord, quoted: bool) -> Understood {
        let dollar = self.one();
        let name = self.take_while(is_name);
        let after = self.peek();
        if quoted && name.is_empty() && after.is_some_and(|c| "\" \t|)".contains(c)) {
            add(word, dollar);
            return Ok(());
        }
        if let ("HOME" | "PWD", false) = (name, quoted) {
            word.push(if name == "HOME" { Bit::Home } else { Bit::Folder });
            return Ok(());
        }
        self.odd("it uses $");
        let mut stands = false;
        match after.filter(|_| name.is_empty()) {
            Some('\'') if quoted => stands = true,
            Some('[' | '\'' | '"') => return Err("it uses $[, $' or $\""),
            Some('(') if self.at("((") => return Err("it computes with $(("),
            Some('(') => {
                self.one();
                self.list(Some(')'))?;
            }
            Some('{') if !self.up_to('}')?[1..].chars().all(is_name) => {
                return Err("it uses ${…} with more than a name in it");
            }
            Some('{') => {}
            Some(c) if "@*#?$!-".contains(c) => _ = self.one(),
            _ => stands = name.is_empty(),
        }
        match stands {
            true => add(word, dollar),
            false => word.push(Bit::Unknown),
        }
        Ok(())
    }
}

/// The name in `NAME=…`, `NAME+=…`, `NAME[…]=…`.
fn assigned(raw: &str) -> Option<&str> {
    let (name, _) = raw.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name).split('[').next().unwrap_or_default();
    let fits = bare.chars().all(is_name) && !bare.starts_with(|c: char| c.is_ascii_digit());
    (fits && !bare.is_empty()).then_some(name)
}
