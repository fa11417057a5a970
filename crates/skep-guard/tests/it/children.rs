//! Unruly children behind the walls: they get nothing, take no more than they may, and nothing of
//! them stays.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use skep_guard::duplex::{DuplexChild, DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::process::{self, Ending, Invocation, Job};
use skep_guard::sandbox::{Counting, Level, Sandbox, SandboxRoom, Settings};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::duplex::{heard, unruly, words};
use crate::scene::{Scene, built, hostile, processes_in};

const LIMIT: Duration = Duration::from_secs(5);
const COUNTINGS: [Counting; 2] = [Counting::Kernel, Counting::Watchdog];

/// A child in the workspace of the scene, by a program that was copied there.
async fn start(scene: &Scene, name: &str, line: &str) -> DuplexChild {
    let mut words = words(line);
    let program = scene.work().join(words.remove(0));
    start_program(scene, name, DuplexProgram::new(program, words)).await
}

async fn start_program(scene: &Scene, name: &str, program: DuplexProgram) -> DuplexChild {
    let copy = scene.work().join("unruly");
    if !copy.exists() {
        fs::copy(unruly(), copy).unwrap();
    }
    let records = DuplexRecords::new(scene.home.path().join("run/children"));
    records.start(name, &scene.sandbox, program, &scene.room()).await.unwrap()
}

/// Everything it says until it ends.
async fn all_of(child: &mut DuplexChild) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(line) = heard(child).await {
        said.push(line);
    }
    said
}

async fn withstands(scene: &Scene, attack: &str) -> Vec<String> {
    let mut child = start(scene, "attack", attack).await;
    let said = all_of(&mut child).await;
    let end = child.end().await.unwrap();
    assert!(!said.iter().any(|line| line.starts_with("escaped")), "{attack}: {said:#?}");
    assert_eq!(said.last().map(String::as_str), Some("done"), "{attack}: {said:?} {end:?}");
    said
}

#[tokio::test]
async fn walls_children_get_what_they_are_given_and_nothing_else() {
    let scene = Scene::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"by name").unwrap();
    drop(writer);
    let mut program = DuplexProgram::new(scene.work().join("unruly"), words("given"));
    program.environment.push(("TOKEN".to_owned(), "t".to_owned()));
    program.descriptors.push(("GIVEN".to_owned(), reader.into()));
    let mut child = start_program(&scene, "given", program).await;
    let said = all_of(&mut child).await;
    let names = "GIVEN HOME LANG PATH PWD SHLVL TERM TOKEN TZ";
    assert_eq!(said, [names, "[]", "by name"], "{:?}", child.end().await);
    scene.nothing_left();
}

#[tokio::test]
async fn walls_children_can_do_no_more_than_commands() {
    let scene = Scene::new();
    let home = scene.home.path().display().to_string();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    let path = scene.home.path().join("run/skep.sock");
    let unix = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    for attack in [
        format!("hostile files {home}/run {home}/skep.yaml {home}/teams/other/work/notes /root"),
        format!("hostile server {} none", std::process::id()),
        format!("hostile sockets {} {} none", address.port(), path.display()),
        "hostile privileges".to_owned(),
        "hostile first".to_owned(),
        "hostile descriptors".to_owned(),
    ] {
        withstands(&scene, &attack).await;
    }
    assert!(tcp.accept().is_err() && unix.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
    scene.nothing_left();
}

#[tokio::test]
async fn walls_children_do_not_see_each_other() {
    let scene = Scene::new();
    let mut victim = start(&scene, "victim", "unruly echo").await;
    let secret = "the-secret-of-another-child";
    victim.sender().send(secret).await.unwrap();
    assert_eq!(heard(&mut victim).await.unwrap(), secret);
    // By the numbers that the host knows: bubblewrap twice, and the child.
    let inside = processes_in(&scene.work().canonicalize().unwrap());
    let pids = inside.iter().map(|line| line.split(' ').next().unwrap().to_owned());
    let pids: Vec<String> = pids.chain([victim.pid().to_string()]).collect();
    assert!(pids.len() >= 2, "{pids:?}");
    let turned: String = secret.chars().rev().collect();
    withstands(&scene, &format!("unruly spy {turned} {}", pids.join(" "))).await;
    // And it is as well as before.
    victim.sender().send("still there").await.unwrap();
    assert_eq!(heard(&mut victim).await.unwrap(), "still there");
    assert_eq!(victim.end().await.unwrap().ending, Ending::Exited { code: 0 });
    scene.nothing_left();
}

#[tokio::test]
async fn walls_children_that_misbehave_are_contained_and_leave_nothing() {
    for mode in ["flood lines", "flood line", "flood errors", "hang", "deaf", "daemon"] {
        // All four at once: none of them shares anything with another.
        let mut cases = JoinSet::new();
        for (counting, dropped) in COUNTINGS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            cases.spawn(async move {
                misbehaves(&Scene::counted_by(counting), mode, dropped).await;
            });
        }
        cases.join_all().await;
    }
}

