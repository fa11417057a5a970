//! What the tree makes of what is written for each agent.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skep_shell::plain;

use super::tree::AgentTree;
use super::{
    AgentMap, AgentSettings, AgentState, Budgets, KnownModels, Profile, QueueMode, RuleFile,
    RuleTier, SandboxLevel, SandboxNetwork, SandboxSettings, Subagent,
};
use crate::policy::evaluate::{PolicyQuery, Verdict};
use crate::policy::network::NetworkRules;
use crate::policy::pattern::{CommandPattern, PathPattern};
use crate::policy::rule::{GrantTo, PathFact, Piece, Rule, Who};
use crate::policy::{Class, Effect, Policy};
use crate::vocab::ids::{AgentName, Principal};
use crate::vocab::role::Role;

fn rule_file(tier: RuleTier, text: &str) -> RuleFile {
    RuleFile { tier, file: "a.md".into(), text: text.into() }
}

fn agent(name: &str, parent: &str) -> AgentSettings {
    let profile = Profile {
        name: "default".into(),
        provider: "rehearsal".into(),
        model: "rehearsal".into(),
        max_output_tokens: 1024,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: None,
        price: None,
        sees_images: false,
        known: KnownModels::NONE,
    };
    AgentSettings {
        name: AgentName::new(name),
        parent: (!parent.is_empty()).then(|| AgentName::new(parent)),
        description: String::new(),
        manager: true,
        parallel: Default::default(),
        allowed_recipients: Vec::new(),
        engine: "native".into(),
        engine_options: Default::default(),
        profile: Arc::new(profile),
        think: None,
        allowed_tools: vec!["*".to_owned()],
        max_steps: 50,
        budgets: Budgets::default(),
        queue_mode: QueueMode::Queue,
        workspace: format!("/hive/teams/{name}/work").into(),
        folder: format!("/hive/teams/{name}").into(),
        sandbox: SandboxSettings::default(),
        policy: Policy::default(),
        org_rules: vec![rule_file(RuleTier::OwnOrg, &format!("of {name}"))],
        team_rules: Vec::new(),
        skills: Arc::default(),
        subagents: Arc::default(),
        role: None,
        left_out: Arc::default(),
    }
}

fn active(agent: AgentSettings) -> AgentState {
    AgentState::Active(Arc::new(agent))
}

fn map(agents: Vec<AgentSettings>) -> AgentMap<AgentState> {
    agents.into_iter().map(|agent| (agent.name.clone(), active(agent))).collect()
}

fn of(tree: &AgentTree, name: &str) -> Arc<AgentSettings> {
    match tree.in_force().get(&AgentName::new(name)).unwrap() {
        AgentState::Active(agent) => Arc::clone(agent),
        AgentState::Failed { reason } => panic!("{name}: {reason}"),
    }
}

fn reason(tree: &AgentTree, name: &str) -> String {
    match tree.in_force().get(&AgentName::new(name)).unwrap() {
        AgentState::Active(_) => panic!("{name} runs"),
        AgentState::Failed { reason } => reason.clone(),
    }
}

/// `deny bash`, `allow bash $ git`, `ask write / src/**`.
fn rule(text: &str, place: &str) -> Rule {
    let words: Vec<&str> = text.splitn(4, ' ').collect();
    let condition = |sign: &str| (words.get(2) == Some(&sign)).then(|| words[3]);
    Rule {
        effect: Effect::parse(words[0]).unwrap(),
        tool: words[1].to_owned(),
        path: condition("/").map(|path| PathPattern::parse(path).unwrap()),
        command: condition("$").map(|command| CommandPattern::parse(command).unwrap()),
        host: None,
        grants: Vec::new(),
        approvers: Vec::new(),
        place: place.to_owned(),
    }
}

fn ruled(name: &str, parent: &str, rules: &[&str]) -> AgentSettings {
    let place = format!("teams/{name}/config.yaml:1");
    let rules = rules.iter().map(|text| rule(text, &place)).collect();
    AgentSettings { policy: Policy { rules, ..Policy::default() }, ..agent(name, parent) }
}

fn decide(agent: &AgentSettings, tool: &str, piece: Piece) -> Verdict {
    let class = match tool {
        "bash" => Class::Run,
        "write" => Class::Write,
        _ => Class::Read,
    };
    let who =
        [Who { principal: Principal::new("operator"), role: Some(Role::Operator), name: None }];
    let pieces = match &piece {
        Piece::Whole => vec![piece],
        other => vec![other.clone()],
    };
    let level = agent.sandbox.level;
    agent.policy.decide(&PolicyQuery { tool, class, level, pieces: &pieces, who: &who }, &[])
}

