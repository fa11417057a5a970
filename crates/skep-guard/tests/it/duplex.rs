//! Children that are spoken to in lines: how they are heard, what they are given, how they end.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use skep_guard::duplex::{DuplexChild, DuplexProgram, DuplexRecords, LineError};
use skep_guard::network::RoomNetwork;
use skep_guard::process::Ending;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};

use crate::scene::built;

/// The testkit's child that does what it should not.
pub fn unruly() -> PathBuf {
    built("skep-unruly-child", "cargo build -p skep-testkit --bins")
}

pub fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(Into::into).collect()
}

struct Host {
    home: tempfile::TempDir,
    sandbox: Sandbox,
}

impl Host {
    fn new() -> Self {
        let sandbox = Sandbox::new(Settings::new(Level::Host, Vec::new()));
        Self { home: tempfile::tempdir().unwrap(), sandbox }
    }

    async fn start(&self, mode: &str) -> DuplexChild {
        self.start_program(DuplexProgram::new(unruly(), words(mode))).await
    }

    async fn start_program(&self, program: DuplexProgram) -> DuplexChild {
        let records = DuplexRecords::new(self.home.path().join("children"));
        let workspace = self.home.path().to_owned();
        let room = SandboxRoom { workspace, read_only: Vec::new(), network: RoomNetwork::None };
        records.start("one", &self.sandbox, program, &room).await.unwrap()
    }
}

/// The next line, as text.
pub async fn heard(child: &mut DuplexChild) -> Option<String> {
    child.line().await.unwrap().map(|line| String::from_utf8(line).unwrap())
}

#[tokio::test]
async fn duplex_lines_go_both_ways_and_in_order() {
    let host = Host::new();
    let mut child = host.start("echo").await;
    let sender = child.sender();
    let told = tokio::spawn(async move {
        for number in 0..2000 {
            sender.send(format!("{number} {}", "x".repeat(number))).await.unwrap();
        }
    });
    for number in 0..2000 {
        assert_eq!(heard(&mut child).await.unwrap().len(), format!("{number} ").len() + number);
    }
    told.await.unwrap();
    let end = child.end().await.unwrap();
    assert_eq!(end.ending, Ending::Exited { code: 0 });
    assert_eq!(end.last_words.bytes, b"heard 2000 lines\n");
}

#[tokio::test]
async fn duplex_lines_are_bounded() {
    let host = Host::new();
    let program = DuplexProgram::new(unruly(), words("flood line"));
    let mut child = host.start_program(DuplexProgram { line_bytes: 10_000, ..program }).await;
    assert_eq!(child.line().await, Err(LineError::TooLong { most: 10_000 }));
    // The rest of it never ends, and is not kept.
    let more = tokio::time::timeout(Duration::from_millis(200), child.line()).await;
    assert!(more.is_err(), "{more:?}");
    child.end().await.unwrap();

    let script = "printf 'short\\n0123456789\\n01234567890\\n'; printf '%0100000d\\nlast' 0";
    let program = DuplexProgram::new("sh", vec!["-c".into(), script.into()]);
    let mut child = host.start_program(DuplexProgram { line_bytes: 10, ..program }).await;
    assert_eq!(heard(&mut child).await.unwrap(), "short");
    assert_eq!(heard(&mut child).await.unwrap(), "0123456789");
    let too_long = || Err(LineError::TooLong { most: 10 });
    assert_eq!(child.line().await, too_long());
    assert_eq!(child.line().await, too_long());
    assert_eq!(child.line().await, Err(LineError::Half(b"last".to_vec())));
    assert_eq!(child.line().await, Ok(None));
    assert_eq!(child.sender().send("01234567890").await, too_long().map(drop));
    assert_eq!(child.sender().send("two\nlines").await, Err(LineError::Broken));
}

#[tokio::test]
async fn duplex_death_in_the_middle_of_a_line_is_told() {
    let host = Host::new();
    let mut child = host.start("half cut").await;
    assert_eq!(heard(&mut child).await.unwrap(), "whole");
    assert_eq!(child.line().await, Err(LineError::Half(b"cut".to_vec())));
    assert_eq!(child.line().await, Ok(None));
    let sender = child.sender();
    let end = child.end().await.unwrap();
    assert_eq!(end.ending, Ending::Exited { code: 3 });
    assert_eq!(end.last_words.bytes, b"last words");
    assert_eq!(sender.send("anybody?").await, Err(LineError::Gone));
}

#[tokio::test]
async fn duplex_speakers_wait_for_a_child_that_does_not_listen() {
    let host = Host::new();
    let program = DuplexProgram::new(unruly(), words("hang"));
    let child = host.start_program(DuplexProgram { line_bytes: 100_000, ..program }).await;
    let sender = child.sender();
    let mut sent = 0;
    let fill = async {
        loop {
            sender.send(vec![b'x'; 10_000]).await.unwrap();
            sent += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_millis(300), fill).await.is_err());
    // What the queue and the pipe hold, and one that is between them.
    assert!((10..=10 + 7 + 1).contains(&sent), "{sent} lines of 10 000 bytes");
    let waiting = tokio::spawn(async move { sender.send(vec![b'x'; 10_000]).await });
    assert_eq!(child.end().await.unwrap().ending, Ending::Cancelled);
    assert_eq!(waiting.await.unwrap(), Err(LineError::Gone));
}

#[tokio::test]
async fn duplex_children_have_the_descriptors_they_were_given() {
    let host = Host::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"by name").unwrap();
    drop(writer);
    let mut program = DuplexProgram::new(unruly(), words("given"));
    program.environment.push(("TOKEN".to_owned(), "t".to_owned()));
    program.descriptors.push(("GIVEN".to_owned(), reader.into()));
    let mut child = host.start_program(program).await;
    let names = heard(&mut child).await.unwrap();
    let wanted = ["GIVEN", "TOKEN"];
    let of_ours: Vec<&str> = names.split(' ').filter(|name| wanted.contains(name)).collect();
    assert_eq!(of_ours, wanted);
    assert_eq!(heard(&mut child).await.unwrap(), "[]");
    assert_eq!(heard(&mut child).await.unwrap(), "by name");
    assert_eq!(heard(&mut child).await, None);
    assert_eq!(child.end().await.unwrap().ending, Ending::Exited { code: 0 });
}
