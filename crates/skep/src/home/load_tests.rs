#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;
use skep_cli::hive::Home;
use skep_core::budget::Caps;
use skep_core::ids::AgentName;
use skep_core::money::Money;
use skep_core::policy::{ClassPolicy, Effect, Policy};
use skep_core::settings::{
    AgentSettings, AgentState, Budgets, Limits, Parallel, QueueMode, SandboxLevel, SandboxLimits,
    SandboxNetwork, SandboxSettings, Think, Timeouts,
};

use super::known_names::KnownNames;
use super::load::{LoadError, LoadedHome, load};
use super::providers::Vendor;

pub(super) struct Folder {
    home: Home,
    _kept: tempfile::TempDir,
}

impl Folder {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let kept = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = kept.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { home: Home::new(kept.path()), _kept: kept }
    }

    pub(super) fn load(&self) -> Result<LoadedHome, LoadError> {
        self.load_with(&[])
    }

    pub(super) fn load_with(&self, variables: &[(&str, &str)]) -> Result<LoadedHome, LoadError> {
        let known = KnownNames::new(&["native", "other"], &["read", "effect"]);
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        load(&self.home, &known, &find)
    }

    /// What is said about the hive's files, without the folder's changing name.
    fn told(&self, variables: &[(&str, &str)]) -> String {
        let error = self.load_with(variables).expect_err("the files are wrong");
        error.to_string().replace(&format!("{}/", self.home.root().display()), "")
    }

    /// What is said about one agent.
    fn told_of(&self, name: &str) -> String {
        let loaded = self.load().unwrap();
        match loaded.settings.agents.get(&AgentName::new(name)).unwrap() {
            AgentState::Failed { reason } => {
                reason.replace(&format!("{}/", self.home.root().display()), "")
            }
            AgentState::Active(_) => panic!("{name} is active"),
        }
    }
}

pub(super) fn agent<'a>(loaded: &'a LoadedHome, name: &str) -> &'a AgentSettings {
    match loaded.settings.agents.get(&AgentName::new(name)).unwrap() {
        AgentState::Active(settings) => settings,
        AgentState::Failed { reason } => panic!("{reason}"),
    }
}

#[test]
fn an_empty_home_has_the_documented_defaults() {
    let loaded = Folder::new(&[]).load().unwrap();
    assert_eq!(loaded.settings.limits, Limits::default());
    assert_eq!(loaded.settings.server.bind.to_string(), "127.0.0.1");
    assert_eq!(loaded.settings.server.port, 7537);
    assert!(loaded.settings.server.ws_enabled);
    assert!(loaded.settings.agents.keys().next().is_none());
    assert_eq!(loaded.connections["default"].vendor, Vendor::Rehearsal);
    assert!(loaded.settings.model_note.starts_with("rehearsal"));
}

/// A list of the agent takes the place of the usual one; what is denied there stays denied.
#[test]
fn networks_of_agents_are_laid_over_the_usual_one() {
    let folder = Folder::new(&[
        (
            "skep.yaml",
            "defaults: {network: {hosts: [h.example], deny: [d.example], \
             private: ['10.0.0.1:81']}}\n",
        ),
        ("teams/main/config.yaml", "# nothing\n"),
        (
            "teams/cto/config.yaml",
            "network: {hosts: ['*.Example.org', 'x.test:8443'], deny: [e.example, d.example]}\n",
        ),
    ]);
    let loaded = folder.load_with(&[]).unwrap();
    let network = |name: &str| serde_json::to_value(&*agent(&loaded, name).policy.network).unwrap();
    let usual = json!({"hosts": ["h.example"], "deny": ["d.example"], "private": ["10.0.0.1:81"]});
    assert_eq!(network("main"), usual);
    let own = json!({
        "hosts": ["*.example.org", "x.test:8443"],
        "deny": ["d.example", "e.example"],
        "private": ["10.0.0.1:81"],
    });
    assert_eq!(network("cto"), own);
}

