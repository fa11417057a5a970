//! Every tool there is, by the names a model may use.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest, Sha256};

use skep_core::ids::CallId;
use skep_core::message::{Block, Body};
use skep_core::policy::allow;
use skep_core::provider::ToolSpec;
use skep_core::settings::{AgentSettings, Subagent};
use skep_core::tool::Tool;

/// The longest name every vendor takes.
const WIRE_NAME: usize = 64;
/// Hexadecimal digits that keep two shortened names apart.
const HASH: usize = 8;
/// Lists that are kept; changed settings leave old ones behind.
const OFFERS: usize = 256;

/// Places of tools, each with what settings add to its description.
type ToolList = Vec<(usize, String)>;

#[derive(Default)]
pub struct Toolbox {
    /// Sorted by the name on the wire.
    tools: Vec<Boxed>,
    /// Own names, names on the wire and aliases, to a place in `tools`. A name is mapped back by
    /// this table and never by taking it apart.
    by_name: HashMap<String, usize>,
    /// What agents are offered: made once for all agents with the same list. Locked for a look-up.
    offered: Mutex<HashMap<ToolList, Arc<[ToolSpec]>>>,
}

struct Boxed {
    tool: Arc<dyn Tool>,
    /// The tool's own, with the name it has on the wire.
    spec: ToolSpec,
}

impl Toolbox {
    /// Of two tools of one name the second is refused, never a shadow.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, String> {
        let mut readable: HashMap<String, usize> = HashMap::new();
        for tool in &tools {
            let aliases = tool.aliases().iter().map(|alias| (*alias).to_owned());
            for name in aliases.chain([with_underscores(&tool.spec().name)]) {
                *readable.entry(name).or_default() += 1;
            }
        }
        let mut boxed: Vec<Boxed> = tools
            .into_iter()
            .map(|tool| {
                let own = tool.spec();
                let other = with_underscores(&own.name);
                let name = match readable.get(&other) {
                    Some(1) if fits(&other) => other,
                    _ => wire_name(&own.name),
                };
                Boxed { spec: ToolSpec { name, ..own.clone() }, tool }
            })
            .collect();
        boxed.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        let mut by_name = HashMap::new();
        for (place, Boxed { tool, spec }) in boxed.iter().enumerate() {
            let own = &tool.spec().name;
            let names = tool.aliases().iter().map(|alias| (*alias).to_owned());
            let names = names.chain([own.clone()]);
            let wire = (spec.name != *own).then(|| spec.name.clone());
            for name in names.chain(wire) {
                if by_name.insert(name.clone(), place).is_some() {
                    return Err(format!("two tools have the name {name}"));
                }
            }
        }
        Ok(Self { tools: boxed, by_name, offered: Mutex::default() })
    }

    /// What the agent's model is told it has: what its list names, what has something to do for it,
    /// and what its policy does not deny in every case. Sorted, so that the block is the same bytes
    /// always.
    pub fn specs(&self, agent: &AgentSettings) -> Arc<[ToolSpec]> {
        let places = self.tools.iter().enumerate();
        let places = places.filter(|(_, boxed)| is_offered(agent, &*boxed.tool));
        let places: ToolList =
            places.map(|(place, boxed)| (place, boxed.tool.note(agent))).collect();
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(specs) = offered.get(&places) {
            return Arc::clone(specs);
        }
        if offered.len() >= OFFERS {
            offered.clear();
        }
        let specs = places.iter().filter_map(|(place, note)| Some((self.tools.get(*place)?, note)));
        let specs: Arc<[ToolSpec]> = specs.map(|(boxed, note)| boxed.told(note)).collect();
        offered.insert(places, Arc::clone(&specs));
        specs
    }

    /// Which of these names are no tools that the agent is offered.
    pub fn lacks<'n>(&self, agent: &AgentSettings, names: &'n [String]) -> Vec<&'n str> {
        let has = |name: &str| self.find(name).is_some_and(|tool| is_offered(agent, &**tool));
        names.iter().map(String::as_str).filter(|name| !has(name)).collect()
    }

    /// How many tools there are for the agent, offered or not. Subagents of others are none.
    pub fn known(&self, agent: &AgentSettings) -> usize {
        let own = |boxed: &&Boxed| !is_subagent(&boxed.tool) || boxed.tool.serves(agent);
        self.tools.iter().filter(own).count()
    }

    /// The names calls of its tools are told under.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.tools.iter().map(|boxed| boxed.spec.name.clone())
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.boxed(name).map(|boxed| &boxed.tool)
    }

    /// The tool that the agent means by a name. Subagents of others are none of its tools.
    pub fn meant(&self, agent: &AgentSettings, name: &str) -> Option<&Arc<dyn Tool>> {
        let own = |tool: &&Arc<dyn Tool>| !is_subagent(tool) || tool.serves(agent);
        self.find(name).filter(own).or_else(|| self.nearest(name))
    }

    /// The tool that is meant by a name that is none, but for its marks, its capitals and what
    /// stands before it (`functions.vault_set`). No subagent: whoever writes its file chooses its
    /// name, and would choose which tool others mean.
    fn nearest(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let letters = |name: &str| -> Vec<u8> {
            name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_lowercase()).collect()
        };
        let meant = letters(name);
        let tools = self.tools.iter().filter(|boxed| !is_subagent(&boxed.tool));
        let names = tools.filter(|boxed| meant.ends_with(&letters(&boxed.spec.name)));
        names.max_by_key(|boxed| boxed.spec.name.len()).map(|boxed| &boxed.tool)
    }

    /// The agent's subagents that are left out: tools have their names.
    pub fn left_out<'a>(&'a self, agent: &'a AgentSettings) -> impl Iterator<Item = &'a Subagent> {
        let is_other = |it: &Subagent| self.find(&it.name).is_some_and(|tool| !is_subagent(tool));
        agent.subagents.iter().filter(move |it| is_other(it))
    }

    /// Names in the agent's list and rules that a source may bring, and none does now.
    pub fn missing(&self, agent: &AgentSettings) -> Vec<String> {
        let named = agent.named_tools().into_iter();
        let missing = named.filter(|name| allow::may_come(name) && self.find(name).is_none());
        missing.map(str::to_owned).collect()
    }

    fn boxed(&self, name: &str) -> Option<&Boxed> {
        self.by_name.get(name).and_then(|place| self.tools.get(*place))
    }
}

