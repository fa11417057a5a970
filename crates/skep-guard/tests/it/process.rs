use std::path::Path;
use std::time::{Duration, Instant};

use skep_guard::process::{Ending, Invocation, Job, run};
use tokio_util::sync::CancellationToken;

fn shell(script: &str, directory: &Path) -> Job {
    Job {
        invocation: Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            directory: directory.to_path_buf(),
            environment: vec![("GIVEN".into(), "yes".into())],
        },
        input: Vec::new(),
        output_bytes: 1024,
        timeout: None,
    }
}

/// Pids written by the script, one per line, once there are `count` of them.
async fn pids(file: &Path, count: usize) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let found: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < deadline, "only {text:?} after 10 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

async fn all_gone(pids: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(Instant::now() < deadline, "still running after 5 s: {pids:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A child, a grandchild, one in its own session, one orphaned in its own session, and one of
/// them deaf to TERM.
const FAMILY: &str = "
    trap '' TERM
    echo $$ >> pids
    (trap '' TERM; while :; do sleep 100; done) & echo $! >> pids
    setsid sh -c 'echo $$ >> pids; while :; do sleep 100; done' &
    (setsid sh -c 'echo $$ >> pids; while :; do sleep 100; done' &)
    while :; do sleep 100; done";

#[tokio::test]
async fn output_input_environment_and_exit_code_come_through() {
    let home = tempfile::tempdir().unwrap();
    let script = "cat; echo $GIVEN $CARGO_MANIFEST_DIR; echo oops >&2; exit 3";
    let mut job = shell(script, home.path());
    job.input = b"typed ".to_vec();
    let output = run(job, &CancellationToken::new()).await.unwrap();
    assert_eq!(output.ending, Ending::Exited { code: 3 });
    assert_eq!(String::from_utf8_lossy(&output.stdout.bytes), "typed yes\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr.bytes), "oops\n");
}

#[tokio::test]
async fn a_flood_is_bounded_and_counted() {
    let home = tempfile::tempdir().unwrap();
    let job = shell("head -c 1000000 /dev/zero", home.path());
    let output = run(job, &CancellationToken::new()).await.unwrap();
    assert_eq!((output.stdout.bytes.len(), output.stdout.dropped), (1024, 1_000_000 - 1024));
}

#[tokio::test]
async fn cancelling_ends_children_grandchildren_and_those_in_other_sessions() {
    let home = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let job = shell(FAMILY, home.path());
    let running = tokio::spawn({
        let cancel = cancel.clone();
        async move { run(job, &cancel).await }
    });
    let family = pids(&home.path().join("pids"), 4).await;
    assert!(family.iter().all(|pid| runs(*pid)));
    let begun = Instant::now();
    cancel.cancel();
    let output = running.await.unwrap().unwrap();
    assert_eq!(output.ending, Ending::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(family.iter().all(|pid| !runs(*pid)), "{family:?}");
}

#[tokio::test]
async fn dropping_the_future_ends_the_family_too() {
    let home = tempfile::tempdir().unwrap();
    let job = shell(FAMILY, home.path());
    let running = tokio::spawn(async move { run(job, &CancellationToken::new()).await });
    let family = pids(&home.path().join("pids"), 4).await;
    running.abort();
    all_gone(&family).await;
}

#[tokio::test]
async fn what_a_child_leaves_behind_ends_with_it_and_does_not_hold_its_output() {
    let home = tempfile::tempdir().unwrap();
    let job = shell("(setsid sleep 100 & echo $! > pids); echo done", home.path());
    let output = run(job, &CancellationToken::new()).await.unwrap();
    assert_eq!(output.ending, Ending::Exited { code: 0 });
    assert_eq!(output.stdout.bytes, b"done\n");
    all_gone(&pids(&home.path().join("pids"), 1).await).await;
}

#[tokio::test]
async fn a_timeout_and_a_missing_program_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let mut job = shell("sleep 100", home.path());
    job.timeout = Some(Duration::from_millis(50));
    let output = run(job, &CancellationToken::new()).await.unwrap();
    assert_eq!(output.ending, Ending::TimedOut);
    let mut job = shell("", home.path());
    job.invocation.program = "/no/such/program".into();
    let error = run(job, &CancellationToken::new()).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot start /no/such/program: "), "{error}");
}

/// After `claim` even a process without marker, parent, group or session in common falls to us. In
/// a process of its own: what other tests start there is no orphan, and keeps others alive.
#[tokio::test]
async fn a_claimed_process_ends_strays_and_orphans_that_hide() {
    const ALONE: &str = "SKEP_GUARD_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "process::a_claimed_process_ends_strays_and_orphans_that_hide";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let ran = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // Unlike that of another run of this test at the same time.
    let label = format!("claim-test-{}", std::process::id());
    // What a crashed hive of the same label left behind.
    let mut stray = std::process::Command::new("sleep")
        .arg("100")
        .env("SKEP_TREE", format!("{label}.earlier"))
        .spawn()
        .unwrap();
    skep_guard::process::claim(&label).unwrap();
    all_gone(&[stray.id()]).await;
    // The status may already have been taken by the guard.
    let _ = stray.wait();

    let hidden = "(setsid env -i /bin/sh -c 'sleep 100 & echo $! > pids; echo $$ >> pids; wait' &)";
    let ends = format!("{hidden}; while [ ! -s pids ]; do :; done");
    let output = run(shell(&ends, home.path()), &CancellationToken::new()).await.unwrap();
    assert_eq!(output.ending, Ending::Exited { code: 0 });
    let gone = pids(&home.path().join("pids"), 2).await;
    assert!(gone.iter().all(|pid| !runs(*pid)), "{gone:?}");

    // The same beside another that runs and has hidden something too, which is left alone.
    let (other, cancel) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let start = |place: &Path, cancel: &CancellationToken| {
        let (job, cancel) = (shell(&format!("{hidden}; sleep 100"), place), cancel.clone());
        tokio::spawn(async move { run(job, &cancel).await })
    };
    let beside = start(other.path(), &cancel);
    let kept = pids(&other.path().join("pids"), 2).await;
    std::fs::remove_file(home.path().join("pids")).unwrap();
    let output = run(shell(&ends, home.path()), &CancellationToken::new()).await.unwrap();
    assert_eq!(output.ending, Ending::Exited { code: 0 });
    let gone = pids(&home.path().join("pids"), 2).await;
    assert!(gone.iter().all(|pid| !runs(*pid)), "{gone:?}");
    std::fs::remove_file(home.path().join("pids")).unwrap();
    let stop = CancellationToken::new();
    let stopped = start(home.path(), &stop);
    let gone = pids(&home.path().join("pids"), 2).await;
    stop.cancel();
    assert_eq!(stopped.await.unwrap().unwrap().ending, Ending::Cancelled);
    assert!(gone.iter().all(|pid| !runs(*pid)), "{gone:?}");
    assert!(kept.iter().all(|pid| runs(*pid)), "{kept:?}");
    cancel.cancel();
    assert_eq!(beside.await.unwrap().unwrap().ending, Ending::Cancelled);
    assert!(kept.iter().all(|pid| !runs(*pid)), "{kept:?}");
}

#[tokio::test]
async fn a_child_has_no_descriptor_but_the_standard_three() {
    let home = tempfile::tempdir().unwrap();
    let folder = std::fs::File::open(home.path()).unwrap();
    rustix::io::fcntl_setfd(&folder, rustix::io::FdFlags::empty()).unwrap();
    let job = shell("for each in /proc/$$/fd/*; do echo ${each##*/}; done", home.path());
    let output = run(job, &CancellationToken::new()).await.unwrap();
    let said = String::from_utf8(output.stdout.bytes).unwrap();
    // The fourth is the folder that the shell reads to name them.
    assert_eq!(said, "0\n1\n2\n3\n");
    drop(folder);
}
