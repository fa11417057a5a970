#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher as _};
use skep_core::ids::NodeName;
use skep_core::policy::Effect;
use skep_core::retry::RetryPolicy;
use skep_engine::{NativeEngine, Timing};
use skep_runtime::door::Sight;
use skep_runtime::{Offer, Parts};
use tempfile::TempDir;

use super::*;
use crate::compose;
use crate::home::load;

struct Lab {
    _folder: TempDir,
    home: Home,
    hive: Hive,
    applier: Arc<Applier>,
}

impl Lab {
    /// A hive with agents `a0` and so on, and nobody who watches its files.
    async fn new(agents: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        fs::create_dir_all(home.run()).unwrap();
        for number in 0..agents {
            let agent = home.agent(&format!("a{number}"));
            fs::create_dir_all(&agent).unwrap();
            fs::write(agent.join("config.yaml"), "description: as it was\n").unwrap();
        }
        let mut loaded = load(&home, &compose::known(), &|_| None).unwrap();
        let mut vendors = Vendors::default();
        let vault = Arc::new(Vault::open(home.root(), &|_| None));
        let parts = Parts {
            run: home.run(),
            node: NodeName::new("main"),
            accept_loss: None,
            settings: Box::new(|_| {
                vendors.furnish(&mut loaded.settings, &loaded.connections, &vault);
                loaded.settings.clone()
            }),
            engines: vec![Arc::new(NativeEngine::new(Timing::default()))],
            built_in: Offer::default(),
            retry: RetryPolicy::default(),
            buckets: Arc::default(),
            vault: Arc::clone(&vault),
            version: "test",
        };
        let hive = Hive::open(parts).await.unwrap().0;
        let applier = Applier::new(&home, &hive, vendors, vault, loaded);
        Self { _folder: folder, home, hive, applier }
    }

    fn write(&self, agent: &str, text: &str) {
        fs::create_dir_all(self.home.agent(agent)).unwrap();
        fs::write(self.home.agent(agent).join("config.yaml"), text).unwrap();
    }

    async fn apply(&self, agent: &str) {
        self.applier.apply_agent(&AgentName::new(agent)).await.unwrap();
    }

    fn described(&self, agent: &str) -> Option<String> {
        match self.hive.settings().agents.get(&AgentName::new(agent))? {
            AgentState::Active(agent) => Some(agent.description.clone()),
            AgentState::Failed { reason } => Some(format!("failed: {reason}")),
        }
    }

    /// The agents that have a row and settings.
    async fn names(&self) -> Vec<String> {
        let agents = self.hive.agents(&Sight::All).await.unwrap();
        agents.into_iter().map(|agent| agent.name.0).collect()
    }

