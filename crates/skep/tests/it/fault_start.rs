//! Starts that cannot succeed: each ends with its exit code and a message that says what was
//! attempted, why it failed and what to do, and leaves the home byte for byte as it was.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use skep_store::{CommandSet, OpenOptions, Refusal, Run, StoreOf, Tx};
use skep_testkit::hive::{Finished, Start};
use skep_testkit::shim::{DiskError, Shim};
use skep_testkit::{Reply, locate};

use crate::stage::Stage;

const VOLATILE: &[&str] = &["run/lock", "run/skep.db-shm"];

/// Every entry of a folder with what is in it. The lock names its last holder, and the index of
/// the log is made anew by whoever reads after a crash, so of these only the presence counts.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = match meta.file_type() {
                kind if kind.is_dir() => {
                    folders.push(path.clone());
                    String::new()
                }
                kind if kind.is_file() && !VOLATILE.iter().any(|name| path.ends_with(name)) => {
                    String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
                }
                kind if kind.is_socket() => "socket".to_owned(),
                _ => String::new(),
            };
            found.insert(path, format!("{:o} {content}", meta.permissions().mode()));
        }
    }
    found
}

fn assert_same(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>, what: &str) {
    let changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(changed).collect();
    assert!(changed.is_empty(), "{what}: changed {changed:?}");
}

/// A home that was used and stopped in order.
async fn used() -> Stage {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("kept"));
    let mut play = stage.up().await;
    play.ask("main", "keep this").await;
    play.hive.terminate().unwrap();
    assert_eq!(play.hive.wait(Duration::from_secs(30)).await.unwrap().code(), Some(0));
    stage
}

/// It starts and still has what was said before.
async fn still_good(stage: &Stage) {
    let play = stage.up().await;
    let history = play.history("main", "main").await;
    assert_eq!(history[1]["content"][0]["text"], "kept");
}

/// The start ends with this code, says all of this, and touches nothing.
async fn refused(stage: &Stage, start: Start, code: i32, said: &[&str]) -> Finished {
    let before = snapshot(stage.home());
    let ended = start.finish().await.unwrap();
    check(&ended, code, said);
    assert_same(&before, &snapshot(stage.home()), said[0]);
    ended
}

fn check(ended: &Finished, code: i32, said: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let heads = ["skep: could not ", "skep: home: "];
    assert!(heads.iter().any(|head| ended.stderr.starts_with(head)), "{}", ended.stderr);
    for part in said {
        assert!(ended.stderr.contains(part), "no `{part}` in:\n{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[tokio::test]
async fn fault_start_of_a_second_instance_is_refused() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let process = format!("(pid {})", play.hive.process());
    let next = format!("next: skep --home {} status", stage.home().display());
    let said = ["start the hive in", &process, "already serves this home", &next];
    refused(&stage, stage.start(), 3, &said).await;
    let lock = fs::read_to_string(stage.home().join("run/lock")).unwrap();
    assert_eq!(lock.trim(), play.hive.process().to_string(), "the lock is the first one's");
    refused(&stage, stage.start().argument("--detach"), 3, &said).await;
    // What people do who take a lock for a leftover.
    fs::remove_file(stage.home().join("run/lock")).unwrap();
    let ended = stage.start().finish().await.unwrap();
    check(&ended, 3, &["already serves this home"]);
    stage.model.push(Reply::say("undisturbed"));
    assert_eq!(play.ask("main", "still there?").await["response"]["content"], "undisturbed");
}

#[tokio::test]
async fn fault_start_on_a_taken_port_changes_nothing() {
    let stage = used().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let start = |stage: &Stage| {
        Start::new(&locate::rig().unwrap(), stage.home())
            .env("RIG_KEY", "key-of-the-rig")
            .argument("up")
            .argument("--port")
            .argument(&port)
    };
    let said = ["could not listen", "another program has this port", "--port"];
    refused(&stage, start(&stage), 1, &said).await;
    still_good(&stage).await;
}

/// An unfinished turn is not touched by a start that cannot open its doors.
#[tokio::test]
async fn fault_start_on_a_taken_port_runs_no_turn() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("never heard").gate_first("first"));
    let mut play = stage.up().await;
    let item = play.tell("main", "main", "hello").await;
    stage.model.wait_for_request(1).await.unwrap();
    play.hive.kill().await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    stage.write(
        "skep.yaml",
        &format!("server: {{ port: {} }}\n", taken.local_addr().unwrap().port()),
    );
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key-of-the-rig");
    refused(&stage, start.argument("up"), 1, &["another program has this port"]).await;
    assert_eq!(stage.model.requests().len(), 1, "nobody asked the model");
    drop(taken);
    stage.model.push(Reply::say("now"));
    let play = stage.up().await;
    let ended = play.ended("main", item["item_id"].as_str().unwrap()).await;
    assert_eq!(ended["response"]["content"], "now");
}

