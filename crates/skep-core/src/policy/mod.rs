//! What is decided about a tool call: by rules, and by what the tool does to the world where no
//! rule matches; and what is decided about a host that it wants to reach. Pure: the same call,
//! rules and people give the same answer and the same trace.

pub mod address;
#[cfg(test)]
mod address_tests;
pub mod allow;
pub mod approvers;
pub mod evaluate;
#[cfg(test)]
mod evasion_tests;
pub mod host;
pub mod host_standing;
#[cfg(test)]
mod host_tests;
pub mod network;
#[cfg(test)]
mod network_tests;
pub mod pattern;
pub mod rule;
pub mod vault;

use std::path::Path;
use std::sync::Arc;

use crate::vocab::configuration::SandboxLevel;
use crate::vocab::words::words;

use network::NetworkRules;
use rule::Rule;

words! {
    /// How far a tool reaches. Every tool has exactly one.
    Class {
        /// Looks, and changes nothing.
        Read = "read",
        /// Changes files of its agent.
        Write = "write",
        /// Runs programs. A call that holds a secret is refused; one of another class runs with
        /// the secret's name in its place.
        Run = "run",
        /// Writes to the network, or to people.
        Reach = "reach",
        /// Changes the hive itself.
        Shape = "shape",
    }
    /// What is to become of a call.
    Effect {
        Allow = "allow",
        /// A person decides.
        Ask = "ask",
        Deny = "deny",
    }
}

/// Everything that is decided by for one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub classes: ClassPolicy,
    pub rules: Vec<Rule>,
    /// Those of each agent above, the nearest first. They are decided by for each of them apart,
    /// and the strictest decision counts.
    pub above: Vec<Arc<[Rule]>>,
    /// The hosts its tools and programs may reach.
    pub network: Arc<NetworkRules>,
    /// Where and why it could not be read. Everything is denied then.
    pub broken: Option<String>,
}

/// What of its agent the manner of a call depends on.
#[derive(Clone, Copy, Debug)]
pub struct AgentReach<'a> {
    /// The agent's own folder: a path in it may be one of its settings.
    pub folder: &'a Path,
    /// In force now.
    pub network: &'a NetworkRules,
}

/// What a policy has to know of a call before it can decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Where its paths lead.
    pub paths: bool,
    /// Which files its command names: a rule allows commands.
    pub commands: bool,
    /// Whose message led to it.
    pub people: bool,
}

impl Policy {
    /// No wider than that of the agent above. `folders`: where this agent works, and that one.
    #[must_use]
    pub fn within(&self, above: &Self, folders: Option<(&str, &str)>) -> Self {
        let lists = std::iter::once(&above.rules[..]).chain(above.above.iter().map(|list| &**list));
        let lists = lists.filter(|list| !list.is_empty());
        let moved =
            |rules: &[Rule]| rules.iter().flat_map(|rule| rule.for_below(folders)).collect();
        Self {
            classes: self.classes,
            rules: self.rules.clone(),
            above: self.above.iter().cloned().chain(lists.map(moved)).collect(),
            network: Arc::new(self.network.within(&above.network)),
            broken: self.broken.clone().or_else(|| above.broken.clone()),
        }
    }

    /// Its own rules, then those of the agents above.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.rules.iter().chain(self.above.iter().flat_map(|rules| rules.iter()))
    }

    pub fn needs(&self, tool: &str) -> Needs {
        let about = |tool: &str| {
            self.all_rules().any(|rule| rule.is_about(tool) && !rule.grants.is_empty())
        };
        let own = || self.all_rules().filter(|rule| rule.is_about(tool));
        let commands = own().any(|rule| rule.effect == Effect::Allow && rule.command.is_some());
        Needs {
            paths: own().any(|rule| rule.path.is_some()),
            commands,
            // Redirections are decided as if `read` and `write` were called.
            people: about(tool) || (commands && (about("read") || about("write"))),
        }
    }

    /// Whether every call of the tool is denied that asks for nothing in particular: by a rule
    /// without conditions, or by its class where no rule says otherwise. A policy that cannot be
    /// read counts as one that will be.
    pub fn always_denies(&self, tool: &str, class: Class, level: SandboxLevel) -> bool {
        let mut own = self.rules.iter().filter(|rule| rule.is_about(tool));
        let mut all = self.all_rules().filter(|rule| rule.is_about(tool));
        let denies = |rule: &Rule| rule.effect == Effect::Deny;
        all.any(|rule| denies(rule) && rule.is_unconditional())
            || (self.classes.decide(class, level) == Effect::Deny && own.all(denies))
    }
}

