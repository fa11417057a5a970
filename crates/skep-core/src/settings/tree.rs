//! Agents form a tree. What an agent may is never more than what those above it may: its settings
//! as they are written are narrowed by its parent's, from the root down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::guidance::{CASCADE_BYTES, cascade};
use super::{AgentMap, AgentSettings, AgentState, RuleFile, RuleTier};
use crate::policy::allow;
use crate::vocab::ids::AgentName;

/// What the files say of agents, and what follows from their places in the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentTree {
    written: AgentMap<AgentState>,
    in_force: AgentMap<AgentState>,
    /// By the parent's name, whether there is such an agent or not.
    children: AgentMap<BTreeSet<AgentName>>,
    /// Bytes of the hive's rules, which everybody reads.
    hive_rules: usize,
}

impl AgentTree {
    pub fn new(hive_rules: &[RuleFile], written: AgentMap<AgentState>) -> Self {
        let states = written.iter().map(|(name, state)| (name.clone(), Some(state.clone())));
        let hive_rules = hive_rules.iter().map(|rule| rule.text.len()).sum();
        let mut tree = Self { hive_rules, ..Self::default() };
        tree.set(states.collect());
        tree
    }

    /// As the files say.
    pub fn written(&self) -> &AgentMap<AgentState> {
        &self.written
    }

    /// Narrowed, and failed where the tree makes no sense.
    pub fn in_force(&self) -> &AgentMap<AgentState> {
        &self.in_force
    }

    /// Takes agents as they are written now, `None` for one that is gone. Answers whom that
    /// changes: these and everybody below them.
    pub fn set(&mut self, states: BTreeMap<AgentName, Option<AgentState>>) -> BTreeSet<AgentName> {
        let mut changed = BTreeSet::new();
        for (name, state) in states {
            self.unlink(&name);
            match state {
                Some(state) => {
                    if let Some(parent) = parent(&state) {
                        let mut among = self.children.get(parent).cloned().unwrap_or_default();
                        among.insert(name.clone());
                        self.children.insert(parent.clone(), among);
                    }
                    self.written.insert(name.clone(), state);
                }
                None => self.written.remove(&name),
            }
            changed.insert(name);
        }
        let changed = self.below(changed);
        for name in &changed {
            self.in_force.remove(name);
        }
        for name in &changed {
            self.settle(name);
        }
        changed
    }

    /// Whose team an agent belongs to, also where that makes no sense.
    pub fn parent(&self, name: &AgentName) -> Option<&AgentName> {
        self.written.get(name).and_then(parent)
    }

    /// The direct children of an agent.
    pub fn children(&self, name: &AgentName) -> impl Iterator<Item = &AgentName> {
        self.children.get(name).into_iter().flatten()
    }

    /// These and everybody below them.
    pub fn below(&self, names: BTreeSet<AgentName>) -> BTreeSet<AgentName> {
        let mut open: Vec<AgentName> = names.iter().cloned().collect();
        let mut all = names;
        while let Some(name) = open.pop() {
            for child in self.children(&name) {
                if all.insert(child.clone()) {
                    open.push(child.clone());
                }
            }
        }
        all
    }

    fn unlink(&mut self, name: &AgentName) {
        let Some(parent) = self.written.get(name).and_then(parent).cloned() else { return };
        let mut among = self.children.get(&parent).cloned().unwrap_or_default();
        among.remove(name);
        match among.is_empty() {
            true => self.children.remove(&parent),
            false => self.children.insert(parent, among),
        }
    }

