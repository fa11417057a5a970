#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use skep_core::approval::Bound;
use skep_core::ids::{AgentId, AgentName, CallId, SessionKey, TurnId};
use skep_core::settings::SandboxSettings;
use tempfile::TempDir;

use super::*;

/// A workspace whose files are older than the step of the kernel's clock.
struct Scene {
    folder: TempDir,
    class: Class,
    sandbox: SandboxSettings,
    network: Arc<NetworkRules>,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
            class: Class::Run,
            sandbox: SandboxSettings::default(),
            network: Arc::default(),
        };
        for path in ["run.py", "mk", "lib.sh", "sub/run.py", "pkg/run.py", "sub/deep/x.sh", "other"]
        {
            scene.write(path, "good\n");
        }
        symlink("run.py", scene.work().join("link")).unwrap();
        symlink("sub", scene.work().join("cur")).unwrap();
        scene
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn bind_since(&self, command: &str, since: Millis) -> Binding {
        let context = ToolContext {
            judged: Vec::new(),
            agent: AgentName::new("main"),
            agent_id: AgentId(1),
            subagent: None,
            requester: None,
            workspace: self.work(),
            folder: None,
            outputs: self.folder.path().join("outputs"),
            sandbox: self.sandbox,
            network: Arc::clone(&self.network),
            reach: Arc::new(skep_core::tool::NoReach),
            turn: TurnId::new("t"),
            call: CallId::new("c"),
            session_key: SessionKey::new("main"),
            decision: None,
            secrets: Default::default(),
            cancel: tokio_util::sync::CancellationToken::new(),
            lasting: Arc::default(),
        };
        let subject = Subject { command: Some(command.to_owned()), ..Subject::default() };
        let arguments = json!({ "command": command });
        let tool = "bash".to_owned();
        Bind { tool, class: self.class, arguments, subject, context }.bind(since)
    }

    /// As for a question: once every change is old enough to tell it from a later one.
    fn ask(&self, command: &str) -> (Binding, Millis) {
        loop {
            let now = skep_guard::clock::now_ms();
            let binding = self.bind_since(command, Millis::MAX);
            if binding.is_settled(now) {
                return (binding, skep_guard::clock::now_ms());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ways to run or read a file, and the file: `[command, file]` in each line.
fn spellings() -> Vec<(String, String)> {
    let lines = include_str!("spellings.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How a file becomes another one.
fn swap(scene: &Scene, file: &str, way: usize) {
    let path = scene.work().join(file);
    if !path.exists() {
        return scene.write(file, "evil\n");
    }
    match way % 5 {
        // In place and of the same size.
        0 => fs::write(&path, "evil\n").unwrap(),
        1 => {
            fs::write(scene.work().join("tmp"), "evil\n").unwrap();
            fs::rename(scene.work().join("tmp"), &path).unwrap();
        }
        2 => {
            fs::remove_file(&path).unwrap();
            fs::write(&path, "evil\n").unwrap();
        }
        3 => {
            let evil = scene.folder.path().join("evil");
            fs::write(&evil, "evil\n").unwrap();
            fs::remove_file(&path).unwrap();
            fs::hard_link(&evil, &path).unwrap();
        }
        _ => {
            fs::write(scene.work().join("evil"), "evil\n").unwrap();
            fs::remove_file(&path).unwrap();
            symlink(scene.work().join("evil"), &path).unwrap();
        }
    }
}

#[test]
fn gate_a_swapped_file_is_seen_however_it_is_spelled() {
    let scene = Scene::new();
    for (number, (command, file)) in spellings().iter().enumerate() {
        let before = fs::read(scene.work().join(file)).ok();
        let (asked, at) = scene.ask(command);
        assert_eq!(scene.bind_since(command, at).hash, asked.hash, "{command}: nothing changed");
        swap(&scene, file, number);
        let found = scene.bind_since(command, at);
        assert_ne!(found.hash, asked.hash, "{command} does not see {file}");
        match before {
            Some(text) => {
                fs::remove_file(scene.work().join(file)).unwrap();
                fs::write(scene.work().join(file), text).unwrap();
            }
            None => fs::remove_file(scene.work().join(file)).unwrap(),
        }
    }
}

#[test]
fn gate_a_plain_line_is_bound_to_what_it_names_and_to_nothing_else() {
    let lines = [
        "python3 run.py",
        "cd sub && python3 run.py",
        "python3 -m run",
        "make -fmk",
        "cat run.py | grep -n good > out.txt",
        "touch made7",
        "RUST_LOG=debug cargo test",
    ];
    for line in lines {
        let scene = Scene::new();
        let (asked, at) = scene.ask(line);
        assert_eq!(Bound::of(&asked.files), Bound::Named, "{line}: {:?}", asked.files);
        scene.write("other", "evil\n");
        scene.write("new/file", "evil\n");
        scene.write("out.txt", "good\n");
        assert_eq!(scene.bind_since(line, at).hash, asked.hash, "{line}");
    }
}

#[test]
fn gate_a_line_that_is_not_plain_is_bound_to_the_workspace() {
    let scene = Scene::new();
    let line = "python3 $(cat other)";
    let (asked, at) = scene.ask(line);
    assert_eq!(Bound::of(&asked.files), Bound::Workspace);
    scene.write("sub/deep/x.sh", "evil\n");
    assert!(scene.bind_since(line, at).changed.contains(&"sub/deep/x.sh".to_owned()));
}

/// A budget that is used up leaves nothing unseen.
#[test]
fn gate_files_behind_many_names_and_many_bytes_are_bound() {
    let scene = Scene::new();
    let big = fs::File::create(scene.work().join("big")).unwrap();
    big.set_len(MOST_BYTES).unwrap();
    let names: Vec<String> = (0..60_000).map(|number| format!("n{number}")).collect();
    let lines = [
        "cat big run.py".to_owned(),
        format!(": {} $X; python3 run.py", names.join(" ")),
        format!("cat {} run.py", names[..9_000].join(" ")),
    ];
    for line in lines {
        let (asked, at) = scene.ask(&line);
        scene.write("run.py", "evil\n");
        assert_ne!(scene.bind_since(&line, at).hash, asked.hash, "{}", &line[..20]);
        scene.write("run.py", "good\n");
    }
}

#[test]
fn gate_a_workspace_of_too_many_entries_is_not_bound_and_says_so() {
    let scene = Scene::new();
    let deep = "d/".repeat(140);
    fs::create_dir_all(scene.work().join(deep)).unwrap();
    let (asked, _) = scene.ask("python3 $X");
    assert_eq!(Bound::of(&asked.files), Bound::Nothing);
    let (named, _) = scene.ask("python3 run.py");
    assert_eq!(Bound::of(&named.files), Bound::Named, "{:?}", named.files);
}

#[test]
fn gate_on_the_host_absolute_paths_are_hashed() {
    let mut scene = Scene::new();
    let outside = scene.folder.path().join("outside.sh");
    for (level, seen) in [(SandboxLevel::Host, true), (SandboxLevel::Confined, false)] {
        scene.sandbox.level = level;
        for line in [format!("sh {}", outside.display()), format!("sh {} $X", outside.display())] {
            fs::write(&outside, "good\n").unwrap();
            let (asked, at) = scene.ask(&line);
            fs::write(&outside, "evil\n").unwrap();
            assert_eq!(scene.bind_since(&line, at).hash != asked.hash, seen, "{level:?} {line}");
        }
    }
}

/// Two hundred changes at a random moment between the question and the check.
#[test]
fn gate_a_change_that_ends_before_the_check_is_seen() {
    let rounds = |thread: usize| {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread as u64 + 1);
        let mut next = move |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).unwrap()
        };
        let all = spellings();
        for _ in 0..25 {
            let scene = Scene::new();
            let (line, file) = &all[next(all.len())];
            let (way, pause) = (next(5), Duration::from_micros(next(3000) as u64));
            let (asked, at) = scene.ask(line);
            let (done, check) = mpsc::channel();
            std::thread::scope(|scope| {
                let scene = &scene;
                scope.spawn(move || {
                    std::thread::sleep(pause);
                    swap(scene, file, way);
                    done.send(()).unwrap();
                });
                // Looks that come before the change is done may see either.
                while check.try_recv().is_err() {
                    scene.bind_since(line, at);
                }
                let found = scene.bind_since(line, at);
                assert_ne!(found.hash, asked.hash, "{line}: {file} swapped in way {way}");
            });
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || rounds(thread));
        }
    });
}

