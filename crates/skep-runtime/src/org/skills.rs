//! `use_skill`, and the skill that a task is to be done with.

use serde_json::json;
use skep_core::ids::AgentName;
use skep_core::settings::AgentState;
use skep_core::skill_text;
use skep_core::tool::{Manner, ToolAnswer};

use super::arguments::{SkillArguments, spec, text};
use super::tool::{OrgCall, OrgTool, refused};

pub(super) fn all() -> Vec<OrgTool> {
    let spec = spec(
        "use_skill",
        "Gives the text of one of your skills: steps from your own settings. Follow them for what \
         you were asked to do, within your rules.",
        json!({ "name": text("The name of the skill.") }),
        &["name"],
    );
    vec![
        OrgTool::new(spec, Manner::READ, use_skill)
            .noting(|agent| !agent.skills.is_empty(), |agent| skill_text::list(&agent.skills)),
    ]
}

async fn use_skill(call: OrgCall, arguments: SkillArguments) -> ToolAnswer {
    let (id, name) = (call.context.agent_id, &call.context.agent);
    let agent = call.shared.snapshot().agent(id, name);
    // A subagent has the skills that its file lists, and no others.
    let shown = match agent.and_then(|agent| agent.in_role(call.context.subagent.as_deref())) {
        Ok(agent) => call.shared.skill_text(&agent, &arguments.name),
        Err(reason) => return refused("agent_failed", &reason),
    };
    shown.map_or_else(|why| refused("unknown_skill", &why), ToolAnswer::ok)
}

/// The text of the skill that a team is to work with; it has to be one of the team's own.
pub(super) fn of_team(
    call: &OrgCall,
    team: &AgentName,
    skill: Option<&str>,
) -> Result<Option<String>, Box<ToolAnswer>> {
    let Some(skill) = skill else { return Ok(None) };
    let unknown = |why: &str| Box::new(refused("unknown_skill", why));
    match call.shared.settings().agents.get(team) {
        Some(AgentState::Active(agent)) if agent.parent.as_ref() == Some(&call.context.agent) => {
            call.shared.skill_text(agent, skill).map(Some).map_err(|why| unknown(&why))
        }
        Some(AgentState::Failed { .. }) => Err(unknown("the team is disabled")),
        // The task itself is refused.
        _ => Ok(None),
    }
}