fn command(text: &str) -> Piece {
    Piece::Command(plain::line(text).0.remove(0))
}

fn file(path: &str) -> Piece {
    Piece::Path(PathFact::File(path.to_owned()))
}

#[test]
fn tools_walls_network_and_the_rank_of_a_manager_are_those_of_both() {
    let network = |hosts: &str, deny: &str, private: &str| -> Arc<NetworkRules> {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rules = serde_json::json!({
            "hosts": list(hosts), "deny": list(deny), "private": list(private)
        });
        Arc::new(serde_json::from_value(rules).unwrap())
    };
    let mut main = agent("main", "");
    main.allowed_tools = vec!["read".into(), "bash".into(), "vault_*".into()];
    main.policy.network =
        network("docs.rs *.example.org *:8443", "bad.example.org", "10.0.0.1 10.0.0.2:90");
    main.sandbox.network = SandboxNetwork::Proxy;
    let mut team = agent("team", "main");
    team.allowed_tools = vec!["read".into(), "write".into(), "vault_get".into()];
    team.policy.network = network(
        "docs.rs crates.io api.example.org:443 a.net:8443 *",
        "other.org",
        "10.0.0.1 10.0.0.2 10.0.0.3",
    );
    team.sandbox = SandboxSettings {
        level: SandboxLevel::Host,
        network: SandboxNetwork::Full,
        ..SandboxSettings::default()
    };
    let mut low = agent("low", "team");
    low.manager = false;
    let tree = AgentTree::new(&[], map(vec![low, team, main.clone()]));
    assert_eq!(*of(&tree, "main"), main, "nobody is above it");
    let team = of(&tree, "team");
    assert_eq!(team.allowed_tools, ["read", "vault_get"]);
    let walls = (team.sandbox.level, team.sandbox.network);
    assert_eq!(walls, (SandboxLevel::Confined, SandboxNetwork::Proxy));
    assert_eq!(
        *team.policy.network,
        *network(
            "docs.rs api.example.org:443 a.net:8443 *.example.org",
            "other.org bad.example.org",
            "10.0.0.1"
        )
    );
    assert!(team.manager);
    let low = of(&tree, "low");
    assert_eq!((low.manager, &low.allowed_tools), (false, &team.allowed_tools));
    assert_eq!(
        *low.policy.network,
        NetworkRules { hosts: vec![], private: vec![], ..(*team.policy.network).clone() }
    );
    let above = |name| RuleTier::Above(AgentName::new(name));
    let rules = [
        rule_file(above("main"), "of main"),
        rule_file(above("team"), "of team"),
        rule_file(RuleTier::OwnOrg, "of low"),
    ];
    assert_eq!(low.org_rules, rules);
    for widened in [SandboxNetwork::None, SandboxNetwork::Proxy, SandboxNetwork::Full] {
        let mut main = agent("main", "");
        main.sandbox.level = SandboxLevel::Host;
        let mut team = agent("team", "main");
        team.sandbox.network = widened;
        let tree = AgentTree::new(&[], map(vec![main, team]));
        assert_eq!(of(&tree, "team").sandbox.network, widened, "above it there are no walls");
    }
}

