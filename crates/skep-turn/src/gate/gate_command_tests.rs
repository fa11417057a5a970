//! Rules about commands through the gate, with a tool that really runs bash. `X` stands for what
//! nobody allowed: it counts each time it runs.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use skep_core::policy::Class;
use skep_core::policy::pattern::{CommandPattern, PathPattern};
use skep_core::policy::rule::Rule;
use skep_core::policy::{AgentReach, Effect};
use skep_core::provider::ToolSpec;
use skep_core::settings::SandboxLevel;
use skep_core::tool::Manner;

use super::tests::{Scene, chain};
use super::*;

struct Shell(ToolSpec);

impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::effect(Class::Run)
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let line = arguments["command"].as_str().ok_or("no command")?.to_owned();
        Ok(Box::new(move |context| {
            Box::pin(async move { ToolAnswer::ok(bash(&context.workspace, &line)) })
        }))
    }
}

/// What bash says to the line, in the folder.
fn bash(folder: &Path, line: &str) -> String {
    let mut bash = Command::new("/bin/bash");
    bash.args(["-c", line]).current_dir(folder).env_clear().env("LANG", "C.UTF-8");
    bash.env("PATH", format!("{}/bin:/usr/bin:/bin", folder.display())).env("HOME", "/tmp/home");
    String::from_utf8(bash.output().unwrap().stdout).unwrap()
}

/// `EFFECT TOOL`, with a command or a path.
fn rule(effect: Effect, tool: &str, command: Option<&str>, path: Option<&str>) -> Rule {
    Rule {
        effect,
        tool: tool.to_owned(),
        path: path.map(|path| PathPattern::parse(path).unwrap()),
        command: command.map(|command| CommandPattern::parse(command).unwrap()),
        host: None,
        grants: Vec::new(),
        approvers: Vec::new(),
        place: "config.yaml:1".to_owned(),
    }
}

struct Rig {
    scene: Scene,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Every command is asked for but those that begin so.
    fn new(allowed: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("bin")).unwrap();
        fs::write(path.join("bin/X"), format!("#!/bin/sh\necho >> {}/.effects\n", path.display()))
            .unwrap();
        fs::set_permissions(path.join("bin/X"), fs::Permissions::from_mode(0o755)).unwrap();
        let spec = ToolSpec {
            name: "bash".to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        let mut scene = Scene::new(&["*"]);
        scene.toolbox = Toolbox::new(vec![Arc::new(Shell(spec))]).unwrap();
        scene.agent.workspace = path;
        let allow = allowed.iter().map(|command| rule(Effect::Allow, "bash", Some(command), None));
        scene.agent.policy.rules =
            std::iter::once(rule(Effect::Ask, "bash", None, None)).chain(allow).collect();
        Self { scene, folder }
    }

    fn path(&self) -> &Path {
        &self.scene.agent.workspace
    }

    fn write(&self, name: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    async fn run(&self, line: &str) -> CallOutcome {
        self.scene.call("c1", "bash", json!({ "command": line })).await
    }

    async fn outcome(&self, line: &str) -> &'static str {
        self.run(line).await.audit.outcome
    }

    /// What the command said, which is allowed.
    async fn said(&self, line: &str) -> String {
        let ran = self.run(line).await;
        assert_eq!(ran.audit.outcome, "ok", "{line}: {}", chain(&ran));
        match ran.answer {
            ToolAnswer::Done { text, .. } | ToolAnswer::Cut { text, .. } => text,
            ToolAnswer::Wait { reason } => panic!("{line} waits: {reason}"),
        }
    }

    fn effects(&self) -> usize {
        fs::read_to_string(self.folder.path().join(".effects")).unwrap_or_default().lines().count()
    }
}

