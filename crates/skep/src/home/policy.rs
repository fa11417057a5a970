//! The key `policy` of an agent: the rules its tool calls are decided by.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_core::policy::Effect;
use skep_core::policy::pattern::{CommandPattern, HostPattern, PathPattern};
use skep_core::policy::rule::{GrantTo, Rule};
use skep_core::role::Role;

use super::agent::RawAgent;
use super::environment::Reader;
use super::hive;
use super::load::Known;
use super::problem::Problem;
use super::scalar::Text;
use super::source::Source;
use super::yaml;

/// One rule. It matches when the tool, every condition and the grant do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    /// What becomes of a call that matches.
    effect: RawEffect,
    /// The tool: its exact name, or a pattern with `*`.
    #[schemars(extend("x-holds" = "tool"))]
    tool: Text,
    /// Only calls that name such a path: `src/**`, `*.md`, `/etc/hosts`.
    #[serde(default)]
    #[schemars(extend("x-holds" = "path pattern"))]
    path: Option<Text>,
    /// Only calls that run such a command: its first words, a last `$` for nothing after them.
    #[serde(default)]
    #[schemars(extend("x-holds" = "command pattern"))]
    command: Option<Text>,
    /// Only calls that reach such a host: `example.org`, `*.example.org`.
    #[serde(default)]
    #[schemars(extend("x-holds" = "host pattern"))]
    host: Option<Text>,
    /// Only for these: `any` (the default), `role:ROLE`, `user:NAME`.
    #[serde(default)]
    #[schemars(extend("x-holds" = "grant"))]
    grants: Vec<Text>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawEffect {
    Allow,
    Ask,
    Deny,
}

impl From<RawEffect> for Effect {
    fn from(raw: RawEffect) -> Self {
        match raw {
            RawEffect::Allow => Self::Allow,
            RawEffect::Ask => Self::Ask,
            RawEffect::Deny => Self::Deny,
        }
    }
}

pub fn rules(raw: &[RawRule], reader: &Reader<'_>, known: &Known) -> Result<Vec<Rule>, Problem> {
    raw.iter().map(|rule| resolve(rule, reader, known)).collect()
}

/// The rules of an agent that works in this folder: an absolute path may lead there too.
pub fn within(rules: Vec<Rule>, working: &Path) -> Vec<Rule> {
    let Some(folder) = working.to_str() else { return rules };
    let moved = |rule: Rule| Rule { path: rule.path.map(|path| path.within(folder)), ..rule };
    rules.into_iter().map(moved).collect()
}

fn resolve(raw: &RawRule, reader: &Reader<'_>, known: &Known) -> Result<Rule, Problem> {
    let mut tools = hive::tools(reader, std::slice::from_ref(&raw.tool), known)?;
    let tool = match (tools.pop(), tools.is_empty()) {
        (Some(tool), true) => tool,
        _ => {
            let problem = reader.problem(&raw.tool, "a rule is about one tool, or a pattern");
            return Err(problem.expecting("a tool's name, or a pattern with `*`"));
        }
    };
    let grants: Result<_, Problem> = raw.grants.iter().map(|text| grant(reader, text)).collect();
    let folder = reader.source.file.parent().and_then(|folder| folder.file_name());
    let folder = folder.map(|name| name.to_string_lossy()).unwrap_or_default();
    Ok(Rule {
        effect: raw.effect.into(),
        tool,
        path: pattern(reader, &raw.path, PathPattern::parse)?,
        command: pattern(reader, &raw.command, CommandPattern::parse)?,
        host: pattern(reader, &raw.host, HostPattern::parse)?,
        grants: grants?,
        place: format!("teams/{folder}/config.yaml:{}", raw.tool.at().0),
    })
}

fn pattern<T>(
    reader: &Reader<'_>,
    text: &Option<Text>,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let written = reader.text(text)?;
    parse(&written).map(Some).map_err(|why| reader.problem(text, why))
}

fn grant(reader: &Reader<'_>, text: &Text) -> Result<GrantTo, Problem> {
    let written = reader.text(text)?;
    GrantTo::parse(&written).ok_or_else(|| {
        let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        let problem = reader.problem(text, format!("`{written}` names nobody"));
        problem.expecting(format!("any, user:NAME, or role: and one of {}", roles.join(", ")))
    })
}

/// The text of an agent's file with rules more under `policy`, each a mapping in one line. The
/// rest of the text stays as it is. `Err`: the file is written in a way this cannot extend.
pub fn add_rules(text: &str, items: &[String]) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter().position(|line| line.starts_with("policy:")) {
        None => {
            lines.push("policy:".to_owned());
            lines.extend(items.iter().map(|item| format!("  - {item}")));
        }
        Some(at) => {
            let value = lines[at]["policy:".len()..].trim().to_owned();
            let empty = value.is_empty() || value.starts_with('#') || value == "[]";
            if let Some(rest) = value.strip_prefix('[').filter(|_| !empty) {
                lines[at] = format!("policy: [{}, {rest}", items.join(", "));
            } else if empty {
                if value == "[]" {
                    lines[at] = "policy:".to_owned();
                }
                // Rules have no order: new ones stand before the old.
                let first = lines[at + 1..].iter().find(|line| {
                    let line = line.trim_start();
                    !line.is_empty() && !line.starts_with('#')
                });
                let indent = first.filter(|line| line.trim_start().starts_with('-'));
                let indent = indent.map_or(2, |line| line.len() - line.trim_start().len());
                for (place, item) in items.iter().enumerate() {
                    lines.insert(at + 1 + place, format!("{}- {item}", " ".repeat(indent)));
                }
            } else {
                return Err("the key `policy` is written in a way that cannot be added to".into());
            }
        }
    }
    let after = lines.join("\n") + "\n";
    let count = |text: &str| -> Option<usize> {
        let source = Source { file: "config.yaml".into(), text: text.to_owned() };
        yaml::parse::<RawAgent>(&source).ok().map(|raw| raw.rules())
    };
    match (count(text), count(&after)) {
        (Some(before), Some(now)) if now == before + items.len() => Ok(after),
        _ => Err("the file with the rule in it could not be read again".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::add_rules;

    #[test]
    fn gate_rules_are_added_and_the_rest_stays() {
        let item = vec![r#"{effect: allow, tool: "bash"}"#.to_owned()];
        let line = &item[0];
        let cases = [
            ("", format!("policy:\n  - {line}\n")),
            ("# mine\nname: a\n", format!("# mine\nname: a\npolicy:\n  - {line}\n")),
            ("policy: []\nname: a", format!("policy:\n  - {line}\nname: a\n")),
            (
                "policy:\n# why\n- effect: ask\n  tool: bash\nname: a\n",
                format!("policy:\n- {line}\n# why\n- effect: ask\n  tool: bash\nname: a\n"),
            ),
            (
                "policy:   # all\n    - {effect: ask, tool: bash}\n",
                format!("policy:   # all\n    - {line}\n    - {{effect: ask, tool: bash}}\n"),
            ),
            (
                "policy: [{effect: ask, tool: bash}]\n",
                format!("policy: [{line}, {{effect: ask, tool: bash}}]\n"),
            ),
        ];
        for (before, after) in cases {
            assert_eq!(add_rules(before, &item).as_ref(), Ok(&after), "{before}");
        }
        for odd in ["policy: &a [{effect: ask, tool: x}]\n", "{policy: []}\n", "a: [\n"] {
            assert!(add_rules(odd, &item).is_err(), "{odd}");
        }
    }
}
