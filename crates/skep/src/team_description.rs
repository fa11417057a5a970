//! Writes into an agent's `config.yaml` what it is for, when the agent above it says so: a change
//! of settings like any other, committed first and in force at once.

use std::sync::Arc;

use serde_json::Value;
use skep_core::policy::vault;
use skep_runtime::DescribeAgent;

use crate::apply::Applier;
use crate::home::{agent_description, agent_rule_count};
use crate::settings_writer::{SettingsText, SettingsWriter};

/// The function that the hive calls.
pub fn writer(settings: Arc<SettingsWriter>, applier: Arc<Applier>) -> DescribeAgent {
    Arc::new(move |agent, author, text| {
        let (settings, applier) = (Arc::clone(&settings), Arc::clone(&applier));
        Box::pin(async move {
            let before = settings.read(&agent)?;
            if agent_description(&before).as_deref() == Some(text.as_str()) {
                return Ok(());
            }
            let after = with_description(&before, &text)?;
            let message = "another description";
            let text = SettingsText { before: &before, after: &after, author: &author, message };
            settings.write(&agent, &text).await.map_err(|error| error.to_string())?;
            applier.apply_agent(&agent).await.map_err(|error| error.to_string())
        })
    })
}

/// A value of a YAML file that means itself: JSON texts are YAML, and nothing in it is filled in.
pub fn quoted(text: &str) -> Result<String, String> {
    if text.contains("${") || vault::is_meant(text) || vault::long_form(text).is_some() {
        return Err("a value of a file cannot hold `${` or mean a vault entry".to_owned());
    }
    Ok(Value::from(text).to_string())
}

/// The text of an agent's file with another description. The rest stays as it is. `Err`: it cannot
/// be written there.
fn with_description(text: &str, description: &str) -> Result<String, String> {
    let line = format!("description: {}", quoted(description)?);
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|line| line.starts_with("description:")) {
        Some(at) => lines[at] = &line,
        None => lines.push(&line),
    }
    let after = lines.join("\n") + "\n";
    let is_written = agent_description(&after).as_deref() == Some(description)
        && agent_rule_count(&after) == agent_rule_count(text);
    match is_written {
        true => Ok(after),
        false => Err("the key `description` is written in a way that cannot be replaced".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::with_description;

    #[test]
    fn org_a_description_takes_the_place_of_the_one_before() {
        let cases = [
            ("", "description: \"It's new: \\\"x\\\"\"\n"),
            ("name: a\n", "name: a\ndescription: \"It's new: \\\"x\\\"\"\n"),
            (
                "# mine\ndescription: old # why\npolicy: []\n",
                "# mine\ndescription: \"It's new: \\\"x\\\"\"\npolicy: []\n",
            ),
        ];
        for (before, after) in cases {
            let written = with_description(before, "It's new: \"x\"");
            assert_eq!(written.as_deref(), Ok(after), "{before}");
        }
        for odd in ["description: >\n  two\n  lines\n", "{name: a}\n", "a: [\n"] {
            assert!(with_description(odd, "new").is_err(), "{odd}");
        }
        for filled in ["my ${HOME}", "vault:KEY", "{{vault:KEY}}"] {
            assert!(with_description("", filled).is_err(), "{filled}");
        }
    }
}
