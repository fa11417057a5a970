//! A shell line taken apart into the simple commands it would run, for rules about commands.
//!
//! A line is plain where it is known exactly what bash would run ([`crate::plain`]). Only a plain
//! line is covered by an allowing pattern. Of any other line nothing is expanded: a word whose
//! value only the shell knows is [`Word::Unknown`], what is not understood is [`Part::Unknown`].
//! Both may be what a refusing pattern means.

use std::sync::Arc;

use crate::plain::{Bit, quoted};
use crate::{parser, wrapper};

/// The parts of a line, substitutions and commands inside of wrappers included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedLine(pub Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Command(Simple),
    /// Nobody can say what it runs.
    Unknown {
        why: &'static str,
        cover: Cover,
    },
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// `NAME=value` before the program; of a plain line alone.
    pub assigns: Vec<String>,
    pub words: Vec<Word>,
    pub cover: Cover,
    /// It reads or writes a file by redirection; of a plain line alone.
    pub redirected: bool,
    /// The command begins with one of its words, and it is not sure with which.
    pub anywhere: bool,
}

/// What an allowing pattern has to spell to cover a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// Its first words.
    #[default]
    Words,
    /// Every word: it runs a text.
    Exactly,
    /// Every word of the command that runs the text in which this part stands.
    By(Arc<Simple>),
    /// No pattern covers it, and why.
    Never(&'static str),
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

    pub(crate) fn of(written: &[Bit]) -> Self {
        match written {
            [Bit::Text(text)] => Self::Plain(text.clone()),
            _ => Self::Unknown,
        }
    }
}

impl Simple {
    /// For people: its words, as far as they are known.
    pub fn text(&self) -> String {
        let words = self.words.iter().map(|word| word.plain().map_or("…".to_owned(), quoted));
        let assigns = self.assigns.iter().map(|assign| quoted(assign));
        assigns.chain(words).collect::<Vec<_>>().join(" ")
    }
}

impl Part {
    pub(crate) fn cover_by(&mut self, new: Cover) {
        match self {
            Self::Command(Simple { cover, .. }) | Self::Unknown { cover, .. } => *cover = new,
        }
    }
}

impl ParsedLine {
    /// The parts of a line. No allowing pattern covers them.
    pub fn parse(line: &str) -> Self {
        Self::read(line).1
    }

    /// The commands of a line in the plain grammar, or what is not plain; and the parts of it.
    pub(crate) fn read(line: &str) -> (parser::PlainResult, Self) {
        let mut parts = Vec::new();
        let plain = parser::read(line, 0, &mut parts);
        if let Err(why) = plain {
            parts.push(Part::Unknown { why, cover: Cover::Words });
        }
        let plain = plain.and_then(|plain| plain);
        let why = plain.as_ref().err().unwrap_or(&"which files it means is not known");
        parts.iter_mut().for_each(|part| part.cover_by(Cover::Never(why)));
        (plain, Self(parts))
    }

    /// The parts of a plain line.
    pub fn of(commands: impl IntoIterator<Item = Simple>) -> Self {
        let mut parts = Vec::new();
        let read = commands.into_iter().try_for_each(|mut simple| {
            wrapper::unwrap(&mut simple, 0, &mut parts)?;
            parser::push(&mut parts, Part::Command(simple))
        });
        if let Err(why) = read {
            parts.push(Part::Unknown { why, cover: Cover::Never(why) });
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
