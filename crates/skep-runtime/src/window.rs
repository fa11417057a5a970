//! How full the window of a session's model is.

use skep_core::ids::{AgentName, TurnId};
use skep_core::message::{Message, Role};
use skep_core::settings::{AgentState, HiveSettings};

use crate::door::ContextInfo;
use crate::hive::Hive;

impl Hive {
    /// From the newest rows of a session; `seam` is the last one that told of a compaction. Nothing
    /// before the first call after it: nobody has counted yet.
    pub(crate) fn meter(
        &self,
        agent: &AgentName,
        rows: &[Message],
        seam: Option<i64>,
    ) -> Option<ContextInfo> {
        let after = rows.iter().rev().take_while(|row| Some(row.seq) > seam);
        let mut answers = after.filter(|row| row.body.role == Role::Assistant);
        let meta =
            answers.find_map(|row| row.body.meta.as_ref().filter(|meta| !meta.api.is_empty()))?;
        let settings = self.shared.settings();
        let window = window(&settings, agent, meta.profile.as_deref());
        Some(ContextInfo { used: meta.usage.total_tokens, window })
    }

    /// The same for a turn that runs here.
    pub(crate) fn meter_of(&self, agent: &AgentName, turn: &TurnId) -> Option<ContextInfo> {
        let used = self.shared.registry.get(turn)?.used()?;
        Some(ContextInfo { used, window: window(&self.shared.settings(), agent, None) })
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
