//! A bare git repository that keeps the history of files that lie elsewhere.
//!
//! The `git` program is given contents through a pipe and never a folder to look into: what an
//! agent may write (attributes, hooks, a repository inside the folder) is data here and is not
//! acted upon. No configuration but the repository's own is read.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::process::{self, Ending, Invocation, Job, JobOutput, ProcessError};

const TIME: Duration = Duration::from_secs(20);
const OUTPUT: usize = 16 * 1024;

#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
    /// One commit at a time: a branch is read and then moved.
    writing: tokio::sync::Mutex<()>,
}

/// One state of a branch: all of its files, and who brought it about.
#[derive(Debug, Clone)]
pub struct Commit<'a> {
    /// A plain name: letters, digits, dashes.
    pub branch: &'a str,
    pub author: &'a str,
    pub message: &'a str,
    pub at_ms: i64,
    /// Path and content of every file.
    pub files: &'a [(String, Vec<u8>)],
}

#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error(
        "git is not installed. Install it: `apt-get install git` (Debian, Ubuntu), `dnf install \
         git` (Fedora), `pacman -S git` (Arch), `apk add git` (Alpine); then try again"
    )]
    Missing,
    #[error(
        "git failed: {0}. If run/config.git is damaged, the operator moves it away; the next \
         change begins another"
    )]
    Failed(String),
    #[error("git could not be run: {0}")]
    Process(#[from] ProcessError),
}

impl Repository {
    /// Nothing is made before the first commit.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), writing: tokio::sync::Mutex::default() }
    }

    /// Makes these files the newest state of the branch. `None`: they are that already.
    pub async fn commit(&self, commit: &Commit<'_>) -> Result<Option<String>, RepositoryError> {
        let _writing = self.writing.lock().await;
        self.prepare().await?;
        let branch = format!("refs/heads/{}", commit.branch);
        let tried = format!("refs/skep/{}", commit.branch);
        let parent = self.resolve(&branch).await?;
        let stream = stream(commit, &tried, parent.as_deref());
        let import = ["fast-import", "--quiet", "--done", "--force", "--date-format=raw"];
        self.git(&import, stream).await?;
        let new = self.resolve(&tried).await?.ok_or_else(|| failed("the commit is not there"))?;
        if let Some(parent) = &parent {
            let tree = |commit: &str| format!("{commit}^{{tree}}");
            let trees = (self.resolve(&tree(parent)).await?, self.resolve(&tree(&new)).await?);
            if trees.0 == trees.1 {
                return Ok(None);
            }
        }
        self.git(&["update-ref", branch.as_str(), new.as_str()], Vec::new()).await?;
        Ok(Some(new))
    }

    async fn prepare(&self) -> Result<(), RepositoryError> {
        if self.folder.join("HEAD").exists() {
            return Ok(());
        }
        // An empty template: no hooks, no example files.
        self.git(&["init", "--quiet", "--bare", "--template="], Vec::new()).await.map(drop)
    }

    async fn resolve(&self, name: &str) -> Result<Option<String>, RepositoryError> {
        let arguments = ["rev-parse", "--quiet", "--verify", name];
        let output = self.run(&arguments, Vec::new()).await?;
        match output.ending {
            Ending::Exited { code: 0 } => {
                let text = String::from_utf8_lossy(&output.stdout.bytes);
                Ok(Some(text.trim().to_owned()))
            }
            Ending::Exited { code: 1 } => Ok(None),
            _ => Err(said(&output)),
        }
    }

    async fn git(&self, arguments: &[&str], input: Vec<u8>) -> Result<(), RepositoryError> {
        let output = self.run(arguments, input).await?;
        match output.ending {
            Ending::Exited { code: 0 } => Ok(()),
            _ => Err(said(&output)),
        }
    }

    async fn run(&self, arguments: &[&str], input: Vec<u8>) -> Result<JobOutput, RepositoryError> {
        let folder = self.folder.to_string_lossy().into_owned();
        let environment = [
            ("GIT_DIR", folder.as_str()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ];
        let job = Job {
            invocation: Invocation {
                program: "git".into(),
                arguments: arguments.iter().map(OsString::from).collect(),
                directory: self.folder.parent().unwrap_or(Path::new("/")).to_path_buf(),
                environment: environment.map(|(name, value)| (name.into(), value.into())).to_vec(),
            },
            input,
            output_bytes: OUTPUT,
            timeout: Some(TIME),
        };
        match process::run(job, &CancellationToken::new()).await {
            Err(ProcessError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(RepositoryError::Missing)
            }
            other => Ok(other?),
        }
    }
}

fn failed(why: &str) -> RepositoryError {
    RepositoryError::Failed(why.to_owned())
}

fn said(output: &JobOutput) -> RepositoryError {
    let text = String::from_utf8_lossy(&output.stderr.bytes);
    let ending = match &output.ending {
        Ending::Exited { code } => format!("exit code {code}"),
        Ending::Signalled { signal } => format!("ended by signal {signal}"),
        Ending::TimedOut => "it did not end in time".to_owned(),
        Ending::Cancelled => "it was cancelled".to_owned(),
        Ending::OverLimit { what } => format!("it took too much {what}"),
    };
    RepositoryError::Failed(format!("{} ({ending})", text.trim()))
}

/// The commit in the words of `git fast-import`.
fn stream(commit: &Commit<'_>, branch: &str, parent: Option<&str>) -> Vec<u8> {
    let seconds = commit.at_ms / 1000;
    // What would end the line, or stand for an address, has no place in a name.
    let name = commit.author.replace(['<', '>', '\n', '\0'], "");
    let who = format!("{name} <{name}@skep> {seconds} +0000");
    let mut text = format!("commit {branch}\nauthor {who}\ncommitter {who}\n").into_bytes();
    data(&mut text, commit.message.as_bytes());
    if let Some(parent) = parent {
        text.extend_from_slice(format!("from {parent}\n").as_bytes());
    }
    text.extend_from_slice(b"deleteall\n");
    for (path, content) in commit.files {
        text.extend_from_slice(format!("M 100644 inline {}\n", quoted(path)).as_bytes());
        data(&mut text, content);
    }
    text.extend_from_slice(b"done\n");
    text
}

fn data(text: &mut Vec<u8>, content: &[u8]) {
    text.extend_from_slice(format!("data {}\n", content.len()).as_bytes());
    text.extend_from_slice(content);
    text.push(b'\n');
}

/// A path as C would write it, so that no character of it means anything.
fn quoted(path: &str) -> String {
    let mut text = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                text.push(byte as char);
            }
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text.push('"');
    text
}