const EVERY_KEY: &str = "server: {bind: '::1', port: 0, public_url: 'https://h.example/', \
    allowed_origins: ['https://Page.example:443']}\n\
    limits: {concurrent_turns: 1, turns_per_user: 14, user_storage_mib: 15, \
    user_requests_per_minute: 17, \
    turn_seconds: 2, attempts: 4, steps: 5, drain_seconds: 0, approval_hours: 6, \
    hops: 18, items_per_root: 19, task_hours: 20, \
    tool_output_bytes: 7, inbox_body_bytes: 8, requests_per_minute: 16, \
    tokens_per_day: 12, cost_per_day: 1.5, tokens_per_turn: 13, cost_per_turn: 0.5}\n\
    sessions: {idle_minutes: 9}\nretention: {events: 10m, delivered: 11h, audit: 2d}\n\
    defaults: {engine: other, profile: small, allowed_tools: [effect]}\n";

#[test]
fn every_key_acts() {
    let folder = Folder::new(&[
        ("skep.yaml", EVERY_KEY),
        (
            "providers.yaml",
            "profiles:\n  default: {provider: rehearsal}\n  small:\n    provider: anthropic\n\
             \x20   model: m-${SIZE}\n    api_key: ${KEY}\n    api_url: http://127.0.0.1:1/\n\
             \x20   max_output_tokens: 4096\n    thinking: 1024\n\
             \x20   timeouts: {connect: 1, first: 2, idle: 3}\n\
             \x20   extra_headers: {x-a: 'b ${SIZE}'}\n",
        ),
        ("channels.yaml", "ws: {enabled: false}\n"),
        ("rules/b.md", "B"),
        ("rules/a.md", "A"),
        ("rules/notes.txt", "no rule"),
        ("teams/main/config.yaml", ""),
        ("teams/main/org-rules/x.md", "X"),
        (
            "teams/cto/config.yaml",
            "name: cto\nparent: main\nmanager: true\nparallel: sessions\n\
             allowed_recipients: [main, '*']\ndescription: d\nsdk: native\nprofile: default\n\
             allowed_tools: ['@files', 'e*']\n\
             max_steps: 3\nthink: high\nqueue_mode: interrupt\nworkspace: ../../place\n\
             budgets: {cost_per_day: 2, tokens_per_day: 3, cost_per_turn: 4, \
             tokens_per_turn: 5, turn_seconds: 6, team_cost_per_day: 7, team_tokens_per_day: 8}\n",
        ),
        ("teams/README.md", "not an agent"),
        ("place/file", ""),
    ]);
    let loaded = folder.load_with(&[("SIZE", "tiny"), ("KEY", "key-of-the-test-1")]).unwrap();
    let settings = &loaded.settings;
    assert_eq!((settings.server.bind.to_string().as_str(), settings.server.port), ("::1", 0));
    assert_eq!(settings.server.public_url.as_deref(), Some("https://h.example"));
    assert_eq!(settings.server.allowed_origins, ["https://page.example"]);
    assert!(!settings.server.ws_enabled);
    let limits = Limits {
        concurrent_turns: 1,
        turns_per_user: 14,
        user_storage_bytes: 15 << 20,
        user_requests_per_minute: 17,
        turn: Duration::from_secs(2),
        attempts: 4,
        steps: 5,
        park: Duration::from_secs(600),
        engine_processes: 8,
        drain: Duration::ZERO,
        tool_output_bytes: 7,
        inbox_body_bytes: 8,
        session_idle: Duration::from_secs(540),
        approval: Duration::from_secs(6 * 3600),
        hops: 18,
        items_per_root: 19,
        task: Duration::from_secs(20 * 3600),
        requests_per_minute: 16,
        keep_events: Duration::from_secs(600),
        keep_frames: Duration::from_secs(11 * 3600),
        keep_audit: Duration::from_secs(2 * 86_400),
        tokens_per_day: Some(12),
        cost_per_day: Money::from_dollars(1.5),
        per_turn: Caps { tokens: Some(13), cost: Money::from_dollars(0.5) },
    };
    assert_eq!(settings.limits, limits);
    let rules: Vec<&str> = settings.hive_rules.iter().map(|rule| &*rule.text).collect();
    assert_eq!(rules, ["A", "B"]);
    assert_eq!(settings.agents.keys().count(), 2);
    let main = agent(&loaded, "main");
    assert_eq!((main.engine.as_str(), main.profile.name.as_str()), ("other", "small"));
    assert_eq!((main.max_steps, main.queue_mode), (5, QueueMode::Queue));
    assert_eq!(main.allowed_tools, ["effect"]);
    assert_eq!(&*main.org_rules[0].text, "X");
    assert_eq!(main.workspace, folder.home.agent("main").join("work"));
    assert_eq!(main.folder, folder.home.agent("main"));
    let profile = &main.profile;
    assert_eq!((profile.model.as_str(), profile.thinking), ("m-tiny", Some(1024)));
    assert_eq!(profile.max_output_tokens, 4096);
    let cto = agent(&loaded, "cto");
    assert_eq!((cto.parent.as_ref(), cto.manager), (Some(&AgentName::new("main")), true));
    assert_eq!((cto.parallel, main.parallel), (Parallel::Sessions, Parallel::Sessions));
    assert_eq!(cto.allowed_recipients, ["main", "*"]);
    assert_eq!(main.allowed_recipients, ["parent", "children", "siblings", "operator"]);
    assert_eq!((main.parent.as_ref(), main.manager), (None, false));
    assert_eq!((cto.engine.as_str(), cto.profile.provider.as_str()), ("native", "rehearsal"));
    assert_eq!((cto.max_steps, cto.queue_mode), (3, QueueMode::Interrupt));
    assert_eq!(cto.think, Some(Think::High));
    let caps = |tokens, cost| Caps { tokens: Some(tokens), cost: Money::from_dollars(cost) };
    let (team, turn_time) = (caps(8, 7.0), Some(Duration::from_secs(6)));
    let budgets = Budgets { day: caps(3, 2.0), turn: caps(5, 4.0), team, turn_time };
    assert_eq!((cto.budgets, main.budgets), (budgets, Budgets::default()));
    assert_eq!(cto.allowed_tools, ["read", "write", "edit", "glob", "grep", "e*"]);
    assert_eq!(cto.workspace, folder.home.root().join("place").canonicalize().unwrap());
    let connection = &loaded.connections["small"];
    assert_eq!(connection.vendor, Vendor::Anthropic);
    assert_eq!(connection.api_url, "http://127.0.0.1:1");
    assert_eq!(connection.api_key.as_ref().unwrap().expose_secret(), "key-of-the-test-1");
    assert_eq!(connection.extra_headers[0].1.expose_secret(), "b tiny");
    let seconds = Duration::from_secs;
    let timeouts = Timeouts { connect: seconds(1), first: seconds(2), idle: seconds(3) };
    assert_eq!(connection.timeouts, timeouts);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

fn check_mistakes(cases: &[(&str, &str, &str)]) {
    for (file, text, expected) in cases {
        let told = Folder::new(&[(file, text)]).told(&[]);
        assert!(told.starts_with(expected), "{text}\n   {told}\n   {expected}");
    }
}

#[test]
fn mistakes_of_skep_yaml() {
    let cases: &[(&str, &str, &str)] = &[
        ("skep.yaml", "server: {bind: here}", "skep.yaml:1:16: `server.bind`: is not an address"),
        (
            "skep.yaml",
            "server:\n  public_url: ftp://x",
            "skep.yaml:2:15: `server.public_url`: is not a web address",
        ),
        (
            "skep.yaml",
            "server: {allowed_origins: ['https://a/b']}",
            "skep.yaml:1:28: `server.allowed_origins.0`: is not an origin",
        ),
        (
            "skep.yaml",
            "defaults:\n  engine: natve\n",
            "skep.yaml:2:11: `defaults.engine`: there is no engine `natve`; expected one of \
             native, other; did you mean `native`?",
        ),
        (
            "skep.yaml",
            "defaults: {profile: defualt}",
            "skep.yaml:1:21: `defaults.profile`: there is no profile `defualt`; expected \
             `default`; did you mean `default`?",
        ),
        (
            "skep.yaml",
            "defaults:\n  allowed_tools:\n    - read\n    - raed\n",
            "skep.yaml:4:7: `defaults.allowed_tools.1`: there is no tool `raed`",
        ),
        ("skep.yaml", "server:\n  port: 1\nserver:\n", "skep.yaml:3:1: `server`: stands twice"),
        ("skep.yaml", "a: b: c\n", "skep.yaml:1:1: `a`: unknown key"),
        ("skep.yaml", "server: {port: 1\n", "skep.yaml:"),
        ("skep.yaml", "server:\n\tport: 1\n", "skep.yaml:2:2: is not valid YAML"),
        ("skep.yaml", "server: {}\n---\nserver: {}\n", "skep.yaml:"),
        ("skep.yaml", "- a\n", "skep.yaml:1:1: wrong value; expected a mapping with the keys"),
        ("skep.yaml", "server: *a\n", "skep.yaml:1:9: an alias names no anchor"),
        (
            "skep.yaml",
            "server: {bind: '${NOPE}'}\n",
            "skep.yaml:1:16: `server.bind`: the environment \
            variable NOPE is not set; expected NOPE in the environment of `skep up`",
        ),
        (
            "skep.yaml",
            "server: {bind: '${NO'}\n",
            "skep.yaml:1:16: `server.bind`: `${` is not closed",
        ),
    ];
    check_mistakes(cases);
}

#[test]
fn mistakes_of_providers_and_channels() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "providers.yaml",
            "profiles:\n  big:\n    provider: rehearsal\n",
            "providers.yaml:1:1: `profiles`: there is no profile `default`",
        ),
        (
            "providers.yaml",
            "profiles:\n  default:\n    provider: antropic\n",
            "providers.yaml:3:15: `profiles.default.provider`: `antropic` is not known here; \
             expected one of anthropic, openai, openai-responses, ollama, rehearsal; did you mean \
             `anthropic`?",
        ),
        (
            "providers.yaml",
            "profiles:\n  default:\n    model: m\n",
            "providers.yaml:3:5: `profiles.default.provider`: the key `provider` is missing",
        ),
        (
            "providers.yaml",
            "profiles:\n  default: {provider: anthropic, model: m}\n",
            "providers.yaml:2:3: `profiles.default`: the key `api_key` is missing; expected for \
             instance `api_key: ${ANTHROPIC_API_KEY}`",
        ),
        (
            "providers.yaml",
            "profiles:\n  default: {provider: openai, model: m}\n",
            "providers.yaml:2:3: `profiles.default`: the key `api_key` is missing; expected for \
             instance `api_key: ${OPENAI_API_KEY}`",
        ),
        (
            "providers.yaml",
            "profiles:\n  My Profile: {provider: rehearsal}\n",
            "providers.yaml:2:3: `profiles.My Profile`: is not a profile name",
        ),
        (
            "providers.yaml",
            "profiles:\n  default: {provider: rehearsal, thinking: 9000}\n",
            "providers.yaml:2:34: `profiles.default.thinking`: leaves no room for an answer",
        ),
        (
            "providers.yaml",
            "profiles:\n  default: {provider: rehearsal, extra_headers: {'a b': c}}\n",
            "providers.yaml:2:50: `profiles.default.extra_headers.a b`: is not a header name",
        ),
        (
            "providers.yaml",
            "profiles:\n  a: &a {provider: rehearsal}\n  default: {<<: *a}\n",
            "providers.yaml:3:13: merge keys (`<<`) are not supported",
        ),
        (
            "channels.yaml",
            "discord: {}\n",
            "channels.yaml:1:1: `discord`: unknown key; expected `ws`",
        ),
    ];
    check_mistakes(cases);
}

