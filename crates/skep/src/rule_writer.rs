//! Writes a rule into an agent's `config.yaml` when a person says "always": a change of settings
//! like any other, committed in that person's name. The text is changed as little as possible,
//! and read again before it is kept.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use skep_cli::hive::Home;
use skep_runtime::{RuleDraft, WriteRules};
use skep_tools::Governance;

use crate::home::{add_rules, write_file};

/// What is handed to the hive.
pub fn writer(home: &Home, governance: Arc<Governance>) -> WriteRules {
    let home = home.clone();
    Arc::new(move |agent, author, drafts| {
        let (home, governance) = (home.clone(), Arc::clone(&governance));
        Box::pin(async move {
            let folder = home.agent(agent.as_str());
            let file = folder.join("config.yaml");
            let before = read(&file)?;
            let items: Vec<String> = drafts.iter().map(item).collect();
            if items.iter().any(|item| means_another(item)) {
                return Err(
                    "a pattern with `${`, or with characters that are not seen, cannot be \
                            written into config.yaml; choose a shorter one, or approve it for the \
                            session"
                        .to_owned(),
                );
            }
            let after = add_rules(&before, &items).map_err(|why| by_hand(&why, &items))?;
            let message = format!("always allow: {}", items.join("; "));
            governance
                .commit_by_person(
                    agent.as_str(),
                    &author,
                    &folder,
                    ("config.yaml", after.as_bytes()),
                    &message,
                )
                .await?;
            // Between the reading and now somebody may have saved the file.
            if read(&file)? != before {
                return Err("config.yaml was changed at the same time; decide again".to_owned());
            }
            write_file(&file, &after).map_err(|error| format!("{}: {error}", file.display()))
        })
    })
}

/// Read again it would be another rule: a variable of the environment, or a blank where a line of
/// some other kind ends.
fn means_another(item: &str) -> bool {
    let odd = |c: char| c.is_control() || "\u{2028}\u{2029}\u{feff}".contains(c);
    item.contains("${") || item.contains(odd)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn by_hand(why: &str, items: &[String]) -> String {
    format!("{why}; write it into config.yaml by hand, under policy: {}", items.join(", "))
}

/// A rule as a YAML mapping in one line; what JSON writes is YAML too.
fn item(draft: &RuleDraft) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text = format!("{{effect: allow, tool: {}", quoted(&draft.tool));
    let conditions = [("path", &draft.path), ("command", &draft.command), ("host", &draft.host)];
    for (key, value) in conditions {
        if let Some(value) = value {
            text.push_str(&format!(", {key}: {}", quoted(value)));
        }
    }
    text + "}"
}
