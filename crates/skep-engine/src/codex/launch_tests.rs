#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;

use skep_core::ids::AgentId;

use super::*;

fn key(options: &Value) -> LaunchKey {
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({}),
    };
    LaunchKey {
        model: "gpt \"6\"".to_owned(),
        effort: Some("low"),
        window: 1000,
        sees_images: false,
        system: SystemPrompt { shared: "shared".into(), agent: "agent".into() },
        tools: vec![spec("bash"), spec("send"), spec("edit")].into(),
        sandbox: SandboxSettings::default(),
        workspace: PathBuf::from("/home/demo/w\"x"),
        options: Options::read(options.as_object().unwrap()).unwrap(),
    }
}

#[test]
fn options_are_read_strictly() {
    let read = |options: Value| Options::read(options.as_object().unwrap());
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let usual = Options { own_tools: true, any_version: false, idle: minutes(10) };
    assert_eq!(read(json!({})).unwrap(), usual);
    let given = json!({"tools": "ours", "any_version": true, "idle_minutes": 0});
    let other = Options { own_tools: false, any_version: true, idle: minutes(0) };
    assert_eq!(read(given).unwrap(), other);
    for wrong in [
        json!({"tools": "theirs"}),
        json!({"any_version": 1}),
        json!({"idle_minutes": -1}),
        json!({"idle_minutes": 1.5}),
        json!({"idle_minutes": 100_000}),
        json!({"login": "own"}),
    ] {
        let told = read(wrong.clone()).unwrap_err();
        assert!(told.contains("is not understood"), "{wrong}: {told}");
    }
}

#[test]
fn tools_that_it_has_itself_are_not_offered_twice() {
    let names = |key: &LaunchKey| key.relay_tools().names.into_iter().collect::<Vec<_>>();
    let both = key(&json!({}));
    assert_eq!(names(&both), ["apply_patch", "exec_command", "send", "write_stdin"]);
    let ours = key(&json!({"tools": "ours"}));
    assert_eq!(names(&ours), ["bash", "edit", "send"]);
    assert!(ours.config(Path::new("/c"), "http://m").contains("\nshell_tool = false\n"));
    assert!(ours.catalog()["models"][0]["apply_patch_tool_type"].is_null());
}

#[test]
fn its_folder_holds_threads_and_what_was_written_now() {
    let folder = tempfile::tempdir().unwrap();
    let home = EngineHome::of(folder.path(), "codex", AgentId(1)).unwrap();
    let at = |name: &str| home.folder.join(name);
    for planted in ["sessions/2026", "rules", "skills/x", ".agents"] {
        fs::create_dir_all(at(planted)).unwrap();
    }
    for planted in ["auth.json", "hooks.json", "AGENTS.md", ".env", "state_5.sqlite", "goal"] {
        fs::write(at(planted), "planted").unwrap();
    }
    // Where it would be followed, something else would be overwritten.
    symlink(at("goal"), at("config.toml")).unwrap();
    symlink(folder.path(), at("archived_sessions")).unwrap();
    key(&json!({})).furnish(&home, "http://127.0.0.1:1").unwrap();
    let names = fs::read_dir(&home.folder).unwrap();
    let mut names: Vec<_> =
        names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["config.toml", "models.json", "sessions", "state_5.sqlite"]);
    let config = fs::read_to_string(at("config.toml")).unwrap();
    for line in [
        "model = \"gpt \\\"6\\\"\"",
        "base_url = \"http://127.0.0.1:1/v1\"",
        "wire_api = \"responses\"",
        "web_search = \"disabled\"",
        "model_reasoning_effort = \"low\"",
        "unified_exec_tty = false",
        "memories = false",
        "[projects.\"/home/demo/w\\\"x\"]",
        "trust_level = \"untrusted\"",
    ] {
        assert!(config.lines().any(|it| it == line), "{line} in {config}");
    }
    // Again, over what is there.
    key(&json!({})).furnish(&home, "http://127.0.0.1:2").unwrap();
}
