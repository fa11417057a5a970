//! Paths and arguments of a hostile model, against every tool that takes a path. Nothing outside
//! the workspace is read or changed, nothing is started, and every refusal names its class.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};
use skep_core::tool::Tool;

use crate::attack_payloads::{Leads, payloads};
use crate::lab::{Answer, call, context, tools};

const CANARY: &str = "canary-5f1c9e";

const CLASSES: [&str; 12] = [
    "outside_workspace",
    "not_found",
    "is_directory",
    "is_link",
    "not_a_regular_file",
    "no_permission",
    "bad_path",
    "no_match",
    "not_text",
    "not_a_folder",
    "bad_pattern",
    "bad_glob",
];

/// A home with the workspace inside and canaries around it.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { home: tempfile::tempdir().unwrap() };
        let (home, work) = (place.home.path(), place.work());
        for folder in ["work/sub/deep", "work-evil", "outside/sub", "run"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        for file in
            ["secret", "work-evil/secret", "outside/secret", "outside/sub/secret", "run/skep.db"]
        {
            fs::write(home.join(file), format!("{CANARY} in {file}\n")).unwrap();
        }
        fs::write(work.join("sub/note"), "inside\n").unwrap();
        let absolute = |path: &str| home.join(path);
        for (name, target) in [
            ("up", PathBuf::from("../secret")),
            ("up_folder", PathBuf::from("../outside")),
            ("away", absolute("secret")),
            ("away_folder", absolute("outside")),
            ("chain1", PathBuf::from("chain2")),
            ("chain2", PathBuf::from("sub/../up")),
            ("sub/deep/up", PathBuf::from("../../../secret")),
            ("sub/deep/up_folder", PathBuf::from("../../../outside")),
            ("dangling", PathBuf::from("../new-outside")),
            ("dangling_folder", PathBuf::from("../new-folder")),
            ("root", PathBuf::from("/")),
            ("proc", PathBuf::from("/proc/self")),
            ("magic", PathBuf::from("/proc/self/root")),
            ("cwd", PathBuf::from("/proc/self/cwd")),
            ("descriptor", PathBuf::from("/proc/self/fd/0")),
            ("descriptors", PathBuf::from("/dev/fd")),
            ("environment", PathBuf::from("/proc/self/environ")),
            ("zero", PathBuf::from("/dev/zero")),
            ("loop1", PathBuf::from("loop2")),
            ("loop2", PathBuf::from("loop1")),
            ("self_loop", PathBuf::from("self_loop/x")),
            ("parent", PathBuf::from("..")),
            ("evil", absolute("work-evil")),
        ] {
            symlink(target, work.join(name)).unwrap();
        }
        let make = |name: &str, kind| {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, work.join(name), kind, mode, 0).unwrap();
        };
        make("pipe", FileType::Fifo);
        make("socket", FileType::Socket);
        place
    }

    fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Everything around the workspace, with its content.
    fn around(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.home.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.work() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path.clone());
                    found.insert(path, Vec::new());
                } else {
                    let content = fs::read(&path).unwrap();
                    found.insert(path, content);
                }
            }
        }
        found
    }
}

/// A path of the machine itself gets another last name before it is written to: should a wall be
/// down one day, a file appears and none is lost.
fn spared(payload: &str, home: &str) -> String {
    const SYSTEM: [&str; 16] = [
        "etc", "proc", "dev", "root", "sys", "usr", "bin", "boot", "home", "tmp", "var", "run/",
        "environ", "zero", "magic", "cwd",
    ];
    // A name alone is a link in the workspace, at worst to a device.
    let is_ours = payload.contains(home) || payload.contains("secret") || !payload.contains('/');
    let is_system = SYSTEM.iter().any(|name| payload.contains(name)) || payload.starts_with('/');
    if is_system && !is_ours { format!("{payload}-attacked") } else { payload.to_owned() }
}

/// The calls that carry a payload, each in the argument that names a place.
fn calls(payload: &str, home: &str) -> [(&'static str, Value); 6] {
    let spared = spared(payload, home);
    [
        ("read", json!({"file_path": payload})),
        ("write", json!({"file_path": spared, "content": "overwritten\n"})),
        (
            "edit",
            json!({"file_path": spared, "old_string": "a", "new_string": "b", "replace_all": true}),
        ),
        ("glob", json!({"pattern": "**/*", "path": payload})),
        ("grep", json!({"pattern": "", "path": payload})),
        ("grep", json!({"pattern": CANARY, "path": payload, "context": 3})),
    ]
}

async fn bounded(tool: &dyn Tool, arguments: Value, work: &Path) -> Answer {
    let limit = Duration::from_secs(20);
    let called = call(tool, arguments.clone(), context(work));
    let answer = tokio::time::timeout(limit, called).await;
    answer.unwrap_or_else(|_| panic!("{} hangs with {arguments}", tool.spec().name))
}

fn find<'a>(tools: &'a [Box<dyn Tool>], name: &str) -> &'a dyn Tool {
    tools.iter().find(|tool| tool.spec().name == name).unwrap().as_ref()
}

