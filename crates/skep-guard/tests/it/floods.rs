//! A program in the sandbox that takes all it can get: memory, sockets, descriptors, disk.

use std::fs;
use std::time::Duration;

use skep_guard::process::Ending;
use skep_guard::sandbox::{CommandLimits, Counting, Level, ShellCommand};
use skep_guard::size;
use tokio_util::sync::CancellationToken;

use crate::scene::{MIB, Scene, processes_in, text};

/// Of a process: the control groups it is in.
fn groups_of(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

#[tokio::test]
async fn walls_have_a_control_group_where_one_can_be_made() {
    // Version 1 is there for root; elsewhere it depends on who started us, and is not judged.
    let (memory, processes) = (":memory:", ":pids:");
    let first = rustix::process::geteuid().is_root()
        && [memory, processes].iter().all(|part| groups_of("self").contains(part));
    for counting in [Counting::Kernel, Counting::Watchdog] {
        let scene = Scene::counted_by(counting);
        let cancel = CancellationToken::new();
        let command = ShellCommand {
            line: "touch up; sleep 1000".to_owned(),
            timeout: Duration::from_secs(60),
            output_bytes: 1024,
        };
        let room = scene.room();
        let running = scene.sandbox.run(command, &room, &cancel);
        tokio::pin!(running);
        let up = async {
            while !scene.work().join("up").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = &mut running => panic!("it ended: {ended:?}"),
            () = up => {}
        }
        let inside = processes_in(&scene.work().canonicalize().unwrap());
        let groups = groups_of(inside[0].split(' ').next().unwrap());
        let own = format!("/skep-{}-", std::process::id());
        let counted = groups.lines().filter(|line| line.contains(&own)).count();
        match counting {
            Counting::Kernel if first => assert!(counted >= 2, "{groups}"),
            Counting::Kernel => {}
            Counting::Watchdog => assert_eq!(counted, 0, "{groups}"),
        }
        cancel.cancel();
        assert_eq!(running.await.unwrap().ending, Ending::Cancelled);
        scene.nothing_left();
    }
}

#[tokio::test]
async fn walls_stop_every_kind_of_memory_flood() {
    for counting in [Counting::Kernel, Counting::Watchdog] {
        memory_floods(&Scene::counted_by(counting)).await;
    }
}

async fn memory_floods(scene: &Scene) {
    for kind in
        ["private", "memfd", "segment", "semaphores", "messages", "/tmp", "/dev/shm", "/", "/dev"]
    {
        let said = scene.withstands(&format!("memory {kind}")).await;
        let taken: u64 = said.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(taken <= 128 * MIB, "{kind}: {said}");
    }
    // Each process within its own limit; together they are not, and the watchdog ends them.
    for kind in ["shared", "forked", "tables"] {
        let output = scene.run(&format!("./hostile memory {kind}")).await;
        assert_eq!(output.ending, Ending::OverLimit { what: "memory" }, "{kind}: {output:?}");
    }
}

/// Without a share of the processor's time a command runs when nobody else wants to, never on
/// processors that are the hive's, and changes neither.
#[tokio::test]
async fn walls_make_commands_give_way_to_the_hive() {
    let line = "python3 -c 'import os\nown = os.sched_getaffinity(0)\n\
                print(os.sched_getscheduler(0), len(own), end=\" \")\n\
                for change in (lambda: os.sched_setaffinity(0, own),\n\
                \x20 lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))):\n\
                \x20 try: change(); print(\"changed\", end=\" \")\n\
                \x20 except PermissionError: print(\"refused\", end=\" \")'";
    let scene = Scene::counted_by(Counting::Watchdog);
    let all =
        rustix::thread::sched_getaffinity(rustix::process::getppid()).unwrap().count() as usize;
    let (left, pinned) =
        if all > 1 { (all - all.div_ceil(4), "refused") } else { (all, "changed") };
    // Five is the kernel's number for the class that is idle.
    assert_eq!(text(&scene.run(line).await), format!("5 {left} {pinned} refused "));
}

#[tokio::test]
async fn walls_stop_floods_of_sockets_and_descriptors() {
    for counting in [Counting::Kernel, Counting::Watchdog] {
        // The kernel counts what waits in the queues as memory, too: whichever is full first.
        let full: &[&str] = match counting {
            Counting::Kernel => &["sockets", "memory"],
            Counting::Watchdog => &["sockets"],
        };
        socket_floods(&Scene::counted_by(counting), full).await;
    }
}

async fn socket_floods(scene: &Scene, full: &[&str]) {
    scene.withstands("buffers").await;
    let table = [
        ("sockets-full unix", full),
        ("sockets-full datagram", full),
        ("sockets-full udp", full),
        // Whichever the watchdog sees first.
        ("sockets-full tcp", &["memory", "open files"]),
        ("handles", &["open files"]),
    ];
    for (attack, what) in table {
        let output = scene.run(&format!("./hostile {attack}")).await;
        let ended =
            matches!(output.ending, Ending::OverLimit { what: took } if what.contains(&took));
        assert!(ended, "{attack}: {output:?}");
        assert!(!text(&output).contains("escaped"), "{attack}: {output:?}");
    }
}

#[tokio::test]
async fn walls_stop_a_disk_flood() {
    let scene = Scene::new();
    let output = scene.run("./hostile disk").await;
    assert_eq!(output.ending, Ending::OverLimit { what: "disk" }, "{output:?}");
    let said = text(&output);
    assert!(!said.contains("escaped"), "{said}");
    assert!(said.contains(&format!("one file stopped at {}", 24 * MIB)), "{said}");
}

#[tokio::test]
async fn walls_stop_a_disk_flood_by_processes_that_nobody_waits_for() {
    let scene = Scene::new();
    let output = scene.run("./hostile disk-unseen").await;
    assert_eq!(output.ending, Ending::OverLimit { what: "disk" }, "{output:?}");
    assert!(!text(&output).contains("escaped"), "{output:?}");
}

#[tokio::test]
async fn walls_stop_many_calls_that_fill_the_workspace_together() {
    let mut scene = Scene::new();
    let limits = CommandLimits { workspace_bytes: 64 * MIB, ..scene.sandbox.limits().clone() };
    scene.sandbox = scene.sandbox.variant(Level::Confined, limits);
    let call = |number: u32| {
        format!("dd if=/dev/zero of=part{number} bs=1M count=10 2>/dev/null || echo failed")
    };
    let mut said = String::new();
    let mut number = 0;
    while said.is_empty() {
        number += 1;
        assert!(number < 20, "the workspace is never full");
        said = text(&scene.run(&call(number)).await);
    }
    // The program itself takes some of it.
    assert!((2..=8).contains(&number), "{number} calls");
    let full = "[workspace_full: the workspace holds more than the 64 MiB of \
                sandbox.workspace_mib. Commands can remove files and not write any until it is \
                smaller]\n";
    assert!(said.starts_with(full) && said.ends_with("failed\n"), "{said}");
    let part = |number: u32| scene.work().join(format!("part{number}"));
    assert_eq!(fs::metadata(part(number)).unwrap().len(), 0, "nothing is written any more");
    assert!(text(&scene.run("(echo x >> part1); wc -c < part1").await).ends_with("10485760\n"));
    // What it may do is what makes it better, and then all is well again.
    assert_eq!(text(&scene.run("rm part*; echo removed").await), format!("{full}removed\n"));
    assert_eq!(text(&scene.run(&call(1)).await), "");
    assert_eq!(fs::metadata(part(1)).unwrap().len(), 10 * MIB);
}

#[tokio::test]
async fn walls_keep_a_full_workspace_from_growing_in_other_ways() {
    for counting in [Counting::Kernel, Counting::Watchdog] {
        let mut scene = Scene::counted_by(counting);
        // A file system that has just lost as many files looks long for a free place for each.
        let (workspace_bytes, cpu) = (64 * MIB, Duration::from_secs(60));
        let limits = CommandLimits { workspace_bytes, cpu, ..scene.sandbox.limits().clone() };
        scene.sandbox = scene.sandbox.variant(Level::Confined, limits);
        scene.run("truncate -s 20M sparse").await;
        for number in 0..7 {
            let line = format!("dd if=/dev/zero of=part{number} bs=1M count=10 2>/dev/null");
            scene.run(&line).await;
        }
        let taken = || size::of(&scene.work(), u64::MAX).unwrap().bytes;
        let before = taken();
        let said = scene.withstands("grow").await;
        assert!(said.starts_with("[workspace_full: "), "{said}");
        assert_eq!(taken(), before);

        // An empty file is made by every redirection, so there may be some, and not many.
        let said = scene.withstands("names 20000").await;
        assert!(said.contains("made 20000 names"), "{said}");
        let (before, said) = (taken(), scene.withstands("names 20000").await);
        assert!(said.contains("made 0 names"), "{said}");
        assert!(said.contains("neither write files nor open any for writing"), "{said}");
        let said = text(&scene.run("echo x > new; mkdir new; find part0 sparse").await);
        assert!(said.contains("new: Disk quota exceeded"), "{said}");
        assert!(said.ends_with("part0\nsparse\n"), "{said}");
        assert_eq!(taken(), before);

        // What makes it better can be done, and then all is well again.
        let removed = scene.run("rm part* && find . -name 'empty-*' -delete && echo so").await;
        assert!(text(&removed).ends_with("\nso\n"), "{removed:?}");
        let said = text(&scene.run("mkdir new && echo x > new/file && ls new").await);
        assert_eq!(said, "file\n");
    }
}

#[tokio::test]
async fn walls_start_nothing_when_the_disk_is_nearly_full() {
    let scene = Scene::new();
    for level in [Level::Confined, Level::Host] {
        let limits = CommandLimits { disk_floor_bytes: 1 << 60, ..scene.sandbox.limits().clone() };
        let sandbox = scene.sandbox.variant(level, limits);
        let line = "touch ran".to_owned();
        let command = ShellCommand { line, timeout: Duration::from_secs(20), output_bytes: 1024 };
        let refused = sandbox.run(command, &scene.room(), &CancellationToken::new()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("disk_floor: "), "{refused}");
        assert!(refused.contains("limits.disk_floor_mib keeps 1099511627776 MiB"), "{refused}");
        assert!(!scene.work().join("ran").exists());
    }
}
