//! A shell line taken apart into the simple commands it would run, for rules about commands.
//!
//! Nothing is expanded. A word whose value is known only to the shell is [`Word::Unknown`]; a
//! line that uses more of the language than is read here is unknown as a whole. Both are never
//! covered by an allowing pattern, and may be what a refusing one means.

mod parser;
mod wrapper;

/// The parts of a line, substitutions and commands inside of wrappers included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(pub Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Command(Simple),
    /// Nobody can say what it runs.
    Unknown {
        why: &'static str,
    },
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    pub words: Vec<Word>,
    /// Why no allowing pattern covers it, whatever its words are.
    pub never: Option<&'static str>,
    /// The command begins with one of its words, and it is not sure with which.
    pub anywhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Plain(String),
    /// Its value depends on variables, files or the output of commands.
    Unknown,
}

impl Word {
    pub fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Unknown => None,
        }
    }
}

impl Simple {
    /// For people: its words, as far as they are known.
    pub fn text(&self) -> String {
        let words = self.words.iter().map(|word| word.plain().map_or("…".to_owned(), quoted));
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Line {
    pub fn parse(line: &str) -> Self {
        let mut parts = Vec::new();
        if let Err(why) = parser::read(line, 0, &mut parts) {
            parts.push(Part::Unknown { why });
        }
        Self(parts)
    }

    /// Every word that is known.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let simples = self.0.iter().filter_map(|part| match part {
            Part::Command(simple) => Some(simple),
            Part::Unknown { .. } => None,
        });
        simples.flat_map(|simple| simple.words.iter().filter_map(Word::plain))
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
