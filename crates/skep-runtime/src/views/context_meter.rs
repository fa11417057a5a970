//! How full the window of a session's model is.

use skep_core::ids::{AgentId, AgentName};
use skep_core::message::{Meta, Usage};
use skep_core::settings::{AgentSettings, HiveSettings};
use skep_store::watch::TurnRow;
use skep_turn::turn::system_prompt;

use crate::door::{ContextInfo, ContextParts};
use crate::hive::Hive;

/// Of English and of JSON alike, near enough for a picture.
const BYTES_PER_TOKEN: usize = 4;

impl Hive {
    /// After the newest call of a session's model.
    pub(crate) fn meter(&self, id: AgentId, name: &AgentName, meta: &Meta) -> ContextInfo {
        let active = self.shared.snapshot();
        let agent = active.agent(id, name).ok();
        let parts = agent.as_ref().map(|agent| self.parts(&active.settings, agent, &meta.usage));
        let named = meta.profile.as_ref().and_then(|name| active.settings.profiles.get(name));
        // The window of the profile that answered, else of the agent's own.
        let profile = named.or(agent.as_ref().map(|agent| &agent.profile));
        let window = profile.and_then(|profile| profile.context_window);
        ContextInfo { used: meta.usage.total_tokens, window, parts }
    }

    /// With the tools and rules the agent has now: its next call has these.
    fn parts(&self, settings: &HiveSettings, agent: &AgentSettings, usage: &Usage) -> ContextParts {
        let specs = self.shared.snapshot().toolbox.specs(agent);
        let prompt = system_prompt(settings, agent, &specs);
        let tools = specs.iter().map(|tool| {
            tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
        });
        let tokens = |bytes: usize| u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
        let prompted = usage.total_tokens.saturating_sub(usage.output);
        let tools = tokens(tools.sum()).min(prompted);
        let system = tokens(prompt.shared.len() + prompt.agent.len()).min(prompted - tools);
        let history = prompted - tools - system;
        ContextParts { tools, system, history, newest: usage.total_tokens - prompted }
    }

    /// The same for a turn that runs here.
    pub(crate) fn meter_of(&self, turn: &TurnRow) -> Option<ContextInfo> {
        let used = self.shared.env().lanes.registry.get(&turn.turn)?.used()?;
        let agent = self.shared.snapshot().agent(turn.agent, &turn.agent_name);
        let window = agent.ok().and_then(|agent| agent.profile.context_window);
        Some(ContextInfo { used, window, parts: None })
    }
}