#[tokio::test]
async fn walls_children_that_take_too_much_are_ended() {
    for (counting, what) in COUNTINGS.into_iter().flat_map(|it| [(it, "memory"), (it, "disk")]) {
        let scene = Scene::counted_by(counting);
        let mut child = start(&scene, "greedy", &format!("unruly {what}")).await;
        assert_eq!(all_of(&mut child).await, [""; 0], "{what}");
        let end = child.end().await.unwrap();
        assert_eq!(end.ending, Ending::OverLimit { what }, "{counting:?} {end:?}");
        scene.nothing_left();
    }
}

async fn misbehaves(scene: &Scene, mode: &str, dropped: bool) {
    let mut child = start(scene, "unruly", &format!("unruly {mode}")).await;
    match mode {
        "flood lines" => {
            for _ in 0..10_000 {
                assert_eq!(heard(&mut child).await.unwrap(), "a line of many");
            }
        }
        "flood line" => assert!(child.line().await.is_err()),
        "flood errors" => assert_eq!(heard(&mut child).await.unwrap(), "errors"),
        "deaf" => assert_eq!(heard(&mut child).await.unwrap(), "deaf"),
        "daemon" => assert_eq!(heard(&mut child).await.unwrap(), "left a daemon"),
        _ => {}
    }
    let begun = Instant::now();
    if dropped {
        drop(child);
    } else {
        let end = child.end().await.unwrap();
        let expected = match mode {
            "daemon" => Ending::Exited { code: 0 },
            _ => Ending::Cancelled,
        };
        assert_eq!(end.ending, expected, "{mode}: {end:?}");
        if mode == "flood errors" {
            assert_eq!(end.last_words.bytes.len(), 16 * 1024);
            assert!(end.last_words.dropped > 0);
        }
    }
    while !processes_in(&scene.work().canonicalize().unwrap()).is_empty() {
        assert!(begun.elapsed() < LIMIT, "{mode}: still there after 5 s");
        // The supervisor of a child that was dropped works on this runtime.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() < LIMIT, "{mode}: {:?}", begun.elapsed());
}

/// A process with confined children of its own: itself a child, on the host.
async fn keeper(work: &Path, count: u32, script: &str) -> DuplexChild {
    let program = built("examples/keeper", "cargo build -p skep-guard --examples");
    let arguments = vec![work.into(), count.to_string().into(), script.into()];
    let program = DuplexProgram::new(program, arguments);
    let sandbox = Sandbox::new(Settings::new(Level::Host, Vec::new()));
    let room = SandboxRoom {
        workspace: work.to_owned(),
        read_only: Vec::new(),
        network: RoomNetwork::None,
    };
    let records = DuplexRecords::new(work.join("../keepers"));
    records.start("keeper", &sandbox, program, &room).await.unwrap()
}

/// Processes that were started for this workspace, inside or outside of the walls.
fn of_workspace(work: &Path, but: u32) -> Vec<String> {
    let path = work.to_string_lossy().into_owned();
    let outside = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (pid.parse() != Ok(but) && line.contains(&path)).then_some(pid)
    });
    outside.chain(processes_in(work)).collect()
}