#[test]
fn each_broken_file_is_told_once() {
    let folder = Folder::new(&[
        ("skep.yaml", "a: 1\nb: 2\n"),
        ("providers.yaml", "c: 3\n"),
        ("channels.yaml", "d: 4\n"),
    ]);
    let error = folder.load().unwrap_err();
    let files: Vec<_> = error.mistakes.iter().map(|p| p.file.file_name().unwrap()).collect();
    assert_eq!(files, ["providers.yaml", "skep.yaml", "channels.yaml"]);
}

#[test]
fn a_network_that_walls_would_bound_needs_walls() {
    let host = "defaults:\n  sandbox:\n    level: host\n";
    let why = |hive: &str, agent: &str| {
        let folder = Folder::new(&[("skep.yaml", hive), ("teams/main/config.yaml", agent)]);
        match folder.load() {
            Err(error) => error.to_string(),
            Ok(loaded) => match loaded.settings.agents.get(&AgentName::new("main")).unwrap() {
                AgentState::Failed { reason } => reason.clone(),
                AgentState::Active(_) => String::new(),
            },
        }
    };
    for (hive, agent, place) in [
        ("", "sandbox:\n  level: host\n  network: proxy\n", "config.yaml:3:"),
        (host, "sandbox:\n  network: none\n", "config.yaml:2:"),
        (&*format!("{host}    network: none\n"), "", "skep.yaml:4:"),
    ] {
        let said = why(hive, agent);
        assert!(said.contains(place) && said.contains("sandbox.network`: has no effect"), "{said}");
    }
    assert_eq!(why(host, "sandbox: {network: full}\n"), "");
    assert_eq!(why("defaults: {sandbox: {network: none}}\n", "sandbox: {level: host}\n"), "");
}

