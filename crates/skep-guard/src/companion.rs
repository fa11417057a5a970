//! Children that are spoken to over their pipes while they run. Each is on record in a folder for
//! as long as it runs: whoever comes after a crash ends it before another takes its place, so that
//! two never act.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Instant;

use rustix::process::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::process::{self, GRACE, Job, KILL_WINDOW, POLL, ProcessError, ProcessTree, Wall};
use crate::process_table::Members;

/// The records of companions, one file for each.
#[derive(Clone, Debug)]
pub struct Companions {
    folder: PathBuf,
}

/// A child and its pipes. Dropped, it and everything below it is killed.
pub struct Companion {
    pub input: ChildStdin,
    pub output: ChildStdout,
    pub errors: ChildStderr,
    running: RunningCompanion,
}

/// A child whose pipes somebody else has.
pub struct RunningCompanion {
    child: Child,
    tree: ProcessTree,
    record: PathBuf,
}

impl Companions {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Starts a companion of this name, once an earlier one has ended. Of the job, `input`,
    /// `output_bytes` and `timeout` say nothing here.
    pub async fn start(&self, name: &str, job: Job) -> Result<Companion, ProcessError> {
        let program = job.program.to_string_lossy().into_owned();
        let failed = |source| ProcessError::Start { program: program.clone(), source };
        self.end(name).await.map_err(failed)?;
        let started = process::start(&job, Stdio::piped(), &mut Wall::default()).await;
        let (mut child, tree) = started.map_err(failed)?;
        let record = self.record(name);
        let (pid, started, marker) = tree.identity();
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&record, format!("{pid} {started} {marker}\n")))
            .map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(failed(io::Error::other("the child has no pipes")));
        };
        let running = RunningCompanion { child, tree, record };
        Ok(Companion { input, output, errors, running })
    }

    /// Ends a companion that an earlier process left, and returns when it is gone.
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
        self.folder.join(name)
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
    std::fs::remove_file(record)
}

impl Companion {
    pub fn pid(&self) -> Option<u32> {
        self.running.child.id()
    }

    /// The pipes, and what ends the child.
    pub fn parts(self) -> (ChildStdin, ChildStdout, ChildStderr, RunningCompanion) {
        (self.input, self.output, self.errors, self.running)
    }
}

impl RunningCompanion {
    /// TERM, a grace period, KILL, for the child and everything below it.
    pub async fn end(mut self) {
        self.tree.end(GRACE).await;
        let _ = self.child.wait().await;
    }
}

impl Drop for RunningCompanion {
    fn drop(&mut self) {
        // The tree ends itself when it is dropped; without its record nobody looks for it again.
        let _ = std::fs::remove_file(&self.record);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::process_table::read_row;

    fn cat(folder: &std::path::Path) -> Job {
        Job {
            program: "sh".into(),
            arguments: vec!["-c".into(), "sleep 600 & cat".into()],
            directory: folder.to_owned(),
            environment: Vec::new(),
            input: Vec::new(),
            output_bytes: 0,
            timeout: None,
        }
    }

    #[tokio::test]
    async fn it_answers_while_it_runs_and_ends_with_all_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let companions = Companions::new(folder.path().join("children"));
        let companion = companions.start("one", cat(folder.path())).await.unwrap();
        let pid = i32::try_from(companion.pid().unwrap()).unwrap();
        let record = std::fs::read_to_string(folder.path().join("children/one")).unwrap();
        assert!(record.starts_with(&format!("{pid} ")), "{record}");
        let (mut input, output, _, running) = companion.parts();
        input.write_all(b"hello\n").await.unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await.unwrap();
        assert_eq!(line, "hello\n");
        running.end().await;
        assert!(read_row(pid).is_none_or(|row| row.zombie));
        assert!(!folder.path().join("children/one").exists());
    }

    #[tokio::test]
    async fn what_an_earlier_process_left_is_ended_before_another_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let companions = Companions::new(folder.path().join("children"));
        let companion = companions.start("one", cat(folder.path())).await.unwrap();
        let pid = i32::try_from(companion.pid().unwrap()).unwrap();
        // As a crash leaves it.
        std::mem::forget(companion);
        let second = companions.start("one", cat(folder.path())).await.unwrap();
        assert!(read_row(pid).is_none_or(|row| row.zombie), "both run");
        std::mem::forget(second);
        assert_eq!(companions.end_all().await.unwrap(), 1);
        // A number that names another process by now is left alone.
        let own = crate::process_table::own_pid();
        std::fs::write(folder.path().join("children/two"), format!("{own} 1 nothing\n")).unwrap();
        companions.end("two").await.unwrap();
        assert!(!folder.path().join("children/two").exists());
    }
}