    /// The files that are opened while one changed agent is put in force.
    async fn opened(&self, round: usize) -> BTreeSet<PathBuf> {
        let (sender, events) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).unwrap();
        self.write("a1", &format!("description: round {round}\n"));
        watcher.watch(&self.home.teams(), RecursiveMode::Recursive).unwrap();
        self.apply("a1").await;
        fs::write(self.home.teams().join("end"), "").unwrap();
        let mut opened = BTreeSet::new();
        loop {
            let event = events.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
            if event.paths.iter().any(|path| path.ends_with("end")) {
                return opened;
            }
            if event.kind == EventKind::Access(AccessKind::Open(AccessMode::Any)) {
                let teams = self.home.teams();
                let files = event.paths.iter().filter(|path| path.is_file());
                opened.extend(files.map(|path| path.strip_prefix(&teams).unwrap().to_path_buf()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_agent_among_a_thousand_costs_what_it_costs_among_ten() {
    let mut took = BTreeMap::new();
    for agents in [10, 1000] {
        let lab = Lab::new(agents).await;
        assert_eq!(lab.opened(0).await, BTreeSet::from(["a1/config.yaml".into()]), "{agents}");
        let mut times: Vec<Duration> = Vec::new();
        for round in 1..=21 {
            lab.write("a1", &format!("description: round {round}\n"));
            let before = lab.hive.settings();
            let began = Instant::now();
            lab.apply("a1").await;
            times.push(began.elapsed());
            assert_eq!(lab.described("a1"), Some(format!("round {round}")));
            // Entries that both share lie at the same place.
            let after = lab.hive.settings();
            let at = |state: &AgentState| std::ptr::from_ref(state);
            let copied = before
                .agents
                .iter()
                .filter(|(name, state)| after.agents.get(name).map(at) != Some(at(state)));
            assert!(copied.count() <= 32, "of {agents} agents");
        }
        times.sort();
        took.insert(agents, times[10]);
    }
    println!("applying one agent, median: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_put_in_force_alone_when_it_comes_changes_breaks_and_goes() {
    let lab = Lab::new(3).await;
    // Nobody looks at what is wrong elsewhere.
    lab.write("a2", "no: such key\n");
    lab.write("new", "description: came\n");
    lab.apply("new").await;
    assert_eq!(lab.described("new").as_deref(), Some("came"));
    assert!(lab.home.agent("new").join("work").is_dir());
    assert!(lab.names().await.contains(&"new".to_owned()), "it has its row");
    assert_eq!(lab.hive.config().problems, []);
    lab.write("new", "description: [\n");
    lab.apply("new").await;
    assert_eq!(lab.described("new").as_deref(), Some("came"), "the version before goes on");
    assert_eq!(lab.hive.config().problems.len(), 1);
    let rules = "policy:\n  - {effect: deny, tool: bash}\n";
    lab.write("new", &format!("description: mended\n{rules}"));
    lab.apply("new").await;
    let settings = lab.hive.settings();
    let agent = settings.agent(&AgentName::new("new")).unwrap();
    assert_eq!(agent.policy.rules[0].effect, Effect::Deny);
    assert_eq!(lab.hive.config().problems, []);
    fs::remove_dir_all(lab.home.agent("new")).unwrap();
    lab.apply("new").await;
    assert_eq!(lab.described("new"), None);
    assert_eq!(lab.names().await, ["a0", "a1", "a2"]);
    assert_eq!(lab.described("a2").as_deref(), Some("as it was"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_above_is_denied_below_and_a_circle_stops_its_agents() {
    let lab = Lab::new(3).await;
    let rules = |agent: &str| {
        let agent = lab.hive.settings().agent(&AgentName::new(agent));
        agent.map(|agent| agent.policy.all_rules().count())
    };
    lab.write("a1", "parent: a0\nallowed_tools: ['*']\n");
    lab.apply("a1").await;
    lab.write("a2", "parent: a1\nallowed_tools: [bash]\n");
    lab.apply("a2").await;
    assert_eq!(rules("a2"), Ok(0));
    lab.write("a0", "allowed_tools: [bash]\npolicy:\n  - {effect: deny, tool: bash}\n");
    lab.apply("a0").await;
    assert_eq!((rules("a1"), rules("a2")), (Ok(1), Ok(1)), "the files of neither changed");
    assert_eq!(lab.hive.config().problems, []);
    // Its own file says so still, and what is kept of it is kept as it was written.
    lab.write("a2", "description: [\n");
    lab.apply("a2").await;
    assert_eq!(rules("a2"), Ok(1));
    lab.write("a2", "parent: a1\n");
    lab.write("a0", "parent: a2\n");
    lab.apply("a2").await;
    lab.apply("a0").await;
    let circle = "`parent` leads back to the agent itself: a1 → a0 → a2 → a1";
    assert!(rules("a1").unwrap_err().starts_with(circle));
    let told: Vec<String> = lab.hive.config().problems.iter().map(|it| it.text.clone()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].contains("teams/a1/config.yaml") && told[1].contains(circle), "{told:?}");
    lab.write("a0", "description: a root\n");
    lab.apply("a0").await;
    assert_eq!((rules("a1"), rules("a2")), (Ok(0), Ok(0)), "mended by one of them");
    fs::remove_dir_all(lab.home.agent("a0")).unwrap();
    lab.apply("a0").await;
    assert_eq!(rules("a1").unwrap_err(), "`parent`: there is no agent `a0`");
    let agents = lab.hive.agents(&Sight::All).await.unwrap();
    let tree = agents.iter().map(|it| (it.name.as_str(), it.parent.as_ref(), it.status));
    let none = None::<&AgentName>;
    let under = AgentName::new("a1");
    let expected = [("a1", none, "failed"), ("a2", Some(&under), "failed")];
    assert_eq!(tree.collect::<Vec<_>>(), expected);
}

/// A reading of the watcher that began before a rule was written does not take it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_reading_is_not_put_in_force_over_a_later_one() {
    let lab = Lab::new(2).await;
    lab.write("a0", "description: first\n");
    let reading = lab.applier.read(&ReadScope::Home).await;
    lab.write("a0", "description: second\n");
    lab.apply("a0").await;
    assert!(!lab.applier.install(reading, None).await.unwrap());
    assert_eq!(lab.described("a0").as_deref(), Some("second"));
    let reading = lab.applier.read(&ReadScope::Home).await;
    assert!(lab.applier.install(reading, None).await.unwrap());
    assert_eq!(lab.described("a0").as_deref(), Some("second"));
}

/// A file that is emptied mends nothing: what was denied because its policy could not be read stays
/// denied.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_file_does_not_bring_an_older_policy_back() {
    let lab = Lab::new(2).await;
    let broken = |name: &str| {
        let agent = lab.hive.settings().agent(&AgentName::new(name)).unwrap();
        agent.policy.broken.is_some()
    };
    let told = async |name: &str| {
        let agents = lab.hive.agents(&Sight::All).await.unwrap();
        agents.into_iter().find(|agent| agent.name.as_str() == name).unwrap().policy_error
    };
    let read = async || {
        let reading = lab.applier.read(&ReadScope::Home).await;
        assert!(lab.applier.install(reading, None).await.unwrap());
    };
    let policy = |effect: &str| format!("policy:\n  - {{effect: {effect}, tool: bash}}\n");
    for alone in [true, false] {
        for (text, expected) in [
            (policy("allow"), false),
            (String::new(), false),
            (policy("denny"), true),
            (String::new(), true),
            ("  \n\n".to_owned(), true),
            ("# nothing\n".to_owned(), false),
            ("network:\n  deny: [\"a b\"]\n".to_owned(), true),
            ("# nothing\n".to_owned(), false),
        ] {
            lab.write("a0", &text);
            if alone {
                lab.apply("a0").await
            } else {
                read().await
            }
            assert_eq!(broken("a0"), expected, "{alone} {text:?}");
            assert!(!broken("a1"), "{alone} {text:?}");
            let place = told("a0").await.is_some_and(|why| why.contains("a0/config.yaml:2"));
            assert_eq!((place, told("a1").await), (expected, None), "{alone} {text:?}");
        }
    }
    let hive = |effect: &str| format!("defaults: {{policy: {{run: {effect}}}}}\n");
    for (text, expected) in [
        (Some(hive("allow")), false),
        (Some(String::new()), false),
        (Some(hive("nonsense")), true),
        (Some(String::new()), true),
        (None, true),
        (Some("limits: {stepz: 3}\n".to_owned()), false),
        (Some(hive("nonsense")), true),
        (None, true),
        (Some(hive("deny")), false),
        (Some("defaults: {network: {hosts: ['https://h']}}\n".to_owned()), true),
        (Some("defaults: {network: {hosts: [h]}}\n".to_owned()), false),
    ] {
        match &text {
            Some(text) => fs::write(lab.home.skep_yaml(), text).unwrap(),
            None => fs::remove_file(lab.home.skep_yaml()).unwrap(),
        }
        read().await;
        assert_eq!((broken("a0"), broken("a1")), (expected, expected), "{text:?}");
    }
}

/// While the hive's own policy cannot be read, an agent alone does not lift what it denies.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_alone_does_not_lift_the_denial_of_a_broken_hive() {
    let lab = Lab::new(2).await;
    fs::write(lab.home.skep_yaml(), "defaults: {policy: {run: nonsense}}\n").unwrap();
    let reading = lab.applier.read(&ReadScope::Home).await;
    assert!(lab.applier.install(reading, None).await.unwrap());
    let broken = || {
        let agent = lab.hive.settings().agent(&AgentName::new("a0")).unwrap();
        agent.policy.broken.is_some()
    };
    assert!(broken());
    lab.write("a0", "description: other\n");
    lab.apply("a0").await;
    assert!(broken());
    assert_eq!(lab.described("a0").as_deref(), Some("as it was"));
    fs::write(lab.home.skep_yaml(), "{}\n").unwrap();
    lab.apply("a0").await;
    assert!(!broken());
    assert_eq!(lab.described("a0").as_deref(), Some("other"));
}