#[test]
fn sandbox_and_policy_act_and_an_agent_changes_what_it_writes() {
    let folder = Folder::new(&[
        (
            "skep.yaml",
            "limits: {disk_floor_mib: 3}\n\
             defaults:\n  sandbox: {level: host, network: full, \
             limits: {cpu_seconds: 12, memory_mib: 16}}\n\
             \x20 policy: {read: ask, write: deny, run: allow, reach: allow, shape: deny}\n",
        ),
        ("teams/main/config.yaml", ""),
        (
            "teams/cto/config.yaml",
            "sandbox: {level: confined, network: none, workspace_mib: 5, \
             limits: {memory_mib: 32, processes: 9, disk_mib: 1}}\n",
        ),
    ]);
    let loaded = folder.load().unwrap();
    let (main, cto) = (agent(&loaded, "main"), agent(&loaded, "cto"));
    let limits = SandboxLimits {
        cpu: Some(Duration::from_secs(12)),
        memory_bytes: Some(16 << 20),
        disk_floor_bytes: Some(3 << 20),
        ..SandboxLimits::default()
    };
    let network = SandboxNetwork::Full;
    assert_eq!(main.sandbox, SandboxSettings { level: SandboxLevel::Host, network, limits });
    let limits = SandboxLimits {
        memory_bytes: Some(32 << 20),
        processes: Some(9),
        disk_bytes: Some(1 << 20),
        workspace_bytes: Some(5 << 20),
        ..limits
    };
    let network = SandboxNetwork::None;
    assert_eq!(cto.sandbox, SandboxSettings { level: SandboxLevel::Confined, network, limits });
    let policy = ClassPolicy {
        read: Effect::Ask,
        write: Effect::Deny,
        run: Some(Effect::Allow),
        reach: Effect::Allow,
        shape: Effect::Deny,
    };
    let policy = Policy { classes: policy, ..Policy::default() };
    assert_eq!((&main.policy, &cto.policy), (&policy, &policy));
}

