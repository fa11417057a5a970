//! Whether Claude Code has put a message into its session on the disk. It writes some time after it
//! has taken a message: what is not there yet is not known to whoever resumes the session.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use skep_guard::work;
use skep_guard::workspace::Workspace;

/// More is not looked through.
const MOST_BYTES: u64 = 64 << 20;
/// One for each folder it was started in, as a rule one.
const MOST_FOLDERS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Transcript {
    home: PathBuf,
    session: String,
    /// Where it ended when the turn began.
    from: u64,
}

impl Transcript {
    pub async fn open(home: PathBuf, session: String) -> Self {
        let transcript = Self { home, session, from: 0 };
        let looks = transcript.clone();
        let from = work::spawn(move || looks.file().and_then(|file| file.metadata().ok()));
        let from = from.await.ok().flatten().map_or(0, |facts| facts.len());
        Self { from, ..transcript }
    }

    /// Whether a line since the turn began names this id.
    pub async fn holds(&self, id: &str) -> bool {
        let (looks, id) = (self.clone(), id.to_owned());
        work::spawn(move || looks.find(&id)).await.ok().flatten().unwrap_or(false)
    }

    fn find(&self, id: &str) -> Option<bool> {
        let mut file = self.file()?;
        file.seek(SeekFrom::Start(self.from)).ok()?;
        let mut lines = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut lines).ok()?;
        Some(memchr::memmem::find(&lines, id.as_bytes()).is_some())
    }

    /// The folder is the program's: neither a link nor a pipe is opened in it.
    fn file(&self) -> Option<std::fs::File> {
        let home = Workspace::open(&self.home).ok()?.folder().ok()?;
        let projects = home.open_folder("projects".as_ref()).ok()?;
        let name = format!("{}.jsonl", self.session);
        let folders = projects.entries(MOST_FOLDERS).ok()?;
        folders.iter().find_map(|folder| {
            projects.open_folder(&folder.name).ok()?.open_file(name.as_ref()).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_is_there_once_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let open = async || Transcript::open(home.path().to_owned(), "s".to_owned()).await;
        let before = open().await;
        assert!(!before.holds("one").await);
        let folder = home.path().join("projects/-work");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("s.jsonl"), "{\"uuid\":\"one\"}\n").unwrap();
        assert!(before.holds("one").await && !before.holds("two").await);
        // Of an earlier turn.
        assert!(!open().await.holds("one").await);
    }

    #[tokio::test]
    async fn no_link_is_followed() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(outside.path().join("-work")).unwrap();
        std::fs::write(outside.path().join("-work/s.jsonl"), "one").unwrap();
        std::os::unix::fs::symlink(outside.path(), home.path().join("projects")).unwrap();
        let transcript = Transcript::open(home.path().to_owned(), "s".to_owned()).await;
        assert!(!transcript.holds("one").await);
    }
}
