//! Every tool there is, by the names a model may use.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use skep_core::ids::CallId;
use skep_core::message::{Block, Body};
use skep_core::policy::allow;
use skep_core::provider::ToolSpec;
use skep_core::settings::AgentSettings;
use skep_core::tool::Tool;

/// The longest name every vendor takes.
const WIRE_NAME: usize = 64;
/// Hexadecimal digits that keep two shortened names apart.
const HASH: usize = 8;

pub struct Toolbox {
    /// Sorted by the name on the wire.
    tools: Vec<Boxed>,
    /// Names on the wire and aliases, to a place in `tools`. A name is mapped back by this table
    /// and never by taking it apart.
    by_name: HashMap<String, usize>,
}

struct Boxed {
    tool: Arc<dyn Tool>,
    /// The tool's own, with the name it has on the wire.
    spec: ToolSpec,
}

impl Toolbox {
    /// Two tools of one name are a defect of the build: the second is refused, never a shadow.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, String> {
        let mut boxed: Vec<Boxed> = tools
            .into_iter()
            .map(|tool| {
                let own = tool.spec();
                let spec = ToolSpec { name: wire_name(&own.name), ..own.clone() };
                Boxed { tool, spec }
            })
            .collect();
        boxed.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        let mut by_name = HashMap::new();
        for (place, Boxed { tool, spec }) in boxed.iter().enumerate() {
            let aliases = tool.aliases().iter().map(|alias| (*alias).to_owned());
            for name in std::iter::once(spec.name.clone()).chain(aliases) {
                if by_name.insert(name.clone(), place).is_some() {
                    return Err(format!("two tools have the name {name}"));
                }
            }
        }
        Ok(Self { tools: boxed, by_name })
    }

    /// What the agent's model is told it has: sorted, so that the block is the same bytes always.
    pub fn specs(&self, agent: &AgentSettings) -> Arc<[ToolSpec]> {
        let listed = self.tools.iter().filter(|boxed| is_listed(agent, &*boxed.tool));
        listed.map(|boxed| boxed.spec.clone()).collect()
    }

    /// The names calls of its tools are told under.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.tools.iter().map(|boxed| boxed.spec.name.clone())
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name).and_then(|place| self.tools.get(*place)).map(|boxed| &boxed.tool)
    }
}

/// Whether the agent's list names the tool, by the tool's own name.
pub fn is_listed(agent: &AgentSettings, tool: &dyn Tool) -> bool {
    allow::allows(&agent.allowed_tools, &tool.spec().name)
}

/// The name as vendors take it: letters, digits, `_` and `-`, at most 64. A name that is changed
/// for that ends in a hash of the whole.
pub(crate) fn wire_name(name: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=WIRE_NAME).contains(&name.len()) && name.bytes().all(fits) {
        return name.to_owned();
    }
    let kept = name.chars().map(|c| if c.is_ascii() && fits(c as u8) { c } else { '_' });
    let kept: String = kept.take(WIRE_NAME - HASH - 1).collect();
    let hash = Sha256::digest(name.as_bytes());
    let hash: String = hash.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}_{hash}")
}

/// A model may name two calls alike; in the journal each has its own name. It may also call a tool
/// by a name that no vendor takes back; it would keep the session from ever being sent again.
pub(crate) fn make_calls_usable(body: &mut Body, seen: &mut HashSet<CallId>) {
    for block in &mut body.content {
        if let Block::ToolCall { id, name, .. } = block {
            *name = wire_name(name);
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
    use super::wire_name;

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
