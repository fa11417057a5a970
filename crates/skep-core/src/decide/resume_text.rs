//! What an engine is told that goes on with a session of its own.

use std::sync::Arc;

use crate::vocab::message::{Message, Role};

const INTERRUPTED: &str = "You were interrupted. Go on with what you were asked for.";

/// The messages after `seen_seq`; where there are none, one sentence that names the tools whose
/// calls were cut off.
pub fn of(rows: &[Arc<Message>], seen_seq: i64, unknown: &[&str]) -> String {
    let new = rows.iter().filter(|row| row.seq > seen_seq && row.body.role == Role::User);
    let texts: Vec<String> = new.map(|row| row.body.plain_text()).collect();
    match unknown {
        _ if !texts.is_empty() => texts.join("\n\n"),
        [] => INTERRUPTED.to_owned(),
        tools => format!(
            "{INTERRUPTED} The outcome of these calls is unknown, they may or may not have had \
             their effect; look before you repeat one: {}.",
            tools.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::ids::{AgentName, SessionId, TurnId};
    use crate::vocab::message::{Block, Body, history_tag};

    fn row(seq: i64, role: Role, text: &str) -> Arc<Message> {
        let mut body = Body::assistant(vec![Block::text(text)], None);
        body.role = role;
        Arc::new(Message {
            tag: history_tag(),
            id: seq.to_string(),
            agent_id: AgentName::new("main"),
            session_id: SessionId::new("session"),
            turn: TurnId::new("turn"),
            seq,
            timestamp: 0,
            body,
        })
    }

    #[test]
    fn a_message_it_has_not_seen_or_what_was_cut_off() {
        let rows = [
            row(1, Role::User, "first"),
            row(2, Role::Assistant, "yes"),
            row(3, Role::User, "second"),
            row(4, Role::User, "third"),
        ];
        assert_eq!(of(&rows, 2, &["bash"]), "second\n\nthird");
        assert_eq!(of(&rows, 3, &[]), "third");
        assert_eq!(of(&rows, 4, &[]), INTERRUPTED);
        let told = of(&rows, 4, &["bash", "edit"]);
        assert!(told.starts_with(INTERRUPTED) && told.ends_with("repeat one: bash, edit."));
    }
}
