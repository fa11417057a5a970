//! How full the window of a session's model is.

use skep_core::ids::{AgentName, TurnId};
use skep_core::message::{Meta, Usage};
use skep_core::settings::{AgentState, HiveSettings};
use skep_turn::turn::system_prompt;

use crate::door::{ContextInfo, ContextParts};
use crate::hive::Hive;

/// Of English and of JSON alike, near enough for a picture.
const BYTES_PER_TOKEN: usize = 4;

impl Hive {
    /// After the newest call of a session's model.
    pub(crate) fn meter(&self, agent: &AgentName, meta: &Meta) -> ContextInfo {
        let settings = self.shared.settings();
        let window = window(&settings, agent, meta.profile.as_deref());
        let parts = self.parts(&settings, agent, &meta.usage);
        ContextInfo { used: meta.usage.total_tokens, window, parts }
    }

    /// With the tools and rules the agent has now: its next call has these.
    fn parts(
        &self,
        settings: &HiveSettings,
        agent: &AgentName,
        usage: &Usage,
    ) -> Option<ContextParts> {
        let Some(AgentState::Active(agent)) = settings.agents.get(agent) else { return None };
        let specs = self.shared.env().gate.toolbox.specs(agent);
        let prompt = system_prompt(settings, agent, &specs);
        let tools = specs.iter().map(|tool| {
            tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
        });
        let tokens = |bytes: usize| u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
        let prompted = usage.total_tokens.saturating_sub(usage.output);
        let tools = tokens(tools.sum()).min(prompted);
        let system = tokens(prompt.shared.len() + prompt.agent.len()).min(prompted - tools);
        let history = prompted - tools - system;
        Some(ContextParts { tools, system, history, newest: usage.total_tokens - prompted })
    }

    /// The same for a turn that runs here.
    pub(crate) fn meter_of(&self, agent: &AgentName, turn: &TurnId) -> Option<ContextInfo> {
        let used = self.shared.env().lanes.registry.get(turn)?.used()?;
        let window = window(&self.shared.settings(), agent, None);
        Some(ContextInfo { used, window, parts: None })
    }
}

/// The window of the profile that answered, else of the agent's own.
fn window(settings: &HiveSettings, agent: &AgentName, profile: Option<&str>) -> Option<u32> {
    let named = profile.and_then(|name| settings.profiles.get(name));
    let profile = match (named, settings.agents.get(agent)) {
        (Some(profile), _) => profile,
        (None, Some(AgentState::Active(agent))) => &agent.profile,
        (None, _) => return None,
    };
    profile.context_window
}
