//! A file of the home as text: read once, bounded, and only if it is a regular file.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use skep_guard::disk::{self, PathEntry};

use super::mistake::Mistake;
use super::place::{self, NodeRole};

/// No configuration file needs more; a bigger one is a mistake (or a disk image).
pub const FILE_BYTES: u64 = 1 << 20;

pub struct SourceText {
    pub file: PathBuf,
    pub text: String,
}

impl SourceText {
    /// Reads a file, or says that it is absent with `None`.
    pub fn read(file: &Path, most: u64) -> Result<Option<Self>, Mistake> {
        let opened = match disk::find(file) {
            Ok(PathEntry::File(opened)) => opened,
            Ok(other) => return Err(not_a_file(file, &other)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(file, &error)),
        };
        let mut bytes = Vec::new();
        opened.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
        if bytes.len() as u64 > most {
            let expected = format!("at most {} KiB", most / 1024);
            return Err(Mistake::of_file(file, "is too large").expecting(expected));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(Self { file: file.to_path_buf(), text })),
            Err(error) => Err(not_utf8(file, &error)),
        }
    }

    /// A problem at a value; its key is derived from the position.
    pub fn mistake_at(&self, at: (u32, u32), what: impl Into<String>) -> Mistake {
        self.mistake(at, NodeRole::Value, what)
    }

    /// A problem with a key itself.
    pub fn mistake_at_key(&self, at: (u32, u32), what: impl Into<String>) -> Mistake {
        self.mistake(at, NodeRole::Key, what)
    }

    /// A problem at a key path, for keys without a position.
    pub fn mistake_at_path(&self, path: &[&str], what: impl Into<String>) -> Mistake {
        let mut mistake = Mistake::of_file(&self.file, what);
        mistake.at = place::of_key(&self.text, path);
        mistake.key = Some(path.join("."));
        mistake
    }

    fn mistake(&self, at: (u32, u32), role: NodeRole, what: impl Into<String>) -> Mistake {
        let mut mistake = Mistake::of_file(&self.file, what);
        mistake.at = Some(at);
        mistake.key = place::path_at(&self.text, at, role)
            .filter(|path| !path.is_empty())
            .map(|path| path.join("."));
        mistake
    }
}

/// The files that are not empty, now and at the last reading.
#[derive(Default)]
pub struct FilledFiles<'a> {
    before: Option<&'a BTreeSet<PathBuf>>,
    now: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> FilledFiles<'a> {
    pub fn since(before: &'a BTreeSet<PathBuf>) -> Self {
        Self { before: Some(before), now: RefCell::default() }
    }

    pub fn into_now(self) -> BTreeSet<PathBuf> {
        self.now.into_inner()
    }

    /// Refuses a file that became empty.
    pub fn check(&self, path: &Path, is_filled: bool) -> Result<(), Mistake> {
        if is_filled {
            self.now.borrow_mut().insert(path.to_path_buf());
        } else if self.before.is_some_and(|before| before.contains(path)) {
            let mistake = Mistake::of_file(path, "is gone or empty, and was not before");
            // Stays listed, so that the next reading refuses it too.
            self.now.borrow_mut().insert(path.to_path_buf());
            return Err(mistake.expecting("what it said before, or a comment for the defaults"));
        }
        Ok(())
    }
}

/// What the policy of a file that is not in force says.
pub enum PolicyReading {
    Fine,
    /// The file says nothing, which may be half of a change.
    Empty,
    Broken(Mistake),
}

impl PolicyReading {
    pub fn of(read: Result<Option<SourceText>, Mistake>) -> Self {
        match read {
            Ok(Some(source)) if !source.text.trim().is_empty() => Self::Fine,
            Ok(_) => Self::Empty,
            Err(mistake) => Self::Broken(mistake),
        }
    }

    /// Why everything is denied; a file that says nothing leaves that as it was.
    pub fn denial(self, before: Option<String>) -> Option<String> {
        match self {
            Self::Fine => None,
            Self::Empty => before,
            Self::Broken(mistake) => Some(mistake.to_string()),
        }
    }
}

/// A link is refused because a change behind it would not be noticed.
fn not_a_file(file: &Path, found: &PathEntry) -> Mistake {
    let what = match found {
        PathEntry::Folder => "is a folder",
        PathEntry::Link => "is a link, and links are not followed",
        PathEntry::File(_) | PathEntry::Special => "is not a regular file",
    };
    Mistake::of_file(file, what).expecting("a text file")
}

fn unreadable(file: &Path, error: &std::io::Error) -> Mistake {
    Mistake::of_file(file, format!("cannot be read: {error}"))
}

fn not_utf8(file: &Path, error: &std::string::FromUtf8Error) -> Mistake {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = good.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    let mut mistake = Mistake::of_file(file, "is not UTF-8").expecting("UTF-8 text");
    mistake.at = Some((line as u32, column as u32));
    mistake
}
