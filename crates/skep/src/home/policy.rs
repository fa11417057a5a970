//! The key `policy` of an agent: the rules its tool calls are decided by.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use skep_core::policy::Effect;
use skep_core::policy::pattern::{CommandPattern, HostPattern, PathPattern};
use skep_core::policy::rule::{GrantTo, Rule};
use skep_core::role::Role;

use super::confinement::RawEffect;
use super::environment::Reader;
use super::hive;
use super::known_names::KnownNames;
use super::mistake::Mistake;
use super::scalar::TextScalar;

/// Tools whose calls name no host.
const HOSTLESS: [&str; 6] = ["read", "write", "edit", "glob", "grep", "bash"];

/// One rule. It matches when the tool, every condition and the grant do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    /// What becomes of a call that matches.
    effect: RawEffect,
    /// The tool: its exact name, or a pattern with `*`.
    #[schemars(extend("x-holds" = "tool"))]
    tool: TextScalar,
    /// Only calls that name such a path: `src/**`, `*.md`, `/etc/hosts`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(extend("x-holds" = "path pattern"))]
    path: Option<TextScalar>,
    /// Only calls that run such a command: its first words, a last `$` for nothing after them.
    #[serde(default, deserialize_with = "given")]
    #[schemars(extend("x-holds" = "command pattern"))]
    command: Option<TextScalar>,
    /// Only calls that reach such a host: `example.org`, `*.example.org`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(extend("x-holds" = "host pattern"))]
    host: Option<TextScalar>,
    /// Only for these: `any` (the default), `role:ROLE`, `user:NAME`.
    #[serde(default, deserialize_with = "somebody")]
    #[schemars(extend("x-holds" = "grant"))]
    grants: Vec<TextScalar>,
    /// With `ask`: who may answer, `role:ROLE` or `user:NAME`; operators where it is left out.
    #[serde(default, deserialize_with = "somebody")]
    #[schemars(extend("x-holds" = "approver"))]
    approvers: Vec<TextScalar>,
}

/// A condition that is written must say something: left blank it would allow everything.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TextScalar>, D::Error> {
    let text: Option<TextScalar> = Option::deserialize(deserializer)?;
    text.ok_or_else(|| de::Error::custom("nothing stands behind it")).map(Some)
}

fn somebody<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TextScalar>, D::Error> {
    let list = Option::<Vec<TextScalar>>::deserialize(deserializer)?.unwrap_or_default();
    if list.is_empty() {
        return Err(de::Error::custom("a list that names nobody"));
    }
    Ok(list)
}

pub fn rules(
    raw: &[RawRule],
    reader: &Reader<'_>,
    known: &KnownNames,
) -> Result<Vec<Rule>, Mistake> {
    raw.iter().map(|rule| resolve(rule, reader, known)).collect()
}

/// The rules for an agent with this workspace: an absolute path may point into it.
pub fn within(rules: Vec<Rule>, working: &Path) -> Vec<Rule> {
    let Some(folder) = working.to_str() else { return rules };
    let moved = |rule: Rule| Rule { path: rule.path.map(|path| path.within(folder)), ..rule };
    rules.into_iter().map(moved).collect()
}

fn resolve(raw: &RawRule, reader: &Reader<'_>, known: &KnownNames) -> Result<Rule, Mistake> {
    let mut tools = hive::tools(reader, std::slice::from_ref(&raw.tool), known)?;
    let tool = match (tools.pop(), tools.is_empty()) {
        (Some(tool), true) => tool,
        _ => {
            let mistake = reader.mistake(&raw.tool, "a rule is about one tool, or a pattern");
            return Err(mistake.expecting("a tool's name, or a pattern with `*`"));
        }
    };
    let reached = pattern(reader, &raw.host, HostPattern::parse)?;
    if let Some(host) = raw.host.as_ref().filter(|_| HOSTLESS.contains(&tool.as_str())) {
        let what = format!("calls of `{tool}` name no host, so the rule would never match");
        let expected = "a rule about `web_fetch`; for commands the host in `network.hosts`";
        return Err(reader.mistake(host, what).expecting(expected));
    }
    let grants: Result<_, Mistake> = raw.grants.iter().map(|text| grant(reader, text)).collect();
    let folder = reader.source.file.parent().and_then(|folder| folder.file_name());
    let folder = folder.map(|name| name.to_string_lossy()).unwrap_or_default();
    Ok(Rule {
        effect: raw.effect.into(),
        tool,
        path: pattern(reader, &raw.path, PathPattern::parse)?,
        command: pattern(reader, &raw.command, CommandPattern::parse)?,
        host: reached,
        grants: grants?,
        approvers: approvers(raw, reader)?,
        place: format!("teams/{folder}/config.yaml:{}", raw.tool.at().0),
    })
}

fn approvers(raw: &RawRule, reader: &Reader<'_>) -> Result<Vec<GrantTo>, Mistake> {
    let effect: Effect = raw.effect.into();
    let people = [Role::Operator, Role::User, Role::Viewer];
    let approver = |text: &TextScalar| {
        let written = reader.text(text)?;
        let to = match GrantTo::parse(&written) {
            Some(to @ GrantTo::User(_)) => to,
            Some(GrantTo::Role(role)) if people.contains(&role) => GrantTo::Role(role),
            _ => {
                let roles = people.map(Role::as_str).join(", ");
                let mistake = reader.mistake(text, format!("`{written}` cannot decide"));
                return Err(mistake.expecting(format!("user:NAME, or role: and one of {roles}")));
            }
        };
        if effect != Effect::Ask {
            let why = format!("a rule that says {} is answered by nobody", effect.as_str());
            return Err(reader.mistake(text, why).expecting("approvers only with effect: ask"));
        }
        Ok(to)
    };
    raw.approvers.iter().map(approver).collect()
}

fn pattern<T>(
    reader: &Reader<'_>,
    text: &Option<TextScalar>,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, Mistake> {
    let Some(text) = text else { return Ok(None) };
    let written = reader.text(text)?;
    parse(&written).map(Some).map_err(|why| reader.mistake(text, why))
}

fn grant(reader: &Reader<'_>, text: &TextScalar) -> Result<GrantTo, Mistake> {
    let written = reader.text(text)?;
    GrantTo::parse(&written).ok_or_else(|| {
        let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        let mistake = reader.mistake(text, format!("`{written}` names nobody"));
        mistake.expecting(format!("any, user:NAME, or role: and one of {}", roles.join(", ")))
    })
}
