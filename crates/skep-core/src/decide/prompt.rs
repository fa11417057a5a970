//! Prompt assembly (spec 05 §7): a part that is the same bytes for every agent, then a part that
//! changes only when the agent's settings do. What changes from turn to turn never stands here.

use crate::Millis;
use crate::settings::{AgentSettings, RuleFile};
use crate::traits::provider::{SystemPrompt, ToolSpec};

/// `system_rules` are ours (a `.md` file of the runtime), `hive_rules` the operator's.
pub fn assemble(
    system_rules: &str,
    hive_rules: &[RuleFile],
    agent: &AgentSettings,
    tools: &[ToolSpec],
) -> SystemPrompt {
    let mut shared = system_rules.trim().to_owned();
    push_rules(&mut shared, "Rules of this hive", hive_rules);
    let mut own = format!("# Who you are\nYou are the agent `{}`.", agent.name);
    if !agent.description.is_empty() {
        own.push_str(&format!(" {}", agent.description.trim()));
    }
    own.push_str(&format!("\nYour workspace is {}.", agent.workspace.display()));
    own.push_str("\nRelative paths start there.");
    own.push_str(&format!("\nYour settings are in {}.", agent.folder.display()));
    own.push_str("\n\n# Tools\n");
    if tools.is_empty() {
        own.push_str("You have no tools.");
    } else {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        own.push_str(&format!("You have: {}.", names.join(", ")));
    }
    push_rules(&mut own, "Rules for you and those below you", &agent.org_rules);
    push_rules(&mut own, "Rules for you", &agent.team_rules);
    SystemPrompt { shared: shared.into(), agent: own.into() }
}

/// What is put before a person's words in the prompt: what changes from turn to turn. It is
/// stored with the message, because a request is built from rows alone.
pub fn shown(now: Millis, from: &str) -> String {
    format!("[{} · from {from}]", time(now))
}

/// A time as agents read it.
pub fn time(at: Millis) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn push_rules(text: &mut String, title: &str, rules: &[RuleFile]) {
    if rules.is_empty() {
        return;
    }
    text.push_str(&format!("\n\n# {title}"));
    for rule in rules {
        text.push_str(&format!("\n\n{}", rule.text.trim()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::Policy;
    use crate::settings::{Budgets, KnownModels, Profile, QueueMode, SandboxSettings};
    use crate::vocab::ids::AgentName;

    fn agent(name: &str) -> AgentSettings {
        let profile = Profile {
            name: "default".into(),
            provider: "rehearsal".into(),
            model: "rehearsal".into(),
            max_output_tokens: 1024,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: None,
            price: None,
            sees_images: false,
            known: KnownModels::NONE,
        };
        AgentSettings {
            name: AgentName::new(name),
            parent: None,
            manager: false,
            parallel: Default::default(),
            allowed_recipients: Vec::new(),
            description: "Keeps the books.".into(),
            engine: "native".into(),
            engine_options: Default::default(),
            profile: Arc::new(profile),
            think: None,
            allowed_tools: vec![],
            max_steps: 50,
            budgets: Budgets::default(),
            queue_mode: QueueMode::Queue,
            workspace: "/hive/teams/x/work".into(),
            folder: "/hive/teams/x".into(),
            sandbox: SandboxSettings::default(),
            policy: Policy::default(),
            org_rules: vec![RuleFile { file: "a.md".into(), text: "org\n".into() }],
            team_rules: vec![RuleFile { file: "b.md".into(), text: "team".into() }],
        }
    }

    #[test]
    fn shown_tells_time_and_sender() {
        assert_eq!(shown(1_700_000_000_000, "operator"), "[2023-11-14 22:13 UTC · from operator]");
    }

    #[test]
    fn general_before_specific_and_the_shared_part_is_the_same_for_all() {
        let hive = [RuleFile { file: "h.md".into(), text: "hive".into() }];
        let one = assemble("system\n", &hive, &agent("one"), &[]);
        let two = assemble("system\n", &hive, &agent("two"), &[]);
        assert_eq!(one.shared, two.shared);
        assert_eq!(&*one.shared, "system\n\n# Rules of this hive\n\nhive");
        assert_eq!(
            &*one.agent,
            "# Who you are\nYou are the agent `one`. Keeps the books.\n\
             Your workspace is /hive/teams/x/work.\nRelative paths start there.\n\
             Your settings are in /hive/teams/x.\n\n\
             # Tools\nYou have no tools.\n\n\
             # Rules for you and those below you\n\norg\n\n# Rules for you\n\nteam"
        );
    }
}
