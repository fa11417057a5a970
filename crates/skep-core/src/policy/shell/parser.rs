//! Reads the part of the shell's language that people and models write in one line.

use super::wrapper;
use super::{Part, Simple, Word};

/// Commands inside of commands.
const DEEPEST: usize = 16;
/// Commands of one line. Each is compared with every rule, and no person reads more of them.
const MOST_PARTS: usize = 500;

const ASSIGNS: &str = "it sets variables";
const WRITES: &str = "it writes to a file by redirection";
const READS: &str = "its input is redirected";

/// Appends the parts of `text`. `Err` says what was not understood.
pub(super) fn read(text: &str, depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let mut parser = Parser { rest: text, depth, parts };
    parser.list(None)
}

/// One level further in.
pub(super) fn deeper(depth: usize) -> Result<usize, &'static str> {
    match depth < DEEPEST {
        true => Ok(depth + 1),
        false => Err("commands stand too deep in each other"),
    }
}

/// One part more.
pub(super) fn push(parts: &mut Vec<Part>, part: Simple) -> Result<(), &'static str> {
    if parts.len() >= MOST_PARTS {
        return Err("it has more commands than are read");
    }
    parts.push(Part::Command(part));
    Ok(())
}

/// Text that the shell would look into again, where it stands in a variable or a subscript.
pub(super) fn holds_command(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

struct Parser<'a, 'p> {
    rest: &'a str,
    depth: usize,
    parts: &'p mut Vec<Part>,
}

/// A word, and how it was written.
struct Written<'a> {
    word: Word,
    raw: &'a str,
    quoted: bool,
}

/// What a word at the place of a command means to the shell.
enum Reserved {
    /// A command follows.
    Skipped,
    For,
    Unread(&'static str),
}

/// Words after which the shell expects a command.
pub(super) const BEFORE_COMMANDS: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}"];