#[test]
fn a_broken_agent_is_disabled_alone() {
    let long = format!("teams/{}/config.yaml", "x".repeat(65));
    let folder = Folder::new(&[
        ("teams/main/config.yaml", "allowed_tools: [read]\n"),
        ("teams/typo/config.yaml", "allowed_tool: [read]\n"),
        ("teams/lost/config.yaml", "profile: big\n"),
        ("teams/both/config.yaml", "engine: native\nsdk: native\n"),
        ("teams/named/config.yaml", "name: other\n"),
        ("teams/Big/config.yaml", ""),
        (&long, ""),
        ("teams/bare/work/file", ""),
        ("teams/spy/config.yaml", "workspace: ../..\n"),
        ("teams/mole/config.yaml", "workspace: ../../run/logs\n"),
        ("teams/rat/config.yaml", "workspace: ..\n"),
        ("teams/self/config.yaml", "workspace: .\n"),
        ("teams/rules/config.yaml", "workspace: org-rules\n"),
        ("teams/rules/org-rules/a.md", ""),
        ("teams/gone/config.yaml", "workspace: nowhere\n"),
        ("teams/preset/config.yaml", "allowed_tools: ['@file']\n"),
        ("run/logs/x", ""),
        ("teams/.hidden/config.yaml", "nonsense: 1\n"),
        ("teams/orphan/config.yaml", "parent: mian\n"),
        ("teams/child/config.yaml", "parent: main\n"),
    ]);
    let loaded = folder.load().unwrap();
    agent(&loaded, "main");
    assert_eq!(loaded.settings.agents.keys().count(), 17);
    assert_eq!(agent(&loaded, "child").parallel, Parallel::One);
    let cases = [
        ("typo", "teams/typo/config.yaml:1:1: `allowed_tool`: unknown key"),
        ("lost", "teams/lost/config.yaml:1:10: `profile`: there is no profile `big`"),
        ("both", "teams/both/config.yaml:2:6: `sdk`: is another word for `engine`"),
        ("named", "teams/named/config.yaml:1:7: `name`: `other` is not the name of the folder"),
        ("Big", "teams/Big: the folder's name cannot be an agent's name"),
        ("bare", "teams/bare/config.yaml: is missing"),
        ("spy", "teams/spy/config.yaml:1:12: `workspace`: would show the agent"),
        ("mole", "teams/mole/config.yaml:1:12: `workspace`: would show the agent"),
        ("rat", "teams/rat/config.yaml:1:12: `workspace`: would show the agent"),
        ("self", "teams/self/config.yaml:1:12: `workspace`: would show the agent"),
        ("rules", "teams/rules/config.yaml:1:12: `workspace`: would show the agent"),
        (
            "preset",
            "teams/preset/config.yaml:1:17: `allowed_tools.0`: there is no preset `@file`; \
             expected one of @files, @org, @skills, @subagents, @vault, @messages; \
             did you mean `@files`?",
        ),
        ("orphan", "teams/orphan/config.yaml:1:9: `parent`: there is no agent `mian`; "),
        ("gone", "teams/gone/config.yaml:1:12: `workspace`: "),
    ];
    for (name, expected) in cases {
        let told = folder.told_of(name);
        assert!(told.starts_with(expected), "{told}\n{expected}");
    }
}

