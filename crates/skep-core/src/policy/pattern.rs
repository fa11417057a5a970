//! Patterns for paths, commands and hosts. Each is read and checked once, and knows how narrow
//! it is.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use skep_shell::base_name;
use skep_shell::glob::matches_open;
use skep_shell::line::{Cover, Simple, Word};

/// How narrow a pattern is: what it says literally counts for it, what it leaves open against.
/// Of two patterns that match the same text the one that compares greater is the narrower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrowness {
    literal: usize,
    /// Negative.
    open: i64,
}

impl Narrowness {
    fn of(literal: usize, open: usize) -> Self {
        Self { literal, open: -i64::try_from(open).unwrap_or(i64::MAX) }
    }

    pub fn and(self, other: Self) -> Self {
        Self { literal: self.literal + other.literal, open: self.open + other.open }
    }

    /// Of a name with `*` in it.
    pub fn of_glob(glob: &str) -> Self {
        let open = glob.bytes().filter(|byte| *byte == b'*').count();
        Self::of(glob.len() - open, open)
    }
}

/// `src/**`, `*.md`, `/etc/hosts`: `*` and `?` stay within a name, `**` is any number of them.
/// Relative to the workspace, or absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    parts: Vec<String>,
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.contains(['\0', '\n']) {
            return Err("a path pattern is a path in one line");
        }
        let tidy = text.strip_prefix("./").unwrap_or(text);
        if tidy.is_empty() || (tidy.ends_with('/') && tidy != "/") {
            return Err("a path pattern does not end with `/`: what is in a folder is `folder/**`");
        }
        let mut parts = Vec::new();
        for part in tidy.split('/') {
            match part {
                ".." => return Err("a path pattern has no `..`: paths are compared resolved"),
                "." if tidy != "." => {
                    return Err("a path pattern has no `.`: paths are compared resolved");
                }
                "" if !parts.is_empty() => {}
                part => parts.push(part.to_owned()),
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The pattern that covers exactly this path; nothing where its name cannot be written as one.
    pub fn exactly(path: &str) -> Option<String> {
        let plain = !path.contains(['*', '?']) && Self::parse(path).is_ok();
        plain.then(|| path.to_owned())
    }

    /// The pattern that covers exactly what is in this folder.
    pub fn beneath(folder: &str) -> Option<String> {
        match folder {
            "." => Some("**".to_owned()),
            "/" => Some("/**".to_owned()),
            folder => Self::exactly(folder).map(|folder| format!("{folder}/**")),
        }
    }

    /// A relative pattern, made absolute: what it means for an agent that works in `folder`.
    pub fn beneath_folder(&self, folder: &str) -> Option<Self> {
        let relative = || self.text.strip_prefix("./").unwrap_or(&self.text);
        (!self.is_absolute()).then(|| match relative() {
            "." => Self::parse(folder).ok(),
            text => Self::parse(&format!("{folder}/{text}")).ok(),
        })?
    }

    /// The same for an agent that works in `folder`, where paths are relative to it.
    #[must_use]
    pub fn within(self, folder: &str) -> Self {
        let inside = match self.text.strip_prefix(folder) {
            Some("") => Self::parse("."),
            Some(rest) => match rest.strip_prefix('/') {
                Some(inside) => Self::parse(inside),
                None => return self,
            },
            None => return self,
        };
        inside.unwrap_or(self)
    }

    /// `path` is resolved: relative to the workspace where it lies in it, else absolute.
    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.is_absolute() == path.starts_with('/') && matches_parts(&self.parts, &names)
    }

    fn is_absolute(&self) -> bool {
        self.parts.first().is_some_and(String::is_empty)
    }

    /// Whether all that can lie in the folder is covered.
    pub fn covers_tree(&self, folder: &str) -> bool {
        match self.parts.split_last() {
            Some((last, [])) => last == "**" && !folder.starts_with('/'),
            Some((last, base)) if last == "**" => {
                let names = names_of(folder);
                self.is_absolute() == folder.starts_with('/')
                    && (0..=names.len()).any(|count| matches_parts(base, &names[..count]))
            }
            _ => false,
        }
    }

    /// Whether something that can lie in the folder is covered.
    pub fn touches_tree(&self, folder: &str) -> bool {
        if self.is_absolute() != folder.starts_with('/') {
            return false;
        }
        let names = names_of(folder);
        for (part, name) in self.parts.iter().zip(&names) {
            if part == "**" {
                return true;
            }
            if !matches_name(part.as_bytes(), name.as_bytes()) {
                return false;
            }
        }
        // The pattern goes on inside the folder, or is the folder itself.
        self.parts.len() >= names.len()
    }

    pub fn narrowness(&self) -> Narrowness {
        let open = self.text.bytes().filter(|byte| b"*?".contains(byte)).count();
        Narrowness::of(self.text.len() - open, open)
    }
}

