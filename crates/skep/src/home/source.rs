//! A file of the home as text: read once, bounded, and only when it really is a file.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use skep_guard::disk::{self, PathEntry};

use super::place::{self, Role};
use super::problem::Problem;

/// No configuration file needs more; a bigger one is a mistake (or a disk image).
pub const FILE_BYTES: u64 = 1 << 20;

pub struct Source {
    pub file: PathBuf,
    pub text: String,
}

impl Source {
    /// Reads a file, or says that it is absent with `None`.
    pub fn read(file: &Path, most: u64) -> Result<Option<Self>, Problem> {
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
            return Err(Problem::of_file(file, "is too large").expecting(expected));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(Self { file: file.to_path_buf(), text })),
            Err(error) => Err(not_utf8(file, &error)),
        }
    }

    /// A problem at a value of this file; the key is found from the place.
    pub fn problem_at(&self, at: (u32, u32), what: impl Into<String>) -> Problem {
        self.problem(at, Role::Value, what)
    }

    /// A problem with a key itself.
    pub fn problem_at_key(&self, at: (u32, u32), what: impl Into<String>) -> Problem {
        self.problem(at, Role::Key, what)
    }

    /// A problem with the key at a dotted path, for keys that carry no place of their own.
    pub fn problem_at_path(&self, path: &[&str], what: impl Into<String>) -> Problem {
        let mut problem = Problem::of_file(&self.file, what);
        problem.at = place::of_key(&self.text, path);
        problem.key = Some(path.join("."));
        problem
    }

    fn problem(&self, at: (u32, u32), role: Role, what: impl Into<String>) -> Problem {
        let mut problem = Problem::of_file(&self.file, what);
        problem.at = Some(at);
        problem.key = place::path_at(&self.text, at, role)
            .filter(|path| !path.is_empty())
            .map(|path| path.join("."));
        problem
    }
}

/// A link is refused because a change behind it would not be noticed.
fn not_a_file(file: &Path, found: &PathEntry) -> Problem {
    let what = match found {
        PathEntry::Folder => "is a folder",
        PathEntry::Link => "is a link, and links are not followed",
        PathEntry::File(_) | PathEntry::Special => "is not a regular file",
    };
    Problem::of_file(file, what).expecting("a text file")
}

fn unreadable(file: &Path, error: &std::io::Error) -> Problem {
    Problem::of_file(file, format!("cannot be read: {error}"))
}

fn not_utf8(file: &Path, error: &std::string::FromUtf8Error) -> Problem {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = good.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    let mut problem = Problem::of_file(file, "is not UTF-8").expecting("UTF-8 text");
    problem.at = Some((line as u32, column as u32));
    problem
}