#[tokio::test]
async fn fault_start_on_a_home_that_cannot_be_written() {
    let stage = used().await;
    let home = stage.home();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let run = home.join("run");
    // The folder of the database, and the database alone.
    for (path, mode, file) in [(&run, 0o500, "lock"), (&run.join("skep.db"), 0o400, "skep.db")] {
        let usual = fs::metadata(path).unwrap().permissions().mode();
        set(path, mode);
        if file == "lock" {
            set(&run.join("lock"), 0o400);
        }
        let before = snapshot(home);
        let ended = stage.start().finish_bound_by_modes().unwrap();
        check(&ended, 1, &["writable", file, "ermission denied"]);
        assert_same(&before, &snapshot(home), file);
        set(path, usual);
        set(&run.join("lock"), 0o600);
    }
    still_good(&stage).await;
    let parent = stage.folder().join("closed");
    fs::create_dir(&parent).unwrap();
    set(&parent, 0o500);
    let start = Start::up(&locate::rig().unwrap(), &parent.join("home"));
    let ended = start.finish_bound_by_modes().unwrap();
    check(&ended, 1, &["prepare the home", "Permission denied", "--home"]);
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
}

#[tokio::test]
async fn fault_start_on_a_read_only_file_system() {
    let flags = private_mounts();
    let stage = used().await;
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" \
                  && exec \"$2\" up --home \"$1\" --port 0";
    let start = Start::new(Path::new("unshare"), stage.home()).env("RIG_KEY", "key-of-the-rig");
    let start = start.argument(flags).argument("sh").argument("-c").argument(script);
    let start = start.argument("sh").argument(stage.home()).argument(locate::rig().unwrap());
    refused(&stage, start, 1, &["start the hive in", "Read-only file system", "writable"]).await;
    still_good(&stage).await;
}

/// How this machine gives a process mounts of its own.
pub fn private_mounts() -> &'static str {
    let works = |flags: &&&str| {
        let script = "mount -t tmpfs none /mnt || mount -t tmpfs none /tmp";
        let tried = Command::new("unshare").args([**flags, "sh", "-c", script]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let found = ["-m", "-rm"].iter().find(works);
    found.expect("mounts of its own for a process: run as root, or allow user namespaces")
}

struct Later;

skep_store::commands! {
    enum Meddling -> Meddled, <skep_store::Command as CommandSet>::SCHEMA;
    Later,
}

impl Run for Later {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, \
                     execution_time) VALUES (9999, 'later', 1, x'00', 0)";
        tx.conn.run(later, &[]).await?;
        Ok(())
    }
}

#[tokio::test]
async fn fault_start_on_a_newer_database_is_refused() {
    let stage = used().await;
    let options = OpenOptions::in_run_folder(&stage.home().join("run"));
    let store = StoreOf::<Meddling>::open(options, |_| {}).await.unwrap();
    store.write(Later).await.unwrap();
    store.close().await;
    let said = ["open the hive", "written by a newer Skep", "schema 9999", "restore a backup"];
    refused(&stage, stage.start(), 3, &said).await;
    let doctor = command(&stage, &["doctor"]);
    let told = refused(&stage, doctor, 1, &["home: 1 of "]).await;
    assert!(told.stdout.contains("written by a newer Skep"), "{}", told.stdout);
}

