//! Which tools a request may offer to the model: those whose calls the gate will see.

use skep_core::relay::RelayTools;

use crate::refusal::{RelayRefusal, shown};
use crate::wire::WireRules;

/// A tool of a request, as far as it is looked at.
#[derive(Debug, Default)]
pub(crate) struct OfferedTool {
    pub kind: Option<String>,
    pub name: Option<String>,
}

impl OfferedTool {
    pub fn judge(&self, rules: &WireRules, allowed: &RelayTools) -> Result<(), RelayRefusal> {
        let kind = match &self.kind {
            Some(kind) => kind.as_str(),
            None if rules.untyped_tools => rules.plain_tool,
            None => return Err(RelayRefusal::tool("a tool of the request has no type")),
        };
        let plain = kind == rules.plain_tool;
        if !plain && !allowed.types.contains(kind) {
            let kind = shown(kind);
            return Err(RelayRefusal::tool(format!(
                "tools of the type {kind} are not offered: the vendor would run them"
            )));
        }
        match &self.name {
            Some(name) if is_allowed(allowed, name) => Ok(()),
            Some(name) => {
                let name = shown(name);
                Err(RelayRefusal::tool(format!("the tool {name} is not one that this agent has")))
            }
            None if plain => Err(RelayRefusal::tool("a tool of the request has no name")),
            None => Ok(()),
        }
    }
}

fn is_allowed(allowed: &RelayTools, name: &str) -> bool {
    let begins = |prefix: &String| !prefix.is_empty() && name.starts_with(prefix.as_str());
    allowed.names.contains(name) || allowed.prefixes.iter().any(begins)
}
