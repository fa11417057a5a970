#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_core::money::Money;
use skep_core::settings::AgentState;

use super::create::{files, folders, workspaces};
use super::load::load;

/// Every file with its bytes and time of change.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (std::fs::read(&path).unwrap(), changed));
        }
    }
    found
}

fn start(home: &Home) -> Vec<PathBuf> {
    folders(home).unwrap();
    files(home, false).unwrap()
}

#[test]
fn a_first_start_creates_a_home_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("deep/er/home"));
    let created = start(&home);
    assert_eq!(created.len(), 5);
    for private in [home.root().to_path_buf(), home.run()] {
        assert_eq!(private.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    let loaded = load(&home, &crate::compose::known(), &|_| None).unwrap();
    let AgentState::Active(main) = loaded.settings.agents.get(&AgentName::new("main")).unwrap()
    else {
        panic!("main is not active");
    };
    let tools = crate::compose::BUILT_IN.iter().filter(|tool| !tool.starts_with("vault_"));
    let tools = tools.chain(&["use_skill", "@subagents"]);
    assert_eq!(main.allowed_tools, tools.copied().collect::<Vec<_>>());
    assert!(main.workspace.join("welcome.md").is_file());
    assert!(loaded.warnings.is_empty());
}

#[test]
fn generated_files_name_schemas_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let created = start(&home);
    let yaml = created.iter().filter(|path| path.extension().unwrap() == "yaml");
    for path in yaml {
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().next().unwrap();
        let schema = line.strip_prefix("# yaml-language-server: $schema=").unwrap();
        let schema = std::fs::read(path.parent().unwrap().join(schema)).unwrap();
        let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", path.display());
    }
}

#[test]
fn what_the_generated_files_show_behind_hashes_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for path in start(&home) {
        let text = std::fs::read_to_string(&path).unwrap();
        let shown = |line: &str| {
            let uncommented = line.strip_prefix("# ").filter(|rest| {
                let key = rest.trim_start().split(':').next().unwrap_or_default();
                rest.contains(':') && !key.contains(' ') && key != "yaml-language-server"
            });
            uncommented.unwrap_or(line).to_owned()
        };
        let text: Vec<String> = text.lines().map(shown).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
    }
    let known = crate::compose::known();
    let loaded = load(&home, &known, &|_| Some("value".to_owned())).unwrap();
    assert_eq!(loaded.settings.limits, skep_core::settings::Limits::default());
    assert!(loaded.settings.server.public_url.is_some());
    assert_eq!(loaded.connections["default"].vendor.as_str(), "anthropic");
    let AgentState::Active(main) = loaded.settings.agents.get(&AgentName::new("main")).unwrap()
    else {
        panic!("main is not active");
    };
    assert_eq!(main.max_steps, 50);
}

#[test]
fn a_second_start_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    start(&home);
    std::fs::write(home.database(), "").unwrap();
    std::fs::remove_file(home.channels_yaml()).unwrap();
    let before = contents(home.root());
    let created = start(&home);
    assert_eq!(created, Vec::<PathBuf>::new());
    assert_eq!(contents(home.root()), before);
}

#[test]
fn a_first_start_keeps_what_is_there_and_finishes_what_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    std::fs::write(home.skep_yaml(), "server: {port: 0}\n").unwrap();
    std::fs::create_dir_all(home.agent("main")).unwrap();
    // Left behind by a start that was cut off while it wrote.
    std::fs::write(home.agent("main").join(".config.yaml.new"), "allow").unwrap();
    let created = start(&home);
    assert_eq!(created.len(), 4);
    assert_eq!(std::fs::read_to_string(home.skep_yaml()).unwrap(), "server: {port: 0}\n");
    let names = std::fs::read_dir(home.agent("main")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["config.yaml", "org-rules", "team-rules", "work"]);
}

#[test]
fn an_outdated_schema_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    start(&home);
    let path = home.schema().join("skep.json");
    let right = std::fs::read(&path).unwrap();
    std::fs::write(&path, "{}").unwrap();
    std::fs::write(home.database(), "").unwrap();
    start(&home);
    assert_eq!(std::fs::read(&path).unwrap(), right);
}

#[test]
fn a_home_that_cannot_be_made_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = folders(&Home::new(file.join("home"))).unwrap_err().to_string();
    assert!(error.contains("cannot prepare the home"), "{error}");
    assert!(error.contains("Not a directory"), "{error}");
}

#[test]
fn the_workspace_of_a_hand_made_agent_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    start(&home);
    std::fs::create_dir(home.agent("cto")).unwrap();
    std::fs::write(home.agent("cto").join("config.yaml"), "").unwrap();
    let loaded = load(&home, &crate::compose::known(), &|_| None).unwrap();
    workspaces(&home, &loaded).unwrap();
    assert!(home.agent("cto").join("work").is_dir());
}

#[test]
fn a_home_whose_model_costs_money_gets_a_limit_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    folders(&home).unwrap();
    let variables = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "key-of-a-test".to_owned());
    let found = load(&home, &crate::compose::known(), &variables).unwrap();
    assert!(found.costs_money());
    files(&home, found.costs_money()).unwrap();
    let limits = load(&home, &crate::compose::known(), &variables).unwrap().settings.limits;
    assert_eq!(limits.cost_per_day, Money::from_dollars(10.0));
    // Every line that is written out in the file is one that acts.
    let text = std::fs::read_to_string(home.skep_yaml()).unwrap();
    std::fs::write(home.skep_yaml(), text.replace("#   steps: 50", "  steps: 7")).unwrap();
    let limits = load(&home, &crate::compose::known(), &variables).unwrap().settings.limits;
    assert_eq!((limits.steps, limits.cost_per_day), (7, Money::from_dollars(10.0)));
}

#[test]
fn what_costs_money_and_what_does_not() {
    let cases = [
        ("", false),
        ("{provider: rehearsal}", false),
        ("{provider: openai, model: m, api_url: 'http://127.0.0.1:11434/v1'}", false),
        ("{provider: openai, model: m, api_url: 'http://localhost:1234/v1'}", false),
        ("{provider: openai, model: m, api_url: 'https://example.org/v1'}", true),
        ("{provider: anthropic, model: m, api_key: key-of-a-test}", true),
        (
            "{provider: anthropic, model: m, api_key: key-of-a-test, price: {input: 0, output: 0}}",
            false,
        ),
    ];
    for (profile, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        if !profile.is_empty() {
            let text = format!("profiles:\n  default: {profile}\n");
            std::fs::write(home.providers_yaml(), text).unwrap();
        }
        let loaded = load(&home, &crate::compose::known(), &|_| None).unwrap();
        assert_eq!(loaded.costs_money(), expected, "{profile}");
    }
}
