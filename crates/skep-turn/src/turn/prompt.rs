//! What stands before every talk with an agent.

use skep_core::prompt;
use skep_core::provider::{SystemPrompt, ToolSpec};
use skep_core::settings::{AgentSettings, HiveSettings};

const SYSTEM_RULES: &str = include_str!("prompts/system.md");

pub fn system_prompt(
    settings: &HiveSettings,
    agent: &AgentSettings,
    tools: &[ToolSpec],
) -> SystemPrompt {
    prompt::assemble(SYSTEM_RULES, &settings.hive_rules, agent, tools)
}
