//! Counting, killing and breaking a process's disk.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use skep_testkit::locate;
use skep_testkit::shim::{DiskError, End, Shim};
use tempfile::TempDir;

/// A probe process under the shim, on a folder of its own.
pub struct Probe {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    root: PathBuf,
}

pub fn home() -> (TempDir, PathBuf, Shim) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("home");
    fs::create_dir(&root).unwrap();
    let shim = Shim::new(&root).unwrap();
    (folder, root, shim)
}

impl Probe {
    pub fn start(shim: &Shim, root: &Path) -> Self {
        let mut command = Command::new(locate::shim_probe().unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        shim.apply(&mut command);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Probe { child, input, output, root: root.to_owned() }
    }

    /// Runs one operation, paths (`@name`) below the folder; None when the process is gone.
    pub fn ask(&mut self, operation: &str) -> Option<String> {
        self.tell(operation);
        self.output.next().and_then(Result::ok)
    }

    pub fn tell(&mut self, operation: &str) {
        let line = operation.replace('@', &format!("{}/", self.root.display()));
        let _gone = writeln!(self.input, "{line}");
    }

    pub fn next_line(&mut self) -> Option<String> {
        self.output.next().and_then(Result::ok)
    }

    pub fn run(&mut self, operations: &[&str]) {
        for operation in operations {
            assert_eq!(self.ask(operation).as_deref(), Some("ok"), "{operation}");
        }
    }

    pub fn killed(mut self) {
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9));
    }

    pub fn finish(self) {
        let Probe { mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn counts_what_happens_below_the_root_and_nothing_else() {
    let (folder, root, shim) = home();
    let outside = folder.path().join("outside");
    let mut probe = Probe::start(&shim, &root);
    assert_eq!(probe.ask("open @a").as_deref(), Some("ok"));
    assert!(shim.loaded().unwrap());
    assert_eq!(shim.count().unwrap(), 0, "opening does not count");
    probe.run(&["put @a 0 hello", "append @a world", "sync @a"]);
    assert_eq!(shim.count().unwrap(), 3);
    probe.run(&["truncate @a 4", "rename @a @b", "remove @b", "sync-folder @"]);
    assert_eq!(shim.count().unwrap(), 7);
    probe.run(&[&format!("open {}", outside.display())]);
    probe.run(&[&format!("put {} 0 hello", outside.display())]);
    probe.run(&["folder @inner", "open @inner/c", "child-append @inner/c hello"]);
    assert_eq!(shim.count().unwrap(), 7, "outside, folders and children do not count");
    assert_eq!(fs::read_to_string(root.join("inner/c")).unwrap(), "hello");
    probe.finish();
    assert_eq!(shim.synced().unwrap(), 2);
}

#[test]
fn kills_before_the_chosen_operation() {
    let (_folder, root, shim) = home();
    for at in 1..=4 {
        shim.prepare(End::Kill(at)).unwrap();
        let _old = fs::remove_file(root.join("a"));
        let mut probe = Probe::start(&shim, &root);
        probe.run(&["open @a"]);
        let mut done = 0;
        while probe.ask(&format!("append @a {done}")).is_some() {
            done += 1;
        }
        probe.killed();
        assert_eq!(done, at - 1);
        let expected: String = (0..done).map(|n| n.to_string()).collect();
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), expected);
        assert_eq!(shim.count().unwrap(), at);
    }
}

#[test]
fn chooses_the_end_while_the_process_runs() {
    let (_folder, root, shim) = home();
    let mut probe = Probe::start(&shim, &root);
    probe.run(&["open @a", "append @a 1", "append @a 2"]);
    shim.end_from_now(End::Kill(2)).unwrap();
    probe.run(&["append @a 3"]);
    assert_eq!(probe.ask("append @a 4"), None);
    probe.killed();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "123");
}

#[test]
fn errors_start_and_end_while_the_process_runs() {
    let (_folder, root, shim) = home();
    let mut probe = Probe::start(&shim, &root);
    probe.run(&["open @a", "append @a 1", "sync @a"]);
    shim.fail_syncs(DiskError::InputOutput).unwrap();
    assert_eq!(probe.ask("append @a 2").as_deref(), Some("ok"));
    assert_eq!(probe.ask("sync @a").as_deref(), Some("error 5"));
    shim.heal().unwrap();
    shim.fail_writes(DiskError::NoSpace).unwrap();
    assert_eq!(probe.ask("append @a 3").as_deref(), Some("error 28"));
    assert_eq!(probe.ask("truncate @a 100").as_deref(), Some("error 28"));
    assert_eq!(probe.ask("truncate @a 2").as_deref(), Some("ok"), "shrinking needs no space");
    assert_eq!(shim.failed().unwrap(), 3);
    shim.heal().unwrap();
    probe.run(&["append @a 4", "sync @a"]);
    probe.finish();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "124");
}

#[test]
fn chosen_operations_fail_by_their_number() {
    let (_folder, root, shim) = home();
    let mut probe = Probe::start(&shim, &root);
    probe.run(&["open @a", "append @a 1"]);
    shim.fail_from_now(2, 3).unwrap();
    assert_eq!(probe.ask("append @a 2").as_deref(), Some("ok"));
    for operation in ["append @a 3", "sync @a", "rename @a @b"] {
        assert_eq!(probe.ask(operation).as_deref(), Some("error 5"), "{operation}");
    }
    probe.run(&["append @a 4", "sync @a", "rename @a @b"]);
    probe.finish();
    assert_eq!(shim.failed().unwrap(), 3);
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "124");
}

#[tokio::test]
async fn syncs_hang_until_released_and_can_be_slow() {
    let (_folder, root, shim) = home();
    let mut probe = Probe::start(&shim, &root);
    probe.run(&["open @a", "append @a 1"]);
    shim.hang_syncs().unwrap();
    probe.tell("sync @a");
    shim.wait_hanging().await.unwrap();
    assert_eq!(shim.synced().unwrap(), 0);
    shim.heal().unwrap();
    assert_eq!(probe.next_line().as_deref(), Some("ok"));
    assert_eq!((shim.hanging().unwrap(), shim.synced().unwrap()), (0, 1));
    shim.delay_syncs(Duration::from_millis(60)).unwrap();
    let start = Instant::now();
    probe.run(&["sync @a"]);
    assert!(start.elapsed() >= Duration::from_millis(60));
    probe.finish();
}