/// Named after the trick; each ran X in bash while `echo` or `test` was allowed.
const TRICKS: &[(&str, &str)] = &[
    ("prompt expansion", "echo '$(X)'; echo ${_@P}"),
    ("subscript in an offset", "echo 'a[$(X)]'; echo ${HOME:_}"),
    ("subscript in $[ ]", "echo 'a[$(X)]'; echo $[_]"),
    ("$' in double quotes", "echo \"$'\" ; X; echo \"'\""),
    ("# behind <( )", "echo <(echo)# ; X"),
    ("backticks in double quotes", "echo \"`X`\""),
    ("subscript in test -v", "test -v $'a[\\x24(X)]'"),
];

#[tokio::test]
async fn gate_command_tricks_run_nothing() {
    for (name, line) in TRICKS {
        let rig = Rig::new(&["echo", "test"]);
        assert_eq!(rig.outcome(line).await, "waiting", "{name}: {line}");
        assert_eq!(rig.effects(), 0, "{name}: {line}");
        // It is a trick: bash runs X.
        bash(rig.path(), line);
        assert!(rig.effects() > 0, "{name}: {line}");
    }
    // A loop that sets PATH runs other programs under a name that is allowed.
    let rig = Rig::new(&["echo", "ls", "for"]);
    fs::rename(rig.path().join("bin/X"), rig.path().join("bin/ls")).unwrap();
    assert_eq!(rig.outcome("for PATH in bin; do ls; done").await, "waiting");
    assert_eq!(rig.effects(), 0);
}

#[tokio::test]
async fn gate_command_builtins_look_into_no_quoted_word() {
    let rig = Rig::new(&["test", "echo", "[", "printf"]);
    let lines = ["test -v 'a[$(X)]'", "[ -v 'a[$(X)]' ]", "printf -v 'a[$(X)]' z"];
    for line in lines {
        assert_eq!(rig.outcome(line).await, "waiting", "{line}");
        assert_eq!(rig.effects(), 0, "{line}");
    }
    for line in lines {
        let before = rig.effects();
        bash(rig.path(), line);
        assert!(rig.effects() > before, "bash runs X by {line}");
    }
}

#[tokio::test]
async fn gate_command_runs_the_judged_words() {
    let rig = Rig::new(&["cd", "echo", "cat", "A=* printenv A"]);
    for name in ["a.txt", "b c.txt", "sub/d.txt", "sub/.h", "-rf"] {
        rig.write(name);
    }
    symlink("sub", rig.path().join("link")).unwrap();
    let start = rig.path().display().to_string();
    let cases = [
        ("echo \"it's\" 'a  b' c\\ d", "it's a  b c d\n".to_owned()),
        ("echo *.txt", "a.txt b c.txt\n".to_owned()),
        ("echo -n *rf", "./-rf".to_owned()),
        ("echo no*such [a-c].txt", "no*such a.txt\n".to_owned()),
        ("cd sub && echo * .[a-z]", "d.txt .h\n".to_owned()),
        ("cd sub && echo $PWD; echo $PWD ~/x", format!("{start}/sub\n{start}/sub /tmp/home/x\n")),
        ("echo a | cat - | cat", "a\n".to_owned()),
        ("cat <<'E'\n$(X) `X`\nE", "$(X) `X`\n".to_owned()),
        ("echo b > sub/o && cat < sub/o", "b\n".to_owned()),
        ("A='x y' printenv A", "x y\n".to_owned()),
    ];
    for (line, expected) in cases {
        assert_eq!(rig.said(line).await, expected, "{line}");
    }
    // The row keeps what the model wrote, and what ran.
    let ran = rig.run("echo *.txt # all").await;
    assert_eq!(ran.audit.arguments, json!({"command": "echo *.txt # all"}));
    let runs = "policy: allow by config.yaml:1; runs: 'echo' a.txt 'b c.txt'";
    assert!(chain(&ran).contains(runs), "{}", chain(&ran));
    assert_eq!(rig.effects(), 0);
    // As bash would have it, where nothing is changed on purpose.
    let patterns = ["[a-z]*", "s*/*", "s*/", "*/", "s*/.*", "?.txt", "[!a-]*.txt", "link/*"];
    for pattern in patterns.into_iter().chain(["sub/../*.txt", "*/*.txt", "./*.txt", "sub/*/"]) {
        let line = format!("echo {pattern}");
        assert_eq!(rig.said(&line).await, bash(rig.path(), &line), "{line}");
    }
}