#[test]
fn tools_left_empty_mean_none_not_the_default() {
    let folder = Folder::new(&[
        ("skep.yaml", "defaults: {allowed_tools: [read]}\n"),
        ("teams/a/config.yaml", "allowed_tools:\n"),
        ("teams/b/config.yaml", "allowed_tools: []\n"),
        ("teams/c/config.yaml", "description: inherits\n"),
    ]);
    let loaded = folder.load().unwrap();
    assert!(agent(&loaded, "a").allowed_tools.is_empty());
    assert!(agent(&loaded, "b").allowed_tools.is_empty());
    assert_eq!(agent(&loaded, "c").allowed_tools, ["read"]);
}

#[test]
fn odd_files_are_refused_and_never_waited_for() {
    let folder = Folder::new(&[("teams/main/config.yaml", "")]);
    let skep = folder.home.skep_yaml();
    type Make<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Make<'_>); 4] = [
        ("skep.yaml: is a folder", &|path| std::fs::create_dir(path).unwrap()),
        ("skep.yaml: is a link, and links are not followed", &|path| {
            std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        }),
        ("skep.yaml: is too large; expected at most 1024 KiB", &|path| {
            std::fs::write(path, vec![b'#'; (1 << 20) + 1]).unwrap();
        }),
        ("skep.yaml:2:3: is not UTF-8", &|path| std::fs::write(path, b"# ok\n# \xff\n").unwrap()),
    ];
    for (expected, make) in cases {
        make(&skep);
        let told = folder.told(&[]);
        assert!(told.starts_with(expected), "{told}");
        let removed = std::fs::remove_file(&skep).or_else(|_| std::fs::remove_dir(&skep));
        removed.unwrap();
    }
    let _listener = std::os::unix::net::UnixListener::bind(&skep).unwrap();
    assert!(folder.told(&[]).starts_with("skep.yaml: is not a regular file"));
}

