//! A hostile program in the sandbox: nothing it tries succeeds and nothing of it stays.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use skep_guard::network::RoomNetwork;
use skep_guard::process::Ending;
use skep_guard::sandbox::{Level, Sandbox, SandboxError, SandboxRoom, Settings, ShellCommand};
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, processes_in, text};

/// A process of the same user as the sandbox's, as another agent's command would be.
struct Victim(Child);

impl Victim {
    fn start(workspace: &Path, secret: &str) -> Self {
        let owner = fs::metadata(workspace).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000").env("SKEP_SECRET", secret);
        if rustix::process::geteuid().is_root() {
            command.uid(owner.uid()).gid(owner.gid());
        }
        Self(command.spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn walls_pass_their_trial_and_leave_ordinary_work_alone() {
    let scene = Scene::new();
    let report = scene.sandbox.probe().await;
    assert!(report.holds(), "{report:#?}");
    assert!(report.checks.len() >= 10, "{report:#?}");
    let output =
        scene.run("echo out; echo err >&2; pwd; id -un; echo $HOME > f; cat f; exit 3").await;
    let work = scene.work().canonicalize().unwrap();
    let expected = format!("out\nerr\n{}\nagent\n/tmp/home\n", work.display());
    assert_eq!((text(&output), output.ending), (expected, Ending::Exited { code: 3 }));
    let output = scene
        .run("printf a | (cat; echo b) > x && mkdir d && mv x d && ls d; awk 'BEGIN{print 1}'")
        .await;
    assert_eq!(text(&output), "x\n1\n");
    assert_eq!(fs::read_to_string(scene.work().join("d/x")).unwrap(), "ab\n");
}

#[tokio::test]
async fn walls_hide_other_agents_the_home_and_the_host() {
    let scene = Scene::new();
    let home = scene.home.path();
    let paths: Vec<String> = ["", "run", "run/skep.db", "skep.yaml", "teams/main/config.yaml"]
        .iter()
        .chain(&["teams/other", "teams/other/work/notes"])
        .map(|path| home.join(path).display().to_string())
        // These folders stand in the sandbox as the way to the workspace; they must be empty else.
        .filter(|path| *path != format!("{}/", home.display()))
        .chain(
            ["/root", "/home", "/etc/shadow", "/etc/hostname", "/var", "/run", "/sys", "/boot"]
                .map(str::to_owned),
        )
        .collect();
    scene.withstands(&format!("files {}", paths.join(" "))).await;
    let output = scene.run(&format!("ls -A {0} {0}/teams {0}/teams/main", home.display())).await;
    let listed = text(&output);
    assert!(!listed.contains("run") && !listed.contains("other"), "{listed}");
    assert!(!listed.contains("config.yaml"), "{listed}");
    assert_eq!(fs::read_to_string(home.join("teams/other/work/notes")).unwrap(), "canary");
}

#[tokio::test]
async fn walls_show_settings_read_only() {
    let scene = Scene::new();
    let settings = scene.home.path().join("teams/main");
    // As a first start makes them: for the owner alone.
    fs::create_dir(settings.join("skills")).unwrap();
    fs::write(settings.join("skills/s.md"), "").unwrap();
    let files = [("config.yaml", 0o600), ("skills/s.md", 0o600)];
    for (path, mode) in files.into_iter().chain([("skills", 0o700), (".", 0o700)]) {
        fs::set_permissions(settings.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let command = ShellCommand {
        line: format!(
            "cat ../skills/s.md ../config.yaml; echo x > {}/config.yaml; touch ../new; \
             touch here && ls",
            settings.display()
        ),
        timeout: Duration::from_secs(60),
        output_bytes: 4096,
    };
    let room = SandboxRoom {
        workspace: scene.work(),
        read_only: vec![settings.clone()],
        network: RoomNetwork::None,
    };
    let output = scene.sandbox.run(command, &room, &CancellationToken::new()).await.unwrap();
    let text = text(&output);
    assert!(text.starts_with("canary") && text.ends_with("here\nhostile\n"), "{text}");
    assert_eq!(text.matches("Read-only file system").count(), 2, "{text}");
    assert_eq!(fs::read_to_string(settings.join("config.yaml")).unwrap(), "canary");
    let others = fs::metadata(settings.join("config.yaml")).unwrap().permissions().mode() & 0o007;
    assert_eq!(others, 0, "the settings became readable by everyone");
}

#[tokio::test]
async fn walls_keep_the_server_unseen_and_unsignalled() {
    let scene = Scene::new();
    scene.run("true").await;
    let secret = "k3y-of-the-server";
    let mut victim = Victim::start(&scene.work(), secret);
    let deadline = Instant::now() + Duration::from_secs(5);
    let environ = format!("/proc/{}/environ", victim.0.id());
    while !fs::read(&environ).is_ok_and(|text| String::from_utf8_lossy(&text).contains(secret)) {
        assert!(Instant::now() < deadline, "the victim does not start");
    }
    for pid in [victim.0.id(), std::process::id()] {
        let turned: String = secret.chars().rev().collect();
        scene.withstands(&format!("server {pid} {turned}")).await;
    }
    assert!(victim.0.try_wait().unwrap().is_none(), "the victim was killed");
}

#[tokio::test]
async fn walls_let_no_socket_out() {
    let scene = Scene::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    let path = scene.home.path().join("run/skep.sock");
    let unix = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("skep-walls-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    hidden.set_nonblocking(true).unwrap();
    scene.withstands(&format!("sockets {} {} {name}", address.port(), path.display())).await;
    assert!(tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err());
    assert!(udp.recv(&mut [0; 8]).is_err());
}

/// One of each kind that a program can be started with, as a careless one leaves them open.
#[tokio::test]
async fn walls_let_no_inherited_descriptor_in() {
    let scene = Scene::new();
    let run = scene.home.path().join("run");
    let (socket, _other) = UnixStream::pair().unwrap();
    let listener = UnixListener::bind(run.join("skep.sock")).unwrap();
    let (out, into) = std::io::pipe().unwrap();
    let handles: [(&str, OwnedFd); 6] = [
        ("folder", fs::File::open(&run).unwrap().into()),
        ("file", fs::File::open(run.join("skep.db")).unwrap().into()),
        ("socket", socket.into()),
        ("listener", listener.into()),
        ("pipe, read", out.into()),
        ("pipe, write", into.into()),
    ];
    for (_, handle) in &handles {
        fcntl_setfd(handle, FdFlags::empty()).unwrap();
    }
    let said = scene.withstands("descriptors").await;
    assert!(said.starts_with("open: []\n"), "{said}");
    for (kind, handle) in &handles {
        let number = handle.as_raw_fd();
        let line = format!(
            "ls -d /proc/$$/fd/{number} /proc/self/fd/{number}/. ; (echo x >&{number}); \
             (read -r -u {number} x && echo read $x)"
        );
        let text = text(&scene.run(&line).await);
        assert_eq!(text.matches("No such file or directory").count(), 2, "{kind}: {text}");
        assert!(text.contains("Bad file descriptor") && !text.contains("read "), "{kind}: {text}");
    }
}

/// A bubblewrap that opens the door itself: what is checked is what the command finds open.
#[tokio::test]
async fn walls_that_let_a_descriptor_in_are_named() {
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = programs.path().join("leaky");
    fs::write(&program, "#!/bin/sh\nexec 9</usr bwrap \"$@\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = Settings::new(Level::Confined, Vec::new());
    settings.bubblewrap = program;
    let report = Sandbox::new(settings).probe().await;
    let down: Vec<_> = report.checks.iter().filter(|check| !check.holds).collect();
    assert_eq!(down.len(), 1, "{report:#?}");
    assert_eq!(down[0].name, "descriptors");
    assert_eq!(down[0].detail, "inherited from the hive: 9");
}

#[tokio::test]
async fn walls_give_no_privileges() {
    let scene = Scene::new();
    scene.withstands("privileges").await;
    let line = "su -c id < /dev/null; for path in /usr /etc /; do echo x > $path/x; done";
    let output = scene.run(line).await;
    let text = text(&output);
    assert!(!text.contains("uid=0"), "{text}");
    assert_eq!(text.matches("Read-only file system").count(), 3, "{text}");
}

#[tokio::test]
async fn walls_keep_their_first_process_out_of_reach() {
    let scene = Scene::new();
    scene.withstands("first").await;
    // Programs trace each other as before.
    let said = text(&scene.run("sleep 100 & head -c 0 /proc/$!/mem && echo opened; kill $!").await);
    assert_eq!(said, "opened\n");
}

#[tokio::test]
async fn walls_end_a_command_that_wrote_to_their_first_process() {
    let scene = Scene::new();
    for _ in 0..4 {
        scene.withstands("outlive").await;
        fs::remove_file(scene.work().join("daemon-runs")).unwrap();
    }
}

#[tokio::test]
async fn walls_pass_on_nothing_of_who_started_the_hive() {
    const ALONE: &str = "SKEP_GUARD_TEST_INHERITS";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new("bash");
        let script = "trap '' CHLD HUP QUIT USR1 TTOU XFSZ; umask 0077; exec \"$0\" --exact \
                      walls::walls_pass_on_nothing_of_who_started_the_hive";
        alone.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(ALONE, "1");
        let ran = alone.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let scene = Scene::new();
    let work = scene.work();
    for folder in work.ancestors().take_while(|folder| *folder != scene.home.path()) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let ask = "grep SigIgn /proc/self/status";
    let said = text(&scene.run(&format!("umask; ulimit -i; {ask}")).await);
    assert_eq!(said, "0022\n4096\nSigIgn:\t0000000000000000\n");
    let host = scene.sandbox.variant(Level::Host, scene.sandbox.limits().clone());
    let said = host.run(command(ask), &scene.room(), &CancellationToken::new()).await.unwrap();
    assert_eq!(text(&said), "SigIgn:\t0000000000000000\n");
}

#[tokio::test]
async fn walls_take_a_command_as_it_is() {
    let scene = Scene::new();
    let limits = scene.sandbox.limits().clone();
    let levels = [Level::Confined, Level::Host];
    for sandbox in levels.map(|level| scene.sandbox.variant(level, limits.clone())) {
        let (room, cancel) = (scene.room(), CancellationToken::new());
        let run = |line: &str| sandbox.run(command(line), &room, &cancel);
        let output = run("--version; echo $?").await.unwrap();
        assert_eq!(text(&output), "bash: line 1: --version: command not found\n127\n");
        let long = format!("true {}", "x".repeat((128 << 10) - 6));
        assert_eq!(run(&long).await.unwrap().ending, Ending::Exited { code: 0 });
        let refused = run(&format!("{long}x")).await.unwrap_err().to_string();
        let begins = "command_too_long: the command has 131072 bytes, and the system takes 131071";
        assert!(refused.starts_with(begins), "{refused}");
    }
}

fn command(line: &str) -> ShellCommand {
    ShellCommand { line: line.to_owned(), timeout: Duration::from_secs(60), output_bytes: 4096 }
}

#[tokio::test]
async fn walls_stop_a_fork_bomb() {
    let scene = Scene::new();
    let forked = scene.withstands("forks").await;
    let made: u32 = forked.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!((5..40).contains(&made), "{forked}");
    let begun = Instant::now();
    let bomb = "bomb() { bomb | bomb & }; bomb; while :; do :; done";
    let output = scene.run_for(bomb, Duration::from_secs(2)).await;
    assert_eq!(output.ending, Ending::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // And the next command runs as if nothing had been.
    assert_eq!(text(&scene.run("echo well").await), "well\n");
}

#[tokio::test]
async fn walls_end_daemons_with_their_command() {
    let scene = Scene::new();
    scene.withstands("daemon").await;
    assert!(scene.work().join("daemon-runs").exists());
    let line = "./hostile daemon; sleep 1000";
    let output = scene.run_for(line, Duration::from_millis(700)).await;
    assert_eq!(output.ending, Ending::TimedOut);
}

#[tokio::test]
async fn walls_end_everything_when_cancelled_or_dropped() {
    let scene = Scene::new();
    scene.run("rm -f daemon-runs").await;
    for dropped in [false, true] {
        let cancel = CancellationToken::new();
        let command = ShellCommand {
            line: "./hostile daemon; trap '' TERM; while :; do sleep 1; done".to_owned(),
            timeout: Duration::from_secs(60),
            output_bytes: 4096,
        };
        let room = scene.room();
        let started = async {
            while !scene.work().join("daemon-runs").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let begun;
        {
            let running = scene.sandbox.run(command, &room, &cancel);
            tokio::pin!(running);
            tokio::select! {
                ended = &mut running => panic!("it ended: {ended:?}"),
                () = started => {}
            }
            let work = scene.work().canonicalize().unwrap();
            assert!(processes_in(&work).len() >= 2, "{:?}", processes_in(&work));
            begun = Instant::now();
            if !dropped {
                cancel.cancel();
                assert_eq!(running.await.unwrap().ending, Ending::Cancelled);
            }
        }
        scene.nothing_left();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        fs::remove_file(scene.work().join("daemon-runs")).unwrap();
    }
}

#[tokio::test]
async fn walls_leave_no_file_that_lends_its_owners_rights() {
    let scene = Scene::new();
    scene.withstands("lent-rights").await;
    let line = "chmod 4755 hostile; chmod g+s .; install -m 2755 hostile copy; mkdir -m 3777 d; \
                cp -p hostile other; chmod 1750 other";
    let said = text(&scene.run(line).await);
    assert!(said.matches("Operation not permitted").count() >= 3, "{said}");
    for entry in fs::read_dir(scene.work()).unwrap().chain(fs::read_dir(scene.home.path()).unwrap())
    {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode();
        assert_eq!(mode & 0o6000, 0, "{:?} has mode {mode:o}", entry.file_name());
    }
    assert_eq!(fs::metadata(scene.work().join("other")).unwrap().mode() & 0o7777, 0o1750);
}

#[tokio::test]
async fn walls_bound_time_and_output() {
    let scene = Scene::new();
    let output = scene.run_for("yes", Duration::from_millis(500)).await;
    assert_eq!(output.ending, Ending::TimedOut);
    assert_eq!(output.stdout.bytes.len(), 64 * 1024);
    assert!(output.stdout.dropped > 0);
    let output = scene.run("exec bash -c 'while :; do :; done'").await;
    assert!(matches!(output.ending, Ending::Exited { code: 137 | 152 }), "{output:?}");
}

#[tokio::test]
async fn walls_that_cannot_stand_mean_that_nothing_runs() {
    let scene = Scene::new();
    // Not below /tmp, which the child of a root hive covers before it starts the program.
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = |name: &str, script: &str| {
        let path = programs.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let confines_nothing = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
    let gives_up = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1";
    let table = [
        (programs.path().join("none"), "sandbox_missing: bubblewrap is not installed", "apt-get"),
        (program("open", confines_nothing), "sandbox_down: ", "shared with the server: pid, net"),
        (program("shut", gives_up), "sandbox_down: ", "No permissions to create new namespace"),
    ];
    for (bubblewrap, begin, part) in table {
        let mark = scene.work().join("ran");
        let mut settings = Settings::new(Level::Confined, Vec::new());
        settings.bubblewrap = bubblewrap;
        let sandbox = Sandbox::new(settings);
        let command = ShellCommand {
            line: format!("touch {}", mark.display()),
            timeout: Duration::from_secs(20),
            output_bytes: 1024,
        };
        let refused = sandbox.run(command, &scene.room(), &CancellationToken::new()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(begin) && refused.contains(part), "{refused}");
        assert_eq!(refused.matches("The command was not run").count(), 1, "{refused}");
        assert!(!sandbox.probe().await.holds());
        assert!(!mark.exists(), "it ran although: {refused}");
    }
}

#[tokio::test]
async fn walls_refuse_a_workspace_that_would_show_what_is_hidden() {
    let scene = Scene::new();
    let command = ShellCommand {
        line: "true".to_owned(),
        timeout: Duration::from_secs(20),
        output_bytes: 1024,
    };
    let parent = scene.home.path().parent().unwrap().to_path_buf();
    let room = SandboxRoom { workspace: parent, read_only: Vec::new(), network: RoomNetwork::None };
    let error = scene.sandbox.run(command, &room, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, SandboxError::Room { .. }), "{error}");
}

#[tokio::test]
async fn walls_hide_a_home_inside_a_folder_of_programs() {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    let home = tools.join("home");
    for folder in ["bin", "home/run", "home/work"] {
        fs::create_dir_all(tools.join(folder)).unwrap();
    }
    fs::write(home.join("run/skep.db"), "canary").unwrap();
    let program = tools.join("bin/greet");
    fs::write(&program, "#!/bin/sh\necho greetings\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = Settings::new(Level::Confined, vec![home.clone()]);
    settings.toolchains = vec![tools.clone()];
    let sandbox = Sandbox::new(settings);
    let command = ShellCommand {
        line: format!(
            "greet; ls -A {0}; touch {0}/x {0}/run/x {1}/x",
            home.display(),
            tools.display()
        ),
        timeout: Duration::from_secs(20),
        output_bytes: 4096,
    };
    let room = SandboxRoom {
        workspace: home.join("work"),
        read_only: Vec::new(),
        network: RoomNetwork::None,
    };
    let output = sandbox.run(command, &room, &CancellationToken::new()).await.unwrap();
    let said = text(&output);
    assert!(said.starts_with("greetings\nwork\ntouch: "), "{said}");
    assert_eq!(said.lines().count(), 5, "{said}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 2);
}