/// By class and by what commands reach: whether a change of each list asks again.
#[test]
fn a_change_of_what_a_call_reaches_asks_again() {
    let rules = |text: &str| Arc::new(serde_json::from_str::<NetworkRules>(text).unwrap());
    let listed = r#"{"hosts": ["a.test"]}"#;
    let lists = [
        r#"{"hosts": ["a.test", "b.test"]}"#,
        r#"{"hosts": ["a.test"], "deny": ["x.a.test"]}"#,
        r#"{"hosts": ["a.test"], "private": ["10.0.5.7:8080"]}"#,
        "{}",
    ];
    let table = [
        (Class::Run, SandboxNetwork::Proxy, true),
        (Class::Run, SandboxNetwork::None, false),
        (Class::Run, SandboxNetwork::Full, false),
        (Class::Reach, SandboxNetwork::None, true),
        (Class::Write, SandboxNetwork::Proxy, false),
        (Class::Read, SandboxNetwork::Proxy, false),
    ];
    let mut scene = Scene::new();
    for (class, network, asks) in table {
        scene.class = class;
        scene.sandbox.network = network;
        scene.network = rules(listed);
        let (asked, at) = scene.ask("cat other");
        assert_eq!(scene.bind_since("cat other", at).hash, asked.hash);
        for list in lists {
            scene.network = rules(list);
            let hash = scene.bind_since("cat other", at).hash;
            assert_eq!(hash != asked.hash, asks, "{class:?} {network:?} {list}");
        }
    }
    let networks = [SandboxNetwork::None, SandboxNetwork::Proxy, SandboxNetwork::Full];
    let hashes = networks.map(|network| {
        scene.sandbox.network = network;
        scene.ask("cat other").0.hash
    });
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
}
