//! What was decided about a call that waited.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::vocab::ids::ApprovalId;

/// A call that waits goes on with this. Kept as JSON in the call's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A person's word on whether the call runs: for the gate, never for the tool.
    Approval { id: ApprovalId, approve: bool, by: String, note: Option<String> },
    /// A person's answer to what the agent asked.
    Answer { question: String, text: String, by: String },
    /// What the tool itself waited for.
    Tool(Value),
}

/// A row that this program cannot read, most likely because a newer one wrote it.
#[derive(Debug, thiserror::Error)]
#[error("the decision on a call cannot be read ({0}); a newer version may have written it")]
pub struct UnreadDecision(#[from] serde_json::Error);

impl Decision {
    pub fn stored(&self) -> String {
        json!(self).to_string()
    }

    pub fn read(text: &str) -> Result<Self, UnreadDecision> {
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_decision_is_read_as_it_was_stored() {
        let id = ApprovalId::new("a");
        let table = [
            (
                Decision::Approval { id, approve: true, by: "operator".into(), note: None },
                json!({"approval": {"id": "a", "approve": true, "by": "operator", "note": null}}),
            ),
            (
                Decision::Answer { question: "q".into(), text: "yes".into(), by: "anna".into() },
                json!({"answer": {"question": "q", "text": "yes", "by": "anna"}}),
            ),
            (Decision::Tool(json!({"approval": "a"})), json!({"tool": {"approval": "a"}})),
            (Decision::Tool(Value::Null), json!({"tool": null})),
        ];
        for (decision, stored) in table {
            assert_eq!(json!(decision), stored);
            assert_eq!(Decision::read(&decision.stored()).unwrap(), decision);
        }
    }

    #[test]
    fn what_a_newer_version_wrote_is_an_error_that_says_so() {
        // The last is the form of the program before this one: it was rewritten once, and nothing
        // is a yes by accident.
        let table = [r#"{"vote":{"approve":true}}"#, r#"{"approval":"a","approve":true}"#, "true"];
        for stored in table {
            let text = Decision::read(stored).unwrap_err().to_string();
            assert!(text.starts_with("the decision on a call cannot be read ("), "{text}");
            assert!(text.ends_with("; a newer version may have written it"), "{text}");
        }
    }
}
