//! Counts side effects per call, in a file outside every home: what was done in the world cannot
//! be taken back by a crash, and neither can this.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Effects {
    path: PathBuf,
}

impl Effects {
    pub fn at(path: &Path) -> Self {
        Effects { path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One effect of this call: one line, written whole and synced.
    pub fn record(&self, call_id: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{call_id}\n").as_bytes())?;
        file.sync_data()
    }

    /// Effects per call; none when nothing has happened yet.
    pub fn counts(&self) -> io::Result<BTreeMap<String, usize>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let mut counts = BTreeMap::new();
        for call_id in text.lines() {
            *counts.entry(call_id.to_owned()).or_insert(0) += 1;
        }
        Ok(counts)
    }

    pub fn total(&self) -> io::Result<usize> {
        Ok(self.counts()?.values().sum())
    }

    /// Calls that happened more than once: must be empty, always.
    pub fn repeated(&self) -> io::Result<Vec<String>> {
        let counts = self.counts()?.into_iter();
        Ok(counts.filter(|(_, count)| *count > 1).map(|(call_id, _)| call_id).collect())
    }
}