#[tokio::test]
async fn attack_by_path_reads_and_changes_nothing_outside() {
    let place = Place::new();
    let tools = tools(Vec::new());
    let before = place.around();
    let payloads = payloads(place.home.path().to_str().unwrap());
    let distinct: BTreeSet<&str> = payloads.iter().map(|(payload, _)| payload.as_str()).collect();
    assert_eq!(distinct.len(), payloads.len(), "every payload differs");
    assert!(payloads.len() >= 300, "{}", payloads.len());
    let mut refused = BTreeMap::<String, usize>::new();
    let home = place.home.path().to_str().unwrap();
    for (payload, leads) in &payloads {
        for (name, arguments) in calls(payload, home) {
            let answer = bounded(find(&tools, name), arguments, &place.work()).await;
            let shown = format!("{name} {payload:?}: {answer:?}");
            assert!(!answer.text.contains(&format!("{CANARY} in")), "{shown}");
            assert!(!answer.text.contains("root:"), "{shown}");
            if *leads == Leads::Out {
                assert!(answer.is_error, "{shown}");
            }
            if answer.is_error {
                assert!(CLASSES.contains(&answer.class()), "{shown}");
                *refused.entry(answer.class().to_owned()).or_default() += 1;
            }
        }
    }
    assert_eq!(place.around(), before);
    for class in ["outside_workspace", "is_link", "not_a_regular_file", "bad_path"] {
        assert!(refused.contains_key(class), "{class} was never the answer: {refused:?}");
    }
}

/// Arguments that a command line would take for options, files or commands.
#[tokio::test]
async fn attack_by_argument_is_taken_as_text() {
    let place = Place::new();
    let tools = tools(Vec::new());
    let before = place.around();
    let mark = place.home.path().join("outside/started");
    let mark = mark.to_str().unwrap();
    fs::write(place.work().join("sub/options"), "--files\n-rf\n--pre=x\n").unwrap();
    let secret = place.home.path().join("secret");
    let arguments: Vec<String> = [
        "--files",
        "-rf",
        "--pre=touch M",
        "--pre touch M",
        "-f S",
        "--file=S",
        "--ignore-file=S",
        "--hostname-bin=touch M",
        "--search-zip",
        "-z",
        "--follow",
        "-L",
        "-uuu",
        "--hidden",
        "--no-ignore",
        "--type-add=x:../*",
        "--config S",
        "@S",
        "-e",
        "--",
        "-",
        "--glob=../**",
        "../**",
        "../../**",
        "/etc/**",
        "/**",
        "!../**",
        "S",
        "**/../secret",
        "{../,}secret",
        "; touch M",
        "$(touch M)",
        "`touch M`",
        "| touch M",
        "up_folder/**",
        "root/**",
        "parent/*",
        "away",
        "up",
        "magic/etc/passwd",
    ]
    .iter()
    .map(|text| text.replace('M', mark).replace('S', secret.to_str().unwrap()))
    .collect();
    for argument in &arguments {
        for (name, call) in [
            ("glob", json!({"pattern": argument})),
            ("grep", json!({"pattern": argument})),
            ("grep", json!({"pattern": CANARY, "glob": argument})),
            ("grep", json!({"pattern": CANARY, "type": argument})),
            ("grep", json!({"pattern": CANARY, "path": argument})),
            ("glob", json!({"pattern": "*", "path": argument})),
        ] {
            let answer = bounded(find(&tools, name), call.clone(), &place.work()).await;
            assert!(!answer.text.contains(&format!("{CANARY} in")), "{call}: {answer:?}");
            assert!(!answer.text.contains("work-evil") || answer.is_error, "{call}: {answer:?}");
            assert!(!answer.text.lines().any(|line| line.starts_with("..")), "{call}: {answer:?}");
        }
    }
    let answer = bounded(find(&tools, "grep"), json!({"pattern": "--pre=x"}), &place.work()).await;
    assert_eq!(answer.text, "sub/options:3:--pre=x\n");
    assert_eq!(place.around(), before);
}