#[test]
fn the_strictest_rule_of_all_above_decides() {
    let git = "git log";
    // Rules of main, of team and of low; what becomes of a call of low.
    type Case<'c> = (&'c [&'c str], &'c [&'c str], &'c [&'c str], &'c str, Piece, Effect);
    let cases: &[Case<'_>] = &[
        (&[], &[], &[], "bash", command(git), Effect::Allow),
        (&["deny bash"], &[], &["allow bash $ git log"], "bash", command(git), Effect::Deny),
        (&["deny b*"], &[], &["allow bash"], "bash", command(git), Effect::Deny),
        (&[], &["deny bash $ git"], &["allow bash"], "bash", command(git), Effect::Deny),
        (&[], &["deny bash $ git"], &["allow bash"], "bash", command("ls"), Effect::Allow),
        (&["ask bash"], &[], &["allow bash $ git log"], "bash", command(git), Effect::Ask),
        (&[], &["ask bash"], &["deny bash"], "bash", command(git), Effect::Deny),
        (&["ask bash"], &["deny bash"], &["allow bash"], "bash", command(git), Effect::Deny),
        // What an agent above may without being asked, it does not ask about below.
        (&["ask bash", "allow bash $ git"], &[], &[], "bash", command(git), Effect::Allow),
        (&["ask bash", "allow bash $ git"], &[], &[], "bash", command("ls"), Effect::Ask),
        // An `allow` gives nobody below anything.
        (&["allow write"], &["allow write"], &["ask write"], "write", file("a"), Effect::Ask),
        (&["allow write"], &[], &["deny write"], "write", file("a"), Effect::Deny),
        // Paths: in the workspace of each of them.
        (&["deny write / keys/**"], &[], &["allow write"], "write", file("keys/a"), Effect::Deny),
        (
            &["deny write / keys/**"],
            &[],
            &[],
            "write",
            file("/hive/teams/main/work/keys/a"),
            Effect::Deny,
        ),
        (
            &["deny write / keys/**"],
            &[],
            &[],
            "write",
            file("/hive/teams/team/work/keys/a"),
            Effect::Deny,
        ),
        (
            &["deny write / /hive/teams/low/work/keys/**"],
            &[],
            &[],
            "write",
            file("keys/a"),
            Effect::Deny,
        ),
        (&["deny write / keys/**"], &[], &[], "write", file("src/a"), Effect::Allow),
    ];
    for (main, team, low, tool, piece, effect) in cases {
        let agents =
            vec![ruled("main", "", main), ruled("team", "main", team), ruled("low", "team", low)];
        let tree = AgentTree::new(&[], map(agents));
        let verdict = decide(&of(&tree, "low"), tool, piece.clone());
        assert_eq!(verdict.effect, *effect, "{main:?} {team:?} {low:?} {piece:?}: {}", verdict.why);
    }
}

#[test]
fn who_may_answer_is_on_the_list_of_each_that_asks() {
    let mut main = ruled("main", "", &["ask bash"]);
    main.policy.rules[0].approvers = vec![GrantTo::User("anna".to_owned())];
    let mut team = ruled("team", "main", &["ask bash"]);
    team.policy.rules[0].approvers = vec![GrantTo::Role(Role::User)];
    let tree = AgentTree::new(&[], map(vec![main, team]));
    let verdict = decide(&of(&tree, "team"), "bash", command("ls"));
    let lists = serde_json::to_value(&verdict.approvers).unwrap();
    assert_eq!(lists, serde_json::json!([["role:user"], ["user:anna"]]));
    assert_eq!(verdict.rule.as_deref(), Some("teams/team/config.yaml:1"));
    let places: Vec<&str> =
        verdict.parts[0].rules.iter().map(|looked| looked.place.as_str()).collect();
    assert_eq!(places, ["teams/team/config.yaml:1", "teams/main/config.yaml:1"]);
}

/// A line that only a rule about commands keeps from being asked about runs as it was judged.
#[test]
fn a_command_rule_above_binds_what_runs() {
    let main = ruled("main", "", &["ask bash", "allow bash $ git"]);
    let tree = AgentTree::new(&[], map(vec![main, agent("team", "main")]));
    let verdict = decide(&of(&tree, "team"), "bash", command("git log"));
    assert_eq!((verdict.effect, verdict.by_command), (Effect::Allow, true));
}

#[test]
fn a_policy_above_that_cannot_be_read_denies_everything_below() {
    let mut main = agent("main", "");
    main.policy.broken = Some("teams/main/config.yaml:3".to_owned());
    let tree = AgentTree::new(&[], map(vec![main, agent("team", "main"), agent("low", "team")]));
    assert_eq!(decide(&of(&tree, "low"), "read", file("a")).effect, Effect::Deny);
    let mut main = ruled("main", "", &["deny bash"]);
    main.manager = false;
    let tree = AgentTree::new(&[], map(vec![main, agent("team", "main")]));
    let team = of(&tree, "team");
    assert!(team.policy.always_denies("bash", Class::Run, SandboxLevel::Confined));
    assert!(!team.manager);
}

#[test]
fn circles_and_parents_that_are_not_there_fail_with_those_below() {
    let tree = AgentTree::new(
        &[],
        map(vec![
            agent("a", "b"),
            agent("b", "c"),
            agent("c", "a"),
            agent("under", "a"),
            agent("self", "self"),
            agent("lost", "nobody"),
            agent("low", "lost"),
            agent("main", ""),
        ]),
    );
    let hint = "give one of them another parent, or none";
    for (name, circle) in [
        ("a", "a → b → c → a"),
        ("b", "b → c → a → b"),
        ("c", "c → a → b → c"),
        ("self", "self → self"),
    ] {
        let said = format!("`parent` leads back to the agent itself: {circle}; {hint}");
        assert_eq!(reason(&tree, name), said);
    }
    let under = reason(&tree, "under");
    assert!(under.starts_with("its parent `a` cannot run: `parent` leads back"), "{under}");
    assert_eq!(reason(&tree, "lost"), "`parent`: there is no agent `nobody`");
    let low = "its parent `lost` cannot run: `parent`: there is no agent `nobody`";
    assert_eq!(reason(&tree, "low"), low);
    of(&tree, "main");
}

/// Whatever changes and in whatever order, the tree is the one that is made of all at once.
#[test]
fn a_change_settles_those_below_and_nobody_else() {
    let mut tree = AgentTree::new(
        &[],
        map(vec![
            ruled("main", "", &[]),
            agent("other", ""),
            agent("team", "main"),
            agent("low", "team"),
        ]),
    );
    let names = |names: &[&str]| names.iter().map(|name| AgentName::new(*name)).collect();
    let mut change = |name: &str, state: Option<AgentState>| -> BTreeSet<AgentName> {
        let changed = tree.set(BTreeMap::from([(AgentName::new(name), state)]));
        assert_eq!(tree, AgentTree::new(&[], tree.written().clone()), "after {name}");
        changed
    };
    let main = |rules: &[&str]| Some(active(ruled("main", "", rules)));
    assert_eq!(change("main", main(&["deny bash"])), names(&["main", "team", "low"]));
    assert_eq!(change("low", Some(active(agent("low", "other")))), names(&["low"]));
    assert_eq!(change("main", main(&["deny bash"])), names(&["main", "team"]));
    assert_eq!(change("other", None), names(&["other", "low"]));
    assert_eq!(change("other", Some(active(agent("other", "low")))), names(&["low", "other"]));
    let failed = AgentState::Failed { reason: "broken".to_owned() };
    assert_eq!(change("team", Some(failed)), names(&["team"]));
    assert_eq!(change("low", Some(active(agent("low", "team")))), names(&["low", "other"]));
    assert_eq!(
        change("team", Some(active(agent("team", "main")))),
        names(&["team", "low", "other"])
    );
    assert_eq!(decide(&of(&tree, "other"), "bash", command("ls")).effect, Effect::Deny);
}

#[test]
fn a_subagent_is_listed_below_an_agent_that_has_them_all() {
    let critic = Subagent {
        name: "critic".into(),
        file: "subagents/critic.md".into(),
        description: String::new(),
        skills: Vec::new(),
        text: "Find faults.".into(),
        line: 1,
    };
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["critic", "read"], &["@subagents", "read"], &["read", "critic"]),
        (&["crit*"], &["@subagents"], &["critic"]),
        (&["critic"], &["@subagents", "critic"], &["critic"]),
        (&["@subagents"], &["@subagents"], &["@subagents"]),
        (&["*"], &["@subagents"], &["@subagents"]),
        (&["other*"], &["@subagents"], &[]),
        (&["critic"], &["read"], &[]),
    ];
    let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
    for (own, above, expected) in cases {
        let main = AgentSettings { allowed_tools: owned(above), ..agent("main", "") };
        let team = AgentSettings {
            allowed_tools: owned(own),
            subagents: Arc::from([critic.clone()]),
            ..agent("team", "main")
        };
        let tree = AgentTree::new(&[], map(vec![main, team]));
        assert_eq!(of(&tree, "team").allowed_tools, owned(expected), "{own:?} {above:?}");
    }
}