#[tokio::test]
async fn fault_start_doctor_looks_and_changes_nothing() {
    let stage = used().await;
    let lock = stage.home().join("run/lock");
    for round in ["closed", "killed"] {
        let (before, holder) = (snapshot(stage.home()), fs::read(&lock).unwrap());
        let told = command(&stage, &["doctor"]).finish().await.unwrap();
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.stdout.contains("hive           does not run"), "{}", told.stdout);
        assert!(told.stdout.contains("readable, version "), "{}", told.stdout);
        assert_same(&before, &snapshot(stage.home()), round);
        assert_eq!(fs::read(&lock).unwrap(), holder, "the lock is not its own");
        stage.up().await.hive.kill().await.unwrap();
    }
    let play = stage.up().await;
    let told = command(&stage, &["doctor"]).finish().await.unwrap();
    assert!(told.stdout.contains("runs and answers"), "{}", told.stdout);
    drop(play);
}

#[tokio::test]
async fn fault_start_on_a_damaged_database_is_refused() {
    let stage = used().await;
    let database = stage.home().join("run/skep.db");
    let whole = fs::read(&database).unwrap();
    let zeroed = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0);
        bytes
    };
    let page = whole.len() / 4096 / 2 * 4096;
    let cases: [(&str, Vec<u8>); 6] = [
        ("it was cut", Vec::new()),
        ("it was cut", whole[..4096].to_vec()),
        ("it was cut", whole[..whole.len() - 1].to_vec()),
        ("does not begin like an SQLite database", zeroed(0, 16)),
        ("does not begin like an SQLite database", b"# my notes\n".repeat(1000)),
        ("is damaged", zeroed(page, page + 4096)),
    ];
    for (reason, bytes) in cases {
        fs::write(&database, bytes).unwrap();
        let said = [reason, "open the hive", "nothing was changed", "restore a backup"];
        refused(&stage, stage.start(), 3, &said).await;
    }
    fs::remove_file(&database).unwrap();
    fs::write(database.with_extension("db-wal"), b"frames of a lost file").unwrap();
    refused(&stage, stage.start(), 3, &["the file is gone, but its -wal file is there"]).await;
    fs::remove_file(database.with_extension("db-wal")).unwrap();
    fs::create_dir(&database).unwrap();
    let ended = stage.start().finish().await.unwrap();
    assert!(matches!(ended.code, Some(1 | 3)), "{ended:?}");
    assert!(ended.stderr.contains("skep.db"), "{}", ended.stderr);
    fs::remove_dir(&database).unwrap();
    fs::write(&database, &whole).unwrap();
    still_good(&stage).await;
}

