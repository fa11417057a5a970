//! The children that run, each on record in a folder: whoever comes after a crash ends it before
//! another takes its place, so that two never act.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use rustix::process::Signal;

use super::{DuplexChild, DuplexProgram};
use crate::process::{self, KILL_WINDOW, POLL, ProcessError};
use crate::process_table::Members;
use crate::sandbox::{Sandbox, SandboxError, SandboxRoom};

/// The records of duplex children, one file for each.
#[derive(Clone, Debug)]
pub struct DuplexRecords {
    folder: PathBuf,
}

impl DuplexRecords {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Starts a child of this name, once an earlier one has ended.
    pub async fn start(
        &self,
        name: &str,
        sandbox: &Sandbox,
        program: DuplexProgram,
        room: &SandboxRoom,
    ) -> Result<DuplexChild, SandboxError> {
        let shown = program.program.to_string_lossy().into_owned();
        let failed = |source| ProcessError::Start { program: shown, source };
        self.end(name).await.map_err(failed)?;
        let path = self.record(name);
        let write = |child: &process::StartedChild| {
            let (pid, started, marker) = child.identity();
            let text = format!("{pid} {started} {marker}\n");
            std::fs::create_dir_all(&self.folder)?;
            std::fs::write(&path, &text)?;
            Ok(ChildRecord { path, text })
        };
        DuplexChild::start(sandbox, program, room, write).await
    }

    /// Ends a child that an earlier process left, and returns when it is gone.
    pub async fn end(&self, name: &str) -> io::Result<()> {
        end_recorded(self.record(name)).await
    }

    /// Ends all that an earlier process left. How many there were.
    pub async fn end_all(&self) -> io::Result<usize> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut ended = 0;
        for entry in entries {
            end_recorded(entry?.path()).await?;
            ended += 1;
        }
        Ok(ended)
    }

    fn record(&self, name: &str) -> PathBuf {
        // A name is one file, whatever it is made of.
        self.folder.join(name.replace('/', "%2F"))
    }
}

/// Is there for as long as the child runs.
pub(super) struct ChildRecord {
    path: PathBuf,
    text: String,
}

impl Drop for ChildRecord {
    fn drop(&mut self) {
        // Another child of that name may have taken its place.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

async fn end_recorded(record: PathBuf) -> io::Result<()> {
    let text = match std::fs::read_to_string(&record) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut words = text.split_ascii_whitespace();
    let identity = (|| {
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((pid, started, words.next()?.to_owned()))
    })();
    // One that was cut off tells of no process: it is written before the child is spoken to.
    if let Some((pid, started, marker)) = identity {
        let members = Mutex::new(Members::recorded(pid, started, marker));
        let begun = Instant::now();
        while process::signal_all(&members, Some(Signal::KILL)) > 0 {
            if begun.elapsed() > KILL_WINDOW {
                return Err(io::Error::other(format!("process {pid} does not end")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    match std::fs::remove_file(record) {
        // Whoever started it has seen its end.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::network::RoomNetwork;
    use crate::process_table::read_row;
    use crate::sandbox::{Level, Settings};

    async fn cat(folder: &std::path::Path) -> DuplexChild {
        let sandbox = Sandbox::new(Settings::new(Level::Host, Vec::new()));
        let script = vec!["-c".into(), "sleep 600 & cat".into()];
        let room = SandboxRoom {
            workspace: folder.to_owned(),
            read_only: Vec::new(),
            network: RoomNetwork::None,
        };
        let records = DuplexRecords::new(folder.join("children"));
        records.start("a/b", &sandbox, DuplexProgram::new("sh", script), &room).await.unwrap()
    }

    fn runs(pid: u32) -> bool {
        read_row(i32::try_from(pid).unwrap()).is_some_and(|row| !row.zombie)
    }

    #[tokio::test]
    async fn it_is_on_record_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = cat(folder.path()).await;
        let path = folder.path().join("children/a%2Fb");
        let record = std::fs::read_to_string(&path).unwrap();
        assert!(record.starts_with(&format!("{} ", child.pid())), "{record}");
        child.sender().send("hello").await.unwrap();
        assert_eq!(child.line().await.unwrap().unwrap(), b"hello");
        child.end().await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_an_earlier_process_left_is_ended_before_another_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let records = DuplexRecords::new(folder.path().join("children"));
        let first = cat(folder.path()).await;
        let second = cat(folder.path()).await;
        assert!(!runs(first.pid()) && runs(second.pid()));
        // Its end takes the record of the other with it as little as its drop.
        assert_eq!(first.end().await.unwrap().ending, process::Ending::Signalled { signal: 9 });
        assert_eq!(records.end_all().await.unwrap(), 1);
        assert!(!runs(second.pid()));
        // A number that names another process by now is left alone.
        let own = crate::process_table::own_pid();
        std::fs::write(folder.path().join("children/two"), format!("{own} 1 nothing\n")).unwrap();
        records.end("two").await.unwrap();
        assert!(!folder.path().join("children/two").exists());
    }
}
