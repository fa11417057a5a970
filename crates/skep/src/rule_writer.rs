//! Writes a rule into an agent's `config.yaml` when a person says "always": a change of settings
//! like any other, committed in that person's name and in force at once. The text is changed as
//! little as possible, and read again before it is kept.

use std::sync::Arc;

use skep_runtime::{PutInForce, RuleDraft, WriteRules};

use crate::apply::Applier;
use crate::home::agent_rule_count;
use crate::settings_writer::{SettingsText, SettingsWriter};

/// The function that the hive calls.
pub fn writer(settings: Arc<SettingsWriter>, applier: Arc<Applier>) -> WriteRules {
    Arc::new(move |agent, author, drafts| {
        let (settings, applier) = (Arc::clone(&settings), Arc::clone(&applier));
        Box::pin(async move {
            let before = settings.read(&agent)?;
            let items: Vec<String> =
                drafts.iter().map(RuleDraft::item).collect::<Result<_, _>>()?;
            let after = add_rules(&before, &items).map_err(|why| by_hand(&why, &items))?;
            let message = format!("always allow: {}", items.join("; "));
            let text =
                SettingsText { before: &before, after: &after, author: &author, message: &message };
            settings.write(&agent, &text).await.map_err(|error| error.to_string())?;
            let put_in_force: PutInForce = Box::pin(async move {
                if let Err(error) = applier.apply_agent(&agent).await {
                    tracing::warn!(%agent, %error, "a written rule is not in force yet");
                }
            });
            Ok(put_in_force)
        })
    })
}

fn by_hand(why: &str, items: &[String]) -> String {
    format!("{why}; write it into config.yaml by hand, under policy: {}", items.join(", "))
}

/// The text of an agent's file with rules more under `policy`, each a mapping in one line. The
/// rest of the text stays as it is. `Err`: the file is written in a way this cannot extend.
fn add_rules(text: &str, items: &[String]) -> Result<String, String> {
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
                // The order of rules has no meaning: new ones are inserted first.
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
    match (agent_rule_count(text), agent_rule_count(&after)) {
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