/// One effect for each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPolicy {
    pub read: Effect,
    pub write: Effect,
    /// Absent: allowed where it is confined, asked for where it is not.
    pub run: Option<Effect>,
    pub reach: Effect,
    pub shape: Effect,
}

impl Default for ClassPolicy {
    fn default() -> Self {
        Self {
            read: Effect::Allow,
            write: Effect::Allow,
            run: None,
            reach: Effect::Ask,
            shape: Effect::Ask,
        }
    }
}

impl ClassPolicy {
    pub fn decide(&self, class: Class, level: SandboxLevel) -> Effect {
        match class {
            Class::Read => self.read,
            Class::Write => self.write,
            Class::Run => self.run.unwrap_or(match level {
                SandboxLevel::Confined => Effect::Allow,
                SandboxLevel::Host => Effect::Ask,
            }),
            Class::Reach => self.reach,
            Class::Shape => self.shape,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn gate_policy_by_class() {
        let usual = ClassPolicy::default();
        let strict = ClassPolicy { write: Effect::Deny, run: Some(Effect::Ask), ..usual };
        let open = ClassPolicy { run: Some(Effect::Allow), reach: Effect::Allow, ..usual };
        let (confined, host) = (SandboxLevel::Confined, SandboxLevel::Host);
        let cases = [
            (usual, Class::Read, host, Effect::Allow),
            (usual, Class::Write, host, Effect::Allow),
            (usual, Class::Run, confined, Effect::Allow),
            (usual, Class::Run, host, Effect::Ask),
            (usual, Class::Reach, confined, Effect::Ask),
            (usual, Class::Shape, confined, Effect::Ask),
            (strict, Class::Read, confined, Effect::Allow),
            (strict, Class::Write, confined, Effect::Deny),
            (strict, Class::Run, confined, Effect::Ask),
            (open, Class::Run, host, Effect::Allow),
            (open, Class::Reach, host, Effect::Allow),
        ];
        for (policy, class, level, effect) in cases {
            assert_eq!(policy.decide(class, level), effect, "{class:?} {level:?} {policy:?}");
        }
    }

    #[test]
    fn gate_policy_denies_in_every_case() {
        let rule = |effect: Effect, tool: &str, path: Option<&str>, grants: &[&str]| Rule {
            effect,
            tool: tool.to_owned(),
            path: path.map(|path| pattern::PathPattern::parse(path).unwrap()),
            command: None,
            host: None,
            grants: grants.iter().map(|to| rule::GrantTo::parse(to).unwrap()).collect(),
            approvers: Vec::new(),
            place: "config.yaml:1".to_owned(),
        };
        let (deny, ask, allow) = (Effect::Deny, Effect::Ask, Effect::Allow);
        let cases: [(Vec<Rule>, bool, bool); 8] = [
            (vec![], false, true),
            (vec![rule(deny, "wri*", None, &[])], true, true),
            (vec![rule(deny, "write", None, &["any"])], true, true),
            (vec![rule(allow, "write", None, &[]), rule(deny, "*", None, &[])], true, true),
            (vec![rule(deny, "write", Some("src/**"), &[])], false, true),
            (vec![rule(deny, "write", None, &["role:viewer"])], false, true),
            (vec![rule(ask, "write", Some("src/**"), &[])], false, false),
            (vec![rule(deny, "read", None, &[])], false, true),
        ];
        for (rules, usually, by_class) in cases {
            let mut policy = Policy { rules, ..Policy::default() };
            let denies = |policy: &Policy| {
                policy.always_denies("write", Class::Write, SandboxLevel::Confined)
            };
            assert_eq!(denies(&policy), usually, "{policy:?}");
            policy.classes.write = Effect::Deny;
            assert_eq!(denies(&policy), by_class, "{policy:?}");
        }
    }
}