impl Boxed {
    /// As an agent is told of it.
    fn told(&self, note: &str) -> ToolSpec {
        let mut spec = self.spec.clone();
        if !note.is_empty() {
            spec.description = format!("{} {note}", spec.description);
        }
        spec
    }
}

fn is_subagent(tool: &Arc<dyn Tool>) -> bool {
    tool.preset() == Some(allow::SUBAGENTS)
}

/// Whether the agent has the tool: its list names it, by the tool's own name or its preset.
pub fn is_listed(agent: &AgentSettings, tool: &dyn Tool) -> bool {
    let mut names = tool.preset().into_iter().chain([tool.spec().name.as_str()]);
    tool.serves(agent) && names.any(|name| allow::allows(&agent.allowed_tools, name))
}

fn is_offered(agent: &AgentSettings, tool: &dyn Tool) -> bool {
    let denied = || {
        // What a call of it does that asks for nothing in particular.
        let class = tool.manner(&Value::Null, agent.reach()).class;
        agent.policy.always_denies(&tool.spec().name, class, agent.sandbox.level)
    };
    is_listed(agent, tool) && !denied()
}

fn with_underscores(name: &str) -> String {
    name.replace('.', "__")
}

/// As vendors take names: letters, digits, `_` and `-`, at most 64.
fn fits(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=WIRE_NAME).contains(&name.len()) && name.bytes().all(letter)
}