    /// Works out what is in force for an agent, after those above it.
    fn settle(&mut self, name: &AgentName) {
        if self.in_force.get(name).is_some() || self.written.get(name).is_none() {
            return;
        }
        // From the agent up to the first one that is settled.
        let mut path = vec![name.clone()];
        let round = loop {
            let last = path.last().and_then(|last| self.written.get(last));
            let Some(above) = last.and_then(parent) else { break None };
            if let Some(at) = path.iter().position(|below| below == above) {
                break Some(at);
            }
            if self.in_force.get(above).is_some() || self.written.get(above).is_none() {
                break None;
            }
            path.push(above.clone());
        };
        if let Some(at) = round {
            let circle = path.split_off(at);
            for (place, name) in circle.iter().enumerate() {
                let reason = circle_of(&circle, place);
                self.in_force.insert(name.clone(), AgentState::Failed { reason });
            }
        }
        for name in path.iter().rev() {
            if let Some(state) = self.written.get(name) {
                let state = self.narrowed(state);
                self.in_force.insert(name.clone(), state);
            }
        }
    }

    fn narrowed(&self, state: &AgentState) -> AgentState {
        let AgentState::Active(own) = state else { return state.clone() };
        let Some(parent) = &own.parent else { return self.bounded(Arc::clone(own)) };
        match self.in_force.get(parent) {
            Some(AgentState::Active(above)) => self.bounded(Arc::new(within(own, above))),
            Some(AgentState::Failed { reason }) => {
                let reason = format!("its parent `{parent}` cannot run: {reason}");
                AgentState::Failed { reason }
            }
            None => {
                let reason = format!("`parent`: there is no agent `{parent}`");
                AgentState::Failed { reason }
            }
        }
    }
}

impl AgentTree {
    /// An agent whose rules are too large together cannot run.
    fn bounded(&self, agent: Arc<AgentSettings>) -> AgentState {
        let mut bytes = self.hive_rules;
        let over = cascade(&[], &agent).find(|rule| {
            bytes += rule.text.len();
            bytes > CASCADE_BYTES
        });
        let Some(over) = over else { return AgentState::Active(agent) };
        let reason = format!(
            "the rules it reads are too large together, from {} on; expected at most {} KiB of \
             rules of the hive, of the agents above it and its own",
            over.path(&agent.name),
            CASCADE_BYTES / 1024
        );
        AgentState::Failed { reason }
    }
}

fn parent(state: &AgentState) -> Option<&AgentName> {
    match state {
        AgentState::Active(agent) => agent.parent.as_ref(),
        AgentState::Failed { .. } => None,
    }
}

/// The circle as the agent at `place` sees it.
fn circle_of(circle: &[AgentName], place: usize) -> String {
    let names = circle.iter().cycle().skip(place).take(circle.len() + 1);
    let names: Vec<&str> = names.map(AgentName::as_str).collect();
    format!(
        "`parent` leads back to the agent itself: {}; give one of them another parent, or none",
        names.join(" → ")
    )
}

/// An agent's settings as far as those above it allow.
fn within(own: &AgentSettings, above: &AgentSettings) -> AgentSettings {
    let (folder, upper) = (own.workspace.to_str(), above.workspace.to_str());
    let inherited = above.org_rules.iter().map(|rule| match rule.tier {
        RuleTier::OwnOrg => RuleFile { tier: RuleTier::Above(above.name.clone()), ..rule.clone() },
        _ => rule.clone(),
    });
    let org_rules = inherited.chain(own.org_rules.iter().cloned()).collect();
    let mut allowed_tools = allow::both(&own.allowed_tools, &above.allowed_tools);
    // A subagent of its own has no name above.
    let all = allow::SUBAGENTS;
    if allow::allows(&above.allowed_tools, all) && !allow::allows(&allowed_tools, all) {
        let names = own.subagents.iter().map(|subagent| &subagent.name);
        let listed = names.filter(|name| allow::allows(&own.allowed_tools, name));
        let listed = listed.filter(|name| !allowed_tools.contains(name));
        let listed: Vec<String> = listed.cloned().collect();
        allowed_tools.extend(listed);
    }
    AgentSettings {
        manager: own.manager && above.manager,
        allowed_tools,
        sandbox: own.sandbox.within(above.sandbox),
        policy: own.policy.within(&above.policy, folder.zip(upper)),
        org_rules,
        ..own.clone()
    }
}
