//! A hostile model against what governs it: the hive's files, other agents, its own settings. By
//! every tool that takes a path, through links, and by a shell inside the sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

const CANARY: &str = "canary-7d20c4";

/// Files that govern, all with the canary in them.
const GOVERNING: [&str; 9] = [
    "rules/hive.md",
    "run/kept.txt",
    "teams/main/config.yaml",
    "teams/main/plugins/tool.ts",
    "teams/other/config.yaml",
    "teams/other/org-rules/rule.md",
    "teams/other/skills/skill.md",
    "teams/other/work/notes.txt",
    "private.txt",
];

struct Scene {
    stage: Stage,
    play: Play,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        // Nobody stands between the model and its settings.
        stage.write("skep.yaml", "defaults:\n  policy: {shape: allow}\n");
        for file in GOVERNING {
            let list = "allowed_tools: ['@files', bash]\n";
            let text = if file.ends_with("config.yaml") { list } else { "" };
            stage.write(file, &format!("{text}# {CANARY}\n"));
        }
        let play = stage.up().await;
        Self { stage, play }
    }

    fn path(&self, file: &str) -> String {
        self.stage.home().join(file).display().to_string()
    }

    /// Has the model make these calls in one step; what it is told.
    async fn calls(&self, calls: Vec<(&str, Value)>) -> Vec<(String, bool)> {
        let model = &self.stage.model;
        let step = calls
            .into_iter()
            .fold(Reply::new(), |step, (tool, arguments)| step.tool(tool, arguments));
        model.push_all([step, Reply::say("so be it")]);
        assert_eq!(self.play.ask("main", "attack").await["state"], "done");
        let results = model.requests().pop().unwrap().last_tool_results();
        results.into_iter().map(|result| (result.text, result.is_error)).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> (String, bool) {
        self.calls(vec![(tool, arguments)]).await.remove(0)
    }

    async fn bash(&self, line: &str) -> String {
        self.call("bash", json!({"command": line})).await.0
    }

    /// Everything of the home but what the hive writes and the workspace of `main`.
    fn around(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (home, mut found) = (self.stage.home(), BTreeMap::new());
        let mut folders = vec![home.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let inside = path.strip_prefix(home).unwrap();
                let ours = inside.starts_with("run") && inside != Path::new("run/kept.txt");
                if inside.starts_with("teams/main/work") || (ours && path.is_file()) {
                    continue;
                }
                if path.is_dir() && !inside.starts_with("run/") {
                    folders.push(path.clone());
                } else if path.is_file() {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        found
    }
}

#[tokio::test]
async fn attack_governance_files_by_every_tool_that_takes_a_path() {
    let scene = Scene::new().await;
    let before = scene.around();
    for file in GOVERNING {
        let absolute = scene.path(file);
        let sideways = format!("../../../{file}");
        let own = scene.path("teams/main");
        let spellings = [
            absolute.clone(),
            sideways,
            format!("{own}/../../{file}"),
            format!("{own}/skills/../../../{file}"),
            format!("{own}/team-rules/./../../../{file}"),
            format!("/proc/self/root{absolute}"),
        ];
        let attacks = spellings.iter().flat_map(|path| {
            [
                ("write", json!({"file_path": path, "content": "owned"})),
                ("edit", json!({"file_path": path, "old_string": CANARY, "new_string": "owned"})),
                ("read", json!({"file_path": path})),
                ("grep", json!({"pattern": "canary", "path": path})),
            ]
        });
        let attacks: Vec<(&str, Value)> = attacks.collect();
        let results = scene.calls(attacks.clone()).await;
        for ((tool, arguments), (text, is_error)) in attacks.iter().zip(results) {
            if matches!(*tool, "write" | "edit") {
                let class = text.split(':').next().unwrap();
                let named = ["outside_workspace", "settings_read_only", "bad_path", "not_found"];
                assert!(is_error && named.contains(&class), "{tool} {arguments}: {text}");
            } else if !file.starts_with("teams/main/") {
                assert!(!text.contains(CANARY), "{tool} {arguments}: {text}");
            } else if *arguments == json!({"file_path": absolute}) {
                assert!(text.contains(CANARY), "its own settings can be looked at: {text}");
            }
        }
    }
    assert_eq!(scene.around(), before);
}

#[tokio::test]
async fn attack_governance_files_through_links_and_by_the_shell() {
    let scene = Scene::new().await;
    let before = scene.around();
    let home = scene.stage.home().display().to_string();
    let plant = GOVERNING.iter().enumerate().map(|(index, file)| {
        format!("ln -sfn {home}/{file} link{index}; ln {home}/{file} hard{index};")
    });
    let folders = format!("ln -sfn {home} home; ln -sfn {home}/teams/main own; ln -sfn .. up;");
    scene.bash(&(plant.collect::<String>() + &folders)).await;
    for (index, file) in GOVERNING.iter().enumerate() {
        let paths = [format!("link{index}"), format!("home/{file}"), format!("up/../../{file}")];
        let attacks = paths.iter().flat_map(|path| {
            let write = json!({"file_path": path, "content": "owned"});
            [("write", write), ("read", json!({"file_path": path}))]
        });
        for (text, is_error) in scene.calls(attacks.collect()).await {
            assert!(is_error && !text.contains(CANARY), "{file}: {text}");
        }
    }
    for path in ["own/team-rules/x.md", "own/config.yaml", "up/config.yaml", "up/skills/x.md"] {
        let (text, is_error) =
            scene.call("write", json!({"file_path": path, "content": "x"})).await;
        assert!(is_error && text.starts_with("outside_workspace: "), "{path}: {text}");
    }
    for file in GOVERNING {
        let target = format!("{home}/{file}");
        let own = file.starts_with("teams/main/");
        let lines = [
            format!("echo owned > {target}"),
            format!("echo owned >> {target}"),
            format!("sed -i s/canary/owned/ {target}"),
            format!("mv {target} taken; cp taken {target}"),
            format!("rm -rf {target}"),
            format!("chmod 777 {target}; chown 0:0 {target}; echo owned > {target}"),
            format!("mount -o remount,rw /; mount --bind . $(dirname {target}); echo x > {target}"),
            format!("python3 -c \"open('{target}','w').write('owned')\""),
            format!("unshare -Ur sh -c 'echo owned > {target}'"),
            format!("cat {target}"),
        ];
        let text = scene.bash(&lines.join("\n")).await;
        assert_eq!(text.contains(CANARY), own, "{target}: {text}");
    }
    // A new rule, a new agent, a new hook of the history. What is not shown may be made up inside
    // the sandbox; it is gone with it.
    let places =
        ["rules", "teams", "teams/evil", "run/config.git/hooks", "teams/main/skills", "teams/main"];
    let lines =
        places.map(|place| format!("mkdir -p {home}/{place}; echo x > {home}/{place}/x.md"));
    let text = scene.bash(&lines.join("\n")).await;
    assert!(text.contains("teams/main/x.md: Read-only file system"), "{text}");
    assert_eq!(scene.around(), before);
}

fn git(home: &Path, arguments: &[&str]) -> String {
    let folder = home.join("run/config.git");
    let output = Command::new("git").arg("--git-dir").arg(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn tools_change_own_rules_and_skills_and_each_change_is_a_commit() {
    let scene = Scene::new().await;
    let home = scene.stage.home().to_path_buf();
    let rule = scene.path("teams/main/team-rules/manners.md");
    let skill = scene.path("teams/main/skills/bake/SKILL.md");
    let (text, is_error) =
        scene.call("write", json!({"file_path": rule, "content": "Say please.\n"})).await;
    assert!(!is_error, "{text}");
    let commit = git(&home, &["rev-parse", "main"]);
    assert!(text.ends_with(&format!("(commit {})", commit.trim())), "{text} {commit}");
    scene.stage.write("teams/main/org-rules/by-hand.md", "A person wrote this.\n");
    let change =
        json!({"file_path": rule, "old_string": "please", "new_string": "please and thanks"});
    assert!(!scene.call("edit", change).await.1);
    assert!(!scene.call("write", json!({"file_path": skill, "content": "Bake.\n"})).await.1);
    assert_eq!(fs::read_to_string(&rule).unwrap(), "Say please and thanks.\n");
    assert_eq!(fs::read_to_string(&skill).unwrap(), "Bake.\n");
    let log = git(&home, &["log", "--reverse", "--format=%an: %s", "main"]);
    let expected = "operator: settings as they were found\n\
                    main: write team-rules/manners.md\n\
                    operator: settings as they were found\n\
                    main: edit team-rules/manners.md\n\
                    main: write skills/bake/SKILL.md\n";
    assert_eq!(log, expected);
    let listed = git(&home, &["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(
        listed,
        "config.yaml\norg-rules/by-hand.md\nplugins/tool.ts\nskills/bake/SKILL.md\n\
         team-rules/manners.md\n"
    );
    let kept = git(&home, &["show", "main:team-rules/manners.md"]);
    assert_eq!(kept, "Say please and thanks.\n");
    // The changed rule is in force for a turn that begins once the change was seen.
    scene.stage.model.answer_with(|_| Reply::say("please"));
    let seen = wait::until_async("the rule in a prompt", PATIENCE, || async {
        scene.play.ask("main", "hello").await;
        let system = scene.stage.model.requests().pop().unwrap().system_text();
        system.contains("Say please and thanks.").then_some(())
    });
    seen.await.unwrap();
}

#[tokio::test]
async fn tools_writing_settings_shapes_the_hive_and_a_person_is_asked() {
    let stage = Stage::new().await;
    let rule = stage.home().join("teams/main/team-rules/manners.md");
    let write = json!({"file_path": rule, "content": "Say please.\n"});
    let notes = json!({"file_path": "team-rules/notes.md", "content": "x"});
    let step = Reply::new().tool("write", notes).tool("write", write);
    stage.model.push_all([step, Reply::say("done")]);
    let play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    assert_eq!((asked["tool"].as_str(), asked["class"].as_str()), (Some("write"), Some("shape")));
    assert!(!rule.exists(), "it is asked first");
    let note = stage.home().join("teams/main/work/team-rules/notes.md");
    assert!(note.exists(), "a file of the workspace is none of the settings");
    play.answer(&asked, "approve").await.good().unwrap();
    assert_eq!(play.ended("main", &item).await["state"], "done");
    assert_eq!(fs::read_to_string(&rule).unwrap(), "Say please.\n");
}

#[tokio::test]
async fn attack_own_rules_cannot_be_made_to_break_the_agent_or_the_history() {
    let scene = Scene::new().await;
    let own = |path: &str| scene.path(&format!("teams/main/{path}"));
    let long = "x".repeat((64 << 10) + 1);
    let table = [
        ("team-rules/long.md", long.as_str(), "too_large"),
        ("team-rules/folder.md/x.md", "x", "bad_path"),
        ("team-rules/x.txt", "x", "bad_path"),
        ("team-rules/zero.md", "a\0b", "not_text"),
        ("skills/.git/config", "[core]\n\tfsmonitor = touch /tmp/owned\n", "bad_path"),
        ("skills/.gitattributes", "* filter=x\n", "bad_path"),
        ("skills", "x", "settings_read_only"),
        ("skills/", "x", "is_directory"),
        ("Skills/x.md", "x", "settings_read_only"),
        ("skills-evil/x.md", "x", "settings_read_only"),
        ("work/../config.yaml", "x", "outside_workspace"),
    ];
    for (path, content, class) in table {
        let (text, is_error) =
            scene.call("write", json!({"file_path": own(path), "content": content})).await;
        assert!(is_error && text.starts_with(&format!("{class}: ")), "{path}: {text}");
    }
    // A name that could pass for something else is none.
    for name in ["--upload-pack=x.md", "back\\nslash.md", "a\nM 100644 inline b.md", "a\u{200b}.md"]
    {
        let path = own(&format!("skills/{name}"));
        let (text, is_error) =
            scene.call("write", json!({"file_path": path, "content": "x"})).await;
        assert!(is_error && text.starts_with("bad_path: "), "{name}: {text}");
        assert!(!Path::new(&path).exists(), "{name}");
    }
    // A name that means something to a program is only a name here.
    for name in ["a \"quoted\" name.md", "a --upload-pack=x.md", "é.md"] {
        let path = own(&format!("skills/{name}"));
        let (text, is_error) =
            scene.call("write", json!({"file_path": path, "content": "x"})).await;
        assert!(!is_error, "{name}: {text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "x", "{name}");
    }
    let listed = git(scene.stage.home(), &["ls-tree", "-r", "-z", "--name-only", "main"]);
    let mut skills: Vec<&str> = listed.split('\0').filter(|name| name.contains("skills")).collect();
    skills.sort_unstable();
    assert_eq!(
        skills,
        ["skills/a \"quoted\" name.md", "skills/a --upload-pack=x.md", "skills/é.md"]
    );
    assert_eq!(scene.play.state().await["agents"][0]["status"], "active");
}

#[tokio::test]
async fn tools_leave_settings_alone_where_no_history_can_be_kept() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "defaults:\n  policy: {shape: allow}\n");
    let play = stage.run(stage.start().env("PATH", "/nonexistent")).await;
    let scene = Scene { stage, play };
    let rule = scene.path("teams/main/team-rules/x.md");
    let (text, is_error) = scene.call("write", json!({"file_path": rule, "content": "x"})).await;
    assert!(is_error && text.starts_with("settings_not_kept: "), "{text}");
    assert!(text.contains("git is not installed. Install it: `apt-get install git`"), "{text}");
    assert!(!Path::new(&rule).exists());
    let own = json!({"file_path": "notes.txt", "content": "x"});
    assert!(!scene.call("write", own).await.1, "the workspace needs no history");
}