/// A name that is changed to fit ends in a hash of the whole.
fn wire_name(name: &str) -> String {
    if fits(name) {
        return name.to_owned();
    }
    let kept = name.chars().map(|c| if fits(c.encode_utf8(&mut [0; 4])) { c } else { '_' });
    let kept: String = kept.take(WIRE_NAME - HASH - 1).collect();
    let hash = Sha256::digest(name.as_bytes());
    let hash: String = hash.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}_{hash}")
}

/// A model may name two calls alike; in the journal each has its own name. It may also call a tool
/// by a name that no vendor takes back; it would keep the session from ever being sent again.
pub(crate) fn make_calls_usable(toolbox: &Toolbox, body: &mut Body, seen: &mut HashSet<CallId>) {
    for block in &mut body.content {
        if let Block::ToolCall { id, name, .. } = block {
            if !fits(name) {
                let known = toolbox.boxed(name).map(|boxed| boxed.spec.name.clone());
                *name = known.unwrap_or_else(|| wire_name(name));
            }
            let mut unique = id.clone();
            let mut count = 1;
            while unique.as_str().is_empty() || !seen.insert(unique.clone()) {
                count += 1;
                unique = CallId(format!("{id}_{count}"));
            }
            *id = unique;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use skep_core::policy::AgentReach;
    use skep_core::tool::{Manner, Prepared};

    use super::*;

    struct Named(ToolSpec, &'static [&'static str]);

    impl Tool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
            Manner::READ
        }

        fn aliases(&self) -> &[&'static str] {
            self.1
        }

        fn prepare(&self, _: Value) -> Result<Prepared, String> {
            Err("it only has a name".to_owned())
        }
    }

    fn named(name: &str, aliases: &'static [&'static str]) -> Arc<dyn Tool> {
        let (name, description) = (name.to_owned(), String::new());
        Arc::new(Named(ToolSpec { name, description, input_schema: json!({}) }, aliases))
    }

    #[test]
    fn gate_names_with_dots_are_readable_on_the_wire_where_they_can_be() {
        let long = format!("server.{}", "x".repeat(56));
        let longer = format!("{long}y");
        let names = ["read", "a.b", "c.d", "c__d", "e.f.g", "e__f.g", "Say.it", &long, &longer];
        let mut tools: Vec<_> = names.iter().map(|name| named(name, &[])).collect();
        tools.push(named("say", &["Say__it"]));
        let toolbox = Toolbox::new(tools).unwrap();
        let wire = |name: &str| toolbox.boxed(name).unwrap().spec.name.clone();
        assert_eq!((wire("read"), wire("a.b")), ("read".to_owned(), "a__b".to_owned()));
        assert_eq!(wire("c__d"), "c__d");
        assert_eq!(wire("c.d"), "c_d_713ff6c4");
        for unclear in ["c.d", "e.f.g", "e__f.g", "Say.it", &longer] {
            assert_eq!(wire(unclear), wire_name(unclear));
        }
        assert_eq!(wire(&long), long.replace('.', "__"));
        for name in names {
            assert_eq!(toolbox.find(&wire(name)).unwrap().spec().name, name);
        }
        let taken = Toolbox::new(vec![named("a", &[]), named("b", &["a"])]);
        assert_eq!(taken.err().as_deref(), Some("two tools have the name a"));
    }

    #[test]
    fn gate_names_fit_every_wire_and_stay_apart() {
        let long = "server__".to_owned() + &"x".repeat(90);
        let longer = format!("{long}y");
        for name in ["read", "a-b_C9", &"z".repeat(64)] {
            assert_eq!(wire_name(name), name);
        }
        let odd = [&long, &longer, "", "a.b", "a/b", "späh", "a b", "a_b!"];
        let mut seen = std::collections::HashSet::new();
        for name in odd {
            let wire = wire_name(name);
            let fits = wire.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
            assert!(fits && (1..=64).contains(&wire.len()), "{name}: {wire}");
            assert!(seen.insert(wire.clone()), "{name}: {wire}");
            assert_eq!(wire_name(name), wire);
        }
        assert_eq!(wire_name("a.b"), "a_b_2e7336dc");
    }
}
