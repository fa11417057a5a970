//! `skep agent prompt` and `skep agent skills`: what guides an agent.

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::hive::{Client, Globals, escaped, with_query};
use crate::print::{Tone, foreign, items, table, text, toned};

#[derive(Args)]
#[command(after_help = "Examples:
  skep agent prompt main               each part with its file and its estimated tokens
  skep agent prompt main --text        the whole text, as the model reads it
  skep agent prompt main --subagent critic")]
pub struct PromptArgs {
    /// The agent
    agent: String,
    /// One of its subagents: the prompt of that one
    #[arg(long, value_name = "NAME")]
    subagent: Option<String>,
    /// Print the text itself
    #[arg(long)]
    text: bool,
}

pub async fn prompt(args: PromptArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let path = format!("/api/v1/agents/{}/prompt", escaped(&args.agent));
    let path = with_query(&path, [("subagent", args.subagent)]);
    let told = client.fetch(&path, format!("show the prompt of {}", args.agent)).await?;
    let parts = items(&told["parts"]);
    let lines = match args.text {
        true => {
            parts.iter().flat_map(|part| [foreign_text(&part["text"]), String::new()]).collect()
        }
        false => parts_table(&told, parts),
    };
    globals.print(&told, lines);
    Ok(())
}

fn parts_table(told: &Value, parts: &[Value]) -> Vec<String> {
    let count = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    let row = |part: &Value| {
        let source = part["source"].as_str().map(foreign).unwrap_or_default();
        [
            text(&part["part"]),
            text(&part["title"]),
            source,
            count(&part["bytes"]),
            count(&part["tokens"]),
        ]
    };
    let mut lines = table(["part", "title", "file", "bytes", "tokens"], parts.iter().map(row));
    let window = told["window"].as_u64().map(|window| format!(" of {window}")).unwrap_or_default();
    lines.push(String::new());
    lines.push(format!(
        "{} tokens{window} (estimate) · {} · {}",
        count(&told["tokens"]),
        text(&told["engine"]),
        text(&told["model"])
    ));
    lines.extend(warning_lines(&told["warnings"]));
    lines
}

pub async fn skills(agent: &str, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let path = format!("/api/v1/agents/{}/skills", escaped(agent));
    let told = client.fetch(&path, format!("list the skills of {agent}")).await?;
    globals.print(&told, skill_lines(agent, &told));
    Ok(())
}

fn skill_lines(agent: &str, told: &Value) -> Vec<String> {
    let (skills, subagents) = (items(&told["skills"]), items(&told["subagents"]));
    let names = |list: &Value| items(list).iter().map(text).collect::<Vec<_>>().join(", ");
    let rows = skills.iter().map(|skill| {
        let missing = names(&skill["missing_tools"]);
        [text(&skill["name"]), text(&skill["file"]), missing, text(&skill["description"])]
    });
    let mut lines = match skills.is_empty() {
        true => vec![format!("{agent} has no skills")],
        false => table(["skill", "file", "missing tools", "description"], rows),
    };
    if !subagents.is_empty() {
        let rows = subagents.iter().map(|subagent| {
            let skills = names(&subagent["skills"]);
            [
                text(&subagent["name"]),
                text(&subagent["file"]),
                skills,
                text(&subagent["description"]),
            ]
        });
        lines.push(String::new());
        lines.extend(table(["subagent", "file", "skills", "description"], rows));
    }
    lines.extend(warning_lines(&told["warnings"]));
    lines
}

/// Files of an agent that are left out, and rules that say the same twice.
pub fn warning_lines(warnings: &Value) -> Vec<String> {
    let warning =
        |warning: &Value| format!("{} {}", toned("warning", Tone::Bad), text(&warning["text"]));
    items(warnings).iter().map(warning).collect()
}

fn foreign_text(text: &Value) -> String {
    text.as_str().map(foreign).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_stand_with_their_files_and_tokens() {
        let told = json!({
            "agent": "main", "engine": "native", "model": "anthropic/m", "tokens": 30,
            "window": 1000,
            "parts": [
                {"part": "tools", "title": "Tools", "text": "{}", "bytes": 2, "tokens": 20},
                {"part": "rules", "title": "Rules for you", "source": "teams/main/team-rules/a.md",
                 "tier": "team", "text": "x", "bytes": 1, "tokens": 10},
            ],
            "warnings": [{"file": "a.md", "line": 1, "text": "a.md:1: the heading"}],
        });
        let lines = parts_table(&told, items(&told["parts"]));
        let expected = "part   title          file                        bytes  tokens";
        assert_eq!(lines[0].trim_end(), expected);
        assert_eq!(lines[4], "30 tokens of 1000 (estimate) · native · anthropic/m");
        assert_eq!(lines[5], "warning a.md:1: the heading");
    }

    #[test]
    fn skills_stand_with_what_they_lack() {
        let none = json!({"skills": [], "subagents": [], "warnings": []});
        assert_eq!(skill_lines("main", &none), ["main has no skills"]);
        let told = json!({
            "skills": [{"name": "review", "file": "teams/main/skills/review.md",
                        "description": "Reads a change.", "missing_tools": ["git", "gh"]}],
            "subagents": [{"name": "critic", "file": "teams/main/subagents/critic.md",
                           "description": "Finds faults.", "skills": ["review"]}],
        });
        let lines = skill_lines("main", &told);
        assert!(lines[1].contains("git, gh") && lines[1].contains("Reads a change."), "{lines:?}");
        assert!(lines[4].starts_with("critic"), "{lines:?}");
    }
}