#[test]
fn a_yaml_bomb_is_small() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e"), ("g", "f")] {
        let nine = format!("*{before}, ").repeat(9);
        text.push_str(&format!("{name}: &{name} [{nine}]\n"));
    }
    let deep = format!("server: {}", "[".repeat(2000));
    let blocks = format!("defaults:\n  allowed_tools: {}\n", "- ".repeat(50_000));
    let tools = format!("defaults:\n  allowed_tools: [{}]\n", "read, ".repeat(60_000));
    for text in [text, deep, blocks, tools] {
        let told = Folder::new(&[("skep.yaml", &text)]).told(&[]);
        assert!(told.starts_with("skep.yaml:"), "{told}");
        assert!(told.len() < 1000, "{told}");
    }
}

#[test]
fn a_rule_too_long_disables_its_agent_or_stops_the_hive() {
    let long = "r".repeat((64 << 10) + 1);
    let folder =
        Folder::new(&[("teams/main/config.yaml", ""), ("teams/main/team-rules/long.md", &long)]);
    assert!(folder.told_of("main").starts_with("teams/main/team-rules/long.md: is too large"));
    let folder = Folder::new(&[("rules/long.md", &long)]);
    assert!(folder.told(&[]).starts_with("rules/long.md: is too large; expected at most 64 KiB"));
}

#[test]
fn fallbacks_are_chained_and_wrong_ones_are_found() {
    let file = |chains: &[(&str, &str)]| {
        let profiles = chains.iter().map(|(name, fallback)| {
            format!("  {name}:\n    provider: rehearsal\n    fallback: [{fallback}]\n")
        });
        format!("profiles:\n{}", profiles.collect::<String>())
    };
    let text = file(&[("default", "b, c"), ("b", "d"), ("c", "d, e"), ("d", ""), ("e", "")]);
    let folder = Folder::new(&[("providers.yaml", &text), ("teams/main/config.yaml", "")]);
    let loaded = folder.load().unwrap();
    let chain: Vec<String> =
        agent(&loaded, "main").profile.fallback.iter().map(|other| other.name.clone()).collect();
    assert_eq!(chain, ["b", "c", "d", "e"], "its own first, then those of these, each once");
    let wrong = [
        (
            file(&[("default", "backup"), ("bakcup", "")]),
            "providers.yaml:4:16: `profiles.default.fallback.0`: there is no profile `backup`; \
             expected one of bakcup, default; did you mean `bakcup`?",
        ),
        (
            file(&[("default", "default")]),
            "providers.yaml:4:16: `profiles.default.fallback.0`: `default` cannot stand in for \
             itself; expected another profile",
        ),
        (
            file(&[("a", "b"), ("b", "c"), ("c", "a"), ("default", "")]),
            "providers.yaml:4:16: `profiles.a.fallback.0`: `b` leads back to `a`; expected a \
             chain of profiles that has an end",
        ),
    ];
    for (text, expected) in wrong {
        assert_eq!(Folder::new(&[("providers.yaml", &text)]).told(&[]), expected);
    }
}
