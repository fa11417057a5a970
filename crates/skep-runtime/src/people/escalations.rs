//! What agents that have none above them ask the operator for.

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::{AgentName, ItemId, Principal, SessionKey};
use skep_core::task::TaskKind;
use skep_guard::clock;
use skep_store::answer::AnswerTask;
use skep_store::assign::OPERATOR;
use skep_store::task_views::{self, TaskRow};

use crate::door::{DoorError, ErrorKind};
use crate::hive::{Hive, door_error};

/// Escalations of one answer.
const SHOWN: i64 = 200;
/// Of an answer, in characters: what is kept of a result.
const LONGEST: usize = skep_core::task_event::RESULT;

/// An agent waits for what the operator says.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EscalationInfo {
    pub id: ItemId,
    pub agent: AgentName,
    /// The conversation that hears the answer.
    pub session_key: SessionKey,
    /// The first item of the chain it belongs to.
    pub root: ItemId,
    pub text: String,
    pub created_at: Millis,
    /// From then on nobody waits for an answer.
    pub until: Millis,
}

impl Hive {
    /// Those nobody has answered, oldest first.
    pub async fn escalations(&self) -> Result<Vec<EscalationInfo>, DoorError> {
        let read = async |conn: &mut _| task_views::in_flight(conn, OPERATOR, SHOWN).await;
        let rows = self.shared.store.read(read).await.map_err(door_error)?;
        let info = |row: TaskRow| EscalationInfo {
            id: row.id,
            agent: row.from_agent,
            session_key: row.from_key,
            root: row.root,
            text: skep_scrub::known().clean_owned(row.body),
            created_at: row.created_at,
            until: row.deadline,
        };
        // What is to be approved stands among the approvals.
        let asked = |row: &TaskRow| row.kind != TaskKind::Shape;
        Ok(rows.into_iter().filter(asked).map(info).collect())
    }

    /// The agent goes on with this answer.
    pub async fn answer_escalation(
        &self,
        task: ItemId,
        answer: String,
        by: &Principal,
    ) -> Result<(), DoorError> {
        let length = answer.chars().count();
        if answer.trim().is_empty() || length > LONGEST {
            let text = format!("An answer has 1 to {LONGEST} characters; this one has {length}.");
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_answer", text));
        }
        let (answer, by) = (skep_scrub::known().clean_owned(answer), by.clone());
        let now = clock::now_ms();
        let answer = AnswerTask { task, answer, by, now };
        self.shared.store.write(answer).await.map_err(door_error)?;
        self.shared.env().lanes.wake();
        Ok(())
    }
}