fn reserved(written: &Written<'_>) -> Option<Reserved> {
    if written.quoted {
        return None;
    }
    Some(match written.raw {
        word if BEFORE_COMMANDS.contains(&word) => Reserved::Skipped,
        "for" => Reserved::For,
        "case" | "esac" | "select" | "function" | "coproc" | "[[" => {
            Reserved::Unread("it uses case, select, function, coproc or [[")
        }
        _ => return None,
    })
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
    }

    /// Commands up to `end`, which is taken too.
    fn list(&mut self, end: Option<char>) -> Result<(), &'static str> {
        self.depth = deeper(self.depth)?;
        loop {
            self.blanks();
            match self.peek() {
                None if end.is_none() => break,
                None => return Err("a parenthesis is not closed"),
                Some(')') if end == Some(')') => {
                    self.next();
                    break;
                }
                Some(')') => return Err("a parenthesis is closed that was not opened"),
                Some('#') => self.comment(),
                Some(';') if self.rest.starts_with(";;") => return Err("it uses ;;"),
                Some('&') if self.rest.starts_with("&>") => self.command()?,
                Some('\n' | ';' | '&' | '|') => drop(self.next()),
                Some(_) => self.command()?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.next();
        }
    }

    fn command(&mut self) -> Result<(), &'static str> {
        let mut simple = Simple::default();
        let mut grouped = false;
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if !self.rest.starts_with("&>") => break,
                Some('#') => {
                    self.comment();
                    break;
                }
                Some('(') if self.rest.starts_with("((") => return Err("it uses (("),
                Some('(') if simple.words.is_empty() && simple.never.is_none() && !grouped => {
                    self.next();
                    self.list(Some(')'))?;
                    grouped = true;
                }
                Some('(') => return Err("it defines a function"),
                Some('<' | '>') if self.rest[1..].starts_with('(') => {
                    self.rest = &self.rest[2..];
                    self.list(Some(')'))?;
                    simple.words.push(Word::Unknown);
                }
                Some('<' | '>' | '&') => self.redirection(&mut simple)?,
                Some(_) => self.word_of(&mut simple)?,
            }
        }
        if !simple.words.is_empty() || simple.never.is_some() {
            let depth = self.depth;
            wrapper::unwrap(&simple, depth, self.parts)?;
            push(self.parts, simple)?;
        }
        Ok(())
    }

    fn word_of(&mut self, simple: &mut Simple) -> Result<(), &'static str> {
        let written = self.word()?;
        let is_number = written.raw.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && matches!(self.peek(), Some('<' | '>')) {
            return Ok(());
        }
        if simple.words.is_empty() {
            match reserved(&written) {
                Some(Reserved::Skipped) => return Ok(()),
                Some(Reserved::For) => return self.loop_head(),
                Some(Reserved::Unread(why)) => return Err(why),
                None => {}
            }
            if is_assignment(written.raw) {
                if written.word.plain().is_some_and(holds_command) {
                    return Err("it keeps a command in a variable");
                }
                simple.never = Some(ASSIGNS);
                return Ok(());
            }
        }
        simple.words.push(written.word);
        Ok(())
    }

    /// `NAME in WORDS` of a loop; what the words hold was read by then.
    fn loop_head(&mut self) -> Result<(), &'static str> {
        self.blanks();
        if self.rest.starts_with("((") {
            return Err("it uses ((");
        }
        loop {
            self.blanks();
            match self.peek() {
                None => return Err("a loop has no body"),
                Some('\n' | ';') => return Ok(()),
                Some('(' | ')' | '&' | '|' | '<' | '>') => return Err("a loop is not understood"),
                // `for NAME do`, over the arguments of the shell; in a list of words as well.
                Some(_) if self.word()?.raw == "do" => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn redirection(&mut self, simple: &mut Simple) -> Result<(), &'static str> {
        if self.take("<<<") || self.take("<&") {
            self.blanks();
            simple.never.get_or_insert(READS);
            return self.word().map(drop);
        }
        if self.rest.starts_with("<<") {
            return Err("it uses a here-document");
        }
        let copies = self.take(">&");
        let reads = !copies && !self.rest.starts_with("<>") && self.take("<");
        if !copies && !reads {
            let operators = ["&>>", "&>", ">>", ">|", "<>", ">"];
            let _ = operators.iter().any(|operator| self.take(operator));
        }
        self.blanks();
        let target = self.word()?;
        let harmless = match target.word.plain() {
            Some("/dev/null") => true,
            Some(text) => copies && text.bytes().all(|b| b.is_ascii_digit() || b == b'-'),
            None => false,
        };
        if !harmless {
            simple.never = Some(if reads { READS } else { WRITES });
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Written<'a>, &'static str> {
        let start = self.rest;
        let (mut text, mut unknown, mut quoted) = (String::new(), false, false);
        loop {
            match self.peek() {
                None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some('\n') => continue,
                        Some(next) => text.push(next),
                        None => text.push('\\'),
                    }
                    quoted = true;
                    continue;
                }
                Some('\'') => {
                    self.next();
                    text.push_str(self.up_to('\'')?);
                    quoted = true;
                    continue;
                }
                Some('"') => {
                    self.next();
                    unknown |= self.double_quoted(&mut text)?;
                    quoted = true;
                    continue;
                }
                Some('$') => {
                    unknown |= self.dollar(&mut text)?;
                    continue;
                }
                Some('`') => {
                    self.backticks()?;
                    unknown = true;
                    continue;
                }
                Some('*' | '?' | '[') => unknown = true,
                Some('~') if text.is_empty() || text.ends_with(['=', ':']) => unknown = true,
                Some('{') if !is_plain_brace(self.rest) => unknown = true,
                Some(_) => {}
            }
            text.extend(self.next());
        }
        let raw = &start[..start.len() - self.rest.len()];
        if raw.is_empty() {
            return Err("a word is missing");
        }
        let word = if unknown { Word::Unknown } else { Word::Plain(text) };
        Ok(Written { word, raw, quoted })
    }

    fn up_to(&mut self, end: char) -> Result<&'a str, &'static str> {
        let (inside, rest) = self.rest.split_once(end).ok_or("a quote is not closed")?;
        self.rest = rest;
        Ok(inside)
    }

    /// True where its value is not known.
    fn double_quoted(&mut self, text: &mut String) -> Result<bool, &'static str> {
        let mut unknown = false;
        loop {
            match self.peek().ok_or("a quote is not closed")? {
                '"' => {
                    self.next();
                    return Ok(unknown);
                }
                '\\' => {
                    self.next();
                    match self.next().ok_or("a quote is not closed")? {
                        '\n' => {}
                        next if "$`\"\\".contains(next) => text.push(next),
                        next => text.extend(['\\', next]),
                    }
                }
                '$' => unknown |= self.dollar(text)?,
                '`' => {
                    self.backticks()?;
                    unknown = true;
                }
                next => {
                    self.next();
                    text.push(next);
                }
            }
        }
    }

    /// An expansion, or a dollar that stands for itself.
    fn dollar(&mut self, text: &mut String) -> Result<bool, &'static str> {
        self.next();
        match self.peek() {
            Some('(') if self.rest.starts_with("((") => Err("it computes with $(("),
            Some('(') => {
                self.next();
                self.list(Some(')'))?;
                Ok(true)
            }
            Some('{') => {
                let inside = self.up_to('}')?;
                match inside[1..].contains(['$', '`', '(', '\'', '"', '\\', '{']) {
                    true => Err("it uses ${…} with more in it"),
                    false => Ok(true),
                }
            }
            Some('\'') => {
                self.next();
                loop {
                    match self.next().ok_or("a quote is not closed")? {
                        '\\' => drop(self.next()),
                        '\'' => return Ok(true),
                        _ => {}
                    }
                }
            }
            Some('"') => Ok(true),
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.next();
                }
                Ok(true)
            }
            Some('@' | '*' | '#' | '?' | '$' | '!' | '-') => {
                self.next();
                Ok(true)
            }
            Some(_) | None => {
                text.push('$');
                Ok(false)
            }
        }
    }

    fn backticks(&mut self) -> Result<(), &'static str> {
        self.next();
        let mut inside = String::new();
        loop {
            match self.next().ok_or("a backtick is not closed")? {
                '`' => break,
                '\\' => match self.next() {
                    Some(next) if "`\\$".contains(next) => inside.push(next),
                    Some(next) => inside.extend(['\\', next]),
                    None => return Err("a backtick is not closed"),
                },
                next => inside.push(next),
            }
        }
        read(&inside, self.depth, self.parts)
    }
}

/// `{` alone, as the shell's word, and `{}` as `find` knows it.
fn is_plain_brace(rest: &str) -> bool {
    let after = rest[1..].strip_prefix('}').unwrap_or(&rest[1..]);
    after.chars().next().is_none_or(|c| " \t\n;".contains(c))
}

fn is_assignment(raw: &str) -> bool {
    let Some((name, _)) = raw.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or_default();
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}