#[test]
fn the_rules_of_a_cascade_are_bounded_together() {
    let kib = |many: usize| "x".repeat(many << 10);
    let hive = [rule_file(RuleTier::Hive, &kib(200))];
    let (mut main, mut team) = (agent("main", ""), agent("team", "main"));
    main.org_rules = vec![rule_file(RuleTier::OwnOrg, &kib(200))];
    team.team_rules = vec![rule_file(RuleTier::Team, &kib(112))];
    let tree = AgentTree::new(&hive, map(vec![main.clone(), team.clone()]));
    // Its own org-rules are there, too: 7 bytes.
    let expected = "the rules it reads are too large together, from teams/team/team-rules/a.md on; \
                    expected at most 512 KiB of rules of the hive, of the agents above it and its \
                    own";
    let reason = |tree: &AgentTree| match tree.in_force().get(&AgentName::new("team")) {
        Some(AgentState::Failed { reason }) => Some(reason.clone()),
        _ => None,
    };
    assert_eq!(reason(&tree).as_deref(), Some(expected));
    assert!(matches!(tree.in_force().get(&main.name), Some(AgentState::Active(_))));
    team.org_rules.clear();
    let tree = AgentTree::new(&hive, map(vec![main, team]));
    assert_eq!(reason(&tree), None);
}