#[tokio::test]
async fn gate_command_redirections_are_judged_as_paths() {
    let mut rig = Rig::new(&["cd", "echo", "cat"]);
    let rules = &mut rig.scene.agent.policy.rules;
    rules.push(rule(Effect::Deny, "write", None, Some("secrets/**")));
    rules.push(rule(Effect::Ask, "read", None, Some("private/**")));
    for name in ["secrets/key", "private/note", "open"] {
        rig.write(name);
    }
    symlink("secrets/key", rig.path().join("link")).unwrap();
    symlink("/etc", rig.path().join("out")).unwrap();
    let cases = [
        ("echo a > open", "ok"),
        ("cat < open >> other 2>/dev/null", "ok"),
        ("echo a > secrets/key", "refused"),
        ("echo a > link", "refused"),
        ("cd secrets && echo a >> key", "refused"),
        ("echo a &> ./x/../secrets/new", "refused"),
        ("cat < private/note", "waiting"),
        ("cat < secrets/key", "ok"),
        // Out of the workspace, which is not plain.
        ("echo a > ../x", "waiting"),
        ("echo a > out/x", "waiting"),
        ("echo a > /dev/tcp/127.0.0.1/1", "waiting"),
        ("echo a > /dev/stdout", "waiting"),
        ("echo a > ~/x", "waiting"),
        ("cat < /etc/passwd", "waiting"),
        // Folders that are not what they look like.
        ("cd out && echo a", "waiting"),
        ("cd nowhere && echo a; echo b", "waiting"),
        ("cd .. && echo a", "waiting"),
        ("echo /etc/*", "waiting"),
        ("echo ../*", "waiting"),
        ("echo out/*", "waiting"),
    ];
    for (line, outcome) in cases {
        assert_eq!(rig.outcome(line).await, outcome, "{line}");
    }
    assert_eq!(fs::read_to_string(rig.path().join("secrets/key")).unwrap(), "");
    assert!(!rig.path().join("secrets/new").exists());
}

#[tokio::test]
async fn gate_command_bounds_and_levels() {
    let mut rig = Rig::new(&["echo", "wc"]);
    for number in 0..1001 {
        rig.write(&format!("many/{number:04}"));
    }
    assert_eq!(rig.outcome("echo many/*").await, "waiting", "1001 names");
    assert_eq!(rig.said("echo many/0* | wc -w").await, "1000\n");
    let wide = rig.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for number in 0..=100_000 {
        fs::File::create(wide.join(number.to_string())).unwrap();
    }
    assert_eq!(rig.outcome("echo wide/77777*").await, "waiting", "100001 names to look at");
    assert_eq!(rig.outcome(&"echo a;".repeat(501)).await, "waiting");
    assert_eq!(rig.outcome(&format!("echo {}", "a".repeat(65 << 10))).await, "waiting");
    // Constants are known in the sandbox alone.
    rig.scene.agent.sandbox.level = SandboxLevel::Host;
    assert_eq!(rig.outcome("echo $HOME").await, "waiting");
    assert_eq!(rig.outcome("echo $PWD").await, "waiting");
    assert_eq!(rig.said("echo many/1*").await, "many/1000\n");
}

/// Where no rule about commands allows the line, it runs as it is written: a glob means the files
/// that are there by then.
#[tokio::test]
async fn gate_command_globs_are_refused_as_they_are_written() {
    let mut rig = Rig::new(&["echo"]);
    rig.scene.agent.policy.rules[0] = rule(Effect::Deny, "bash", Some("X"), None);
    rig.scene.agent.policy.classes.run = Some(Effect::Allow);
    for line in ["touch X; env ?", "touch X; timeout 5 [W-Z]", "mkdir -p a; env a/? && ls"] {
        assert_eq!(rig.outcome(line).await, "refused", "{line}");
    }
    assert_eq!(rig.outcome("ls *.rs").await, "ok");
    assert_eq!(rig.effects(), 0);
}
