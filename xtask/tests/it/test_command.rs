use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tempfile::TempDir;

/// A child that another test forks has this program's open files until it runs its own: a script
/// that was being written then could not be started ("text file busy").
static FILES_AND_FORKS: Mutex<()> = Mutex::new(());

/// A folder with a copy of `./test` and a `cargo` that prints what a case tells it to.
struct Stage {
    folder: TempDir,
}

struct Outcome {
    text: String,
    last_line: String,
    succeeded: bool,
}

impl Stage {
    /// `answers` is the body of a shell `case` over cargo's first argument.
    fn new(answers: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        program(&folder.path().join("test"), fs::read(repository.join("test")).unwrap());
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let calls = folder.path().join("calls");
        let cargo = format!("echo \"$*\" >> {}\ncase $1 in\n{answers}\nesac\n", calls.display());
        script(&programs.join("cargo"), &cargo);
        script(&programs.join("rustc"), "echo host: test-machine\n");
        // Present, so that nothing is installed on the machine that runs this test.
        let needed = "cc sqlite3 unshare bwrap rg git npm chromium nginx caddy haproxy openssl";
        for name in needed.split(' ') {
            script(&programs.join(name), "");
        }
        script(&programs.join("node"), "echo '# pass 1'\necho '# fail 0'\n");
        let tools = folder.path().join("web/node_modules/.bin");
        fs::create_dir_all(&tools).unwrap();
        script(&tools.join("tsc"), "");
        script(&tools.join("vitest"), "echo '      Tests  1 passed (1)'\n");
        let clients = folder.path().join("crates/skep-testkit/clients");
        fs::create_dir_all(&clients).unwrap();
        for pins in ["requirements.txt", "package.json"] {
            fs::write(clients.join(pins), "").unwrap();
        }
        script(&programs.join("judge"), JUDGE);
        let python = "[ \"$1 $2\" = '-m venv' ] || exit 0\nmkdir -p $3/bin\n\
                      cp \"$(command -v judge)\" $3/bin/python\n";
        script(&programs.join("python3"), python);
        script(&programs.join("apt-get"), "exit 1\n");
        Self { folder }
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let programs = self.folder.path().join("programs");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.folder.path().join("test"));
        command
            .args(arguments)
            .env("PATH", path)
            .env("SKEP_CACHE", self.folder.path().join("cache"))
            .env_remove("SKEP_TEST_ALL")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = {
            let _nobody_writes = FILES_AND_FORKS.lock().unwrap();
            command.spawn().unwrap()
        };
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let last_line = text.lines().last().unwrap_or_default().to_owned();
        let errors = String::from_utf8(output.stderr).unwrap();
        Outcome { text: text + &errors, last_line, succeeded: output.status.success() }
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }
}

fn script(path: &Path, body: &str) {
    program(path, format!("#!/bin/sh\n{body}").into_bytes());
}

