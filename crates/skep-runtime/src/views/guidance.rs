//! What guides an agent, as the doors show it: its prompt part by part, its skills and subagents,
//! and the files that are left out.

use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use skep_core::count;
use skep_core::ids::AgentName;
use skep_core::prompt::{PartKind, PromptPart, rule_warnings};
use skep_core::provider::ToolSpec;
use skep_core::settings::guidance::RuleTierWord;
use skep_core::settings::{AgentSettings, ConfigProblem, Skill, Subagent};
use skep_core::skill_text;
use skep_turn::snapshot::Snapshot;
use skep_turn::turn::prompt_parts;

use crate::door::{DoorError, ErrorKind};
use crate::hive::Hive;

/// Everything that stands before the messages in a request of the agent's engine.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PromptInfo {
    pub agent: AgentName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    pub engine: String,
    /// Provider and model.
    pub model: String,
    /// As they stand in a request.
    pub parts: Vec<PromptPartInfo>,
    /// Of all parts, estimated: the model's vendor counts no more.
    pub tokens: u64,
    /// Tokens that the model takes, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Files that are left out, and headings that stand in two files.
    pub warnings: Vec<ConfigProblem>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PromptPartInfo {
    pub part: PartKind,
    pub title: String,
    /// The file, relative to the home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<RuleTierWord>,
    pub text: String,
    pub bytes: usize,
    /// Estimated, as `tokens` of the whole.
    pub tokens: u64,
}

/// The skills and subagents of an agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GuidanceInfo {
    pub skills: Vec<SkillInfo>,
    pub subagents: Vec<SubagentInfo>,
    /// Files that are left out, and headings that stand in two files.
    pub warnings: Vec<ConfigProblem>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SkillInfo {
    pub name: String,
    pub description: String,
    /// Relative to the home.
    pub file: String,
    /// Tools that it needs.
    pub tools: Vec<String>,
    /// Those of them that the agent does not have now.
    pub missing_tools: Vec<String>,
    pub bytes: usize,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SubagentInfo {
    pub name: String,
    pub description: String,
    /// Relative to the home.
    pub file: String,
    /// Skills that are active in its session.
    pub skills: Vec<String>,
    pub bytes: usize,
}

impl Hive {
    /// The prompt of an agent, or of one of its subagents, as its next turn has it.
    pub fn prompt(
        &self,
        agent: &AgentName,
        subagent: Option<&str>,
    ) -> Result<PromptInfo, DoorError> {
        let agent = self.able_agent(agent)?;
        let role = subagent.map(|name| subagent_of(&agent, name)).transpose()?;
        let as_asked = role.as_ref().unwrap_or(&*agent);
        let snapshot = self.shared.snapshot();
        let specs = snapshot.toolbox.specs(as_asked);
        let role = as_asked.role.as_deref();
        let parts = prompt_parts(&snapshot.settings, as_asked, role, &specs);
        let parts = std::iter::once(tools_part(&specs)).chain(parts.into_iter().map(part_info));
        let parts: Vec<PromptPartInfo> = parts.collect();
        Ok(PromptInfo {
            agent: agent.name.clone(),
            subagent: subagent.map(str::to_owned),
            engine: agent.engine.clone(),
            model: format!("{}/{}", agent.profile.provider, agent.profile.model),
            tokens: parts.iter().map(|part| part.tokens).sum(),
            parts,
            window: agent.profile.context_window,
            warnings: warnings(&snapshot, &agent),
        })
    }

    pub fn guidance(&self, agent: &AgentName) -> Result<GuidanceInfo, DoorError> {
        let agent = self.able_agent(agent)?;
        let snapshot = self.shared.snapshot();
        let place = |file: &str| format!("teams/{}/{file}", agent.name);
        let skill = |skill: &Skill| {
            let missing = snapshot.toolbox.lacks(&agent, &skill.tools);
            SkillInfo {
                name: skill.name.clone(),
                description: clean(&skill.description),
                file: place(&skill.file),
                tools: skill.tools.clone(),
                missing_tools: missing.into_iter().map(str::to_owned).collect(),
                bytes: skill.text.len(),
            }
        };
        let subagent = |subagent: &Subagent| SubagentInfo {
            name: subagent.name.clone(),
            description: clean(&subagent.description),
            file: place(&subagent.file),
            skills: subagent.skills.clone(),
            bytes: subagent.text.len(),
        };
        let left_out: Vec<_> = snapshot.toolbox.left_out(&agent).collect();
        let usable = agent.subagents.iter().filter(|it| !left_out.contains(it));
        Ok(GuidanceInfo {
            skills: agent.skills.iter().map(skill).collect(),
            subagents: usable.map(subagent).collect(),
            warnings: warnings(&snapshot, &agent),
        })
    }
}

fn subagent_of(agent: &AgentSettings, name: &str) -> Result<AgentSettings, DoorError> {
    agent.as_subagent(name).ok_or_else(|| {
        let text = skill_text::unknown_of("subagent", agent, name);
        DoorError::new(ErrorKind::NotFound, "unknown_subagent", text)
    })
}

fn warnings(snapshot: &Snapshot, agent: &AgentSettings) -> Vec<ConfigProblem> {
    let rules = rule_warnings(&snapshot.settings.hive_rules, agent).into_iter();
    let taken = snapshot.toolbox.left_out(agent).map(|it| it.left_out(&agent.name));
    rules.chain(agent.left_out.iter().cloned()).chain(taken).collect()
}

fn tools_part(specs: &[ToolSpec]) -> PromptPartInfo {
    let told = |spec: &ToolSpec| {
        let ToolSpec { name, description, input_schema } = spec;
        json!({"name": name, "description": description, "input_schema": input_schema}).to_string()
    };
    let text = clean(&specs.iter().map(told).collect::<Vec<_>>().join("\n"));
    PromptPartInfo {
        part: PartKind::Tools,
        title: "Tools".to_owned(),
        source: None,
        tier: None,
        bytes: text.len(),
        tokens: specs.iter().map(count::of_tool).sum(),
        text,
    }
}

fn part_info(part: PromptPart<'_>) -> PromptPartInfo {
    PromptPartInfo {
        part: part.part,
        title: part.title,
        source: part.source,
        tier: part.tier,
        bytes: part.text.len(),
        tokens: count::of_text(&part.text),
        text: clean(&part.text),
    }
}

fn clean(text: &str) -> String {
    skep_scrub::known().clean(text).into_owned()
}