#[tokio::test]
async fn walls_that_are_being_made_die_with_their_keeper() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().canonicalize().unwrap().join("work");
    fs::create_dir(&work).unwrap();
    let rounds: u32 = if std::env::var("SKEP_TEST_ALL").is_ok() { 100 } else { 20 };
    for round in 0..rounds {
        let keeper = keeper(&work, 4, ":").await;
        let pid = keeper.pid();
        let begun = Instant::now();
        // Bubblewrap is there, and then its child; the longer it is waited, the more walls stand.
        while of_workspace(&work, pid).len() < 1 + (round % 2) as usize {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not start");
        }
        std::thread::sleep(Duration::from_micros(u64::from(round) * 300));
        dies_with_all(keeper, &work);
    }
}

#[tokio::test]
async fn walls_children_that_wrote_to_their_first_process_die_with_their_keeper() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().canonicalize().unwrap().join("work");
    fs::create_dir(&work).unwrap();
    fs::copy(hostile(), work.join("hostile")).unwrap();
    for _ in 0..4 {
        let mut keeper = keeper(&work, 1, "./hostile outlive").await;
        assert_eq!(heard(&mut keeper).await.unwrap(), "ready");
        dies_with_all(keeper, &work);
        fs::remove_file(work.join("daemon-runs")).unwrap();
    }
}

/// Kills a keeper, and nothing of the workspace is left.
fn dies_with_all(keeper: DuplexChild, work: &Path) {
    let pid = keeper.pid();
    kill(pid);
    // Nothing is to be ended by the owner of the keeper, who would find all of it.
    std::mem::forget(keeper);
    let begun = Instant::now();
    loop {
        let left = of_workspace(work, pid);
        if left.is_empty() {
            return;
        }
        if begun.elapsed() > LIMIT {
            for line in &left {
                kill(line.split(' ').next().unwrap().parse().unwrap());
            }
            panic!("left {left:?}");
        }
        std::thread::yield_now();
    }
}

/// One thread and one look at the process table, however many there are.
#[tokio::test]
async fn walls_watch_64_children_with_one_thread() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    let mut keeper = keeper(&work, 64, ":").await;
    assert_eq!(heard(&mut keeper).await.unwrap(), "ready");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let told = heard(&mut keeper).await.unwrap();
        eprintln!("watchdog of 64 children, and bare looks: {told} % of a core");
        let (share, floor) = told.split_once(' ').unwrap();
        ratios.push(share.parse::<f64>().unwrap() / floor.parse::<f64>().unwrap());
    }
    ratios.sort_by(f64::total_cmp);
    // Its own look for each child would be 64 times as much.
    assert!(ratios[1] < 8.0, "{ratios:?}");
    keeper.end().await.unwrap();
}

/// The same tests without the privileges of root: other namespaces, no control groups.
#[tokio::test]
async fn walls_children_hold_for_an_ordinary_user() {
    const USER: u32 = 59_999;
    if !rustix::process::geteuid().is_root() {
        // Then all others show it.
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let tests = place.path().join("deps/it");
    for (program, copy) in [
        (std::env::current_exe().unwrap(), tests.clone()),
        (hostile(), place.path().join("examples/hostile")),
        (
            built("examples/keeper", "cargo build -p skep-guard --examples"),
            place.path().join("examples/keeper"),
        ),
        (unruly(), place.path().join("skep-unruly-child")),
    ] {
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(program, copy).unwrap();
    }
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    std::os::unix::fs::chown(&temporary, Some(USER), Some(USER)).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let user = ["--reuid", "59999", "--regid", "59999", "--clear-groups"].map(OsString::from);
    let filters =
        ["children::walls", "network::", "--skip", "ordinary_user", "--skip", "64_children"];
    let job = Job {
        invocation: Invocation {
            program: "setpriv".into(),
            arguments: user
                .into_iter()
                .chain([tests.into()])
                .chain(filters.map(Into::into))
                .collect(),
            environment: ["TMPDIR", "HOME"]
                .map(|name| (name.into(), temporary.display().to_string()))
                .to_vec(),
            directory: temporary,
        },
        input: Vec::new(),
        output_bytes: 64 * 1024,
        timeout: Some(Duration::from_secs(300)),
    };
    let output = process::run(job, &CancellationToken::new()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout.bytes);
    assert_eq!(output.ending, Ending::Exited { code: 0 }, "{said}");
    assert!(said.contains("test result: ok. 24 passed"), "{said}");
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}