/// The names a folder's path goes through; none for the workspace itself.
fn names_of(folder: &str) -> Vec<&str> {
    if folder == "." { Vec::new() } else { folder.split('/').collect() }
}

fn matches_parts(parts: &[String], names: &[&str]) -> bool {
    let fits = |part: &String, name: &&str| matches_name(part.as_bytes(), name.as_bytes());
    matches_open(parts, names, |part| part == "**", fits)
}

/// `*` and `?` within one name.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let fits = |part: &u8, byte: &u8| part == byte || *part == b'?';
    matches_open(pattern, name, |part| *part == b'*', fits)
}

/// The beginning of a command: `git status`, `npm run test:*`. A last word `$` means that nothing
/// comes after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    text: String,
    words: Vec<PatternWord>,
    /// How many words at the beginning set a variable.
    assigns: usize,
    /// The command must end here.
    whole: bool,
}

/// Why an allowing pattern does not cover a part.
pub(super) fn never(why: &str) -> String {
    format!("{why}, and an allowing rule with a command covers plain lines alone")
}

/// `None` is a `*`.
type PatternWord = Vec<Option<char>>;

impl CommandPattern {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = split(text)?;
        let whole = words.len() > 1 && words.last().is_some_and(|word| *word == [Some('$')]);
        if whole {
            words.pop();
        }
        let first = words.first().ok_or("a command pattern has at least one word")?;
        if first.iter().all(Option::is_none) {
            return Err("a command pattern begins with the name of a program, not with `*`");
        }
        let assigns = words.iter().take_while(|word| is_assignment(word)).count();
        Ok(Self { text: text.to_owned(), words, assigns, whole })
    }

    /// The pattern that covers exactly this command; nothing where none does.
    pub fn exactly(simple: &Simple) -> Option<String> {
        let pattern = format!("{} $", simple.text());
        let covers = |own: Self| own.covers(simple).is_ok();
        Self::parse(&pattern).is_ok_and(covers).then_some(pattern)
    }

    /// For a rule that allows: every word is known and stands in its place.
    pub fn covers(&self, simple: &Simple) -> Result<(), String> {
        match &simple.cover {
            Cover::Never(why) => return Err(never(why)),
            Cover::By(outer) => return self.covers(outer),
            Cover::Exactly if !self.is_exact() => {
                return Err(
                    "it runs a text, and only a pattern of all its words covers it".to_owned()
                );
            }
            Cover::Exactly | Cover::Words => {}
        }
        if simple.assigns.len() != self.assigns || self.assigns == self.words.len() {
            return Err("it sets other variables".to_owned());
        }
        let words = simple.words.iter().map(Word::plain);
        let mut words = simple.assigns.iter().map(|assign| Some(assign.as_str())).chain(words);
        for pattern in &self.words {
            match words.next() {
                Some(Some(word)) if matches_word(pattern, word) => {}
                Some(Some(word)) => {
                    // A part of it may be the beginning of a secret, which nobody would know.
                    return Err(match word.chars().nth(40) {
                        None => format!("`{word}` is another word"),
                        Some(_) => "a long word is another one".to_owned(),
                    });
                }
                Some(None) => return Err("a word of it is not known".to_owned()),
                None => return Err("it has fewer words".to_owned()),
            }
        }
        match self.whole && (words.next().is_some() || simple.redirected) {
            true => Err("it has more words, or a redirection".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether it stands for one command and no other.
    fn is_exact(&self) -> bool {
        self.whole && self.words.iter().flatten().all(Option::is_some)
    }

    /// For a rule that asks or denies: the words stand there in this order, others may stand
    /// between them, and what is not known may be any of them.
    pub fn may_mean(&self, simple: &Simple) -> bool {
        let starts = if simple.anywhere { simple.words.len() } else { 1 };
        (0..starts.max(1)).any(|start| self.may_begin(simple.words.get(start..).unwrap_or(&[])))
    }

    fn may_begin(&self, words: &[Word]) -> bool {
        let (Some(first), Some(pattern)) = (words.first(), self.words.first()) else {
            return false;
        };
        let Word::Plain(first) = first else { return true };
        let slash = pattern.contains(&Some('/'));
        let named =
            matches_word(pattern, first) || (!slash && matches_word(pattern, base_name(first)));
        if !named {
            return false;
        }
        let mut left = self.words[1..].iter().peekable();
        for word in &words[1..] {
            match (word, left.peek()) {
                (Word::Unknown, Some(_)) => return true,
                (Word::Plain(word), Some(pattern)) if matches_word(pattern, word) => {
                    left.next();
                }
                _ => {}
            }
        }
        left.peek().is_none() && (!self.whole || words.len() == self.words.len())
    }

    pub fn narrowness(&self) -> Narrowness {
        let literal = self.words.iter().flatten().filter(|part| part.is_some()).count();
        let stars = self.words.iter().flatten().filter(|part| part.is_none()).count();
        Narrowness::of(literal + self.words.len(), stars + usize::from(!self.whole))
    }
}

/// `NAME=` and anything.
fn is_assignment(word: &PatternWord) -> bool {
    let mut name = word.iter().map_while(|c| *c).take_while(|c| *c != '=').peekable();
    let begins = name.peek().is_some_and(|c| c.is_ascii_alphabetic() || *c == '_');
    let length = name.take_while(|c| c.is_ascii_alphanumeric() || *c == '_').count();
    begins && word.get(length) == Some(&Some('='))
}

fn matches_word(pattern: &[Option<char>], word: &str) -> bool {
    let word: Vec<char> = word.chars().collect();
    matches_open(pattern, &word, Option::is_none, |part, c| *part == Some(*c))
}

/// The words of a pattern: blanks part them, quotes keep them together, `*` outside of quotes is
/// open.
fn split(text: &str) -> Result<Vec<PatternWord>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<PatternWord>, None);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') | (Some('"'), '\\') => {
                let next = rest.next().ok_or("a pattern does not end with a backslash")?;
                word.get_or_insert_default().push(Some(next));
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '*') => word.get_or_insert_default().push(None),
            (None, ';' | '|' | '&' | '<' | '>' | '`' | '(' | ')' | '\n') => {
                return Err("a command pattern is the beginning of one command, without ; | & < >");
            }
            (_, c) => word.get_or_insert_default().push(Some(c)),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