fn program(path: &Path, text: Vec<u8>) {
    let _nobody_forks = FILES_AND_FORKS.lock().unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
fn assert_ends(outcome: &Outcome, last_line: &str) {
    assert_eq!(outcome.last_line, last_line, "whole output:\n{}", outcome.text);
    assert_eq!(outcome.succeeded, last_line.ends_with(" 0 failed"));
}

/// How many suites of judges a whole run has.
const JUDGES: usize = 8;
/// What the page adds: its types, its units, its journeys.
const PAGE: usize = 3;
/// The python of the judges: installs what it is asked to, and every suite has one good case.
const JUDGE: &str = "[ \"$1 $2\" = '-m pip' ] && exit 0\necho '1 passed, 0 failed'\n";

/// The last line of a whole run in which every judge and the page are content.
fn whole(passed: usize, failed: usize) -> String {
    format!("{} passed, {failed} failed", passed + JUDGES + PAGE)
}

const TWO_GOOD_PROGRAMS: &str = "test) \
    echo 'test a ... ok'; \
    echo 'test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; \
    echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out';;";

#[test]
fn adds_fmt_clippy_tidy_and_every_test() {
    let stage = Stage::new(TWO_GOOD_PROGRAMS);
    let outcome = stage.run(&[]);
    assert_ends(&outcome, &whole(18, 0));
    assert!(!outcome.text.contains("test a ... ok"), "passing tests are not listed");
    let calls = stage.calls();
    let commands: Vec<&str> = calls.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(commands, ["fmt", "clippy", "run", "build", "test"]);
}

#[test]
fn a_failing_check_counts_once_and_the_rest_still_runs() {
    let stage = Stage::new(&format!("fmt) exit 1;; {TWO_GOOD_PROGRAMS}"));
    assert_ends(&stage.run(&[]), &whole(17, 1));
}

#[test]
fn failing_tests_are_counted_and_shown() {
    let stage = Stage::new(
        "test) echo 'test b ... FAILED'; echo 'thread b panicked: left != right'; \
         echo 'test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out'; \
         echo 'error: 1 target failed:'; echo '    `-p skep --lib`'; exit 101;;",
    );
    let outcome = stage.run(&[]);
    assert_ends(&outcome, &whole(7, 2));
    assert!(outcome.text.contains("left != right"));
}

#[test]
fn a_program_that_hung_or_died_counts_as_failed() {
    let stage = Stage::new(
        "test) \
         echo 'test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; \
         echo 'error: 1 target failed:'; echo '    `-p skep --test it`'; exit 101;;",
    );
    assert_ends(&stage.run(&[]), &whole(7, 1));
}

#[test]
fn a_program_that_does_not_build_counts_as_failed() {
    let stage = Stage::new(
        "test) \
         echo 'error: could not compile `skep` (test \"it\") due to 1 previous error'; \
         echo 'error: could not compile `skep-core` (lib test) due to 3 previous errors'; \
         exit 101;;",
    );
    assert_ends(&stage.run(&[]), &whole(3, 2));
}

#[test]
fn a_failure_without_a_known_message_still_fails() {
    let stage = Stage::new("test) echo 'error: the lock file needs to be updated'; exit 101;;");
    assert_ends(&stage.run(&[]), &whole(3, 1));
}

#[test]
fn judges_that_cannot_be_installed_or_do_not_count_have_failed() {
    let stage = Stage::new(TWO_GOOD_PROGRAMS);
    let programs = stage.folder.path().join("programs");
    script(&programs.join("npm"), "exit 1\n");
    // The page needs it as well.
    assert_ends(&stage.run(&[]), "18 passed, 2 failed");
    script(&programs.join("npm"), "");
    for (judge, passed, failed) in [
        ("echo hm", 0, 1),
        ("echo '0 passed, 0 failed'", 0, 1),
        ("echo '5 passed, 0 failed'; exit 1", 5, 1),
        ("echo '5 passed, 2 failed'; exit 1", 5, 2),
    ] {
        let body = format!("[ \"$1 $2\" = '-m pip' ] && exit 0\n{judge}\n");
        script(&stage.folder.path().join("cache/python/bin/python"), &body);
        let (passed, failed) = (18 + PAGE + passed * JUDGES, failed * JUDGES);
        assert_ends(&stage.run(&[]), &format!("{passed} passed, {failed} failed"));
    }
}

#[test]
fn an_area_runs_its_own_tests_alone() {
    let stage = Stage::new(TWO_GOOD_PROGRAMS);
    assert_ends(&stage.run(&["--only", "store"]), "30 passed, 0 failed");
    for of in ["-p skep-db", "-p skep-store"] {
        assert!(stage.calls().contains(of), "{of}");
    }
    assert!(!stage.calls().contains("clippy"));
}

#[test]
fn an_area_without_tests_says_so_and_fails() {
    let empty = "test) \
        echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out';;";
    for area in ["plugins", "attacks"] {
        let outcome = Stage::new(empty).run(&["--only", area]);
        assert_ends(&outcome, "0 passed, 1 failed");
        assert!(outcome.text.contains(&format!("area {area} has no tests yet")));
    }
}

#[test]
fn all_raises_the_counts() {
    let stage = Stage::new("test) echo \"all=$SKEP_TEST_ALL\";;");
    assert!(stage.run(&["--all"]).text.contains("all=1"));
    assert!(!stage.run(&[]).text.contains("all=1"));
}

#[test]
fn all_asks_cargo_deny_or_says_that_it_did_not() {
    let stage = Stage::new("deny) echo 'advisories ok';;");
    assert!(stage.run(&["--all"]).text.contains("advisories ok"));
    assert!(!stage.run(&[]).text.contains("advisories"));
    let outcome = Stage::new("deny) exit 101;;").run(&["--all"]);
    let lines: Vec<&str> = outcome.text.lines().filter(|line| line.contains("skipped")).collect();
    assert_eq!(lines.len(), 1, "whole output:\n{}", outcome.text);
    assert!(lines[0].starts_with("skipped: advisories: install cargo deny"));
    assert!(outcome.last_line.ends_with(" failed"), "the counts stay the last line");
}

#[test]
fn a_wrong_argument_is_refused() {
    let stage = Stage::new(TWO_GOOD_PROGRAMS);
    for arguments in [&["--fast"][..], &["--only"], &["--only", "kitchen"]] {
        assert_ends(&stage.run(arguments), "0 passed, 1 failed");
    }
    assert_eq!(stage.calls(), "");
}
