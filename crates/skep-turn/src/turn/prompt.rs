//! What stands before every talk with an agent.

use skep_core::prompt::{self, PromptPart};
use skep_core::provider::{SystemPrompt, ToolSpec};
use skep_core::settings::{AgentSettings, HiveSettings, Subagent};

const SYSTEM_RULES: &str = include_str!("prompts/system.md");

pub fn system_prompt(
    settings: &HiveSettings,
    agent: &AgentSettings,
    tools: &[ToolSpec],
) -> SystemPrompt {
    prompt::assemble(SYSTEM_RULES, &settings.hive_rules, agent, agent.role.as_deref(), tools)
}

/// The same, part by part; `subagent`: as the agent has it in that role.
pub fn prompt_parts<'a>(
    settings: &'a HiveSettings,
    agent: &'a AgentSettings,
    subagent: Option<&Subagent>,
    tools: &[ToolSpec],
) -> Vec<PromptPart<'a>> {
    prompt::parts(SYSTEM_RULES, &settings.hive_rules, agent, subagent, tools)
}