/// `example.org`, or `*.example.org` for everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
}

impl HostPattern {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.to_ascii_lowercase();
        if text == "*" {
            return Ok(Self { text });
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => ("*.", name),
            None => ("", text.as_str()),
        };
        // As the host of an address is compared, so that no rule waits for what never comes.
        match canonical_host(name) {
            Some(host) if below.is_empty() || !is_number(&host) => {
                Ok(Self { text: format!("{below}{host}") })
            }
            _ => {
                Err("a host pattern is a host without port, *.host or *; an address of numbers is \
                      written in full, one of version 6 in brackets")
            }
        }
    }

    pub fn matches(&self, host: &str) -> bool {
        match self.text.strip_prefix("*.") {
            _ if self.text == "*" => true,
            Some(above) => {
                host.strip_suffix(above).is_some_and(|below| below.ends_with('.') && below != ".")
            }
            None => self.text == host,
        }
    }

    pub fn narrowness(&self) -> Narrowness {
        Narrowness::of_glob(&self.text)
    }
}

/// Lower case, without a last dot, numbers as everybody writes them. Nothing where some would
/// read another host than others.
fn canonical_host(text: &str) -> Option<String> {
    if let Some(inside) = text.strip_prefix('[') {
        let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
        // The same as an address of version 4, for some.
        return address.to_ipv4().is_none().then(|| format!("[{address}]")).or_else(|| {
            (address == Ipv6Addr::LOCALHOST || address.is_unspecified())
                .then(|| format!("[{address}]"))
        });
    }
    let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let label = |label: &str| !label.is_empty() && label.bytes().all(fits);
    if host.len() > 253 || !host.split('.').all(label) {
        return None;
    }
    // `127.1`, `0x7f.0.0.1` and `2130706433` are addresses to some, and names to others.
    let last = host.rsplit('.').next()?;
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    match number && host.parse::<Ipv4Addr>().is_err() {
        true => None,
        false => Some(host),
    }
}

fn is_number(host: &str) -> bool {
    host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

/// The host of a web address as rules compare it; nothing where it can be read in two ways.
pub fn host_of(url: &str) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\' || c == '@' || c == '%';
    if url.contains(odd) || !url.is_ascii() {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.find(']') {
        Some(end) => authority.split_at(end + 1),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let is_port = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 5;
    if !is_port || (!port.is_empty() && !port.starts_with(':')) {
        return None;
    }
    canonical_host(host)
}

macro_rules! shown_as_written {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }
    )+};
}

shown_as_written!(PathPattern, CommandPattern, HostPattern);
