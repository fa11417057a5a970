//! What agents ask the operator, and what the operator answers.

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::{AgentName, ItemId, Principal, SessionKey};
use skep_core::question::GivenAnswer;
use skep_core::task::{QuestionKind, TaskKind};
use skep_guard::clock;
use skep_store::questions::{self, AnswerTask, Answerer, OpenQuestion};
use skep_store::{Refusal, StoreError};

use crate::door::{DoorError, ErrorKind};
use crate::hive::{Hive, door_error};

/// Questions of one answer.
const SHOWN: i64 = 200;

/// An agent waits for what the operator says.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuestionInfo {
    pub id: ItemId,
    pub kind: QuestionKind,
    pub agent: AgentName,
    /// The conversation that hears the answer.
    pub session_key: SessionKey,
    /// The first item of the chain it belongs to.
    pub root: ItemId,
    pub text: String,
    /// What may be chosen; words of one's own are always an answer.
    pub options: Vec<String>,
    /// Several options may be chosen.
    pub multi: bool,
    pub created_at: Millis,
    /// From then on nobody waits for an answer.
    pub until: Millis,
}

impl Hive {
    /// Those nobody has answered, oldest first.
    pub async fn questions(&self) -> Result<Vec<QuestionInfo>, DoorError> {
        let read = async |conn: &mut _| questions::of_operator(conn, SHOWN).await;
        let rows = self.shared.store.read(read).await.map_err(door_error)?;
        let clean = |text| skep_scrub::known().clean_owned(text);
        let info = |row: OpenQuestion| QuestionInfo {
            id: row.id,
            kind: match row.kind {
                TaskKind::Question => QuestionKind::Question,
                _ => QuestionKind::Escalation,
            },
            agent: row.from_agent,
            session_key: row.from_key,
            root: row.root,
            text: clean(row.text),
            options: row.form.options.into_iter().map(clean).collect(),
            multi: row.form.multi,
            created_at: row.created_at,
            until: row.deadline,
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// The agent goes on with this answer.
    pub async fn answer_question(
        &self,
        task: ItemId,
        mut answer: GivenAnswer,
        by: &Principal,
    ) -> Result<(), DoorError> {
        answer.answer = answer.answer.map(|words| skep_scrub::known().clean_owned(words));
        let (by, now) = (Answerer::Operator(by.clone()), clock::now_ms());
        let answer = AnswerTask { task, answer, by, now };
        self.shared.store.write(answer).await.map_err(|error| match error {
            StoreError::Refused(Refusal::Conflict { code: INVALID, detail }) => {
                let text = format!("This is no answer: {detail}.");
                DoorError::new(ErrorKind::Invalid, INVALID, text)
            }
            error => door_error(error),
        })?;
        self.shared.env().lanes.wake();
        Ok(())
    }
}

/// The store's word for an answer that is none.
const INVALID: &str = "invalid_answer";