#[tokio::test]
async fn fault_start_with_something_else_in_the_way() {
    let stage = used().await;
    let socket = stage.home().join("run/skep.sock");
    fs::write(&socket, "a note").unwrap();
    refused(&stage, stage.start(), 1, &["could not listen", "skep.sock", "in the way"]).await;
    fs::remove_file(&socket).unwrap();
    still_good(&stage).await;
    let lock = stage.home().join("run/lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    refused(&stage, stage.start(), 1, &["start the hive in", "cannot lock", "directory"]).await;

    let file = stage.folder().join("file");
    fs::write(&file, "no folder").unwrap();
    for home in [file.clone(), file.join("home")] {
        let ended = Start::up(&locate::rig().unwrap(), &home).finish().await.unwrap();
        check(&ended, 1, &["prepare the home", "file"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "no folder");
    }
}

#[tokio::test]
async fn fault_start_on_a_full_disk_says_so() {
    for first in [true, false] {
        let stage = if first { Stage::new().await } else { used().await };
        let shim = Shim::new(stage.home()).unwrap();
        shim.fail_writes(DiskError::NoSpace).unwrap();
        let before = snapshot(&stage.home().join("teams"));
        let ended = stage.start().shim(&shim).finish().await.unwrap();
        check(&ended, 1, &["space"]);
        assert!(!ended.stderr.contains("make the folder writable"), "{}", ended.stderr);
        assert_same(&before, &snapshot(&stage.home().join("teams")), "full disk");
        if !first {
            still_good(&stage).await;
        }
    }
}

/// What is wrong with a file of the hive, and what is said about it.
#[tokio::test]
async fn fault_start_with_each_kind_of_configuration_mistake() {
    let stage = used().await;
    let cases: [(&str, &[u8], &[&str]); 14] = [
        ("skep.yaml", b"limits: { stepps: 5 }\n", &["`limits.stepps`", "did you mean `steps`?"]),
        ("skep.yaml", b"limits: { steps: many }\n", &["skep.yaml:1:", "a whole number from 1"]),
        ("skep.yaml", b"server: { port: 70000 }\n", &["`server.port`", "65535"]),
        ("skep.yaml", b"defaults: { profile: defualt }\n", &["did you mean `default`?"]),
        ("skep.yaml", b"defaults: { engine: natve }\n", &["did you mean `native`?"]),
        ("skep.yaml", b"limits:\n  steps: 5\n  steps: 6\n", &["skep.yaml:3:", "steps"]),
        ("skep.yaml", b"server:\n  bind: \"127.0\n", &["skep.yaml:"]),
        ("skep.yaml", b"server: [1,\n", &["skep.yaml:"]),
        ("skep.yaml", b"limits:\n  steps: \xff\xfe\n", &["skep.yaml:2:", "is not UTF-8"]),
        ("providers.yaml", b"profiles: { default: {} }\n", &["providers.yaml:1:", "provider"]),
        ("providers.yaml", b"profiles: { other: { provider: rehearsal } }\n", &["`default`"]),
        (
            "providers.yaml",
            b"profiles: { default: { provider: anthropic, model: m, api_key: '${NOT_SET}' } }\n",
            &["NOT_SET"],
        ),
        ("channels.yaml", b"ws: { enabled: maybe }\n", &["channels.yaml:1:", "true or false"]),
        ("channels.yaml", b"discord: {}\n", &["`discord`", "unknown key"]),
    ];
    for (file, bytes, said) in cases {
        mistaken(&stage, file, said, |path| fs::write(path, bytes).unwrap()).await;
    }
    let huge = |path: &Path| fs::write(path, "# x\n".repeat(1 << 19)).unwrap();
    mistaken(&stage, "skep.yaml", &["is too large", "1024 KiB"], huge).await;
    mistaken(&stage, "skep.yaml", &["is a folder"], |path| fs::create_dir(path).unwrap()).await;
    let pipe = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    mistaken(&stage, "channels.yaml", &["is not a regular file"], pipe).await;
    let ring = |path: &Path| std::os::unix::fs::symlink(path, path).unwrap();
    mistaken(&stage, "skep.yaml", &["skep.yaml", "is a link"], ring).await;
    still_good(&stage).await;
}

async fn mistaken(stage: &Stage, file: &str, said: &[&str], put: impl Fn(&Path)) {
    let path = stage.home().join(file);
    let kept = path.with_extension("kept");
    let existed = path.exists();
    if existed {
        fs::rename(&path, &kept).unwrap();
    }
    put(&path);
    let mut parts = vec!["read the configuration", file, "nothing was started", " doctor"];
    parts.extend(said);
    refused(stage, stage.start(), 2, &parts).await;
    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
    if existed {
        fs::rename(&kept, &path).unwrap();
    }
}

/// A mistake in an agent's folder costs that agent alone.
#[tokio::test]
async fn fault_start_with_a_mistaken_agent_goes_on_without_it() {
    let stage = used().await;
    stage.write("teams/plain/config.yaml", "engine: blnt\n");
    stage.write("teams/Bad Name/config.yaml", "");
    fs::create_dir_all(stage.home().join("teams/odd/config.yaml")).unwrap();
    let play = stage.up().await;
    let warned = play.hive.stderr();
    assert!(warned.contains("agent plain is disabled"), "{warned}");
    assert!(warned.contains("did you mean `blunt`?"), "{warned}");
    let state = play.state().await;
    let status = |name: &str| {
        let agents = state["agents"].as_array().unwrap();
        let agent = agents.iter().find(|agent| agent["name"] == name);
        agent.map(|agent| agent["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(status("main").as_deref(), Some("active"));
    for name in ["plain", "Bad Name", "odd"] {
        assert_eq!(status(name).as_deref(), Some("failed"), "{name}");
    }
    let sent = command(&stage, &["send", "plain", "hello"]).finish().await.unwrap();
    check(&sent, 1, &["send the message to plain", "is disabled", "agent_failed"]);
    stage.model.push(Reply::say("at work"));
    assert_eq!(play.ask("main", "and you?").await["response"]["content"], "at work");
}

fn command(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "key-of-the-rig");
    words.iter().fold(start, |start, word| start.argument(*word))
}
